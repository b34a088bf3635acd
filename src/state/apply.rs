//! From one state to the next.
//!
//! [`check`] says whether an event fits a state; [`apply`] makes the next state of it. `apply` is
//! total: an event that does not fit only takes its index. The cell checks before it commits, and
//! replay checks again, so such an event is never in a journal that this program wrote.

use std::sync::Arc;

use super::event::{Event, EventKind};
use super::record::{Phase, PluginRecord, Provided, VolumeDefinition, VolumeRecord};
use super::tables::State;
use super::variable;
use crate::model::{NamespacedId, NodeId, PluginId, PluginInstance, SealedSecrets, VariableKey};

/// What the agent's start says of every plugin instance.
const NOT_PROBED: &str = "not probed since the agent started";

/// An event does not fit the state: another one came first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It is about a volume that is in another phase.
    #[error("`{event}` does not fit volume {volume}, which {}", found(.phase.as_ref()))]
    Volume {
        /// The event's name.
        event: &'static str,
        /// The volume that it is about.
        volume: NamespacedId,
        /// Where the volume is in its life; `None` if there is none.
        phase: Option<Phase>,
    },
    /// It is about a variable that is not there, or that somebody else holds, or nobody.
    #[error("`{event}` does not fit variable {variable}")]
    Variable {
        /// The event's name.
        event: &'static str,
        /// The variable that it is about.
        variable: VariableKey,
    },
}

fn found(phase: Option<&Phase>) -> String {
    match phase {
        None => "does not exist".to_owned(),
        Some(phase) => format!("is {phase}"),
    }
}

/// Whether the event fits the state.
///
/// # Errors
/// If it is about a volume that is not in a phase in which this can happen, or about a variable that
/// is not held as it says.
pub fn check(state: &State, event: &Event) -> Result<(), Misfit> {
    if let EventKind::Variable { key, event } = &event.kind {
        let record = state.variables.get(key).map(Arc::as_ref);
        if event.fits(record) {
            return Ok(());
        }
        return Err(Misfit::Variable {
            event: event.name(),
            variable: key.clone(),
        });
    }
    let Some(key) = event.kind.volume() else {
        return Ok(());
    };
    let record = state.volumes.get(key);
    let phase = record.map(|record| record.phase);
    let expanding = record.is_some_and(|record| record.expanding.is_some());
    if fits(&event.kind, phase, expanding) {
        return Ok(());
    }
    Err(Misfit::Volume {
        event: event.kind.name(),
        volume: key.clone(),
        phase,
    })
}

fn fits(kind: &EventKind, phase: Option<Phase>, expanding: bool) -> bool {
    use Phase::{Creating, Deleting, Registered};
    match kind {
        EventKind::AgentStarted { .. }
        | EventKind::NodeRegistered { .. }
        | EventKind::PluginInstanceObserved { .. }
        | EventKind::PluginInstanceGone { .. }
        | EventKind::Variable { .. } => true,
        EventKind::VolumeCreateIntended { .. } => matches!(phase, None | Some(Creating)),
        EventKind::VolumeCreated { .. } | EventKind::VolumeCreateAbandoned { .. } => {
            phase == Some(Creating)
        }
        EventKind::VolumeRegistered { .. } => phase.is_none(),
        EventKind::VolumeUpdated { .. } | EventKind::VolumeExpandIntended { .. } => {
            phase == Some(Registered)
        }
        EventKind::VolumeExpanded { .. } | EventKind::VolumeExpandAbandoned { .. } => {
            phase == Some(Registered) && expanding
        }
        EventKind::VolumeDeleteIntended { .. } | EventKind::VolumeDeregistered { .. } => {
            matches!(phase, Some(Registered | Deleting))
        }
        EventKind::VolumeDeleteAbandoned { .. } | EventKind::VolumeDeleted { .. } => {
            phase == Some(Deleting)
        }
    }
}

