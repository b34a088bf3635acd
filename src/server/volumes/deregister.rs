//! Deregister: a registration is removed, and the provider keeps the volume.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::info;

use super::context::VolumeContext;
use super::creation::{giving_up_event, settle_creation};
use super::delete::in_use;
use super::resource_locks::LockedResource;
use super::store::unchanged;
use crate::claims::writers;
use crate::early_reply::EarlyReply;
use crate::error::ServerError;
use nomad_csi_claims::claim::{ClaimEvent, Tombstone};
use nomad_csi_claims::state::{EventKind, VolumeRecord, VolumeView};
use nomad_csi_model::NamespacedId;

/// Removes all registrations or none (B94).
pub(super) async fn deregister_volumes(
    context: &VolumeContext,
    reply: &EarlyReply,
    keys: &BTreeSet<NamespacedId>,
    force: bool,
    at: Option<u64>,
) -> Result<u64, ServerError> {
    let first = keys.first().ok_or(ServerError::MissingVolumeId)?;
    let resources = keys.iter().cloned().map(LockedResource::Volume);
    let _volumes = context.locks.acquire_all(resources.collect()).await?;
    for key in keys {
        context.store.check_spec_index(key, at)?;
    }
    context.store.retry_on_conflict(first, || deregister_once(context, reply, keys, force)).await
}

async fn deregister_once(
    context: &VolumeContext,
    reply: &EarlyReply,
    keys: &BTreeSet<NamespacedId>,
    force: bool,
) -> Result<u64, ServerError> {
    for key in keys {
        if context.store.record(key).is_none() {
            let error = ServerError::VolumeNotFound(key.clone());
            return Err(error.in_batch(key, keys.len()));
        }
    }
    let (mut expected, mut events) = (vec![], vec![]);
    for key in keys {
        let removal = removal(context, reply, key, force).await;
        let removal = removal.map_err(|error| error.in_batch(key, keys.len()))?;
        if let Some((record, removing)) = removal {
            expected.push(unchanged(&record));
            events.extend(removing);
        }
    }
    if events.is_empty() {
        return Ok(context.store.index());
    }
    let index = context.store.commit_all(expected, events).await?;
    for key in keys {
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deregistered");
    }
    Ok(index)
}

/// Returns the events that remove a registration, with the record that they are for; `None` if the volume was
/// being created and does not exist.
async fn removal(
    context: &VolumeContext,
    reply: &EarlyReply,
    key: &NamespacedId,
    force: bool,
) -> Result<Option<(Arc<VolumeRecord>, Vec<EventKind>)>, ServerError> {
    match settle_creation(context, reply, key, None).await {
        Err(_) if force => {
            let (record, event) = giving_up_event(context, key)?;
            return Ok(Some((record, vec![event])));
        }
        settled => settled?,
    }
    let Some(existing) = context.store.view(key) else {
        return Ok(None);
    };
    let volume = existing.volume();
    if volume.is_claimed() && !(force && nobody_writes(context, &existing)) {
        return Err(in_use(&volume));
    }
    let removed = EventKind::VolumeDeregistered { key: key.clone() };
    let events = orphaned_claims(context, &existing).into_iter();
    let events = events.chain([removed]).collect();
    Ok(Some((existing.record, events)))
}

/// Returns whether no task can write through the registration any more.
fn nobody_writes(context: &VolumeContext, existing: &VolumeView) -> bool {
    let Some(record) = &existing.claims else {
        return true;
    };
    let through = || record.claims.through(existing.record.key());
    context.store.read(|state| writers(state, through()).is_empty())
}

/// The claims that outlive the registration are still detached; a tombstone keeps what that needs
/// (W59).
fn orphaned_claims(context: &VolumeContext, existing: &VolumeView) -> Option<EventKind> {
    let claims = existing.claims.as_ref()?;
    claims.claims.through(existing.record.key()).next()?;
    let tombstone = Tombstone {
        volume: existing.record.key().clone(),
        secrets: existing.record.secrets.clone(),
        since: context.store.now(),
    };
    let event = ClaimEvent::Orphaned {
        registration: Some(tombstone.volume.clone()),
        tombstone: Box::new(tombstone),
    };
    Some(EventKind::Claim { volume: claims.volume.clone(), event: Box::new(event) })
}
