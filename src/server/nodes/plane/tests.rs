//! Registrations, and what one node may do with what belongs to another.

use super::*;
use crate::fake::FakeAgent;
use nomad_csi_claims::state::apply;
use nomad_csi_claims::state::samples::jobs::{alloc_placed, job_key, job_registered};
use nomad_csi_model::{AllocId, AllocReport, ClientStatus, PluginId, PluginInstance, VolumeAlias};
use nomad_csi_ports::{AssignedAllocs, ControlPlaneError, LostMount};
use nomad_csi_testing::PluginSettings;

struct Cluster {
    agent: FakeAgent,
    nodes: Arc<dyn NodePlane>,
}

impl Cluster {
    async fn start() -> Self {
        let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
        let events = Arc::new(NodeEvents::new(Arc::new(agent.clock.clone())));
        Self { nodes: agent.services.node_plane(events), agent }
    }

    async fn register(&self, registration: Registration) -> Result<u64, RegistrationRefused> {
        let position = self.nodes.register(registration).await?;
        Ok(position.index)
    }

    fn position(&self) -> ClusterPosition {
        self.nodes.position().unwrap()
    }
}

fn registration(id: &str, session: &str) -> Registration {
    Registration {
        node: Node::new(id.into(), format!("machine of {id}"), "dc1"),
        secret: NodeSecret::new([7; 32]),
        session: session.into(),
        boot_id: "boot-1".to_owned(),
        version: "1.2.3".to_owned(),
        features: vec![],
        known: None,
    }
}

#[tokio::test]
async fn a_registration_is_on_record_before_it_is_answered_and_once() {
    let cluster = Cluster::start().await;
    let first = cluster.register(registration("n1", "s1")).await.unwrap();
    let (id, cell) = ("n1".into(), &cluster.agent.cell);
    assert_eq!(cell.index(), first);
    cell.read(|state| {
        assert_eq!(state.node(&id).unwrap().name, "machine of n1");
        assert_eq!(state.session(&id), Some(&"s1".into()));
        assert_eq!(state.boot_id(&id), Some("boot-1"));
        assert!(!state.node_secret_hash(&id).unwrap().contains("070707"), "only a hash is stored");
    });
    let again = cluster.register(registration("n1", "s1")).await;
    assert_eq!(again, Ok(first), "nothing is new");
    let restarted = cluster.register(registration("n1", "s2")).await;
    assert_eq!(restarted, Ok(first + 1));
    let rebooted = Registration { boot_id: "boot-2".to_owned(), ..registration("n1", "s3") };
    assert_eq!(cluster.register(rebooted).await, Ok(first + 3));
    assert_eq!(cell.read(|state| state.session(&id).cloned()), Some("s3".into()));
}

/// With the certificate of a node, its owner cannot be another one.
#[tokio::test]
async fn another_secret_changes_nothing() {
    let cluster = Cluster::start().await;
    let index = cluster.register(registration("n1", "s1")).await.unwrap();
    let other = Registration { secret: NodeSecret::new([8; 32]), ..registration("n1", "s2") };
    assert_eq!(cluster.register(other).await, Err(RegistrationRefused::WrongSecret));
    assert_eq!(cluster.agent.cell.index(), index);
}

#[tokio::test]
async fn what_an_operator_decided_about_a_node_stays() {
    // The drain goes on while the node has an allocation.
    let cluster = with_alloc().await;
    let read = || cluster.agent.cell.read(|state| state.node(&"n1".into()).cloned().unwrap());
    let decided = Node { is_eligible: false, is_draining: true, ..read() };
    cluster.agent.record_event(EventKind::NodeRegistered { node: decided }).await;
    let mut renamed = registration("n1", "s2");
    renamed.node.name = "renamed".to_owned();
    cluster.register(renamed).await.unwrap();
    let node = read();
    assert_eq!((&*node.name, node.is_eligible, node.is_draining), ("renamed", false, true));
}

/// The decision reaches the journal after the registration has read the node, and before it is committed.
#[tokio::test]
async fn what_an_operator_decides_beside_a_registration_stays() {
    let cluster = with_alloc().await;
    let (id, jobs) = ("n1".into(), &cluster.agent.services.jobs);
    let mut renamed = registration("n1", "s2");
    renamed.node.name = "renamed".to_owned();
    let drains = jobs.set_node(&id, |node| (node.is_eligible, node.is_draining) = (false, true));
    let (decided, registered) = tokio::join!(drains, cluster.register(renamed));
    assert!(registered.unwrap() > decided.unwrap());
    let node = cluster.agent.cell.read(|state| state.node(&id).cloned().unwrap());
    assert_eq!((&*node.name, node.is_eligible, node.is_draining), ("renamed", false, true));
}

