//! The recorded state of volumes: reads, compare-and-set commits, and retries after conflicts.

use std::future::Future;
use std::sync::Arc;

use super::plugin::VolumePlugin;
use crate::cell::{CommitError, Expected, StateCell};
use crate::error::{NamespaceUser, ServerError};
use nomad_csi_claims::state::{
    Event, EventKind, IntentRequest, State, VolumeIntent, VolumeRecord, VolumeView, intent_request,
    provider_name, volume,
};
use nomad_csi_model::{AllocId, NamespacedId, PluginId};
use nomad_csi_ports::Clock;

/// Reads and records volumes. Clones share their state.
#[derive(Clone)]
pub(super) struct VolumeStore {
    cell: StateCell,
    clock: Arc<dyn Clock>,
    conflict_retries: u32,
}

impl VolumeStore {
    pub(super) fn new(cell: StateCell, clock: Arc<dyn Clock>, conflict_retries: u32) -> Self {
        Self { cell, clock, conflict_retries }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.cell.read(read)
    }

    /// Index of the last event that readers can see.
    pub(super) fn index(&self) -> u64 {
        self.cell.index()
    }

    pub(super) fn record(&self, key: &NamespacedId) -> Option<Arc<VolumeRecord>> {
        self.cell.read(|state| state.record(key).cloned())
    }

    /// A volume as clients see it; `None` also while it is being created.
    pub(super) fn view(&self, key: &NamespacedId) -> Option<VolumeView> {
        self.cell.read(|state| volume(state, key))
    }

    /// A volume that this operation has written.
    pub(super) fn written(&self, key: &NamespacedId) -> Result<VolumeView, ServerError> {
        self.view(key).ok_or_else(|| conflict(key))
    }

    /// The plugin that a write names.
    pub(super) fn plugin(&self, id: &PluginId) -> Result<VolumePlugin, ServerError> {
        let plugin = self.cell.read(|state| VolumePlugin::read(state, id));
        plugin.ok_or_else(|| ServerError::UnknownPlugin(id.clone()))
    }

    /// The volume's name at the provider; empty without a record.
    pub(super) fn provider_name(&self, key: &NamespacedId) -> String {
        self.cell.read(|state| {
            let record = state.record(key);
            record.map_or_else(String::new, |record| provider_name(state, record))
        })
    }

    /// Checks that the volume's namespace exists, before anything is called for a new volume.
    ///
    /// # Errors
    /// If it does not exist.
    pub(super) fn check_namespace(&self, key: &NamespacedId) -> Result<(), ServerError> {
        Ok(self.cell.check(&namespace_of(key))?)
    }

    /// Records an event if what was expected still holds, and for a new volume if its namespace exists.
    /// Returns its index.
    pub(super) async fn commit(
        &self,
        expected: Expected,
        kind: EventKind,
    ) -> Result<u64, CommitError> {
        self.commit_all(vec![expected], vec![kind]).await
    }

    /// Returns a request of the call of an intent, as an event names it for this instance.
    pub(super) fn intent_request(
        &self,
        record: &VolumeRecord,
        named: (VolumeIntent, Option<&AllocId>),
        fingerprint: &str,
    ) -> IntentRequest {
        self.read(|state| intent_request(state, record, named, fingerprint.to_owned()))
    }

    /// Records several events or none, if what was expected still holds, and for new volumes if their namespaces
    /// exist. Returns the last index.
    pub(super) async fn commit_all(
        &self,
        expected: Vec<Expected>,
        kinds: Vec<EventKind>,
    ) -> Result<u64, CommitError> {
        let enters = |kind: &&EventKind| {
            matches!(
                kind,
                EventKind::VolumeCreateIntended { .. } | EventKind::VolumeRegistered { .. }
            )
        };
        let entered = kinds.iter().filter(enters).filter_map(EventKind::volume);
        let namespaces: Vec<_> = entered.map(namespace_of).collect();
        let expected = namespaces.into_iter().chain(expected).collect();
        let now = self.clock.now();
        let events = kinds.into_iter().map(|kind| Event::new(now, kind));
        self.cell.commit_all(expected, events.collect()).await
    }

    /// Checks that the specification is the one that the client read: that it last changed at this index,
    /// or with index 0, that there is none. The caller holds the volume's lock, without which nothing
    /// changes a specification, until it has written.
    ///
    /// # Errors
    /// If the specification is another one.
    pub(super) fn check_spec_index(
        &self,
        key: &NamespacedId,
        expected: Option<u64>,
    ) -> Result<(), ServerError> {
        let Some(expected) = expected else {
            return Ok(());
        };
        let found = self.view(key).map_or(0, |view| view.record.modify_index);
        if found == expected {
            return Ok(());
        }
        Err(ServerError::SpecChanged { volume: key.clone(), expected, found })
    }

    /// Returns the time of an event that is recorded now.
    pub(super) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Repeats an operation while its volume changes between the decision and the write.
    pub(super) async fn retry_on_conflict<T, F>(
        &self,
        key: &NamespacedId,
        operation: impl Fn() -> F,
    ) -> Result<T, ServerError>
    where
        F: Future<Output = Result<T, ServerError>>,
    {
        for _ in 0..self.conflict_retries {
            match operation().await {
                Err(ServerError::Commit(
                    CommitError::Conflict { .. } | CommitError::InvalidEvent(_),
                )) => {}
                result => return result,
            }
        }
        Err(ServerError::RepeatedConflict(key.clone()))
    }
}

fn namespace_of(key: &NamespacedId) -> Expected {
    Expected::NamespaceOf(NamespaceUser::Volume(key.clone()))
}

/// Expects the record to be unchanged since it was read.
pub(super) fn unchanged(record: &VolumeRecord) -> Expected {
    Expected::VolumeAt(record.key().clone(), record.modify_index)
}

/// Expects the record and its claims to be unchanged since they were read.
pub(super) fn unused(record: &VolumeRecord) -> Expected {
    Expected::VolumeUsedAt(record.key().clone(), record.visible_index())
}

/// The error that makes [`VolumeStore::retry_on_conflict`] decide again.
pub(super) fn conflict(key: &NamespacedId) -> ServerError {
    ServerError::Commit(CommitError::Conflict { volume: key.clone(), found: None })
}
