//! Who uses a volume on a node: what its claims show, and what ends its staging and its attachment.

use std::time::Duration;

use nomad_csi_claims::state::samples::jobs::{job, job_key};
use nomad_csi_claims::state::{State, Table, Topic, violations, volume};
use nomad_csi_model::{
    AccessMode, AllocId, AllocReport, AttachmentMode, Bytes, Capability, ClientStatus, Job,
    JobVolume, JobVolumeKind, NodeId, VolumeAlias,
};
use nomad_csi_ports::{ControlPlane as _, Rpc, StatusCode};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{MountRequest, VolumeSubmission};
use nomad_csi_testing::Fault;
use tokio::time::Instant;

use super::claims::{
    LONG, PLUGINS, agent_on, agent_with, assert_nothing_is_left, claim, is_published, mount, pass,
    release, settings, wait_until_released,
};

fn pair(access_mode: AccessMode) -> Capability {
    Capability { access_mode, attachment_mode: AttachmentMode::FileSystem }
}

fn modes(agent: &FakeAgent) -> Option<(AccessMode, AttachmentMode)> {
    let view = volume(&agent.state(), &FakeAgent::key("db")).unwrap().volume();
    view.access_mode.zip(view.attachment_mode)
}

/// B14, B17: the first claim sets the modes of the volume and of the claim, also one that names none; a later reader
/// with another mode leaves them; the release of the last claim clears both.
#[tokio::test(start_paused = true)]
async fn the_first_claim_sets_the_modes_and_the_last_one_clears_them() {
    for names_modes in [true, false] {
        let single = AccessMode::MultiNodeSingleWriter;
        let agent = agent_with(PLUGINS[0], single).await;
        let mut request = super::claims::request(single);
        request.capabilities = vec![pair(single), pair(AccessMode::MultiNodeReaderOnly)];
        let problems = vec![];
        let submission = VolumeSubmission { request, problems };
        agent.volumes.create(vec![submission]).await.unwrap();
        agent.add_node().await;
        assert_eq!(modes(&agent), None);
        let claims = &agent.services.claims;
        let writer = MountRequest {
            access_mode: names_modes.then_some(single),
            attachment_mode: names_modes.then_some(AttachmentMode::FileSystem),
            ..mount("a1")
        };
        assert!(is_published(&claims.claim(&writer, LONG).await.unwrap()));
        let of_writer = Some((single, AttachmentMode::FileSystem));
        assert_eq!(modes(&agent), of_writer);
        let reader = MountRequest {
            node: Some(NodeId::new(FakeAgent::SECOND_NODE)),
            access_mode: Some(AccessMode::MultiNodeReaderOnly),
            read_only: true,
            ..mount("a2")
        };
        assert!(is_published(&claims.claim(&reader, LONG).await.unwrap()));
        assert_eq!(modes(&agent), of_writer, "a later claim changed the modes");
        let shown: Vec<_> = claims.statuses(|_| true).0;
        let shown = shown.iter().map(|status| status.capability.access_mode);
        assert_eq!(shown.collect::<Vec<_>>(), [single, AccessMode::MultiNodeReaderOnly]);
        release(&agent, "a1").await.unwrap();
        assert_eq!(modes(&agent), of_writer, "one claim is left");
        release(&agent, "a2").await.unwrap();
        assert_eq!(modes(&agent), None);
        assert_nothing_is_left(&agent, "");
    }
}

