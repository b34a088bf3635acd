//! Snapshots of a state, and replay of events.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::apply::{EventConflict, apply, check};
use super::claims_record::{AllocRecord, ClaimsRecord, NodeLoss};
use super::event::Event;
use super::plugin_record::PluginRecord;
use super::record::VolumeRecord;
use super::tables::State;
use super::variable::VariableRecord;
use crate::model::{AllocId, Node, NodeId, PluginId};

/// A state at one index. Creating one copies a pointer per volume and variable, so it is fast enough
/// to block writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSnapshot {
    /// The index of the last event in the snapshot.
    pub index: u64,
    /// [`State::origin`].
    pub origin: String,
    /// The index of the last event that changed a volume.
    pub volumes_index: u64,
    /// The index of the last event that changed a plugin.
    pub plugins_index: u64,
    /// All volumes, sorted by namespace and ID.
    pub volumes: Vec<Arc<VolumeRecord>>,
    /// All plugins, sorted by ID.
    pub plugins: BTreeMap<PluginId, PluginRecord>,
    /// All nodes, sorted by ID.
    pub nodes: Vec<Node>,
    /// The boot ID of each node.
    pub boots: BTreeMap<NodeId, String>,
    /// All lost nodes.
    pub losses: BTreeMap<NodeId, NodeLoss>,
    /// The index of the last event that changed a node.
    pub nodes_index: u64,
    /// The claims of all volumes.
    pub claims: Vec<Arc<ClaimsRecord>>,
    /// The index of the last event that changed a claim.
    pub claims_index: u64,
    /// All allocations that claim volumes.
    pub allocs: BTreeMap<AllocId, AllocRecord>,
    /// The index of the last event that changed an allocation.
    pub allocs_index: u64,
    /// The index of the last event that changed a variable.
    pub variables_index: u64,
    /// All variables, sorted by namespace and path.
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
            boots: state.boots.clone(),
            losses: state.losses.clone(),
            nodes_index: state.nodes_index,
            claims: state.claims.values().cloned().collect(),
            claims_index: state.claims_index,
            allocs: state.allocs.clone(),
            allocs_index: state.allocs_index,
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
            boots: snapshot.boots,
            losses: snapshot.losses,
            nodes_index: snapshot.nodes_index,
            claims_index: snapshot.claims_index,
            allocs: snapshot.allocs,
            allocs_index: snapshot.allocs_index,
            variables_index: snapshot.variables_index,
            ..Self::default()
        };
        for record in snapshot.volumes {
            state.put(record);
        }
        for record in snapshot.claims {
            state.put_claims(record);
        }
        for record in snapshot.variables {
            state.put_variable(record);
        }
        state
    }
}

/// An event is not valid after the events before it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {index} contradicts earlier events")]
pub struct ReplayError {
    /// The index of the event.
    pub index: u64,
    /// Why the event is not valid.
    #[source]
    pub conflict: EventConflict,
}

/// Returns the state after the snapshot, if any, and all events.
///
/// # Errors
/// Fails at the first invalid event. No journal of this program contains one.
pub fn replay(
    snapshot: Option<StateSnapshot>,
    events: impl IntoIterator<Item = Event>,
) -> Result<State, ReplayError> {
    let mut state = snapshot.map(State::from).unwrap_or_default();
    for event in events {
        check(&state, &event).map_err(|misfit| ReplayError {
            index: state.index + 1,
            conflict: misfit,
        })?;
        apply(&mut state, &event);
    }
    Ok(state)
}
