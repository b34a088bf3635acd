//! Who is away, for how long, and with how many others.

use parking_lot::Mutex;
use tokio::sync::watch;

use super::*;
use crate::fake::FakeAgent;
use nomad_csi_claims::state::samples::{started, state_of};
use nomad_csi_model::Node;
use nomad_csi_testing::PluginSettings;

const LIMITS: PresenceLimits = PresenceLimits::new(Duration::from_secs(60));

/// Nodes with a history of connections, seen at chosen times.
struct Nodes {
    start: Instant,
    absences: Absences,
    seen: BTreeMap<NodeId, Seen>,
}

impl Nodes {
    /// These nodes are ready and connected, long after the start.
    fn connected(count: usize) -> Self {
        let start = Instant::now();
        let seen = (1..=count).map(|number| {
            let ready = Seen { status: NodeStatus::Ready, is_lost: false, is_connected: true };
            (NodeId::new(format!("n{number}")), ready)
        });
        Self { start, absences: Absences::new(LIMITS, start), seen: seen.collect() }
    }

    fn node(&mut self, id: &str) -> &mut Seen {
        self.seen.get_mut(&NodeId::new(id)).unwrap()
    }

    /// Decides after so many seconds, and records what was decided.
    fn at(&mut self, seconds: u64) -> Decision {
        let now = self.start + Duration::from_secs(seconds);
        let decision = self.absences.decide(&self.seen, now);
        for (nodes, status) in [
            (&decision.connected, NodeStatus::Ready),
            (&decision.disconnected, NodeStatus::Disconnected),
            (&decision.down, NodeStatus::Down),
        ] {
            for id in nodes {
                self.node(id.as_str()).status = status;
            }
        }
        decision
    }

    fn wake_after(&self, decision: &Decision) -> Option<u64> {
        decision.wake_at.map(|at| at.duration_since(self.start).as_secs())
    }
}

fn ids(names: &[&str]) -> Vec<NodeId> {
    names.iter().map(|name| NodeId::new(*name)).collect()
}

#[test]
fn a_node_is_disconnected_then_down_and_ready_when_it_returns() {
    let mut nodes = Nodes::connected(4);
    assert_eq!(nodes.at(100), Decision::default());
    nodes.node("n2").is_connected = false;
    let waits = nodes.at(100);
    assert_eq!((&waits.disconnected, nodes.wake_after(&waits)), (&vec![], Some(105)));
    assert_eq!(nodes.at(104).disconnected, ids(&[]));
    assert_eq!(nodes.at(105).disconnected, ids(&["n2"]));
    let waits = nodes.at(106);
    assert_eq!((&waits.down, nodes.wake_after(&waits)), (&vec![], Some(160)));
    assert_eq!(nodes.at(160).down, ids(&["n2"]));
    assert_eq!(nodes.at(161), Decision::default(), "it is said once");
    nodes.node("n2").is_connected = true;
    assert_eq!(nodes.at(162).connected, ids(&["n2"]));
    assert_eq!(nodes.at(163), Decision::default());
}

#[test]
fn a_connection_that_is_renewed_writes_nothing_and_time_begins_again() {
    let mut nodes = Nodes::connected(4);
    for start in [100, 104, 108] {
        nodes.node("n1").is_connected = false;
        assert_eq!(nodes.at(start).disconnected, ids(&[]), "{start}");
        nodes.node("n1").is_connected = true;
        assert_eq!(nodes.at(start + 2), Decision::default(), "{start}");
    }
}

/// More than a third of the nodes at the same time is rather the network of the server.
#[test]
fn many_nodes_that_go_together_are_not_declared_down() {
    for (total, gone, expected) in [
        (1, &["n1"][..], &["n1"][..]),
        (2, &["n1"], &["n1"]),
        (2, &["n1", "n2"], &[]),
        (3, &["n1", "n2"], &[]),
        (6, &["n1", "n2"], &["n1", "n2"]),
        (6, &["n1", "n2", "n3"], &[]),
    ] {
        let mut nodes = Nodes::connected(total);
        for id in gone {
            nodes.node(id).is_connected = false;
        }
        nodes.at(100);
        assert_eq!(nodes.at(105).disconnected, ids(gone), "{total} {gone:?}");
        assert_eq!(nodes.at(1000).down, ids(expected), "{total} {gone:?}");
    }
}

#[test]
fn nodes_that_go_one_after_the_other_are_no_mass_and_lost_ones_do_not_count() {
    let mut nodes = Nodes::connected(3);
    nodes.node("n1").is_connected = false;
    nodes.at(100);
    nodes.node("n2").is_connected = false;
    nodes.at(131);
    assert_eq!(nodes.at(160).down, ids(&["n1"]));
    assert_eq!(nodes.at(191).down, ids(&["n2"]));

    let mut nodes = Nodes::connected(3);
    nodes.node("n1").is_connected = false;
    nodes.node("n2").is_connected = false;
    nodes.at(100);
    nodes.at(105);
    assert_eq!(nodes.at(170).down, ids(&[]));
    nodes.node("n1").is_lost = true;
    assert_eq!(nodes.at(171).down, ids(&["n1"]), "the fence explains one of them");
    assert_eq!(nodes.at(186).down, ids(&["n2"]));
}

