//! The newest events of nodes, for people (B76).
//!
//! They are kept in memory only, since the server's start: what a volume depends on is in the journal, and its history
//! says what happened to it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use nomad_csi_model::NodeId;
use nomad_csi_ports::{Clock, MountEvent, MountObserver};

/// Something that happened to the volumes of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Its number since the server's start, from 1.
    pub number: u64,
    /// The time in nanoseconds since the epoch.
    pub at: i64,
    /// The event.
    pub event: MountEvent,
}

/// The newest events of all nodes.
pub struct NodeEvents {
    clock: Arc<dyn Clock>,
    newest: Mutex<BTreeMap<NodeId, VecDeque<NodeEvent>>>,
}

impl NodeEvents {
    /// How many events are kept of each node; Nomad keeps as many.
    pub const KEPT: usize = 10;

    /// Creates the events of nodes, of which there are none.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, newest: Mutex::default() }
    }

    /// Returns the receiver of the events of a node. The caller knows that the node is on record, which bounds their number.
    pub fn of_node(self: &Arc<Self>, node: NodeId) -> Arc<dyn MountObserver> {
        Arc::new(EventsOfNode { events: self.clone(), node })
    }

    /// Returns the events of a node, the oldest first.
    pub fn of(&self, node: &NodeId) -> Vec<NodeEvent> {
        let newest = self.newest.lock();
        newest.get(node).into_iter().flatten().cloned().collect()
    }
}

struct EventsOfNode {
    events: Arc<NodeEvents>,
    node: NodeId,
}

impl MountObserver for EventsOfNode {
    fn observed(&self, event: MountEvent) {
        let at = self.events.clock.now();
        let mut newest = self.events.newest.lock();
        let newest = newest.entry(self.node.clone()).or_default();
        let number = newest.back().map_or(0, |last| last.number) + 1;
        if newest.len() == NodeEvents::KEPT {
            newest.pop_front();
        }
        newest.push_back(NodeEvent { number, at, event });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{NamespacedId, VolumeId};
    use nomad_csi_ports::MountAction;
    use nomad_csi_testing::FakeClock;

    #[test]
    fn the_newest_events_are_kept_in_order() {
        let clock = FakeClock::default();
        let events = Arc::new(NodeEvents::new(Arc::new(clock.clone())));
        let (own, other) = (events.of_node("n".into()), events.of_node("other".into()));
        for number in 0..25 {
            own.observed(MountEvent {
                volume: NamespacedId::new("default".into(), VolumeId::new(format!("v{number}"))),
                alloc: None,
                action: MountAction::Mount,
                error: None,
            });
        }
        let kept = events.of(&"n".into());
        let numbers: Vec<_> = kept.iter().map(|event| event.number).collect();
        assert_eq!(numbers, (16..=25).collect::<Vec<_>>());
        assert_eq!(kept[9].event.volume.id.as_str(), "v24");
        assert_eq!(events.of(&"other".into()), []);
        other.observed(kept[0].event.clone());
        assert_eq!(events.of(&"other".into())[0].number, 1);
        assert_eq!(events.of(&"n".into()), kept);
    }
}