/// B14: the modes go with the last claim, also where something else of the volume stays on record: an expansion that no
/// node has done. The next claim may have other modes.
#[tokio::test(start_paused = true)]
async fn the_modes_go_with_the_last_claim_while_an_expansion_is_pending() {
    let mut settings = settings(PLUGINS[0]);
    settings.node_expansion_required = true;
    if let (Some(controller), Some(node)) = (&mut settings.controller, &mut settings.node) {
        controller.expand_volume = true;
        node.expand_volume = true;
    }
    let mode = AccessMode::SingleNodeWriter;
    let agent = agent_on(settings, mode).await;
    let block = Capability { attachment_mode: AttachmentMode::BlockDevice, ..pair(mode) };
    let mut request = super::claims::request(mode);
    request.capabilities = vec![pair(mode), block];
    request.capacity.min = Bytes::new(2 << 30).unwrap();
    agent.volumes.create(vec![request.into()]).await.unwrap();
    let unavailable = [Fault::Fail(StatusCode::Unavailable); 2];
    let attach = Rpc::ControllerPublishVolume;
    agent.backend.inject_faults(attach, unavailable);
    let claims = &agent.services.claims;
    claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
    assert_eq!(modes(&agent), Some((mode, AttachmentMode::FileSystem)));
    release(&agent, "a1").await.unwrap();
    let state = agent.state();
    let left = state.all_claims().next().unwrap();
    assert!(left.claims.expansion.is_some(), "nothing is left");
    assert_eq!(violations(&state), Vec::<String>::new());
    assert_eq!(modes(&agent), None);
    let device = MountRequest { attachment_mode: Some(AttachmentMode::BlockDevice), ..mount("a2") };
    assert!(is_published(&claims.claim(&device, LONG).await.unwrap()));
    assert_eq!(modes(&agent), Some((mode, AttachmentMode::BlockDevice)));
    release(&agent, "a2").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// W02, B40: a failed unmount stays to be done, however often it fails: neither the unstage nor the detach is sent before
/// it has succeeded.
#[tokio::test(start_paused = true)]
async fn a_failed_unmount_keeps_staging_and_attachment() {
    for (rpc, later) in [
        (Rpc::NodeUnpublishVolume, &[Rpc::NodeUnstageVolume, Rpc::ControllerUnpublishVolume][..]),
        (Rpc::NodeUnstageVolume, &[Rpc::ControllerUnpublishVolume]),
    ] {
        for code in [StatusCode::Internal, StatusCode::Unavailable, StatusCode::FailedPrecondition]
        {
            let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
            assert!(is_published(&claim(&agent, "a1").await.unwrap()));
            let failures = 8;
            agent.backend.inject_faults(rpc, vec![Fault::Fail(code); failures]);
            let (key, alloc) = (FakeAgent::key("db"), AllocId::new("a1"));
            let claims = &agent.services.claims;
            claims.release(&key, &alloc, None, Duration::ZERO).await.unwrap();
            let mut seen = 0;
            while seen < failures {
                pass(Duration::from_millis(50)).await;
                seen = agent.backend.count(rpc);
                if seen <= failures {
                    for other in later {
                        let context = format!("{rpc} {code:?}: {other} after {seen} failures");
                        assert_eq!(agent.backend.count(*other), 0, "{context}");
                    }
                    assert_eq!(agent.state().all_claims().len(), 1);
                }
            }
            wait_until_released(&agent).await;
            assert_eq!(agent.backend.count(rpc), failures + 1, "{rpc} {code:?}");
            assert_nothing_is_left(&agent, &format!("{rpc} {code:?}"));
        }
    }
}

/// A job with volume `db`, which many may write.
fn writer(id: &str) -> Job {
    let mut job = job(&job_key(id));
    let volume = JobVolume {
        source: "db".to_owned(),
        read_only: false,
        per_alloc: false,
        sticky: false,
        kind: JobVolumeKind::Csi {
            access_mode: Some(AccessMode::MultiNodeMultiWriter),
            attachment_mode: Some(AttachmentMode::FileSystem),
            mount_options: None,
        },
    };
    job.groups[0].volumes.insert(VolumeAlias::new("data"), volume);
    job
}

async fn until(agent: &FakeAgent, is_ready: impl Fn(&State) -> bool) {
    let tables = [Table::Jobs, Table::Allocs, Table::Claims];
    let topics = |_: &State| tables.map(Topic::all).into();
    let reached = tokio::time::timeout(LONG, agent.cell.wait_until(topics, is_ready)).await;
    reached.expect("the state is never reached").unwrap();
}

/// Runs a job until its task runs with the volume. Returns the allocation.
async fn running(agent: &FakeAgent, id: &str) -> AllocId {
    agent.services.jobs.register(writer(id), None).await.unwrap();
    let key = job_key(id);
    until(agent, |state| state.allocs_of_job(&key).next().is_some()).await;
    let alloc = agent.state().allocs_of_job(&key).next().unwrap().0.clone();
    let node = agent.services.control_plane(NodeId::new(FakeAgent::NODE));
    node.mount(&alloc, &VolumeAlias::new("data")).await.unwrap();
    report(agent, &alloc, ClientStatus::Running).await;
    alloc
}

async fn report(agent: &FakeAgent, alloc: &AllocId, status: ClientStatus) {
    let report = AllocReport { status, description: String::new(), tasks: Default::default() };
    let node = agent.services.control_plane(NodeId::new(FakeAgent::NODE));
    node.report(alloc, report).await.unwrap();
}

/// B44, W37: an allocation that was asked to stop and still runs uses the volume like any other: its node keeps staging and
/// attachment until the last one has ended, in both orders, and then there is one unstage and one detach.
#[tokio::test(start_paused = true)]
async fn an_allocation_that_stops_and_still_runs_uses_the_volume() {
    for ends_first in ["stopping", "other"] {
        let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
        let stopping = running(&agent, "stopping").await;
        let other = running(&agent, "other").await;
        assert_eq!(agent.backend.count(Rpc::NodeStageVolume), 1);
        agent.services.jobs.stop(&job_key("stopping"), false).await.unwrap();
        let wants_stop = |state: &State| {
            let alloc = state.alloc(&stopping).unwrap();
            alloc.placement.as_ref().unwrap().stop_reason.is_some()
        };
        until(&agent, wants_stop).await;
        pass(Duration::from_secs(600)).await;
        let counts = |agent: &FakeAgent| {
            [Rpc::NodeUnpublishVolume, Rpc::NodeUnstageVolume, Rpc::ControllerUnpublishVolume]
                .map(|rpc| agent.backend.count(rpc))
        };
        assert_eq!(counts(&agent), [0, 0, 0], "its task still runs");
        let (first, last) = match ends_first {
            "stopping" => (&stopping, &other),
            _ => (&other, &stopping),
        };
        report(&agent, first, ClientStatus::Complete).await;
        until(&agent, |state| state.claims_of(first).next().is_none()).await;
        pass(Duration::from_secs(600)).await;
        assert_eq!(counts(&agent), [1, 0, 0], "{ends_first} has ended, the other one has not");
        report(&agent, last, ClientStatus::Complete).await;
        until(&agent, |state| state.all_claims().len() == 0).await;
        assert_eq!(counts(&agent), [2, 1, 1]);
        assert_eq!(agent.backend.take_violations(), Vec::<String>::new());
    }
}

/// B31: a stop of a job returns at once, with and without a purge, also while the controller hangs on its volume and while
/// the release of an earlier stop goes on.
#[tokio::test(start_paused = true)]
async fn a_stop_returns_at_once_while_a_controller_hangs() {
    for purges in [false, true] {
        let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
        let alloc = running(&agent, "web").await;
        agent.backend.inject_faults(Rpc::ControllerUnpublishVolume, [Fault::Hang]);
        let stop = async |purges| {
            let start = Instant::now();
            let stopped = agent.services.jobs.stop(&job_key("web"), purges).await;
            assert_eq!(start.elapsed(), Duration::ZERO, "purges {purges}");
            stopped
        };
        stop(purges).await.unwrap();
        report(&agent, &alloc, ClientStatus::Complete).await;
        while agent.backend.count(Rpc::ControllerUnpublishVolume) == 0 {
            pass(Duration::from_millis(10)).await;
        }
        // The detach hangs now.
        stop(true).await.ok();
        assert_eq!(agent.state().all_claims().len(), 1);
        agent.backend.release();
        until(&agent, |state| state.all_claims().len() == 0).await;
    }
}

/// B87: a plugin that has no room for a volume on a node sets the time of the volume, no other claim is admitted there
/// until it has room, and other nodes go on.
#[tokio::test(start_paused = true)]
async fn a_plugin_without_room_sets_the_time_and_admission_follows() {
    for rpc in [Rpc::ControllerPublishVolume, Rpc::NodeStageVolume, Rpc::NodePublishVolume] {
        let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
        agent.add_node().await;
        let exhausted = |agent: &FakeAgent| {
            volume(&agent.state(), &FakeAgent::key("db")).unwrap().exhausted_since()
        };
        assert_eq!(exhausted(&agent), 0, "{rpc}");
        let full = Fault::Fail(StatusCode::ResourceExhausted);
        agent.backend.inject_faults(rpc, vec![full; 1000]);
        let claims = &agent.services.claims;
        let first = claims.claim(&mount("a1"), Duration::from_secs(30)).await.unwrap();
        assert!(!is_published(&first), "{rpc}");
        let since = exhausted(&agent);
        assert!(since > 0, "{rpc}");
        for read_only in [false, true] {
            let other = MountRequest { read_only, ..mount("a2") };
            let denied = claims.claim(&other, Duration::ZERO).await.unwrap_err();
            let expected = "the plugin has no room for the volume on node";
            assert!(denied.text().contains(expected), "{rpc}: {}", denied.text());
            assert_eq!(denied.claiming_allocs(), ["a1"], "{rpc}");
        }
        let elsewhere =
            MountRequest { node: Some(NodeId::new(FakeAgent::SECOND_NODE)), ..mount("a3") };
        let admitted = claims.claim(&elsewhere, Duration::ZERO).await;
        assert!(admitted.is_ok(), "{rpc}: {admitted:?}");
        agent.backend.clear_faults();
        assert!(is_published(&claims.claim(&mount("a1"), LONG).await.unwrap()), "{rpc}");
        assert!(is_published(&claims.claim(&elsewhere, LONG).await.unwrap()), "{rpc}");
        assert_eq!(exhausted(&agent), 0, "{rpc}");
        assert!(is_published(&claim(&agent, "a2").await.unwrap()), "{rpc}");
        for alloc in ["a1", "a2", "a3"] {
            release(&agent, alloc).await.unwrap();
        }
        assert_nothing_is_left(&agent, &format!("{rpc}"));
    }
}

/// B88: a claim that waits for its first step moves from reading to writing, and is published as a writer.
#[tokio::test(start_paused = true)]
async fn a_waiting_reader_becomes_a_writer() {
    let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
    let refused = Fault::Fail(StatusCode::Unavailable);
    agent.backend.inject_faults(Rpc::ControllerPublishVolume, vec![refused; 1000]);
    let claims = &agent.services.claims;
    let reader = MountRequest { read_only: true, ..mount("a1") };
    claims.claim(&reader, Duration::from_secs(5)).await.unwrap();
    let use_of = |agent: &FakeAgent| {
        let view = volume(&agent.state(), &FakeAgent::key("db")).unwrap().volume();
        (view.read_allocs.len(), view.write_allocs.len())
    };
    assert_eq!(use_of(&agent), (1, 0));
    claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
    assert_eq!(use_of(&agent), (0, 1), "it is in one of both, not in both");
    agent.backend.clear_faults();
    assert!(is_published(&claim(&agent, "a1").await.unwrap()));
    let targets = agent.backend.targets();
    assert!(targets.values().all(|target| !target.read_only), "{targets:?}");
    let denied = claims.claim(&reader, Duration::ZERO).await.unwrap_err();
    assert!(denied.text().contains("already claims the volume in another way"));
    release(&agent, "a1").await.unwrap();
    assert_nothing_is_left(&agent, "");
}
