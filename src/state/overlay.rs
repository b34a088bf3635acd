//! [`Overlay`]: changes on top of a state that stays as it is.
//!
//! An overlay has copies of only the subjects that its changes touch, so a change costs the same in a
//! state of any size. A change succeeds completely or leaves the overlay as it was, and each change
//! sees the ones before it.

use std::collections::{BTreeMap, HashSet};

use super::event::{EventKind, Subject};
use super::subjects::subjects;
use super::tables::State;
use crate::model::RemoteVolume;

/// A state and changes to it that only the overlay has.
pub struct Overlay<'a> {
    base: &'a State,
    /// The numbers of the changed state, and the records of the touched subjects.
    changed: State,
    touched: HashSet<Subject>,
}

impl<'a> Overlay<'a> {
    /// Creates an overlay without changes.
    pub fn new(base: &'a State) -> Self {
        Self {
            base,
            changed: without_records(base),
            touched: HashSet::new(),
        }
    }

    /// Returns every object that the event reads or changes.
    pub fn subjects_of(&self, kind: &EventKind) -> Vec<Subject> {
        let mut all = subjects(self.base, kind);
        all.extend(subjects(&self.changed, kind));
        all
    }

    /// Returns every object that decides which steps are due for a volume.
    pub fn subjects_of_steps(&self, volume: &RemoteVolume) -> Vec<Subject> {
        let losses = self.base.losses.keys().chain(self.changed.losses.keys());
        let nodes = losses.cloned().map(Subject::Node);
        let own = [
            Subject::Claims(volume.clone()),
            Subject::Plugin(volume.plugin_id.clone()),
        ];
        nodes.chain(own).collect()
    }

    /// Returns every object that a change so far named.
    pub fn touched(&self) -> &HashSet<Subject> {
        &self.touched
    }

    /// Performs a change on a state that contains only these subjects. The overlay keeps it if it
    /// succeeds.
    ///
    /// # Errors
    /// Returns the error of `change`. The overlay is then as it was before.
    pub fn attempt<T, E>(
        &mut self,
        subjects: HashSet<Subject>,
        change: impl FnOnce(&mut State) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut attempt = without_records(&self.changed);
        for subject in &subjects {
            copy_subject(&mut attempt, self.latest(subject), subject);
        }
        let done = change(&mut attempt)?;
        copy_numbers(&mut self.changed, &attempt);
        for subject in &subjects {
            copy_subject(&mut self.changed, &attempt, subject);
        }
        self.touched.extend(subjects);
        Ok(done)
    }

    fn latest(&self, subject: &Subject) -> &State {
        match self.touched.contains(subject) {
            true => &self.changed,
            false => self.base,
        }
    }
}

/// Returns a state with the numbers of this one, and without its records.
fn without_records(state: &State) -> State {
    let mut copy = State::default();
    copy_numbers(&mut copy, state);
    copy
}

/// Copies all that is not a table.
fn copy_numbers(to: &mut State, from: &State) {
    let State {
        index,
        origin,
        volumes: _,
        remote_ids: _,
        volumes_index,
        plugins: _,
        plugins_index,
        nodes: _,
        boots: _,
        losses: _,
        nodes_index,
        claims: _,
        claim_keys: _,
        claim_changes: _,
        claims_index,
        allocs: _,
        allocs_index,
        variables: _,
        lock_ends: _,
        variables_index,
    } = from;
    to.index = *index;
    origin.clone_into(&mut to.origin);
    to.volumes_index = *volumes_index;
    to.plugins_index = *plugins_index;
    to.nodes_index = *nodes_index;
    to.claims_index = *claims_index;
    to.allocs_index = *allocs_index;
    to.variables_index = *variables_index;
}

/// Copies the record of a subject, or its absence.
fn copy_subject(to: &mut State, from: &State, subject: &Subject) {
    match subject {
        Subject::Volume(key) => match from.volumes.get(key) {
            Some(record) => to.put(record.clone()),
            None => to.remove(key),
        },
        Subject::Variable(key) => match from.variables.get(key) {
            Some(record) => to.put_variable(record.clone()),
            None => to.remove_variable(key),
        },
        Subject::Plugin(id) => copy_entry(&mut to.plugins, &from.plugins, id),
        Subject::Node(id) => {
            copy_entry(&mut to.nodes, &from.nodes, id);
            copy_entry(&mut to.boots, &from.boots, id);
            copy_entry(&mut to.losses, &from.losses, id);
        }
        Subject::Claims(volume) => match from.claims.get(volume) {
            Some(record) => to.put_claims(record.clone()),
            None => to.remove_claims(volume),
        },
        Subject::Alloc(id) => copy_entry(&mut to.allocs, &from.allocs, id),
    }
}

fn copy_entry<K: Ord + Clone, V: Clone>(to: &mut BTreeMap<K, V>, from: &BTreeMap<K, V>, key: &K) {
    match from.get(key) {
        Some(value) => to.insert(key.clone(), value.clone()),
        None => to.remove(key),
    };
}

#[cfg(test)]
mod tests;
