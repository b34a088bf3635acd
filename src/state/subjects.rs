//! The subjects of an event: every object that its check reads or that it changes.
//!
//! The writer decides several commits in one write on a copy of their subjects (`overlay`), so a
//! missing subject would let two commits pass that contradict each other. A property test compares
//! each event on its subjects with the same event on the whole state.

use super::event::{EventKind, Subject};
use super::tables::State;

/// Returns the subjects of an event in this state.
pub(super) fn subjects(state: &State, kind: &EventKind) -> Vec<Subject> {
    match kind {
        EventKind::AgentStarted { .. } => subjects_of_start(state),
        EventKind::NodeRegistered { node } => vec![Subject::Node(node.id.clone())],
        EventKind::PluginInstanceObserved { plugin, .. }
        | EventKind::PluginInstanceGone { plugin, .. }
        | EventKind::PluginAllocObserved { plugin, .. }
        | EventKind::PluginAllocGone { plugin, .. } => vec![Subject::Plugin(plugin.clone())],
        EventKind::Variable { key, .. } => vec![Subject::Variable(key.clone())],
        EventKind::VolumeCreateIntended { .. }
        | EventKind::VolumeCreated { .. }
        | EventKind::VolumeCreateAbandoned { .. }
        | EventKind::VolumeRegistered { .. }
        | EventKind::VolumeUpdated { .. }
        | EventKind::VolumeDeleteIntended { .. }
        | EventKind::VolumeDeleteAbandoned { .. }
        | EventKind::VolumeDeleted { .. }
        | EventKind::VolumeDeregistered { .. }
        | EventKind::VolumeExpandIntended { .. }
        | EventKind::VolumeExpanded { .. }
        | EventKind::VolumeExpandAbandoned { .. } => {
            Vec::from_iter(kind.volume().cloned().map(Subject::Volume))
        }
    }
}

/// A start makes every plugin unhealthy, and corrects the times of all locks.
fn subjects_of_start(state: &State) -> Vec<Subject> {
    let plugins = state.plugins.keys().cloned().map(Subject::Plugin);
    let locked = state.lock_ends.iter().map(|(_, key)| key.clone());
    plugins.chain(locked.map(Subject::Variable)).collect()
}
