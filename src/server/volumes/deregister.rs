//! Deregister: a registration is removed, and the provider keeps the volume.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::info;

use super::creation::CreationProtocol;
use super::delete::in_use;
use super::limiter::{LockedResource, OperationLimiter};
use super::store::{VolumeStore, unchanged};
use crate::claims::writers;
use crate::error::ServerError;
use nomad_csi_claims::claim::{ClaimEvent, Tombstone};
use nomad_csi_claims::state::{EventKind, VolumeRecord, VolumeView};
use nomad_csi_model::NamespacedId;

/// Deregisters volumes: all of a request or none.
pub(super) struct VolumeDeregistrar {
    pub(super) store: VolumeStore,
    pub(super) limiter: OperationLimiter,
    pub(super) creation: CreationProtocol,
}

impl VolumeDeregistrar {
    pub(super) async fn deregister(
        &self,
        key: &NamespacedId,
        force: bool,
        at: Option<u64>,
    ) -> Result<u64, ServerError> {
        let keys = BTreeSet::from([key.clone()]);
        self.deregister_all(&keys, force, at).await
    }

    /// Removes all registrations or none (B94).
    pub(super) async fn deregister_all(
        &self,
        keys: &BTreeSet<NamespacedId>,
        force: bool,
        at: Option<u64>,
    ) -> Result<u64, ServerError> {
        let first = keys.first().ok_or(ServerError::MissingVolumeId)?;
        let resources = keys.iter().cloned().map(LockedResource::Volume);
        let _permits = self.limiter.acquire_all(resources.collect()).await?;
        for key in keys {
            self.store.check_spec_index(key, at)?;
        }
        self.store.retry_on_conflict(first, || self.deregister_once(keys, force)).await
    }

    async fn deregister_once(
        &self,
        keys: &BTreeSet<NamespacedId>,
        force: bool,
    ) -> Result<u64, ServerError> {
        for key in keys {
            if self.store.record(key).is_none() {
                let error = ServerError::VolumeNotFound(key.clone());
                return Err(error.in_batch(key, keys.len()));
            }
        }
        let (mut expected, mut events) = (vec![], vec![]);
        for key in keys {
            let removal = self.removal(key, force).await;
            let removal = removal.map_err(|error| error.in_batch(key, keys.len()))?;
            if let Some((record, removing)) = removal {
                expected.push(unchanged(&record));
                events.extend(removing);
            }
        }
        if events.is_empty() {
            return Ok(self.store.index());
        }
        let index = self.store.commit_all(expected, events).await?;
        for key in keys {
            info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deregistered");
        }
        Ok(index)
    }

    /// Returns the events that remove a registration, with the record that they are for; `None` if the volume was
    /// being created and does not exist.
    async fn removal(
        &self,
        key: &NamespacedId,
        force: bool,
    ) -> Result<Option<(Arc<VolumeRecord>, Vec<EventKind>)>, ServerError> {
        match self.creation.settle(key, None).await {
            Err(_) if force => {
                let (record, event) = self.creation.giving_up(key)?;
                return Ok(Some((record, vec![event])));
            }
            settled => settled?,
        }
        let Some(existing) = self.store.view(key) else {
            return Ok(None);
        };
        let volume = existing.volume();
        if volume.is_claimed() && !(force && self.nobody_writes(&existing)) {
            return Err(in_use(&volume));
        }
        let removed = EventKind::VolumeDeregistered { key: key.clone() };
        let events = self.orphaned_claims(&existing).into_iter();
        let events = events.chain([removed]).collect();
        Ok(Some((existing.record, events)))
    }

    /// Returns whether no task can write through the registration any more.
    fn nobody_writes(&self, existing: &VolumeView) -> bool {
        let Some(record) = &existing.claims else {
            return true;
        };
        let through = || record.claims.through(existing.record.key());
        self.store.read(|state| writers(state, through()).is_empty())
    }

    /// The claims that outlive the registration are still detached; a tombstone keeps what that needs
    /// (W59).
    fn orphaned_claims(&self, existing: &VolumeView) -> Option<EventKind> {
        let claims = existing.claims.as_ref()?;
        claims.claims.through(existing.record.key()).next()?;
        let tombstone = Tombstone {
            volume: existing.record.key().clone(),
            secrets: existing.record.secrets.clone(),
            since: self.store.now(),
        };
        let event = ClaimEvent::Orphaned {
            registration: Some(tombstone.volume.clone()),
            tombstone: Box::new(tombstone),
        };
        Some(EventKind::Claim { volume: claims.volume.clone(), event: Box::new(event) })
    }
}
