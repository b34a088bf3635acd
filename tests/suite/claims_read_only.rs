//! Readers and writers of one volume on one node (rule 13 of the claims machine): an attachment is
//! read-only if the access mode in force has only readers, and a repeated call is the first one again.
//!
//! Varied: attach and stage, PUBLISH_READONLY, the access mode, who comes first, whether the first one is
//! gone, a lost reply of each call, and a restart before the call is repeated.

use std::time::Duration;

use nomad_csi_claims::claim::PluginSteps;
use nomad_csi_model::AccessMode;
use nomad_csi_ports::Rpc;
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{MountRequest, VolumeLimits};
use nomad_csi_testing::{FakeTarget, Fault, PluginSettings};

use super::claims::{
    LONG, PLUGINS, agent_on, assert_nothing_is_left, is_published, mount, release, settings,
    wait_until_released,
};

fn plugin(steps: PluginSteps, publish_readonly: bool) -> PluginSettings {
    let mut settings = settings(steps);
    if let Some(controller) = &mut settings.controller {
        controller.publish_readonly = publish_readonly;
    }
    settings
}

fn reader(alloc: &str) -> MountRequest {
    MountRequest { read_only: true, ..mount(alloc) }
}

/// How many targets write, and how many only read.
fn targets(agent: &FakeAgent) -> (usize, usize) {
    let targets = agent.backend.targets();
    let is_read_only = |target: &&FakeTarget| target.read_only;
    let readers = targets.values().filter(is_read_only).count();
    (targets.len() - readers, readers)
}

fn assert_attached(agent: &FakeAgent, steps: PluginSteps, read_only: bool, context: &str) {
    let attachments = agent.backend.attachments();
    assert_eq!(attachments.len(), usize::from(steps.attach), "{context}");
    let mut attached = attachments.values();
    assert!(attached.all(|one| one.read_only == read_only), "{context}");
}

/// A later writer writes, also after a reader came first, and whether or not it is still there.
#[tokio::test(start_paused = true)]
async fn who_came_first_decides_nothing_about_a_writer() {
    let modes = [AccessMode::MultiNodeSingleWriter, AccessMode::MultiNodeMultiWriter];
    for steps in PLUGINS {
        for publish_readonly in [true, false] {
            for mode in modes {
                for first_writes in [true, false] {
                    for first_goes in [true, false] {
                        let context = format!(
                            "{steps:?}, {publish_readonly}, {mode}, {first_writes}, {first_goes}"
                        );
                        let agent = agent_on(plugin(steps, publish_readonly), mode).await;
                        let claims = &agent.services.claims;
                        let (first, second) = match first_writes {
                            true => (mount("a1"), reader("a2")),
                            false => (reader("a1"), mount("a2")),
                        };
                        for one in [&first, &second] {
                            let claimed = claims.claim(one, LONG).await.unwrap();
                            assert!(is_published(&claimed), "{context}: {claimed:?}");
                        }
                        assert_attached(&agent, steps, false, &context);
                        assert_eq!(targets(&agent), (1, 1), "{context}");
                        let (gone, left) = if first_goes { ("a1", "a2") } else { ("a2", "a1") };
                        release(&agent, gone).await.unwrap();
                        let is_writer_left = first_writes != first_goes;
                        let expected = (usize::from(is_writer_left), usize::from(!is_writer_left));
                        assert_eq!(targets(&agent), expected, "{context}");
                        release(&agent, left).await.unwrap();
                        assert_nothing_is_left(&agent, &context);
                    }
                }
            }
        }
    }
}

/// A mode that has only readers is attached read-only where the plugin can (W26).
#[tokio::test(start_paused = true)]
async fn a_mode_of_readers_is_attached_read_only() {
    for steps in PLUGINS {
        for publish_readonly in [true, false] {
            for mode in [AccessMode::SingleNodeReaderOnly, AccessMode::MultiNodeReaderOnly] {
                let context = format!("{steps:?}, {publish_readonly}, {mode}");
                let agent = agent_on(plugin(steps, publish_readonly), mode).await;
                let claims = &agent.services.claims;
                assert!(is_published(&claims.claim(&reader("a1"), LONG).await.unwrap()));
                assert_attached(&agent, steps, publish_readonly, &context);
                assert_eq!(targets(&agent), (0, 1), "{context}");
                let writer = claims.claim(&mount("a2"), Duration::ZERO).await;
                writer.unwrap_err();
                release(&agent, "a1").await.unwrap();
                assert_nothing_is_left(&agent, &context);
            }
        }
    }
}

/// A call whose reply was lost is repeated with the same arguments: the plugin refuses any other.
#[tokio::test(start_paused = true)]
async fn a_repeated_call_is_the_first_one_again() {
    let rpcs = [Rpc::ControllerPublishVolume, Rpc::NodeStageVolume, Rpc::NodePublishVolume];
    for publish_readonly in [true, false] {
        for first_writes in [true, false] {
            for rpc in rpcs {
                for change in [Change::Nothing, Change::Restart, Change::Capability] {
                    let context = format!("{publish_readonly}, {first_writes}, {rpc}, {change:?}");
                    repeated(publish_readonly, first_writes, rpc, change, &context).await;
                }
            }
        }
    }
}

/// What happens between the call and its repetition, besides the other claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Nothing,
    Restart,
    /// The plugin starts to advertise PUBLISH_READONLY.
    Capability,
}

async fn repeated(
    publish_readonly: bool,
    first_writes: bool,
    rpc: Rpc,
    change: Change,
    context: &str,
) {
    let mode = AccessMode::MultiNodeSingleWriter;
    let mut agent = agent_on(plugin(PLUGINS[0], publish_readonly), mode).await;
    agent.backend.inject_faults(rpc, [Fault::LoseReply]);
    let claims = agent.services.claims.clone();
    let (first, second) = match first_writes {
        true => (mount("a1"), reader("a2")),
        false => (reader("a1"), mount("a2")),
    };
    claims.claim(&first, Duration::ZERO).await.unwrap();
    while agent.backend.count(rpc) == 0 {
        tokio::task::yield_now().await;
    }
    claims.claim(&second, Duration::ZERO).await.unwrap();
    match change {
        Change::Nothing => {}
        Change::Restart => {
            agent.backend.crash();
            agent = agent.restart(VolumeLimits::default()).await.unwrap();
            agent.backend.restart();
            agent.observe(true).await;
        }
        Change::Capability => {
            agent.backend.update_settings(|settings| {
                if let Some(controller) = &mut settings.controller {
                    controller.publish_readonly = true;
                }
            });
            agent.observe(true).await;
        }
    }
    for one in [&first, &second] {
        let claimed = agent.services.claims.claim(one, LONG).await.unwrap();
        assert!(is_published(&claimed), "{context}: {claimed:?}");
    }
    assert!(agent.backend.count(rpc) >= 2, "{context}: it was repeated");
    assert_attached(&agent, PLUGINS[0], false, context);
    assert_eq!(targets(&agent), (1, 1), "{context}");
    for alloc in ["a1", "a2"] {
        release(&agent, alloc).await.unwrap();
    }
    wait_until_released(&agent).await;
    assert_nothing_is_left(&agent, context);
}
