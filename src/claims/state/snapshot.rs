//! Snapshots of a state, and what a new one changes in the one before.
//!
//! A [`StateSnapshot`] is a complete state at one index. [`SnapshotChanges`] are the objects that changed
//! since the snapshot before, so writing them costs as much as the changes, whatever the size of the
//! state. Both copy a pointer per volume and variable, which is fast enough to block writers.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::event::Subject;
use super::leader_starts::LeaderStarts;
use super::stored_record::StoredRecord;
use super::tables::State;
use super::topic::Table;

/// Everything in a state except its tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StateNumbers {
    /// The index of the last event.
    pub index: u64,
    /// [`State::origin`].
    pub origin: String,
    /// The index of the last event that changed a volume.
    pub volumes_index: u64,
    /// The index of the last event that changed a plugin.
    pub plugins_index: u64,
    /// The index of the last event that changed a variable.
    pub variables_index: u64,
    /// The index of the last event that changed a node.
    #[serde(default = "first_index")]
    pub nodes_index: u64,
    /// The index of the last event that changed a claim.
    #[serde(default = "first_index")]
    pub claims_index: u64,
    /// The index of the last event that changed an allocation.
    #[serde(default = "first_index")]
    pub allocs_index: u64,
    /// The index of the last event that changed a job.
    #[serde(default = "first_index")]
    pub jobs_index: u64,
    /// The index of the last event that changed a namespace.
    #[serde(default = "first_index")]
    pub namespaces_index: u64,
    /// The index of the last event that changed the ACL. Since version 13.
    #[serde(default = "first_index")]
    pub acl_index: u64,
    /// The starts of leaders. Since version 10.
    #[serde(default, skip_serializing_if = "LeaderStarts::is_empty")]
    pub leaders: LeaderStarts,
}

/// The index of a table that an earlier version did not have.
fn first_index() -> u64 {
    State::FIRST_INDEX
}

/// The number of objects in each table that has any.
pub type ObjectCounts = BTreeMap<Table, u64>;

/// A state at one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSnapshot {
    /// Everything except the objects.
    pub numbers: StateNumbers,
    /// The objects, sorted by table and key.
    pub records: Vec<StoredRecord>,
}

/// The changes from the last snapshot to the state at one index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotChanges {
    /// Everything except the objects.
    pub numbers: StateNumbers,
    /// How many objects there are with the changes.
    pub objects: ObjectCounts,
    /// True if these are all objects, so that nothing of the last snapshot stays.
    pub is_complete: bool,
    /// The changed objects; `None` for one that does not exist any more.
    pub records: Vec<(Subject, Option<StoredRecord>)>,
}

impl SnapshotChanges {
    /// Returns a snapshot that replaces the last one.
    pub fn complete(state: &State) -> Self {
        Self { is_complete: true, ..Self::of(state, state.all_subjects()) }
    }

    /// Returns the state of these objects, which must be all that changed since the last snapshot.
    pub fn of(state: &State, changed: HashSet<Subject>) -> Self {
        let record = |subject| {
            let record = state.stored(&subject);
            (subject, record)
        };
        Self {
            numbers: StateNumbers::from(state),
            objects: count_objects(state),
            is_complete: false,
            records: changed.into_iter().map(record).collect(),
        }
    }
}

impl StateSnapshot {
    /// Returns the snapshot with the changes.
    pub fn changed(before: Option<Self>, changes: SnapshotChanges) -> Self {
        let mut state = match changes.is_complete {
            true => State::default(),
            false => before.map(State::from).unwrap_or_default(),
        };
        state.set_numbers(&changes.numbers);
        for (subject, record) in changes.records {
            match record {
                Some(record) => state.store(record),
                None => state.discard(&subject),
            }
        }
        Self::from(&state)
    }
}

