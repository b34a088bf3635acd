//! Deregister: a registration is removed, and the provider keeps the volume.

use tracing::{info, warn};

use super::creation::CreationProtocol;
use super::delete::in_use;
use super::limiter::{LockedResource, OperationLimiter};
use super::store::{VolumeStore, unchanged};
use crate::claim::{ClaimEvent, Tombstone};
use crate::model::NamespacedId;
use crate::server::claims::writers;
use crate::server::error::ServerError;
use crate::state::{EventKind, VolumeView};

/// Deregisters volumes.
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
        let resource = LockedResource::Volume(key.clone());
        let _permit = self.limiter.acquire(resource).await?;
        self.store.check_spec_index(key, at)?;
        self.store
            .retry_on_conflict(key, || self.deregister_once(key, force))
            .await
    }

    async fn deregister_once(&self, key: &NamespacedId, force: bool) -> Result<u64, ServerError> {
        if self.store.record(key).is_none() {
            return Err(ServerError::VolumeNotFound(key.clone()));
        }
        match self.creation.settle(key, None).await {
            Err(_) if force => return self.abandon_creation(key).await,
            settled => settled?,
        }
        let Some(existing) = self.store.view(key) else {
            return Ok(self.store.index());
        };
        let volume = existing.volume();
        if volume.is_claimed() && !(force && self.nobody_writes(&existing)) {
            return Err(in_use(&volume));
        }
        let mut events = vec![EventKind::VolumeDeregistered { key: key.clone() }];
        events.splice(0..0, self.orphaned_claims(&existing));
        let expected = unchanged(&existing.record);
        let index = self.store.commit_all(expected, events).await?;
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deregistered");
        Ok(index)
    }

    /// Whether no task can write through the registration any more.
    fn nobody_writes(&self, existing: &VolumeView) -> bool {
        let Some(record) = &existing.claims else {
            return true;
        };
        let through = || record.claims.through(existing.record.key());
        self.store
            .read(|state| writers(state, through()).is_empty())
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
        Some(EventKind::Claim {
            volume: claims.volume.clone(),
            event: Box::new(event),
        })
    }

    /// Removes a pending creation by force. The operator has to remove what the provider created.
    async fn abandon_creation(&self, key: &NamespacedId) -> Result<u64, ServerError> {
        let record = self.store.record(key);
        let record = record.ok_or_else(|| ServerError::VolumeNotFound(key.clone()))?;
        let provider_name = self.store.provider_name(key);
        let event = EventKind::VolumeCreateAbandoned { key: key.clone() };
        let index = self.store.commit(unchanged(&record), event).await?;
        warn!(volume.id = %key.id, volume.namespace = %key.namespace, index, provider_name,
            "a pending creation was removed by force; the provider may have a volume of that name");
        Ok(index)
    }
}
