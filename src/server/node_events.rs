//! The newest events of the node in this process, for people (B76).
//!
//! They are kept in memory only, since the agent's start: what a volume depends on is in the journal, and its history
//! says what happened to it.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use nomad_csi_model::NodeId;
use nomad_csi_ports::{Clock, MountEvent, MountObserver};

/// Something that happened to the volumes of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// Its number since the agent's start, from 1.
    pub number: u64,
    /// The time in nanoseconds since the epoch.
    pub at: i64,
    /// The event.
    pub event: MountEvent,
}

/// The newest events of a node.
pub struct NodeEvents {
    node: NodeId,
    clock: Arc<dyn Clock>,
    newest: Mutex<VecDeque<NodeEvent>>,
}

impl NodeEvents {
    /// How many events are kept; Nomad keeps as many of a node.
    pub const KEPT: usize = 10;

    /// Creates the events of this node, of which there are none.
    pub fn new(node: NodeId, clock: Arc<dyn Clock>) -> Self {
        Self { node, clock, newest: Mutex::default() }
    }

    /// Returns the events of a node, the oldest first.
    pub fn of(&self, node: &NodeId) -> Vec<NodeEvent> {
        if *node != self.node {
            return vec![];
        }
        let newest = self.newest.lock();
        newest.iter().cloned().collect()
    }
}

impl MountObserver for NodeEvents {
    fn observed(&self, event: MountEvent) {
        let at = self.clock.now();
        let mut newest = self.newest.lock();
        let number = newest.back().map_or(0, |last| last.number) + 1;
        if newest.len() == Self::KEPT {
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
        let events = NodeEvents::new("n".into(), Arc::new(clock.clone()));
        for number in 0..25 {
            events.observed(MountEvent {
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
    }
}
