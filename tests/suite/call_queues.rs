//! Calls that hang or are refused: what other volumes notice, and how often a call is repeated.

use std::time::Duration;

use nomad_csi_claims::state::EventKind;
use nomad_csi_model::{AccessMode, AllocId, Bytes, CapacityRange, NodeId};
use nomad_csi_ports::{Rpc, StatusCode};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{ClaimLimits, MountRequest, VolumeSubmission};
use nomad_csi_testing::Fault;
use tokio::time::Instant;

use super::claims::{
    LONG, PLUGINS, agent_on, assert_nothing_is_left, claim, is_published, look_after_plugin, mount,
    pass, release, settings, wait_until_released,
};

/// How many attaches of a plugin run at the same time.
const ATTACHES: usize = 10;

/// An agent with the volumes `v0`, `v1` and so on.
async fn agent_with_volumes(count: usize) -> FakeAgent {
    let mut settings = settings(PLUGINS[0]);
    if let Some(controller) = &mut settings.controller {
        controller.expand_volume = true;
        controller.create_delete_snapshot = true;
    }
    let agent = agent_on(settings, AccessMode::SingleNodeWriter).await;
    for at in 0..count {
        let mut request = FakeAgent::request(&format!("v{at}"));
        request.capabilities = super::claims::request(AccessMode::SingleNodeWriter).capabilities;
        let problems = vec![];
        let submission = VolumeSubmission { request, problems };
        agent.volumes.create(vec![submission]).await.unwrap();
    }
    agent
}

fn mount_of(at: usize) -> MountRequest {
    MountRequest { volume: FakeAgent::key(&format!("v{at}")), ..mount(&format!("a{at}")) }
}

async fn claim_of(agent: &FakeAgent, at: usize, wait: Duration) -> bool {
    let claims = &agent.services.claims;
    is_published(&claims.claim(&mount_of(at), wait).await.unwrap())
}

/// B30, W30: attaches that hang hold nothing but their own volumes. The next volume waits until the first of them
/// hangs, also if all permits are taken, and no volume gets a second call.
#[tokio::test(start_paused = true)]
async fn attaches_that_hang_delay_no_other_volume() {
    let hung_after = ClaimLimits::default().hung_after;
    assert!(hung_after <= Duration::from_secs(15));
    for hung in [1, ATTACHES - 1, ATTACHES, 2 * ATTACHES] {
        let agent = agent_with_volumes(hung + 1).await;
        let faults = vec![Fault::Hang; hung];
        agent.backend.inject_faults(Rpc::ControllerPublishVolume, faults);
        let start = Instant::now();
        for at in 0..hung {
            assert!(!claim_of(&agent, at, Duration::ZERO).await);
        }
        while agent.backend.count(Rpc::ControllerPublishVolume) < hung {
            pass(Duration::from_millis(10)).await;
        }
        assert!(claim_of(&agent, hung, LONG).await, "{hung}");
        let rounds = u32::try_from(hung / ATTACHES).unwrap();
        let limit = hung_after * rounds + Duration::from_secs(1);
        assert!(start.elapsed() <= limit, "{hung} hang: {:?}", start.elapsed());
        assert_eq!(
            agent.backend.count(Rpc::ControllerPublishVolume),
            hung + 1,
            "a volume got a second call while the first one hangs"
        );
    }
}

/// B30, W30: so do detaches, and no release waits for an expansion, a snapshot or a delete.
#[tokio::test(start_paused = true)]
async fn detaches_wait_for_no_other_class() {
    for rpc in [Rpc::ControllerExpandVolume, Rpc::CreateSnapshot, Rpc::DeleteVolume] {
        let agent = agent_with_volumes(2).await;
        assert!(claim_of(&agent, 1, LONG).await);
        agent.backend.inject_faults(rpc, [Fault::Hang]);
        let calls = u64::try_from(agent.backend.calls().len()).unwrap();
        let volumes = agent.volumes.clone();
        let slow = tokio::spawn(async move {
            match rpc {
                Rpc::ControllerExpandVolume => {
                    let mut request = FakeAgent::request("v0");
                    request.capabilities =
                        super::claims::request(AccessMode::SingleNodeWriter).capabilities;
                    request.capacity =
                        CapacityRange { min: Bytes::new(1 << 40).unwrap(), max: Bytes::ZERO };
                    let problems = vec![];
                    let submission = VolumeSubmission { request, problems };
                    volumes.create(vec![submission]).await.err()
                }
                Rpc::CreateSnapshot => volumes.create_snapshots(vec![snapshot("v0")]).await.err(),
                _ => {
                    let key = FakeAgent::key("v0");
                    volumes.delete(key, Default::default()).await.err()
                }
            }
        });
        agent.backend.wait_for_calls(calls + 1).await;
        let start = Instant::now();
        let (key, alloc) = (FakeAgent::key("v1"), AllocId::new("a1"));
        let claims = &agent.services.claims;
        assert_eq!(claims.release(&key, &alloc, None, LONG).await.unwrap().0, 0);
        assert!(claim_of(&agent, 1, LONG).await);
        assert!(start.elapsed() < Duration::from_secs(1), "{rpc}: {:?}", start.elapsed());
        assert!(!slow.is_finished(), "{rpc} did not hang");
        agent.backend.release();
        assert!(slow.await.unwrap().is_none(), "{rpc}");
    }
}