/// The next state. The index grows by one, whatever the event.
pub fn apply(state: &mut State, event: &Event) {
    state.index += 1;
    if check(state, event).is_err() {
        return;
    }
    let at = Moment {
        index: state.index,
        time: event.at,
    };
    if event.kind.volume().is_some() {
        state.volumes_index = at.index;
    }
    match &event.kind {
        EventKind::AgentStarted { origin } => agent_started(state, origin, at),
        EventKind::NodeRegistered { node } => {
            state.nodes.insert(node.id.clone(), node.clone());
        }
        EventKind::PluginInstanceObserved {
            plugin,
            node,
            instance,
        } => instance_observed(state, plugin, node, instance, at),
        EventKind::PluginInstanceGone { plugin, node } => instance_gone(state, plugin, node, at),
        EventKind::Variable { key, event } => variable::apply(state, key, event, at.time),
        EventKind::VolumeCreateIntended {
            definition,
            secrets,
        } => create_intended(state, definition, secrets, at),
        EventKind::VolumeRegistered {
            definition,
            provided,
            secrets,
        } => {
            let record = begun(definition, secrets, Phase::Registered, at);
            let provided = Provided::clone(provided);
            state.put(Arc::new(VolumeRecord { provided, ..record }));
        }
        EventKind::VolumeCreated { key, provided } => change(state, key, at, |record| {
            record.provided = Provided::clone(provided);
            record.phase = Phase::Registered;
        }),
        EventKind::VolumeUpdated {
            definition,
            provided,
            secrets,
        } => change(state, &definition.key, at, |record| {
            record.definition = VolumeDefinition::clone(definition);
            record.provided = Provided::clone(provided);
            record.secrets = secrets.clone();
        }),
        EventKind::VolumeDeleteIntended { key } => {
            change(state, key, at, |record| record.phase = Phase::Deleting);
        }
        EventKind::VolumeDeleteAbandoned { key } => {
            change(state, key, at, |record| record.phase = Phase::Registered);
        }
        EventKind::VolumeExpandIntended { key, to } => {
            change(state, key, at, |record| record.expanding = Some(*to));
        }
        EventKind::VolumeExpanded {
            key,
            capacity,
            node_expansion_required,
        } => change(state, key, at, |record| {
            record.provided.capacity = *capacity;
            record.expanding = None;
            record.node_expansion_pending |= *node_expansion_required;
        }),
        EventKind::VolumeExpandAbandoned { key } => {
            change(state, key, at, |record| record.expanding = None);
        }
        EventKind::VolumeCreateAbandoned { key }
        | EventKind::VolumeDeleted { key }
        | EventKind::VolumeDeregistered { key } => state.remove(key),
    }
}

#[derive(Clone, Copy)]
struct Moment {
    index: u64,
    time: i64,
}

fn agent_started(state: &mut State, origin: &str, at: Moment) {
    if state.origin.is_empty() {
        origin.clone_into(&mut state.origin);
    }
    for plugin in state.plugins.values_mut() {
        for instance in plugin.instances.values_mut() {
            instance.health.healthy = false;
            NOT_PROBED.clone_into(&mut instance.health.description);
            instance.updated_at = at.time;
        }
        plugin.modify_index = at.index;
        plugin.modify_time = at.time;
        state.plugins_index = at.index;
    }
    variable::agent_started(state, at.time);
}

fn instance_observed(
    state: &mut State,
    plugin: &PluginId,
    node: &NodeId,
    instance: &PluginInstance,
    at: Moment,
) {
    let new = || PluginRecord {
        instances: Default::default(),
        create_index: at.index,
        modify_index: at.index,
        create_time: at.time,
        modify_time: at.time,
    };
    let record = state.plugins.entry(plugin.clone()).or_insert_with(new);
    record.instances.insert(node.clone(), instance.clone());
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.plugins_index = at.index;
}

fn instance_gone(state: &mut State, plugin: &PluginId, node: &NodeId, at: Moment) {
    let Some(record) = state.plugins.get_mut(plugin) else {
        return;
    };
    if record.instances.remove(node).is_none() {
        return;
    }
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.plugins_index = at.index;
    if record.instances.is_empty() {
        state.plugins.remove(plugin);
    }
}

/// A further attempt keeps what the first one began: its index is the generation, and so the name
/// that CreateVolume is sent with.
fn create_intended(
    state: &mut State,
    definition: &VolumeDefinition,
    secrets: &SealedSecrets,
    at: Moment,
) {
    let mut record = begun(definition, secrets, Phase::Creating, at);
    if let Some(first) = state.volumes.get(&definition.key) {
        record.create_index = first.create_index;
        record.create_time = first.create_time;
    }
    state.put(Arc::new(record));
}

fn begun(
    definition: &VolumeDefinition,
    secrets: &SealedSecrets,
    phase: Phase,
    at: Moment,
) -> VolumeRecord {
    VolumeRecord {
        definition: definition.clone(),
        provided: Provided::default(),
        secrets: secrets.clone(),
        phase,
        expanding: None,
        node_expansion_pending: false,
        create_index: at.index,
        modify_index: at.index,
        create_time: at.time,
        modify_time: at.time,
    }
}

fn change(state: &mut State, key: &NamespacedId, at: Moment, edit: impl FnOnce(&mut VolumeRecord)) {
    let Some(record) = state.volumes.get(key) else {
        return;
    };
    let mut record = VolumeRecord::clone(record);
    edit(&mut record);
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.put(Arc::new(record));
}

#[cfg(test)]
mod tests;
