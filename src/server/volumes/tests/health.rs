//! The health of volumes in lists, and of one volume.

use super::*;
use crate::claims::MountRequest;
use nomad_csi_claims::claim::samples::{capability, key as claim_key};
use nomad_csi_claims::claim::{Claim, ClaimEvent, ClaimUsage, Intent, Known, SealedFlags};
use nomad_csi_claims::state::EventKind;
use nomad_csi_model::{
    AccessMode, AllocId, ControllerCapabilities, ExternalNodeId, ExternalVolume, NodeCapabilities,
    NodeId, VolumeStatus, VolumeStatusKind,
};
use nomad_csi_ports::{PageRequest, StatusCode};
use nomad_csi_testing::Fault;

fn reporting() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            list_volumes: true,
            get_volume_health: true,
            list_volume_health: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            get_volume_health: true,
            ..NodeCapabilities::default()
        }),
        health_page: 1,
        ..PluginSettings::default()
    }
}

fn lost(reason: &str) -> VolumeStatus {
    VolumeStatus {
        kind: VolumeStatusKind::DataLoss,
        reason: reason.to_owned(),
        message: String::new(),
    }
}

async fn agent_with_volumes(ids: &[&str]) -> FakeAgent {
    let agent = FakeAgent::start(reporting()).await.unwrap();
    for id in ids {
        let id = ExternalId::new(*id);
        agent.backend.add_volume(id, Default::default());
    }
    agent
}

async fn listed(agent: &FakeAgent) -> Vec<ExternalVolume> {
    let page = PageRequest::default();
    let listed = agent.volumes.list_external(FakeAgent::PLUGIN.into(), page);
    listed.await.unwrap().entries
}

