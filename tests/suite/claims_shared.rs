//! Two registrations of one external volume (rule 14 of the claims machine): the forced deregistration of
//! one takes nothing from the claims of the other, and admits nothing that table 3.3 forbids.
//!
//! Varied: the kind of plugin, the nodes of the two claims, which registration goes, which sorts first,
//! and whether the agent restarts in between.

use std::time::Duration;

use nomad_csi_claims::claim::Known;
use nomad_csi_claims::state::{State, Table, Topic, violations};
use nomad_csi_model::{AccessMode, AllocId, NamespacedId, NodeId, VolumeRequest};
use nomad_csi_ports::{Rpc, StatusCode};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{MountRequest, ServerError, VolumeLimits};
use nomad_csi_testing::Fault;

use super::claims::{
    LONG, PLUGINS, agent_with, assert_nothing_is_left, held_claims, is_published, mount, request,
    wait_until_released,
};

/// More failures than a release is tried in the time of a test.
const MANY: usize = 1_000;

/// Registers the external volume of `db` a second time.
pub(super) async fn register_again(agent: &FakeAgent, id: &str, mode: AccessMode) {
    let state = agent.state();
    let first = state.record(&FakeAgent::key("db")).unwrap();
    let again = VolumeRequest {
        id: FakeAgent::key(id).id,
        external_id: first.provided.external_id.clone(),
        context: Some(first.provided.context.to_map()),
        share: true,
        ..request(mode)
    };
    agent.volumes.register(vec![again.into()]).await.unwrap();
}

fn mount_of(volume: &str, alloc: &str, node: &str, read_only: bool) -> MountRequest {
    MountRequest {
        volume: FakeAgent::key(volume),
        node: Some(NodeId::new(node)),
        read_only,
        ..mount(alloc)
    }
}

async fn release_of(agent: &FakeAgent, volume: &str, alloc: &str, wait: Duration) -> usize {
    let (key, alloc) = (FakeAgent::key(volume), AllocId::new(alloc));
    let claims = &agent.services.claims;
    claims.release(&key, &alloc, None, wait).await.unwrap().0
}

async fn wait_until_gone(agent: &FakeAgent, alloc: &str) {
    let topics = |_: &State| vec![Topic::all(Table::Claims)];
    let alloc = AllocId::new(alloc);
    let is_gone = |state: &State| state.claims_of(&alloc).next().is_none();
    let gone = agent.cell.wait_until(topics, is_gone);
    tokio::time::timeout(LONG, gone).await.unwrap().unwrap();
}

/// The only way in: a writer is denied, and learns who is in the way.
async fn assert_no_second_writer(agent: &FakeAgent, volume: &str, context: &str) {
    for node in [FakeAgent::NODE, FakeAgent::SECOND_NODE] {
        let second = mount_of(volume, "a9", node, false);
        let denied = agent.services.claims.claim(&second, Duration::ZERO).await;
        let denied = denied.unwrap_err().text();
        assert!(denied.contains("volume max claims reached"), "{context}: {denied}");
    }
}

/// W13, W59.
#[tokio::test(start_paused = true)]
async fn a_forced_deregistration_takes_nothing_from_another_registration() {
    let (here, there) = (FakeAgent::NODE, FakeAgent::SECOND_NODE);
    for steps in PLUGINS {
        for (gone, stays) in [("db", "wb"), ("wb", "db")] {
            for node in [here, there] {
                for restarts in [false, true] {
                    let context = format!("{steps:?}, {gone} goes, reader on {node}, {restarts}");
                    forced_deregistration(steps, (gone, stays), node, restarts, &context).await;
                }
            }
        }
    }
}

