//! A state as something to keep, and back again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::apply::{Misfit, apply, check};
use super::event::Event;
use super::record::{PluginRecord, VolumeRecord};
use super::tables::State;
use super::variable::VariableRecord;
use crate::model::{Node, PluginId};

/// A state at one index. Making one costs a pointer per volume and variable, so it may be made while
/// others wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSnapshot {
    /// Index of the last event in it.
    pub index: u64,
    /// [`State::origin`].
    pub origin: String,
    /// Index of the last event that changed a volume.
    pub volumes_index: u64,
    /// Index of the last event that changed a plugin.
    pub plugins_index: u64,
    /// All records, by namespace and ID.
    pub volumes: Vec<Arc<VolumeRecord>>,
    /// All plugins, by ID.
    pub plugins: BTreeMap<PluginId, PluginRecord>,
    /// All nodes, by ID.
    pub nodes: Vec<Node>,
    /// Index of the last event that changed a variable.
    pub variables_index: u64,
    /// All variables, by namespace and path.
    pub variables: Vec<Arc<VariableRecord>>,
}

impl From<&State> for StateSnapshot {
    fn from(state: &State) -> Self {
        Self {
            index: state.index,
            origin: state.origin.clone(),
            volumes_index: state.volumes_index,
            plugins_index: state.plugins_index,
            volumes: state.volumes.values().cloned().collect(),
            plugins: state.plugins.clone(),
            nodes: state.nodes.values().cloned().collect(),
            variables_index: state.variables_index,
            variables: state.variables.values().cloned().collect(),
        }
    }
}

impl From<StateSnapshot> for State {
    fn from(snapshot: StateSnapshot) -> Self {
        let node = |node: Node| (node.id.clone(), node);
        let mut state = Self {
            index: snapshot.index,
            origin: snapshot.origin,
            volumes_index: snapshot.volumes_index,
            plugins: snapshot.plugins,
            plugins_index: snapshot.plugins_index,
            nodes: snapshot.nodes.into_iter().map(node).collect(),
            variables_index: snapshot.variables_index,
            ..Self::default()
        };
        for record in snapshot.volumes {
            state.put(record);
        }
        for record in snapshot.variables {
            state.put_variable(record);
        }
        state
    }
}

/// Events do not continue the state that they are said to continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {index} contradicts those before it")]
pub struct ReplayError {
    /// The event's index.
    pub index: u64,
    /// In what way.
    #[source]
    pub misfit: Misfit,
}

/// The state that the events made, on top of the snapshot or of nothing.
///
/// # Errors
/// At the first event that does not fit: no journal that this program wrote has one.
pub fn replay(
    snapshot: Option<StateSnapshot>,
    events: impl IntoIterator<Item = Event>,
) -> Result<State, ReplayError> {
    let mut state = snapshot.map(State::from).unwrap_or_default();
    for event in events {
        check(&state, &event).map_err(|misfit| ReplayError {
            index: state.index + 1,
            misfit,
        })?;
        apply(&mut state, &event);
    }
    Ok(state)
}