fn count_objects(state: &State) -> ObjectCounts {
    let lengths = [
        (Table::Acl, state.acl.len()),
        (Table::Allocs, state.allocs.len()),
        (Table::Claims, state.claims.len()),
        (Table::Jobs, state.jobs.len()),
        (Table::Namespaces, state.namespaces.len()),
        (Table::Nodes, state.nodes.len()),
        (Table::Plugins, state.plugins.len()),
        (Table::Variables, state.variables.len()),
        (Table::Volumes, state.volumes.len()),
    ];
    let count = |(table, length)| (table, u64::try_from(length).unwrap_or(u64::MAX));
    let counts = lengths.into_iter().map(count);
    counts.filter(|(_, count)| *count > 0).collect()
}

impl From<&State> for StateNumbers {
    fn from(state: &State) -> Self {
        let State {
            index,
            origin,
            volumes: _,
            remote_ids: _,
            creating: _,
            volumes_index,
            plugins: _,
            plugins_index,
            nodes: _,
            boots: _,
            sessions: _,
            node_secrets: _,
            losses: _,
            nodes_index,
            claims: _,
            claim_keys: _,
            claim_changes: _,
            claims_index,
            allocs: _,
            alloc_changes: _,
            allocs_index,
            job_allocs: _,
            jobs: _,
            plugin_jobs: _,
            jobs_index,
            namespaces: _,
            leaders,
            namespaces_index,
            acl: _,
            acl_secrets: _,
            acl_index,
            variables: _,
            lock_ends: _,
            variables_index,
            interner: _,
        } = state;
        Self {
            index: *index,
            origin: origin.clone(),
            volumes_index: *volumes_index,
            plugins_index: *plugins_index,
            variables_index: *variables_index,
            nodes_index: *nodes_index,
            claims_index: *claims_index,
            allocs_index: *allocs_index,
            jobs_index: *jobs_index,
            namespaces_index: *namespaces_index,
            acl_index: *acl_index,
            leaders: leaders.clone(),
        }
    }
}

impl State {
    /// Sets everything except the tables.
    pub(super) fn set_numbers(&mut self, numbers: &StateNumbers) {
        let StateNumbers {
            index,
            origin,
            volumes_index,
            plugins_index,
            variables_index,
            nodes_index,
            claims_index,
            allocs_index,
            leaders,
            jobs_index,
            namespaces_index,
            acl_index,
        } = numbers;
        self.index = *index;
        origin.clone_into(&mut self.origin);
        self.volumes_index = *volumes_index;
        self.plugins_index = *plugins_index;
        self.variables_index = *variables_index;
        self.nodes_index = *nodes_index;
        self.claims_index = *claims_index;
        self.allocs_index = *allocs_index;
        self.leaders = leaders.clone();
        self.jobs_index = *jobs_index;
        self.namespaces_index = *namespaces_index;
        self.acl_index = *acl_index;
    }
}

impl From<&State> for StateSnapshot {
    fn from(state: &State) -> Self {
        let subjects = state.all_subjects();
        let mut records: Vec<_> = subjects.iter().collect();
        records.sort_unstable_by_key(|subject| subject.place());
        Self {
            numbers: StateNumbers::from(state),
            records: records.into_iter().filter_map(|subject| state.stored(subject)).collect(),
        }
    }
}

impl From<StateSnapshot> for State {
    fn from(snapshot: StateSnapshot) -> Self {
        let mut state = Self::default();
        state.set_numbers(&snapshot.numbers);
        for record in snapshot.records {
            match record {
                StoredRecord::Volume(record) => state.put_new(Arc::unwrap_or_clone(record)),
                StoredRecord::Acl(_)
                | StoredRecord::Alloc(..)
                | StoredRecord::Claims(_)
                | StoredRecord::Job(_)
                | StoredRecord::Namespace(_)
                | StoredRecord::Node(_)
                | StoredRecord::Plugin(..)
                | StoredRecord::Variable(_) => {
                    state.store(record);
                }
            }
        }
        state
    }
}

#[cfg(test)]
mod tests;