fn healths(volumes: &[ExternalVolume]) -> Vec<Option<&[VolumeStatus]>> {
    volumes.iter().map(|one| one.health.as_deref()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_list_has_the_health_of_every_volume() {
    let agent = agent_with_volumes(&["a", "b", "c"]).await;
    for id in ["a", "c"] {
        agent.backend.set_volume_health(id.into(), vec![lost(id)]);
    }
    let volumes = listed(&agent).await;
    assert_eq!(healths(&volumes), [Some([lost("a")].as_slice()), Some(&[]), Some(&[lost("c")])]);
    assert_eq!(agent.backend.count(Rpc::ControllerListVolumeHealth), 2);
}

/// CSI 1.13, ControllerListVolumeHealth Errors: after a bad token the list begins again.
#[tokio::test(start_paused = true)]
async fn a_bad_token_begins_the_list_again() {
    let agent = agent_with_volumes(&["a", "b"]).await;
    for id in ["a", "b"] {
        agent.backend.set_volume_health(id.into(), vec![lost(id)]);
    }
    let rpc = Rpc::ControllerListVolumeHealth;
    // A list is the same twice; the second page is refused once.
    let faults = [Fault::ApplyTwice, Fault::Fail(StatusCode::Aborted)];
    agent.backend.inject_faults(rpc, faults);
    let volumes = listed(&agent).await;
    let [a, b] = [[lost("a")], [lost("b")]];
    assert_eq!(healths(&volumes), [Some(a.as_slice()), Some(&b)]);
    assert_eq!(agent.backend.count(rpc), 4, "two pages, twice");
}

#[tokio::test(start_paused = true)]
async fn a_list_succeeds_while_its_health_is_unknown() {
    let agent = agent_with_volumes(&["a"]).await;
    let faults = [Fault::Fail(StatusCode::Internal)];
    let rpc = Rpc::ControllerListVolumeHealth;
    agent.backend.inject_faults(rpc, faults);
    assert_eq!(healths(&listed(&agent).await), [None]);
}

/// A listing reads the health once, unless it takes too long; the next listing reads it again.
#[tokio::test(start_paused = true)]
async fn the_pages_of_a_listing_share_the_health() {
    let ids = ["a", "b", "c", "d"];
    let agent = agent_with_volumes(&ids).await;
    let reads = || agent.backend.count(Rpc::ControllerListVolumeHealth);
    let mut token = String::new();
    let mut pages = vec![];
    for id in ids {
        let id = ExternalId::new(id);
        agent.backend.set_volume_health(id, vec![lost("first")]);
    }
    let mut read_at_page = vec![];
    for number in 0..ids.len() {
        if number == 3 {
            tokio::time::advance(std::time::Duration::from_secs(60)).await;
        }
        let page = PageRequest { entries: 1, starting_token: token };
        let before = reads();
        let listed = agent.volumes.list_external(FakeAgent::PLUGIN.into(), page);
        let listed = listed.await.unwrap();
        read_at_page.push(reads() > before);
        pages.extend(listed.entries);
        token = listed.next_token.unwrap_or_default();
    }
    assert_eq!(token, "");
    assert_eq!(read_at_page, [true, false, false, true]);
    let expected = [lost("first")];
    assert_eq!(healths(&pages), [Some(expected.as_slice()); 4]);
    agent.backend.set_volume_health("a".into(), vec![]);
    assert_eq!(healths(&listed(&agent).await)[0], Some([].as_slice()));
}

/// Only registered volumes are counted, by their worst condition.
#[tokio::test(start_paused = true)]
async fn registered_volumes_are_counted_by_their_health() {
    let agent = agent_with_volumes(&["not-registered"]).await;
    for id in ["a", "b", "c"] {
        agent.create(FakeAgent::request(id)).await.unwrap();
    }
    let adverse = ["not-registered", "fake-2"];
    for id in adverse {
        agent.backend.set_volume_health(id.into(), vec![lost("Gone")]);
    }
    let counted = async || {
        let counts = agent.volumes.count_health().await.unwrap();
        let counts = counts.into_iter();
        counts.map(|((_, word), count)| (word, count)).collect::<Vec<_>>()
    };
    assert_eq!(counted().await, [("data_loss", 1), ("ok", 2)]);
    let rpc = Rpc::ControllerListVolumeHealth;
    agent.backend.inject_faults(rpc, [Fault::Fail(StatusCode::Internal)]);
    assert_eq!(counted().await, [("unknown", 3)]);
    agent.observe(false).await;
    assert_eq!(counted().await, [("unknown", 3)]);
}

/// Claims `id`, of which several nodes may have the file system, on both nodes.
async fn claim_on_both_nodes(agent: &FakeAgent, id: &str) {
    let nodes = [(FakeAgent::NODE, "a1"), (FakeAgent::SECOND_NODE, "a2")];
    for (node, alloc) in nodes {
        let request = MountRequest {
            volume: FakeAgent::key(id),
            alloc: AllocId::new(alloc),
            node: Some(NodeId::new(node)),
            alias: None,
            read_only: false,
            access_mode: None,
            attachment_mode: None,
            mount_options: None,
        };
        let wait = std::time::Duration::from_secs(30);
        let claimed = agent.services.claims.claim(&request, wait).await.unwrap();
        assert!(claimed.claim.is_some(), "{claimed:?}");
    }
}

/// Each node that uses the volume is asked, and one that hangs holds up no other.
#[tokio::test(start_paused = true)]
async fn the_nodes_that_use_a_volume_are_asked_at_once() {
    let agent = agent_with_volumes(&[]).await;
    agent.add_node().await;
    let mut request = FakeAgent::request("db");
    request.capabilities[0].access_mode = AccessMode::MultiNodeMultiWriter;
    agent.create(request).await.unwrap();
    let key = FakeAgent::key("db");
    let rpc = Rpc::NodeGetVolumeHealth;
    agent.volumes.health(key.clone()).await.unwrap();
    assert_eq!(agent.backend.count(rpc), 0, "no node uses it");

    claim_on_both_nodes(&agent, "db").await;
    let second = FakeAgent::second_external_node();
    let first = agent.backend.settings().description.external_node_id;
    for (node, reason) in [(&first, "First"), (&second, "Second")] {
        let id = ExternalId::new("fake-1");
        let statuses = vec![lost(reason)];
        agent.backend.set_node_volume_health(node.clone(), id, statuses);
    }
    let health = agent.volumes.health(key.clone()).await.unwrap();
    let at = |node: &str, reason| (Some(NodeId::new(node)), lost(reason));
    let expected = [at(FakeAgent::NODE, "First"), at(FakeAgent::SECOND_NODE, "Second")];
    assert_eq!(health.statuses, expected);

    // Both are asked before either answers, so the deadline passes once.
    agent.backend.inject_faults(rpc, [Fault::Hang, Fault::Hang]);
    let begun = tokio::time::Instant::now();
    let health = agent.volumes.health(key.clone()).await.unwrap();
    assert_eq!(begun.elapsed().as_secs(), 10);
    assert_eq!((health.statuses.len(), health.unknown.len()), (0, 2));

    agent.backend.inject_faults(rpc, [Fault::Hang]);
    let health = agent.volumes.health(key).await.unwrap();
    assert_eq!((health.statuses.len(), health.unknown.len()), (1, 1));
    let [reason] = health.unknown.as_slice() else {
        unreachable!("{health:?}");
    };
    assert!(reason.starts_with("node `"), "{reason}");
}

/// Adds a node with the plugin, and a claim of `db` there.
pub(super) async fn claim_on_new_node(agent: &FakeAgent, number: usize) {
    let node = format!("node-{number}");
    let external = ExternalNodeId::new(format!("i-{node}"));
    let alloc = AllocId::new(format!("plugin-{number}"));
    agent.add_node_as(&node, external.clone(), alloc.as_str()).await;
    let alloc = AllocId::new(format!("task-{number}"));
    let capability = capability(AccessMode::MultiNodeMultiWriter);
    let node = NodeId::new(node);
    let started = EventKind::AllocStarted { alloc: alloc.clone(), node: node.clone() };
    agent.record_event(started).await;
    let claim = Claim {
        volume: FakeAgent::key("db"),
        external_node: Some(external),
        node,
        usage: ClaimUsage::new(capability, "ext4", SealedFlags::default()),
        read_only: false,
        intent: Intent::Hold,
        published: Known::No,
        call: None,
        volume_context: None,
        target: None,
        granted_at: 7,
        problem: None,
    };
    let volume = agent.state().remote_volume(&FakeAgent::key("db")).unwrap();
    let key = claim_key(alloc.as_str());
    let event = Box::new(ClaimEvent::Granted { key, claim: Box::new(claim) });
    agent.record_event(EventKind::Claim { volume, event }).await;
}

/// None of the nodes answers before the deadline of 10 s, so the time tells how many are asked at once.
#[tokio::test(start_paused = true)]
async fn sixteen_nodes_are_asked_at_once() {
    let agent = agent_with_volumes(&[]).await;
    let mut request = FakeAgent::request("db");
    request.capabilities[0].access_mode = AccessMode::MultiNodeMultiWriter;
    agent.create(request).await.unwrap();
    let rpc = Rpc::NodeGetVolumeHealth;
    let mut added = 0;
    for (nodes, seconds) in [(16, 10), (17, 20), (32, 20), (33, 30)] {
        while added < nodes {
            claim_on_new_node(&agent, added).await;
            added += 1;
        }
        let before = agent.backend.count(rpc);
        agent.backend.inject_faults(rpc, vec![Fault::Hang; nodes]);
        let begun = tokio::time::Instant::now();
        let health = agent.volumes.health(FakeAgent::key("db")).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), seconds, "{nodes} nodes");
        assert_eq!(health.unknown.len(), nodes);
        assert_eq!(agent.backend.count(rpc) - before, nodes);
    }
}

#[tokio::test(start_paused = true)]
async fn the_health_of_one_volume_is_that_of_its_controller() {
    let agent = agent_with_volumes(&[]).await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let key = FakeAgent::key("db");
    let health = agent.volumes.health(key.clone()).await.unwrap();
    assert_eq!(health, Default::default());
    let id = ExternalId::new("fake-1");
    agent.backend.set_volume_health(id, vec![lost("Gone")]);
    let health = agent.volumes.health(key.clone()).await.unwrap();
    assert_eq!(health.statuses, [(None, lost("Gone"))]);
    let faults = [Fault::Fail(StatusCode::Internal)];
    let rpc = Rpc::ControllerGetVolumeHealth;
    agent.backend.inject_faults(rpc, faults);
    let health = agent.volumes.health(key).await.unwrap();
    assert_eq!((health.statuses.len(), health.unknown.len()), (0, 1));
    let missing = agent.volumes.health(FakeAgent::key("no")).await;
    assert!(matches!(missing, Err(ServerError::NoVolumeToRead)));
}
