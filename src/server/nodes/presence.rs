//! [`PresenceDriver`]: who is connected becomes the status of nodes.
//!
//! A node without a connection is *disconnected* after a grace time, and *down* after a longer one, when its services are placed
//! elsewhere. Its claims stay in both cases: silence does not prove that nothing writes there (W36), so only a fence gives them
//! back. If many nodes go at the same time, the network of the server is the likelier cause, and none of them is declared down.
//!
//! Level triggered: it compares the connections with the status on record, so a node that returns between a decision and its
//! commit is put right by the next look. All times are of a monotonic clock, and begin again with the process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::cell::{CommitError, Expected, Watch};
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{Event, EventKind, State, Table, Topic};
use nomad_csi_model::{HostSession, Node, NodeId, NodeStatus};
use nomad_csi_ports::NodePresence;

/// Nodes that go within this time go at the same time.
const SAME_TIME: Duration = Duration::from_secs(30);
/// The fewest nodes that are many.
const MANY: usize = 2;
/// The pause after the journal refused an event.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// How long a node can be away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PresenceLimits {
    /// After this time without a connection a node is disconnected: one that connects again writes nothing.
    pub disconnected_after: Duration,
    /// After this time without a connection a node is down.
    pub down_after: Duration,
    /// What nodes have in addition when the server starts, because they connect again with pauses.
    pub at_start: Duration,
}

impl PresenceLimits {
    /// The limit of `down_after` unless another one is configured.
    pub const DOWN_AFTER: Duration = Duration::from_secs(60);

    /// The limits with this time until a node is down.
    pub const fn new(down_after: Duration) -> Self {
        Self {
            disconnected_after: Duration::from_secs(5),
            down_after,
            at_start: Duration::from_secs(15),
        }
    }
}

/// Records which nodes are connected.
pub(crate) struct PresenceDriver {
    ports: ServerPorts,
    presence: Arc<dyn NodePresence>,
    watch: Watch,
    absences: Absences,
}

/// The nodes that are away, and since when.
#[derive(Debug)]
struct Absences {
    limits: PresenceLimits,
    started: Instant,
    away: BTreeMap<NodeId, Absence>,
}

/// How a node is away.
#[derive(Clone, Copy, Debug)]
struct Absence {
    since: Instant,
    /// Its status on record at the last look.
    status: NodeStatus,
    /// True if it went with many others, at the last look.
    is_one_of_many: bool,
    /// It is not down before this time.
    not_down_before: Instant,
}

/// What has to be recorded, and when to look again without a change.
#[derive(Debug, Default, PartialEq)]
struct Decision {
    connected: Vec<NodeId>,
    disconnected: Vec<NodeId>,
    down: Vec<NodeId>,
    wake_at: Option<Instant>,
}

/// A node as far as its presence is concerned.
struct Seen {
    status: NodeStatus,
    is_lost: bool,
    is_connected: bool,
}

impl Absences {
    fn new(limits: PresenceLimits, started: Instant) -> Self {
        Self { limits, started, away: BTreeMap::new() }
    }

    fn decide(&mut self, nodes: &BTreeMap<NodeId, Seen>, now: Instant) -> Decision {
        self.note(nodes, now);
        let mut decision = Decision::default();
        let mut wake = |at: Instant| {
            decision.wake_at = Some(decision.wake_at.map_or(at, |known| known.min(at)));
        };
        let going = self.times(nodes);
        let total = nodes.values().filter(|node| !node.is_lost).count();
        for (id, node) in nodes {
            let Some(absence) = self.away.get_mut(id) else {
                if node.status != NodeStatus::Ready {
                    decision.connected.push(id.clone());
                }
                continue;
            };
            let is_one_of_many = !node.is_lost && are_many(&going, absence.since, total);
            if absence.is_one_of_many && !is_one_of_many && !node.is_lost {
                // The others are coming back, and this one dials again with the same pauses.
                absence.not_down_before = now + self.limits.at_start;
            }
            absence.is_one_of_many = is_one_of_many;
            let down_at = (absence.since + self.limits.down_after).max(absence.not_down_before);
            match node.status {
                NodeStatus::Ready => match absence.since + self.limits.disconnected_after {
                    at if at <= now => decision.disconnected.push(id.clone()),
                    at => wake(at),
                },
                NodeStatus::Disconnected => match down_at {
                    at if at > now => wake(at),
                    _ if is_one_of_many => {}
                    _ => decision.down.push(id.clone()),
                },
                NodeStatus::Down => {}
            }
        }
        decision
    }

    /// Notes who is away, and since when. At the start the nodes have not had the time to connect, and one whose process has
    /// just registered has not opened the connection on which it is called.
    fn note(&mut self, nodes: &BTreeMap<NodeId, Seen>, now: Instant) {
        let is_away = |id: &NodeId| nodes.get(id).is_some_and(|node| !node.is_connected);
        self.away.retain(|id, _| is_away(id));
        let since = now.max(self.started + self.limits.at_start);
        for (id, node) in nodes.iter().filter(|(id, _)| is_away(id)) {
            let status = node.status;
            let new = Absence { since, status, is_one_of_many: false, not_down_before: since };
            let absence = self.away.entry(id.clone()).or_insert(new);
            if status == NodeStatus::Ready && absence.status != NodeStatus::Ready {
                *absence = new;
            }
            absence.status = status;
        }
    }

