//! The release of claims: what starts it, where it resumes after a crash, and how it gets on without its
//! plugin, its node or its allocation.

use std::time::Duration;

use nomad_csi_claims::claim::{ClaimProgress, Known};
use nomad_csi_claims::state::{Event, EventKind, State, Table, Topic};
use nomad_csi_model::{
    AccessMode, AllocId, ExternalId, ExternalNodeId, NodeId, PluginId, VolumeAlias, VolumeId,
    VolumeRequest,
};
use nomad_csi_ports::{Clock as _, Rpc, StatusCode};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{CommitError, Expected, MountRequest, VolumeLimits};
use nomad_csi_testing::Fault;
use tokio::time::{Instant, timeout};

use super::claims::{
    LONG, PLUGINS, agent_with, assert_nothing_is_left, claim, held_claims, is_published, mount,
    pass, release, request, settings, wait_until_released,
};

async fn record(agent: &FakeAgent, kind: EventKind) -> Result<u64, CommitError> {
    let event = Event::new(agent.clock.now(), kind);
    agent.cell.commit(Expected::Any, event).await
}

async fn end(agent: &FakeAgent, alloc: &str) {
    let alloc = AllocId::new(alloc);
    let ended = record(agent, EventKind::AllocEnded { alloc }).await;
    ended.unwrap();
}

/// Waits until the claims are as the condition needs them, for at most an hour.
async fn wait_until(agent: &FakeAgent, is_so: impl Fn(&State) -> bool) {
    let topics = |_: &State| vec![Topic::all(Table::Claims)];
    let waiting = agent.cell.wait_until(topics, is_so);
    let waited = timeout(LONG, waiting).await;
    assert!(waited.is_ok(), "{:#?}", agent.state().all_claims().collect::<Vec<_>>());
}

fn is_in_release(state: &State) -> bool {
    held_claims(state).is_empty() && state.all_claims().len() == 1
}

/// Ends the agent and its plugin like a power failure, and starts both again.
async fn restart(agent: FakeAgent) -> FakeAgent {
    agent.backend.crash();
    let agent = agent.restart(VolumeLimits::default()).await.unwrap();
    agent.backend.restart();
    agent.observe(true).await;
    agent
}

/// B29: after a crash, a release goes on where its record ends, and repeats no earlier call. B28: the
/// detach whose answer was not recorded is repeated, and NOT_FOUND frees the claim. B46: only the start and its
/// fingerprint of the plugin happen before the release goes on.
#[tokio::test(start_paused = true)]
async fn a_release_resumes_after_its_last_recorded_step() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let detach = Rpc::ControllerUnpublishVolume;
    agent.backend.inject_faults(detach, [Fault::CrashAfterEffect]);
    let (key, alloc) = (FakeAgent::key("db"), AllocId::new("a1"));
    let claims = agent.services.claims.clone();
    let released = claims.release(&key, &alloc, None, Duration::ZERO);
    assert_eq!(released.await.unwrap().0, 1);
    let is_detaching = |state: &State| {
        let mut attachments = state.all_claims().flat_map(|r| &r.claims.attachments);
        attachments.any(|(_, attachment)| !attachment.call.is_setup)
    };
    wait_until(&agent, is_detaching).await;
    agent.backend.wait_until_idle().await;
    let agent = restart(agent).await;
    agent.backend.inject_faults(detach, [Fault::Fail(StatusCode::NotFound)]);
    wait_until_released(&agent).await;
    let calls = [Rpc::NodeUnpublishVolume, Rpc::NodeUnstageVolume, detach];
    let calls = calls.map(|rpc| agent.backend.count(rpc));
    assert_eq!(calls[..2], [1, 1], "the node's steps were recorded");
    assert!(calls[2] >= 2, "the detach was repeated");
    assert_nothing_is_left(&agent, "");
}

