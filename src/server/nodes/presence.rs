//! [`PresenceDriver`]: who is connected becomes the status of nodes.
//!
//! A node without a connection is *disconnected* after a grace time, and *down* after a longer one, when its services are placed
//! elsewhere. Its claims stay in both cases: silence does not prove that nothing writes there (W36), so only a fence gives them
//! back. If many nodes go at the same time, the network of the server is the likelier cause, and none of them is declared down.
//!
//! Level triggered: it compares the connections with the status on record, so a node that returns between a decision and its
//! commit is put right by the next look. All times are of a monotonic clock, and begin again with the process.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use std::sync::Arc;

use crate::cell::{Expected, Watch};
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{Event, EventKind, State, Table, Topic};
use nomad_csi_model::{HostSession, NodeId, NodeStatus};
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
    since: BTreeMap<NodeId, Instant>,
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
        Self { limits, started, since: BTreeMap::new() }
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
            let Some(since) = self.since.get(id) else {
                if node.status != NodeStatus::Ready {
                    decision.connected.push(id.clone());
                }
                continue;
            };
            match node.status {
                NodeStatus::Ready => match *since + self.limits.disconnected_after {
                    at if at <= now => decision.disconnected.push(id.clone()),
                    at => wake(at),
                },
                NodeStatus::Disconnected => match *since + self.limits.down_after {
                    at if at > now => wake(at),
                    _ if !node.is_lost && are_many(&going, *since, total) => {}
                    _ => decision.down.push(id.clone()),
                },
                NodeStatus::Down => {}
            }
        }
        decision
    }

    /// Notes who is away, and since when. At the start the nodes have not had the time to connect.
    fn note(&mut self, nodes: &BTreeMap<NodeId, Seen>, now: Instant) {
        let is_away = |id: &NodeId| nodes.get(id).is_some_and(|node| !node.is_connected);
        self.since.retain(|id, _| is_away(id));
        let since = now.max(self.started + self.limits.at_start);
        for id in nodes.keys().filter(|id| is_away(id)) {
            self.since.entry(id.clone()).or_insert(since);
        }
    }

    /// Since when the nodes are away that nothing else explains, in order.
    fn times(&self, nodes: &BTreeMap<NodeId, Seen>) -> Vec<Instant> {
        let is_lost = |id: &NodeId| nodes.get(id).is_none_or(|node| node.is_lost);
        let unexplained = self.since.iter().filter(|(id, _)| !is_lost(id));
        let mut times: Vec<_> = unexplained.map(|(_, since)| *since).collect();
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
            let seen = self.ports.cell.read(|state| seen(state, &connected));
            let decision = self.absences.decide(&seen, now);
            let is_recorded = self.record(&decision, &connected).await;
            let retry = (!is_recorded).then(|| now + FAILURE_PAUSE);
            let wake_at = decision.wake_at.into_iter().chain(retry).min();
            tokio::select! {
                () = stop.cancelled() => return,
                changed = changes.changed() => if changed.is_err() { return },
                changed = self.watch.changed() => if changed.is_err() { return },
                () = tokio::time::sleep_until(wake_at.unwrap_or(now)), if wake_at.is_some() => {}
            }
        }
    }

    /// Returns whether everything is on record that the state takes.
    async fn record(&self, decision: &Decision, connected: &BTreeMap<NodeId, HostSession>) -> bool {
        let Decision { connected: returned, disconnected, down, .. } = decision;
        let returned = returned.iter().filter_map(|node| {
            let secret_hash = |state: &State| state.node_secret_hash(node).map(str::to_owned);
            Some(EventKind::NodeConnected {
                node: node.clone(),
                session: connected.get(node)?.clone(),
                secret_hash: self.ports.cell.read(secret_hash),
            })
        });
        let gone = disconnected.iter().map(|node| {
            tracing::warn!(node.id = %node, "a node is not connected: its claims stay");
            EventKind::NodeDisconnected { node: node.clone() }
        });
        let down = down.iter().map(|node| {
            tracing::warn!(node.id = %node,
                "a node is down: its services are placed elsewhere, and its claims stay until it returns or is fenced");
            EventKind::NodeDown { node: node.clone() }
        });
        let mut is_recorded = true;
        for kind in returned.chain(gone).chain(down) {
            let event = Event::new(self.ports.clock.now(), kind);
            if let Err(error) = self.ports.cell.commit(Expected::Any, event).await {
                tracing::warn!(error = %error.detail(), "the status of a node could not be recorded");
                is_recorded = false;
            }
        }
        is_recorded
    }
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
