//! [`RunningTasks`]: what the tasks of the driver do, found by task, by volume and by node.
//!
//! A look at one volume costs as much as that volume has tasks, however many run for others.

use std::collections::{HashMap, HashSet};

use tokio::task::Id;

use nomad_csi_claims::claim::{CallLock, Step};
use nomad_csi_model::{NodeId, RemoteVolume};

/// The work of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Running {
    /// A step under its call lock, or under none if it calls no plugin.
    Step(RemoteVolume, Option<CallLock>, Step),
    /// The release of unused claims.
    Reap(RemoteVolume),
    /// The sweep of a node.
    Sweep(NodeId),
}

impl Running {
    /// Returns the volume of the task and the call lock that it keeps busy there.
    fn held_lock(&self) -> Option<(&RemoteVolume, Option<&CallLock>)> {
        match self {
            Self::Step(volume, call_lock, _) => Some((volume, call_lock.as_ref())),
            Self::Reap(volume) => Some((volume, None)),
            Self::Sweep(_) => None,
        }
    }
}

/// The tasks that run.
#[derive(Debug, Default)]
pub(super) struct RunningTasks {
    tasks: HashMap<Id, Running>,
    busy: HashMap<RemoteVolume, HashSet<Option<CallLock>>>,
    swept: HashSet<NodeId>,
}

impl RunningTasks {
    /// Adds a task. At most one runs under each call lock of a volume, and at most one sweeps a node.
    pub(super) fn insert(&mut self, id: Id, running: Running) {
        if let Some((volume, call_lock)) = running.held_lock() {
            let busy = self.busy.entry(volume.clone()).or_default();
            busy.insert(call_lock.cloned());
        }
        if let Running::Sweep(node) = &running {
            self.swept.insert(node.clone());
        }
        self.tasks.insert(id, running);
    }

    /// Removes a task that ended, and returns what it did.
    pub(super) fn remove(&mut self, id: &Id) -> Option<Running> {
        let running = self.tasks.remove(id)?;
        if let Some((volume, call_lock)) = running.held_lock()
            && let Some(busy) = self.busy.get_mut(volume)
        {
            busy.remove(&call_lock.cloned());
            if busy.is_empty() {
                self.busy.remove(volume);
            }
        }
        if let Running::Sweep(node) = &running {
            self.swept.remove(node);
        }
        Some(running)
    }

    /// Returns the call locks of a volume under which something runs. `None` is what calls no plugin.
    pub(super) fn busy_locks(&self, volume: &RemoteVolume) -> HashSet<Option<CallLock>> {
        self.busy.get(volume).cloned().unwrap_or_default()
    }

    /// Returns whether a step that calls the node's plugin runs.
    pub(super) fn is_busy(&self, node: &NodeId) -> bool {
        let call_lock = Some(CallLock::Node(node.clone()));
        self.busy.values().any(|call_locks| call_locks.contains(&call_lock))
    }

    /// Returns whether a sweep of the node runs.
    pub(super) fn is_swept(&self, node: &NodeId) -> bool {
        self.swept.contains(node)
    }
}