fn snapshot(volume: &str) -> nomad_csi_server::SnapshotRequest {
    nomad_csi_server::SnapshotRequest {
        source: FakeAgent::key(volume),
        plugin: None,
        name: "s1".to_owned(),
        secrets: Default::default(),
        parameters: Default::default(),
    }
}

/// W05, B53: what the plugin refuses for good in a release is tried a few times and then shown, with what helps: a
/// command that works, and the next change of the plugin.
#[tokio::test(start_paused = true)]
async fn a_final_refusal_of_a_release_is_shown_and_not_repeated_for_ever() {
    let refusals = usize::try_from(ClaimLimits::default().refusals).unwrap();
    let steps = [
        (Rpc::NodeUnpublishVolume, "nomad-csi volume release db --namespace default --alloc a1"),
        (
            Rpc::NodeUnstageVolume,
            "nomad-csi volume detach db --namespace default 11111111-2222-4333-8444-555555555555",
        ),
        (
            Rpc::ControllerUnpublishVolume,
            "nomad-csi volume detach db --namespace default 11111111-2222-4333-8444-555555555555",
        ),
    ];
    for (rpc, command) in steps {
        for code in [StatusCode::InvalidArgument, StatusCode::Unimplemented] {
            for way_out in ["command", "plugin"] {
                let context = format!("{rpc} {code:?} {way_out}");
                let agent = agent_on(settings(PLUGINS[0]), AccessMode::SingleNodeWriter).await;
                assert!(is_published(&claim(&agent, "a1").await.unwrap()));
                agent.backend.inject_faults(rpc, vec![Fault::Fail(code); 1000]);
                let (key, alloc) = (FakeAgent::key("db"), AllocId::new("a1"));
                let claims = &agent.services.claims;
                let left = claims.release(&key, &alloc, None, 24 * LONG).await.unwrap();
                assert_eq!(left.0, 1, "{context}");
                assert_eq!(agent.backend.count(rpc), refusals, "{context}");
                let status = claims.statuses(|_| true).0.remove(0);
                let problem = status.problem.unwrap();
                assert_eq!(problem.step, rpc.to_string(), "{context}");
                let help = problem.help.unwrap();
                assert!(help.contains(command), "{context}: {help}");
                assert!(help.contains("when the plugin changes"), "{context}: {help}");

                agent.backend.clear_faults();
                if way_out == "command" {
                    let node = NodeId::new(FakeAgent::NODE);
                    match rpc {
                        Rpc::NodeUnpublishVolume => {
                            assert_eq!(release(&agent, "a1").await.unwrap(), 0, "{context}");
                        }
                        _ => drop(claims.detach(&key, &node, LONG).await.unwrap()),
                    }
                } else {
                    let next = nomad_csi_testing::FakePlugin::new(agent.backend.clone());
                    agent
                        .add_alloc("77777777-2222-4333-8444-555555555555", next.connection())
                        .await;
                    // What got a call carries the next one out too, as long as it is there.
                    let (plugin, alloc) = (FakeAgent::PLUGIN.into(), FakeAgent::ALLOC.into());
                    agent.record_event(EventKind::PluginAllocGone { plugin, alloc }).await;
                    wait_until_released(&agent).await;
                }
                assert_nothing_is_left(&agent, &context);
            }
        }
    }
}

/// W05, B53: a refusal that may pass is repeated until it does, however often.
#[tokio::test(start_paused = true)]
async fn a_passing_refusal_of_a_release_is_repeated_until_it_passes() {
    for code in [
        StatusCode::Unavailable,
        StatusCode::Aborted,
        StatusCode::ResourceExhausted,
        StatusCode::DeadlineExceeded,
        StatusCode::FailedPrecondition,
    ] {
        let agent = agent_on(settings(PLUGINS[0]), AccessMode::SingleNodeWriter).await;
        assert!(is_published(&claim(&agent, "a1").await.unwrap()));
        let faults = vec![Fault::Fail(code); 40];
        agent.backend.inject_faults(Rpc::NodeUnstageVolume, faults);
        let released = async {
            assert_eq!(release(&agent, "a1").await.unwrap(), 0, "{code:?}");
        };
        tokio::select! {
            () = released => {}
            () = look_after_plugin(&agent.backend) => {}
        }
        assert_eq!(agent.backend.count(Rpc::NodeUnstageVolume), 41, "{code:?}");
        assert_nothing_is_left(&agent, &format!("{code:?}"));
    }
}
