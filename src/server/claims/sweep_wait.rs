//! The reason why the sweep of a node waits, as the last attempt has found it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use nomad_csi_model::{AllocId, NodeId, PluginId, RemoteVolume, one_line};

/// The reason why the sweep of a node waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SweepWait {
    /// These allocations have not reported their end.
    Allocs(Vec<AllocId>),
    /// Calls that were sent to the node before it was lost have not ended.
    Calls,
    /// The plugin has no healthy instance on the node.
    Plugin(PluginId),
    /// The volume is being undone.
    Volume(RemoteVolume),
    /// A volume could not be undone.
    Failure {
        /// The volume.
        volume: RemoteVolume,
        /// The error.
        error: String,
    },
    /// The node could not be examined.
    Node(String),
}

impl fmt::Display for SweepWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allocs(allocs) => {
                let names: Vec<_> = allocs.iter().map(|alloc| format!("`{alloc}`")).collect();
                let noun = match names.len() {
                    1 => "allocation",
                    _ => "allocations",
                };
                write!(f, "waits for the end of {noun} {}", names.join(", "))
            }
            Self::Calls => write!(f, "waits for calls that were sent before the node was lost"),
            Self::Plugin(plugin) => {
                write!(
                    f,
                    "waits for plugin `{plugin}`, which has no healthy instance there: start it, or restart the agent of the node if \
                     it runs"
                )
            }
            Self::Volume(volume) => {
                let RemoteVolume { plugin_id, external_id } = volume;
                write!(f, "undoes external volume `{external_id}` of plugin `{plugin_id}`")
            }
            Self::Failure { volume, error } => write!(
                f,
                "cannot undo external volume `{}` of plugin `{}`: {}",
                volume.external_id,
                volume.plugin_id,
                one_line(error)
            ),
            Self::Node(error) => write!(f, "cannot examine the node: {}", one_line(error)),
        }
    }
}

/// The reasons why the sweeps of nodes wait. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct SweepWaits(Arc<Mutex<BTreeMap<NodeId, SweepWait>>>);

impl SweepWaits {
    /// Notes what a sweep waits for; `None` if it has ended.
    pub(super) fn note(&self, node: &NodeId, wait: Option<SweepWait>) {
        let mut waits = self.0.lock();
        if waits.get(node) == wait.as_ref() {
            return;
        }
        match wait {
            Some(wait) => {
                tracing::info!(node.id = %node, "the sweep of a node {wait}");
                waits.insert(node.clone(), wait);
            }
            None => drop(waits.remove(node)),
        }
    }

    /// Notes that a volume is being undone, unless the last attempt has found what prevents that: it is still true.
    pub(super) fn note_attempt(&self, node: &NodeId, volume: &RemoteVolume) {
        let waits_for_volume = |wait: &SweepWait| match wait {
            SweepWait::Volume(_) | SweepWait::Failure { .. } | SweepWait::Plugin(_) => true,
            SweepWait::Allocs(_) | SweepWait::Calls | SweepWait::Node(_) => false,
        };
        if !self.of(node).as_ref().is_some_and(waits_for_volume) {
            self.note(node, Some(SweepWait::Volume(volume.clone())));
        }
    }

    /// Returns what the sweep of a node waits for.
    pub(super) fn of(&self, node: &NodeId) -> Option<SweepWait> {
        let waits = self.0.lock();
        waits.get(node).cloned()
    }
}