/// W36: a silent node keeps its claim until an operator fences it. B37, W15: the release then uses the
/// provider's node ID of the claim, which no plugin reports any more. B43: the node is not called.
#[tokio::test(start_paused = true)]
async fn a_claim_is_detached_by_its_own_node_id_after_the_node_is_gone() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    agent.add_node().await;
    let node = NodeId::new(FakeAgent::SECOND_NODE);
    let there = MountRequest { node: Some(node.clone()), ..mount("a1") };
    let claims = &agent.services.claims;
    assert!(is_published(&claims.claim(&there, LONG).await.unwrap()));
    let newest = agent.state();
    let plugin = PluginId::new(FakeAgent::PLUGIN);
    let instance = newest.node_instance(&plugin, &node).unwrap();
    let alloc = instance.alloc_id.clone();
    record(&agent, EventKind::PluginAllocGone { plugin, alloc }).await.unwrap();
    assert_eq!(release(&agent, "a1").await.unwrap(), 1);
    assert_eq!(agent.backend.count(Rpc::ControllerUnpublishVolume), 0);
    agent.backend.lose_node(FakeAgent::second_external_node());
    claims.fence(&node, None).await.unwrap();
    wait_until_released(&agent).await;
    assert_eq!(agent.backend.count(Rpc::NodeUnpublishVolume), 0);
    assert_eq!(agent.backend.attachments().len(), 0);
}

/// An allocation that was not placed for a job is forgotten with the last of its claims, also where several of them go at
/// the same moment: those of two volumes, of two registrations of one, and of a reader beside a writer.
#[tokio::test(start_paused = true)]
async fn an_allocation_is_forgotten_with_the_last_of_its_claims() {
    let mode = AccessMode::MultiNodeMultiWriter;
    for steps in PLUGINS {
        for second in ["another volume", "another registration", "another name"] {
            let context = format!("{steps:?}, {second}");
            let agent = agent_with(steps, mode).await;
            let state = agent.state();
            let first = state.record(&FakeAgent::key("db")).unwrap();
            let mut there = mount("a1");
            match second {
                "another volume" => {
                    let created = agent.volumes.create(vec![FakeAgent::request("web").into()]);
                    created.await.unwrap();
                    there.volume = FakeAgent::key("web");
                }
                "another registration" => {
                    let again = VolumeRequest {
                        id: VolumeId::new("web"),
                        external_id: first.provided.external_id.clone(),
                        context: Some(first.provided.context.to_map()),
                        share: true,
                        ..request(mode)
                    };
                    agent.volumes.register(vec![again.into()]).await.unwrap();
                    there.volume = FakeAgent::key("web");
                }
                _ => {
                    there.alias = Some(VolumeAlias::new("data"));
                    there.read_only = true;
                }
            }
            let at_once = if second == "another volume" { 2 } else { 1 };
            for request in [mount("a1"), there] {
                let claims = &agent.services.claims;
                assert!(is_published(&claims.claim(&request, LONG).await.unwrap()));
            }
            let unpublish = Rpc::NodeUnpublishVolume;
            let hang = std::iter::repeat_n(Fault::Hang, at_once);
            agent.backend.inject_faults(unpublish, hang);
            end(&agent, "a1").await;
            while agent.backend.count(unpublish) < at_once {
                pass(Duration::from_millis(1)).await;
            }
            agent.backend.release();
            wait_until_released(&agent).await;
            assert_nothing_is_left(&agent, &context);
        }
    }
}

/// B39: the end of an allocation starts the release of its claims, without a pause. B38: without the
/// node's plugin the allocation ends all the same, and its claim stays until it can be released. B32: the
/// agent has no job of the allocation.
#[tokio::test(start_paused = true)]
async fn the_end_of_an_allocation_releases_its_claims() {
    for has_plugin in [true, false] {
        let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
        claim(&agent, "a1").await.unwrap();
        agent.observe(has_plugin).await;
        let ended = Instant::now();
        end(&agent, "a1").await;
        if !has_plugin {
            wait_until(&agent, is_in_release).await;
            assert_eq!(ended.elapsed(), Duration::ZERO);
            assert!(timeout(LONG, wait_until_released(&agent)).await.is_err());
            assert!(is_in_release(&agent.state()));
            agent.observe(true).await;
        }
        wait_until_released(&agent).await;
        if has_plugin {
            assert_eq!(ended.elapsed(), Duration::ZERO);
        }
        assert_nothing_is_left(&agent, &format!("plugin: {has_plugin}"));
    }
}

