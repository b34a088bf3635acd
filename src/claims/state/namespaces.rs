//! Namespaces as objects: every volume and job is in one that exists. As in Nomad, a variable needs none, and
//! keeps one that exists.
//!
//! The namespace `default` always exists and has a record only once it is written. Up to event version 5 every
//! namespace existed. So an event that puts something into an unknown namespace makes it exist, and a
//! snapshot of an earlier version gets the namespaces that are in use. Requests are refused before such an event.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::event::EventKind;
use super::job_record::JobEvent;
use super::namespace_record::{NamespaceContents, NamespaceEvent, NamespaceRecord};
use super::tables::State;
use crate::claim::EventPlace;
use nomad_csi_model::{
    JobId, JobKey, Namespace, NamespacedId, VariableKey, VariablePath, VolumeId,
};

impl State {
    /// Returns a namespace, if it exists.
    pub fn namespace(&self, name: &Namespace) -> Option<Arc<NamespaceRecord>> {
        let is_default = name.as_str() == Namespace::DEFAULT;
        let unwritten = || Arc::new(NamespaceRecord::new(name.clone(), Self::FIRST_INDEX));
        let known = self.namespaces.get(name).cloned();
        known.or_else(|| is_default.then(unwritten))
    }

    /// Returns all namespaces, sorted by name.
    pub fn namespaces(&self) -> Vec<Arc<NamespaceRecord>> {
        let default = Namespace::default();
        let unwritten =
            (!self.namespaces.contains_key(&default)).then(|| self.namespace(&default)).flatten();
        let mut all: Vec<_> = self.namespaces.values().cloned().chain(unwritten).collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Returns the index of the last event that changed a namespace.
    pub fn namespaces_index(&self) -> u64 {
        self.namespaces_index
    }

    /// Returns what a namespace contains.
    pub fn namespace_contents(&self, name: &Namespace) -> NamespaceContents {
        let first = NamespacedId::new(name.clone(), VolumeId::new(""));
        let volumes = self.volumes.range(first..).map(|(key, _)| key);
        let first = VariableKey::new(name.clone(), VariablePath::new(""));
        let variables = self.variables.range(first..).map(|(key, _)| key);
        let first = JobKey::new(name.clone(), JobId::new(""));
        let jobs = self.jobs.range(first..);
        let (stopped, running): (Vec<_>, Vec<_>) =
            jobs.take_while(|(key, _)| key.namespace == *name).partition(|(_, job)| job.is_stopped);
        let keys = |jobs: Vec<(&JobKey, _)>| jobs.into_iter().map(|(key, _)| key.clone()).collect();
        NamespaceContents {
            volumes: volumes.take_while(|key| key.namespace == *name).cloned().collect(),
            running_jobs: keys(running),
            stopped_jobs: keys(stopped),
            variables: variables.take_while(|key| key.namespace == *name).cloned().collect(),
        }
    }

    /// Makes every namespace exist that is in use, and returns the new ones. Only a snapshot of an earlier
    /// version needs it.
    pub(super) fn adopt_namespaces(&mut self) -> Vec<Namespace> {
        let volumes = self.volumes.keys().map(|key| &key.namespace);
        let jobs = self.jobs.keys().map(|key| &key.namespace);
        let used: BTreeSet<_> = volumes.chain(jobs).cloned().collect();
        let index = self.index;
        let used = used.into_iter();
        used.filter(|name| self.ensure_namespace(name, index)).collect()
    }

    /// Makes a namespace exist, and returns whether it is new.
    pub(super) fn ensure_namespace(&mut self, name: &Namespace, index: u64) -> bool {
        let is_known = self.namespace(name).is_some();
        if !is_known {
            let record = NamespaceRecord::new(name.clone(), index);
            self.namespaces.insert(name.clone(), Arc::new(record));
            self.namespaces_index = index;
        }
        !is_known
    }
}

/// Returns whether an event about a namespace fits.
pub(super) fn is_namespace_event_valid(
    state: &State,
    name: &Namespace,
    event: &NamespaceEvent,
) -> bool {
    match event {
        NamespaceEvent::Written { .. } => true,
        NamespaceEvent::Deleted => {
            name.as_str() != Namespace::DEFAULT
                && state.namespaces.contains_key(name)
                && state.namespace_contents(name).is_empty()
        }
    }
}

/// Performs an event about a namespace.
pub(super) fn apply_namespace(
    state: &mut State,
    name: &Namespace,
    event: &NamespaceEvent,
    at: EventPlace,
) {
    state.namespaces_index = at.index;
    match event {
        NamespaceEvent::Written { description, meta } => {
            let before = state.namespace(name);
            let record = NamespaceRecord {
                name: name.clone(),
                description: description.clone(),
                meta: meta.clone(),
                create_index: before.map_or(at.index, |record| record.create_index),
                modify_index: at.index,
            };
            state.namespaces.insert(name.clone(), Arc::new(record));
        }
        NamespaceEvent::Deleted => drop(state.namespaces.remove(name)),
    }
}

/// Returns the namespace into which an event puts something; `None` for `default`, which always exists.
pub(super) fn entered_namespace(kind: &EventKind) -> Option<&Namespace> {
    let name = match kind {
        EventKind::VolumeCreateIntended { definition, .. }
        | EventKind::VolumeRegistered { definition, .. } => &definition.key.namespace,
        EventKind::Job { job, event } if matches!(**event, JobEvent::Registered { .. }) => {
            &job.namespace
        }
        _ => return None,
    };
    (name.as_str() != Namespace::DEFAULT).then_some(name)
}

/// Returns why a namespace contradicts the rest of the state.
pub(super) fn namespace_problems(state: &State) -> Vec<String> {
    let mut found = vec![];
    for (name, record) in &state.namespaces {
        let order = [record.create_index, record.modify_index, state.namespaces_index];
        if record.name != *name || !order.is_sorted() {
            found.push(format!("namespace {name} is misplaced"));
        }
    }
    let volumes = state.volumes.keys().map(|key| &key.namespace);
    let jobs = state.jobs.keys().map(|key| &key.namespace);
    let used: BTreeSet<_> = volumes.chain(jobs).collect();
    let unknown = used.into_iter().filter(|name| state.namespace(name).is_none());
    found.extend(unknown.map(|name| format!("namespace {name} is in use and does not exist")));
    found
}

#[cfg(test)]
mod tests;