async fn forced_deregistration(
    steps: nomad_csi_claims::claim::PluginSteps,
    (gone, stays): (&str, &str),
    node: &str,
    restarts: bool,
    context: &str,
) {
    let mode = AccessMode::MultiNodeSingleWriter;
    let mut agent = agent_with(steps, mode).await;
    agent.add_node().await;
    register_again(&agent, "wb", mode).await;
    let claims = agent.services.claims.clone();
    let writer = mount_of(stays, "a1", FakeAgent::NODE, false);
    assert!(is_published(&claims.claim(&writer, LONG).await.unwrap()), "{context}");
    let reader = mount_of(gone, "a2", node, true);
    assert!(is_published(&claims.claim(&reader, LONG).await.unwrap()), "{context}");
    let stuck = std::iter::repeat_n(Fault::Fail(StatusCode::Internal), MANY);
    agent.backend.inject_faults(Rpc::NodeUnpublishVolume, stuck);
    assert_eq!(release_of(&agent, gone, "a2", Duration::ZERO).await, 1, "{context}");
    agent.volumes.deregister(FakeAgent::key(gone), true).await.unwrap();
    assert_eq!(violations(&agent.state()), Vec::<String>::new(), "{context}");
    assert_eq!(held_claims(&agent.state()), [AllocId::new("a1")], "{context}");
    // What is being undone counts, and what table 3.3 admits is admitted.
    assert_no_second_writer(&agent, stays, context).await;
    let claims = agent.services.claims.clone();
    let other = mount_of(stays, "a3", FakeAgent::NODE, true);
    assert!(is_published(&claims.claim(&other, LONG).await.unwrap()), "{context}");
    if restarts {
        agent.backend.crash();
        agent = agent.restart(VolumeLimits::default()).await.unwrap();
        agent.backend.restart();
        agent.observe(true).await;
        agent.add_node().await;
    }
    // Registered again under its name, it waits until its earlier claims are undone.
    if gone == "wb" {
        register_again(&agent, gone, mode).await;
        let early = mount_of(gone, "a4", FakeAgent::NODE, true);
        let claims = &agent.services.claims;
        let denied = claims.claim(&early, Duration::ZERO).await.unwrap_err();
        let expected = "still being detached after a forced deregistration";
        assert!(denied.text().contains(expected), "{context}: {denied:?}");
    }
    agent.backend.clear_faults();
    wait_until_gone(&agent, "a2").await;
    assert_no_second_writer(&agent, stays, context).await;
    let backend = &agent.backend;
    let writes = |target: &nomad_csi_testing::FakeTarget| !target.read_only;
    assert_eq!(backend.targets().values().filter(|target| writes(target)).count(), 1);
    assert_eq!(backend.targets().len(), 2, "{context}: the writer and the reader stay mounted");
    assert_eq!(backend.stagings().len(), usize::from(steps.stage), "{context}");
    assert_eq!(backend.attachments().len(), usize::from(steps.attach), "{context}");
    let state = agent.state();
    let record = state.all_claims().next().unwrap();
    assert!(record.claims.tombstones.is_empty(), "{context}");
    let held = record.claims.claims.values();
    assert!(held.into_iter().all(|claim| claim.published == Known::Yes), "{context}");
    for alloc in ["a1", "a3"] {
        assert_eq!(release_of(&agent, stays, alloc, LONG).await, 0, "{context}");
    }
    wait_until_released(&agent).await;
    assert_nothing_is_left(&agent, context);
    assert_eq!(backend.take_violations(), Vec::<String>::new(), "{context}");
}

/// The data of a volume that is still attached through a registration that is gone is not deleted.
#[tokio::test(start_paused = true)]
async fn a_volume_is_not_deleted_under_the_claims_of_a_registration_that_is_gone() {
    let mode = AccessMode::MultiNodeMultiWriter;
    let agent = agent_with(PLUGINS[0], mode).await;
    register_again(&agent, "wb", mode).await;
    let claims = agent.services.claims.clone();
    let reader = mount_of("wb", "a2", FakeAgent::NODE, true);
    assert!(is_published(&claims.claim(&reader, LONG).await.unwrap()));
    let stuck = std::iter::repeat_n(Fault::Fail(StatusCode::Internal), MANY);
    agent.backend.inject_faults(Rpc::NodeUnpublishVolume, stuck);
    assert_eq!(release_of(&agent, "wb", "a2", Duration::ZERO).await, 1);
    agent.volumes.deregister(FakeAgent::key("wb"), true).await.unwrap();
    let key: NamespacedId = FakeAgent::key("db");
    let refused = agent.volumes.delete(key.clone(), Default::default()).await;
    assert!(matches!(refused, Err(ServerError::VolumeInUse { .. })), "{refused:?}");
    assert_eq!(agent.backend.count(Rpc::DeleteVolume), 0);
    agent.backend.clear_faults();
    wait_until_released(&agent).await;
    agent.volumes.delete(key, Default::default()).await.unwrap();
    assert_nothing_is_left(&agent, "");
}