/// A mass ends when enough of it is back.
#[test]
fn the_rest_of_a_mass_is_down_when_the_others_are_back() {
    let mut nodes = Nodes::connected(3);
    nodes.node("n1").is_connected = false;
    nodes.node("n2").is_connected = false;
    nodes.at(100);
    nodes.at(105);
    assert_eq!(nodes.at(200).down, ids(&[]));
    nodes.node("n2").is_connected = true;
    let back = nodes.at(201);
    assert_eq!((&back.connected, &back.down), (&ids(&["n2"]), &ids(&[])), "n1 dials again, too");
    assert_eq!(nodes.wake_after(&back), Some(216));
    assert_eq!(nodes.at(215).down, ids(&[]));
    assert_eq!(nodes.at(216).down, ids(&["n1"]));
}

/// Nodes that are down already are no part of what goes now.
#[test]
fn nodes_that_are_down_do_not_hide_another_failure() {
    let mut nodes = Nodes::connected(4);
    for id in ["n1", "n2"] {
        nodes.node(id).is_connected = false;
        nodes.node(id).status = NodeStatus::Down;
    }
    nodes.node("n3").is_connected = false;
    nodes.at(100);
    assert_eq!(nodes.at(105).disconnected, ids(&["n3"]));
    assert_eq!(nodes.at(160).down, ids(&["n3"]));
}

/// A registration is on record before the connection exists on which the node is called.
#[test]
fn a_node_that_has_just_registered_is_not_away_since_it_went() {
    let mut nodes = Nodes::connected(4);
    nodes.node("n1").is_connected = false;
    nodes.at(100);
    nodes.at(105);
    nodes.at(160);
    nodes.node("n1").status = NodeStatus::Ready;
    let waits = nodes.at(300);
    assert_eq!((&waits.disconnected, nodes.wake_after(&waits)), (&vec![], Some(305)));
    nodes.node("n1").is_connected = true;
    assert_eq!(nodes.at(301), Decision::default());
}

/// After its start a server knows nothing of the nodes: those that it finds away have had no time to connect.
#[test]
fn at_the_start_nodes_have_time_to_connect() {
    let mut nodes = Nodes::connected(4);
    nodes.node("n1").is_connected = false;
    let waits = nodes.at(0);
    assert_eq!(nodes.wake_after(&waits), Some(20));
    assert_eq!(nodes.at(19).disconnected, ids(&[]));
    assert_eq!(nodes.at(20).disconnected, ids(&["n1"]));
}

/// A process that is not the one on record has not finished its registration.
#[test]
fn another_process_than_that_on_record_is_not_connected() {
    let id = NodeId::new("n1");
    let connected =
        EventKind::NodeConnected { node: id.clone(), session: "s1".into(), secret_hash: None };
    let registered = EventKind::NodeRegistered { node: Node::new(id.clone(), "machine", "dc1") };
    let state = state_of([started(), registered, connected]);
    for (session, expected) in [(Some("s1"), true), (Some("s2"), false), (None, false)] {
        let open = session.map(|session| (id.clone(), HostSession::new(session)));
        let seen = seen(&state, &open.into_iter().collect());
        assert_eq!(seen[&id].is_connected, expected, "{session:?}");
    }
}

/// Connections that a test opens and closes.
struct Connections {
    open: Mutex<BTreeMap<NodeId, HostSession>>,
    changes: watch::Sender<u64>,
}

impl Connections {
    fn set(&self, node: &str, session: Option<&str>) {
        let mut open = self.open.lock();
        match session {
            Some(session) => drop(open.insert(NodeId::new(node), HostSession::new(session))),
            None => drop(open.remove(&NodeId::new(node))),
        }
        drop(open);
        self.changes.send_modify(|count| *count += 1);
    }
}

impl NodePresence for Connections {
    fn connected(&self) -> BTreeMap<NodeId, HostSession> {
        self.open.lock().clone()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

/// Each change of a connection reaches the record, with the plugins of the node.
#[tokio::test(start_paused = true)]
async fn connections_become_statuses_on_record() {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    let (node, plugin) = (NodeId::new(FakeAgent::NODE), FakeAgent::PLUGIN.into());
    let open = Mutex::new([(node.clone(), HostSession::new(FakeAgent::SESSION))].into());
    let connections = Arc::new(Connections { open, changes: watch::Sender::default() });
    agent.services.record_presence(connections.clone(), LIMITS);
    let status = |state: &State| state.node(&node).unwrap().status;
    let healthy = |state: &State| {
        let plugin = nomad_csi_claims::state::plugin_status(state, &plugin).unwrap();
        plugin.nodes.healthy
    };
    let until = async |expected: NodeStatus| {
        let topics = |_: &State| vec![Topic::all(Table::Nodes)];
        let reached = agent.cell.wait_until(topics, |state| status(state) == expected);
        reached.await.unwrap();
    };
    assert_eq!(agent.cell.read(healthy), 1);
    connections.set(FakeAgent::NODE, None);
    until(NodeStatus::Disconnected).await;
    assert_eq!(agent.cell.read(healthy), 0, "a plugin that cannot be called is not healthy");
    until(NodeStatus::Down).await;
    connections.set(FakeAgent::NODE, Some("another run"));
    connections.set(FakeAgent::NODE, Some(FakeAgent::SESSION));
    until(NodeStatus::Ready).await;
    assert_eq!(agent.cell.read(healthy), 1, "the same process has the same plugins");
}