#[tokio::test]
async fn a_node_that_knows_another_or_a_later_cluster_is_refused() {
    let cluster = Cluster::start().await;
    let own = cluster.position();
    let known = |known: ClusterPosition| {
        let known = Some(known);
        cluster.register(Registration { known, ..registration("n1", "s1") })
    };
    let other = ClusterPosition { cluster_id: "other".to_owned(), ..own.clone() };
    let refused = known(other).await.unwrap_err();
    assert!(matches!(refused, RegistrationRefused::OtherCluster { .. }), "{refused}");
    let Term { epoch, revision } = own.term;
    for later in [
        ClusterPosition { index: own.index + 1, ..own.clone() },
        ClusterPosition { term: Term { epoch, revision: revision + 1 }, ..own.clone() },
        ClusterPosition { term: Term { epoch: epoch + 1, revision: 0 }, index: 0, ..own.clone() },
    ] {
        let refused = known(later.clone()).await.unwrap_err();
        assert!(matches!(refused, RegistrationRefused::WentBack(_)), "{later:?}: {refused}");
    }
    assert_eq!(cluster.agent.cell.read(|state| state.node(&"n1".into()).cloned()), None);
    known(own).await.unwrap();
}

/// A restored server has passed the index that the node knows, and is refused all the same.
#[tokio::test]
async fn a_server_that_was_restored_is_refused_however_far_it_is_now() {
    let cluster = Cluster::start().await;
    cluster.register(registration("n2", "s1")).await.unwrap();
    let before = cluster.position();
    let leads = EventKind::LeaderStarted { origin: "restored".to_owned() };
    cluster.agent.record_event(leads).await;
    for number in 0..10 {
        cluster.register(registration("n2", &format!("s{number}"))).await.unwrap();
    }
    let register = |index: u64| {
        let known = Some(ClusterPosition { index, ..before.clone() });
        cluster.register(Registration { known, ..registration("n1", "s1") })
    };
    let refused = register(before.index + 1).await.unwrap_err();
    assert!(matches!(refused, RegistrationRefused::WentBack(_)), "{refused}");
    let other = Some(ClusterPosition { leader: "of another history".to_owned(), ..before.clone() });
    let refused = Registration { known: other, ..registration("n1", "s1") };
    let refused = cluster.register(refused).await.unwrap_err();
    assert!(matches!(refused, RegistrationRefused::WentBack(_)), "{refused}");
    register(before.index).await.unwrap();
}

#[tokio::test]
async fn while_another_server_may_lead_no_node_is_answered() {
    let cluster = Cluster::start().await;
    cluster.agent.lease.set_certain(false);
    assert_eq!(cluster.nodes.position(), Err(NotLeader { leader: None }));
    let refused = cluster.register(registration("n1", "s1")).await;
    assert!(matches!(refused, Err(RegistrationRefused::NotLeader(_))), "{refused:?}");
    assert_eq!(cluster.agent.cell.read(|state| state.node(&"n1".into()).cloned()), None);
    cluster.agent.lease.set_certain(true);
    cluster.register(registration("n1", "s1")).await.unwrap();
}

/// A journal that was moved from a file has the history that nodes know; one that was restored has another.
#[test]
fn a_move_to_etcd_keeps_the_history_and_a_restore_ends_it() {
    let mut state = State::default();
    for origin in ["first", "second"] {
        let leads = EventKind::LeaderStarted { origin: origin.to_owned() };
        apply(&mut state, &Event::new(1, leads));
    }
    let position = |epoch: u64, leader: &str, index: u64| ClusterPosition {
        cluster_id: "c".to_owned(),
        term: Term { epoch, revision: 7 },
        index,
        leader: leader.to_owned(),
    };
    let last = state.index();
    let check = |known: &ClusterPosition, own_epoch: u64| {
        let own = position(own_epoch, "second", last);
        check_position(known, &own, state.leader_starts()).is_ok()
    };
    for (known, own_epoch, expected) in [
        (position(0, "second", last), 1, true),
        (position(0, "first", last - 1), 1, true),
        (position(0, "first", last), 1, false),
        (position(0, "of an older copy", last), 1, false),
        (position(1, "first", last + 9), 2, true),
        (position(1, "of another history", 3), 2, true),
        (position(1, "of another history", 3), 1, false),
        (position(2, "second", 3), 1, false),
    ] {
        assert_eq!(check(&known, own_epoch), expected, "{known:?} {own_epoch}");
    }
}

/// The node of a process that had the journal before has no secret, and its ID can be read by everyone.
#[tokio::test]
async fn a_node_that_is_on_record_without_a_secret_is_taken_over_by_no_one() {
    let cluster = Cluster::start().await;
    let index = cluster.agent.cell.index();
    let refused = cluster.register(registration(FakeAgent::NODE, "s1")).await;
    assert_eq!(refused, Err(RegistrationRefused::WrongSecret));
    assert_eq!(cluster.agent.cell.index(), index);
}

/// Two nodes, and allocation `a1` of a job on the first one.
async fn with_alloc() -> Cluster {
    let cluster = Cluster::start().await;
    for id in ["n1", "n2"] {
        cluster.register(registration(id, "s1")).await.unwrap();
    }
    let key = job_key("web");
    cluster.agent.record_event(job_registered(&key)).await;
    cluster.agent.record_event(alloc_placed(&key, "a1", "n1")).await;
    cluster
}