    /// Since when the nodes are away that are neither lost nor down already, in order.
    fn times(&self, nodes: &BTreeMap<NodeId, Seen>) -> Vec<Instant> {
        let is_going = |id: &NodeId| {
            let node = nodes.get(id);
            node.is_some_and(|node| !node.is_lost && node.status != NodeStatus::Down)
        };
        let going = self.away.iter().filter(|(id, _)| is_going(id));
        let mut times: Vec<_> = going.map(|(_, absence)| absence.since).collect();
        times.sort_unstable();
        times
    }
}

/// Returns whether more than a third of the nodes went at the time at which this one did.
fn are_many(going: &[Instant], since: Instant, total: usize) -> bool {
    let first = going.partition_point(|at| *at + SAME_TIME < since);
    let after = going.partition_point(|at| *at <= since + SAME_TIME);
    let together = after.saturating_sub(first);
    together >= MANY && together.saturating_mul(3) > total
}

impl PresenceDriver {
    pub(crate) fn new(
        ports: ServerPorts,
        presence: Arc<dyn NodePresence>,
        limits: PresenceLimits,
    ) -> Self {
        let watch = ports.cell.watch(vec![Topic::all(Table::Nodes)]);
        Self { ports, presence, watch, absences: Absences::new(limits, Instant::now()) }
    }

    /// Records who is connected until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut changes = self.presence.changes();
        loop {
            changes.borrow_and_update();
            let now = Instant::now();
            let connected = self.presence.connected();
            let absences = &mut self.absences;
            let (wake_at, decided) = self.ports.cell.read(|state| {
                let decision = absences.decide(&seen(state, &connected), now);
                (decision.wake_at, events_of(state, &decision, &connected))
            });
            let is_recorded = self.record(decided).await;
            let retry = (!is_recorded).then(|| now + FAILURE_PAUSE);
            let wake_at = wake_at.into_iter().chain(retry).min();
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                changed = self.watch.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(wake_at.unwrap_or(now)), if wake_at.is_some() => {}
            }
        }
    }

    /// Returns whether the journal has taken everything that is still so. A node that another process registered in the
    /// meantime is not as it was read: the next look decides about it.
    async fn record(&self, changes: Vec<(Node, EventKind)>) -> bool {
        let mut is_recorded = true;
        for (node, kind) in changes {
            let (id, is_back) = (node.id.clone(), matches!(kind, EventKind::NodeConnected { .. }));
            let change = kind.name();
            let event = Event::new(self.ports.clock.now(), kind);
            match self.ports.cell.commit(Expected::NodeIs(Box::new(node)), event).await {
                Ok(_) if is_back => tracing::info!(node.id = %id, "{change}"),
                Ok(_) => tracing::warn!(node.id = %id, "{change}: its claims stay"),
                Err(CommitError::NodeConflict { .. } | CommitError::InvalidEvent(_)) => {}
                Err(error) => {
                    tracing::warn!(node.id = %id, error = %error.detail(),
                        "the status of a node could not be recorded");
                    is_recorded = false;
                }
            }
        }
        is_recorded
    }
}

/// The events of a decision, each with the node as it was read.
fn events_of(
    state: &State,
    decision: &Decision,
    connected: &BTreeMap<NodeId, HostSession>,
) -> Vec<(Node, EventKind)> {
    let returned = decision.connected.iter().filter_map(|node| {
        let event = EventKind::NodeConnected {
            node: node.clone(),
            session: connected.get(node)?.clone(),
            secret_hash: state.node_secret_hash(node).map(str::to_owned),
        };
        Some((node, event))
    });
    let gone = decision.disconnected.iter();
    let gone = gone.map(|node| (node, EventKind::NodeDisconnected { node: node.clone() }));
    let down = decision.down.iter();
    let down = down.map(|node| (node, EventKind::NodeDown { node: node.clone() }));
    let all = returned.chain(gone).chain(down);
    all.filter_map(|(id, event)| Some((state.node(id)?.clone(), event))).collect()
}

/// A node whose process is another one than that on record has not finished its registration.
fn seen(state: &State, connected: &BTreeMap<NodeId, HostSession>) -> BTreeMap<NodeId, Seen> {
    let seen = state.nodes().map(|node| {
        let session = connected.get(&node.id);
        let one = Seen {
            status: node.status,
            is_lost: state.node_loss(&node.id).is_some(),
            is_connected: session.is_some() && session == state.session(&node.id),
        };
        (node.id.clone(), one)
    });
    seen.collect()
}

#[cfg(test)]
mod tests;
