//! [`RunningTasks`]: what the tasks of the driver do, found by task, by volume and by node.
//!
//! A look at one volume costs as much as that volume has tasks, however many run for others.

use std::collections::{HashMap, HashSet};

use tokio::task::Id;

use nomad_csi_claims::claim::{Lane, Step};
use nomad_csi_model::{NodeId, RemoteVolume};

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// A step in its lane, or in none if it calls no plugin.
    Step(RemoteVolume, Option<Lane>, Step),
    /// The release of unused claims.
    Reap(RemoteVolume),
    /// The sweep of a node.
    Sweep(NodeId),
}

impl Running {
    /// Returns the volume of the task and the lane that it keeps busy there.
    fn place(&self) -> Option<(&RemoteVolume, Option<&Lane>)> {
        match self {
            Self::Step(volume, lane, _) => Some((volume, lane.as_ref())),
            Self::Reap(volume) => Some((volume, None)),
            Self::Sweep(_) => None,
        }
    }
}

/// The tasks that run.
#[derive(Debug, Default)]
pub(super) struct RunningTasks {
    tasks: HashMap<Id, Running>,
    busy: HashMap<RemoteVolume, HashSet<Option<Lane>>>,
    swept: HashSet<NodeId>,
}

impl RunningTasks {
    /// Adds a task. At most one runs in each lane of a volume, and at most one sweeps a node.
    pub(super) fn insert(&mut self, id: Id, running: Running) {
        if let Some((volume, lane)) = running.place() {
            let busy = self.busy.entry(volume.clone()).or_default();
            busy.insert(lane.cloned());
        }
        if let Running::Sweep(node) = &running {
            self.swept.insert(node.clone());
        }
        self.tasks.insert(id, running);
    }

    /// Removes a task that ended, and returns what it did.
    pub(super) fn remove(&mut self, id: &Id) -> Option<Running> {
        let running = self.tasks.remove(id)?;
        if let Some((volume, lane)) = running.place()
            && let Some(busy) = self.busy.get_mut(volume)
        {
            busy.remove(&lane.cloned());
            if busy.is_empty() {
                self.busy.remove(volume);
            }
        }
        if let Running::Sweep(node) = &running {
            self.swept.remove(node);
        }
        Some(running)
    }

    /// Returns the lanes of a volume in which something runs. `None` is what calls no plugin.
    pub(super) fn busy_lanes(&self, volume: &RemoteVolume) -> HashSet<Option<Lane>> {
        self.busy.get(volume).cloned().unwrap_or_default()
    }

    /// Whether a step that calls the node's plugin runs.
    pub(super) fn is_busy(&self, node: &NodeId) -> bool {
        let lane = Some(Lane::Node(node.clone()));
        self.busy.values().any(|lanes| lanes.contains(&lane))
    }

    /// Whether a sweep of the node runs.
    pub(super) fn is_swept(&self, node: &NodeId) -> bool {
        self.swept.contains(node)
    }
}