fn instance(alloc: &str, agent: &FakeAgent) -> PluginInstance {
    let known = agent.cell.read(|state| {
        let record = state.plugin_record(&FakeAgent::PLUGIN.into()).cloned();
        record.unwrap().allocs.into_values().next().unwrap().instance
    });
    PluginInstance { alloc_id: alloc.into(), ..known }
}

#[tokio::test]
async fn a_node_has_its_own_allocations_only() {
    let cluster = with_alloc().await;
    let (own, other) = (cluster.nodes.of(&"n1".into()), cluster.nodes.of(&"n2".into()));
    let ids = |listed: AssignedAllocs| {
        // The job of the test is not sealed, so it cannot be opened.
        listed.unreadable.into_iter().map(|alloc| alloc.id).collect::<Vec<_>>()
    };
    let (alloc, alias): (AllocId, VolumeAlias) = ("a1".into(), "data".into());
    assert_eq!(ids(own.assigned(None).await.unwrap()), std::slice::from_ref(&alloc));
    assert_eq!(ids(other.assigned(None).await.unwrap()), []);
    let refused = other.mount(&alloc, &alias).await.unwrap_err();
    assert!(refused.is_final, "{refused}");
    let delay = other.wait_for_mount_delay(&alloc, &alias, None).await;
    assert!(matches!(delay, Err(ControlPlaneError::Failed(_))), "{delay:?}");
    let index = cluster.agent.cell.index();
    let report = AllocReport {
        status: ClientStatus::Failed,
        description: "not mine".to_owned(),
        tasks: Default::default(),
    };
    other.report(&alloc, report.clone()).await.unwrap();
    let lost = LostMount::Target { alloc: alloc.clone(), alias: alias.clone() };
    other.note_lost(&lost, "not mine").await.unwrap();
    other.note_cut_off(&alloc, &alias).await.unwrap();
    assert_eq!(cluster.agent.cell.index(), index, "nothing was recorded");
    own.report(&alloc, report).await.unwrap();
    assert!(cluster.agent.cell.index() > index);
}

#[tokio::test]
async fn a_node_reports_its_own_plugins_only() {
    let cluster = with_alloc().await;
    let plugin = PluginId::from("ebs");
    let (first, second): (NodeId, NodeId) = ("n1".into(), "n2".into());
    let (own, other) = (cluster.nodes.plugins_of(&first), cluster.nodes.plugins_of(&second));
    for alloc in ["a1", "unplaced"] {
        let instance = instance(alloc, &cluster.agent);
        own.changed(&plugin, &first, instance.clone()).await.unwrap();
        let index = cluster.agent.cell.index();
        assert!(other.changed(&plugin, &second, instance.clone()).await.is_err(), "{alloc}");
        assert!(other.changed(&plugin, &first, instance).await.is_err(), "{alloc}");
        assert!(other.gone(&plugin, &alloc.into()).await.is_err(), "{alloc}");
        assert_eq!(cluster.agent.cell.index(), index, "{alloc}");
        own.gone(&plugin, &alloc.into()).await.unwrap();
    }
}

/// An operator's word ends the instances that it is about, and a stronger word about the same node the others.
#[tokio::test]
async fn a_fence_ends_the_instances_that_its_statement_is_about() {
    use nomad_csi_model::FenceStatement::{CutOffStorage, PoweredOff};
    let cluster = Cluster::start().await;
    cluster.register(registration("n1", "s1")).await.unwrap();
    let (node, plugin) = (NodeId::new("n1"), PluginId::new("ebs"));
    for (alloc, has_controller) in [("both", true), ("node-only", false)] {
        let mut instance = instance(alloc, &cluster.agent);
        instance.controller = instance.controller.filter(|_| has_controller);
        let (plugin, node) = (plugin.clone(), node.clone());
        let observed =
            EventKind::PluginAllocObserved { plugin, node, instance: Box::new(instance) };
        cluster.agent.record_event(observed).await;
    }
    let claims = &cluster.agent.services.claims;
    let left = || {
        cluster.agent.cell.read(|state| {
            let record = state.plugin_record(&plugin);
            let allocs = record.into_iter().flat_map(|record| record.allocs.keys());
            allocs.map(ToString::to_string).collect::<Vec<_>>()
        })
    };
    let refused = claims.fence(&node, Some(PoweredOff)).await.unwrap_err();
    assert!(format!("{refused:?}").contains("NodeNotAway"), "{refused:?}");
    assert!(cluster.agent.cell.read(|state| state.node_loss(&node).is_none()));
    cluster.agent.record_event(EventKind::NodeDisconnected { node: node.clone() }).await;
    for (statement, expected) in [
        (CutOffStorage { controllers_stopped: false }, &["both", "node-only"][..]),
        (CutOffStorage { controllers_stopped: true }, &["node-only"]),
        (PoweredOff, &[]),
    ] {
        claims.fence(&node, Some(statement)).await.unwrap();
        assert_eq!(left(), expected, "{statement:?}");
        assert!(cluster.agent.cell.read(|state| state.node_loss(&node).is_some()));
    }
    let again = claims.fence(&node, Some(PoweredOff)).await.unwrap_err();
    assert!(format!("{again:?}").contains("is lost already"), "{again:?}");
}
