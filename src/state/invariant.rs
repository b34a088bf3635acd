//! What holds in every state that events can make.
//!
//! Checked after every step of a test, and by whoever doubts a journal. A violation is a defect of
//! ours; what a person may do and had better not is not one, but a [`SharedVolume`].

use std::collections::BTreeSet;

use super::record::{Phase, VolumeRecord};
use super::tables::{State, lock_end, remote_key};
use super::variable;
use crate::model::{ExternalId, NamespacedId, PluginId};

/// Registered volumes that are one volume for the provider (W13).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVolume {
    /// Who provides it.
    pub plugin_id: PluginId,
    /// What the provider calls it.
    pub external_id: ExternalId,
    /// What it is registered as; two or more.
    pub volumes: BTreeSet<NamespacedId>,
}

/// Every volume of a provider that is registered more than once.
pub fn shared_volumes(state: &State) -> Vec<SharedVolume> {
    let shared = state.remote_ids.iter().filter(|(_, keys)| keys.len() > 1);
    shared
        .map(|((plugin_id, external_id), volumes)| SharedVolume {
            plugin_id: plugin_id.clone(),
            external_id: external_id.clone(),
            volumes: volumes.clone(),
        })
        .collect()
}

/// Everything that is wrong with the state, a sentence each; nothing, if nothing is.
pub fn violations(state: &State) -> Vec<String> {
    let mut found = vec![];
    for (key, record) in &state.volumes {
        let wrong = record_problem(state, record);
        let misplaced = (record.key() != key).then_some("stands under another volume's key");
        let problems = wrong.into_iter().chain(misplaced);
        found.extend(problems.map(|problem| format!("volume {key} {problem}")));
    }
    if remote_ids(state) != by_hand(state) {
        found.push("the volumes by external ID are not those by key".to_owned());
    }
    for (id, plugin) in &state.plugins {
        if plugin.instances.is_empty() {
            found.push(format!("plugin {id} has no instance"));
        }
        let order = [
            plugin.create_index,
            plugin.modify_index,
            state.plugins_index,
        ];
        if !order.is_sorted() {
            found.push(format!("plugin {id} has indexes out of order"));
        }
    }
    for (id, node) in &state.nodes {
        if node.id != *id {
            found.push(format!("node {id} stands under another node's ID"));
        }
    }
    for (key, record) in &state.variables {
        let problem = variable::problem(state, key, record);
        found.extend(problem.map(|problem| format!("variable {key} {problem}")));
    }
    let locks = state
        .variables
        .values()
        .filter_map(|record| lock_end(record));
    if state.lock_ends != locks.collect() {
        found.push("the ends of locks are not those of the variables".to_owned());
    }
    let tables = [
        state.volumes_index,
        state.plugins_index,
        state.variables_index,
    ];
    if tables.into_iter().any(|index| index > state.index) {
        found.push("a table's index is ahead of the state's".to_owned());
    }
    found
}

fn record_problem(state: &State, record: &VolumeRecord) -> Option<&'static str> {
    let order = [
        record.create_index,
        record.modify_index,
        state.volumes_index,
    ];
    if record.create_index <= State::FIRST_INDEX || !order.is_sorted() {
        return Some("has indexes out of order");
    }
    match record.phase {
        Phase::Creating if record.provided != Default::default() => {
            Some("is being created and has an answer already")
        }
        Phase::Creating if record.expanding.is_some() || record.node_expansion_pending => {
            Some("is being created and grows already")
        }
        Phase::Creating | Phase::Registered | Phase::Deleting => None,
    }
}

type RemoteIds<'a> = BTreeSet<((PluginId, ExternalId), &'a NamespacedId)>;

fn remote_ids(state: &State) -> RemoteIds<'_> {
    let pairs = state.remote_ids.iter();
    pairs
        .flat_map(|(id, keys)| keys.iter().map(|key| (id.clone(), key)))
        .collect()
}

fn by_hand(state: &State) -> RemoteIds<'_> {
    let records = state.volumes.iter();
    records
        .filter_map(|(key, record)| Some((remote_key(record)?, key)))
        .collect()
}