/// B89: an allocation is not forgotten before its claims are gone, so its release always finds it.
#[tokio::test(start_paused = true)]
async fn an_allocation_is_remembered_until_its_claims_are_gone() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let alloc = AllocId::new("a1");
    let forgotten = record(&agent, EventKind::AllocForgotten { alloc }).await;
    assert!(matches!(forgotten, Err(CommitError::InvalidEvent(_))));
    end(&agent, "a1").await;
    wait_until_released(&agent).await;
    assert_nothing_is_left(&agent, "");
}

/// W03: after a restart the agent still knows that two allocations share a staging.
#[tokio::test(start_paused = true)]
async fn users_of_a_staging_are_known_after_a_restart() {
    let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
    for alloc in ["a1", "a2"] {
        claim(&agent, alloc).await.unwrap();
    }
    let agent = restart(agent).await;
    release(&agent, "a1").await.unwrap();
    assert_eq!(agent.backend.count(Rpc::NodeUnstageVolume), 0);
    assert_eq!(agent.backend.targets().len(), 1);
    release(&agent, "a2").await.unwrap();
    assert_eq!(agent.backend.count(Rpc::NodeUnstageVolume), 1);
    assert_nothing_is_left(&agent, "");
}

/// B93, W60: after a reboot of the node and a restart of the agent, the volume is staged and published
/// again with the recorded publish context, which the plugin checks. It is not attached again.
#[tokio::test(start_paused = true)]
async fn a_rebooted_node_gets_the_recorded_publish_context() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let agent = restart(agent).await;
    agent.backend.reboot(&ExternalNodeId::new("fake-node"));
    let (node, boot_id) = (NodeId::new(FakeAgent::NODE), "second boot".to_owned());
    record(&agent, EventKind::NodeBooted { node, boot_id }).await.unwrap();
    let is_published = |state: &State| {
        let claims = state.all_claims().flat_map(|r| r.claims.claims.values());
        claims.into_iter().all(|claim| {
            claim.published == Known::Yes && claim.progress() == ClaimProgress::Published
        })
    };
    assert!(!is_published(&agent.state()), "the reboot makes it doubtful");
    wait_until(&agent, is_published).await;
    assert_eq!(agent.backend.count(Rpc::NodeStageVolume), 2);
    assert_eq!(agent.backend.count(Rpc::ControllerPublishVolume), 1);
    assert_eq!(agent.backend.targets().len(), 1);
    release(&agent, "a1").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// B33: an ID with any character names the same volume in the journal, after a restart and in every call.
#[tokio::test(start_paused = true)]
async fn a_release_finds_its_volume_whatever_its_id_contains() {
    for id in ["a:b[1]", "ns:[v]:purge", "größe-日本", "%5B0%5D"] {
        let agent = FakeAgent::start(settings(PLUGINS[0])).await.unwrap();
        agent.record_start().await;
        let mut desired = request(AccessMode::SingleNodeWriter);
        desired.id = VolumeId::new(id);
        desired.external_id = Some(ExternalId::new(id));
        let external = ExternalId::new(id);
        agent.backend.add_volume(external.clone(), Default::default());
        agent.volumes.register(vec![desired.into()]).await.unwrap();
        let mount = MountRequest { volume: FakeAgent::key(id), ..mount("a1") };
        let claims = &agent.services.claims;
        assert!(is_published(&claims.claim(&mount, LONG).await.unwrap()));
        agent.observe(false).await;
        let claims = &agent.services.claims;
        let released = claims.release(&mount.volume, &mount.alloc, None, Duration::ZERO);
        assert_eq!(released.await.unwrap().0, 1, "{id}: its plugin is away");
        let agent = restart(agent).await;
        wait_until_released(&agent).await;
        assert_nothing_is_left(&agent, id);
        let forced = agent.volumes.deregister(mount.volume, true).await;
        forced.unwrap_or_else(|error| panic!("{id}: {error:?}"));
        assert_eq!(agent.state().records().len(), 0, "{id}");
    }
}
