//! Deregister: a registration is removed, and the provider keeps the volume.

use std::collections::BTreeSet;
use std::sync::Arc;

use tracing::info;

use super::creation::{giving_up_event, settle_creation};
use super::delete::in_use;
use super::deps::VolumeDeps;
use super::resource_locks::LockedResource;
use super::store::unchanged;
use crate::candidates::InstanceEnd;
use crate::claims::writers;
use crate::early_reply::EarlyReply;
use crate::error::ServerError;
use nomad_csi_claims::claim::{ClaimEvent, Tombstone};
use nomad_csi_claims::state::{
    EventKind, VolumeIntent, VolumeRecord, VolumeView, instance_of_intent,
};
use nomad_csi_model::{AllocId, NamespacedId};

/// Removes all registrations or none (B94).
pub(super) async fn deregister_volumes(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    keys: &BTreeSet<NamespacedId>,
    force: bool,
    at: Option<u64>,
) -> Result<u64, ServerError> {
    let first = keys.first().ok_or(ServerError::MissingVolumeId)?;
    let resources = keys.iter().cloned().map(LockedResource::Volume);
    let _volumes = deps.locks.acquire_all(resources.collect()).await?;
    for key in keys {
        deps.store.check_spec_index(key, at)?;
    }
    deps.store.retry_on_conflict(first, || deregister_once(deps, reply, keys, force)).await
}

async fn deregister_once(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    keys: &BTreeSet<NamespacedId>,
    force: bool,
) -> Result<u64, ServerError> {
    for key in keys {
        if deps.store.record(key).is_none() {
            let error = ServerError::VolumeNotFound(key.clone());
            return Err(error.in_batch(key, keys.len()));
        }
    }
    let (mut expected, mut events) = (vec![], vec![]);
    for key in keys {
        let removal = removal(deps, reply, key, force).await;
        let removal = removal.map_err(|error| error.in_batch(key, keys.len()))?;
        if let Some((record, removing)) = removal {
            expected.push(unchanged(&record));
            events.extend(removing);
        }
    }
    if events.is_empty() {
        return Ok(deps.store.index());
    }
    let index = deps.store.commit_all(expected, events).await?;
    for key in keys {
        info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deregistered");
    }
    Ok(index)
}

/// Returns the events that remove a registration, with the record that they are for; `None` if the volume was
/// being created and does not exist.
async fn removal(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
    force: bool,
) -> Result<Option<(Arc<VolumeRecord>, Vec<EventKind>)>, ServerError> {
    match settle_creation(deps, reply, key, None).await {
        Err(_) if force => {
            let (record, event) = giving_up_event(deps, key)?;
            return Ok(Some((record, vec![event])));
        }
        settled => settled?,
    }
    let Some(existing) = deps.store.view(key) else {
        return Ok(None);
    };
    let volume = existing.volume();
    if volume.is_claimed() && !(force && nobody_writes(deps, &existing)) {
        return Err(in_use(&volume));
    }
    if let Some(instance) = instance_of_open_call(deps, &existing.record).filter(|_| !force) {
        let (volume, plugin) = (key.clone(), existing.record.definition.plugin_id.clone());
        let end = deps.store.read(|state| InstanceEnd::on_record(state, &plugin, &instance));
        return Err(ServerError::CallOpen { volume, plugin, instance, end });
    }
    let removed = EventKind::VolumeDeregistered { key: key.clone() };
    let events = orphaned_claims(deps, &existing).into_iter();
    let events = events.chain([removed]).collect();
    Ok(Some((existing.record, events)))
}

/// Returns the instance that may still carry out a call of the registration. With the registration the agent would forget
/// it, and call another one for the data (rule 4 of the claims machine).
fn instance_of_open_call(deps: &VolumeDeps, record: &VolumeRecord) -> Option<AllocId> {
    let mut open = VolumeIntent::ALL
        .into_iter()
        .filter_map(|intent| deps.store.read(|state| instance_of_intent(state, record, intent)));
    open.next()
}

/// Returns whether no task can write through the registration any more.
fn nobody_writes(deps: &VolumeDeps, existing: &VolumeView) -> bool {
    let Some(record) = &existing.claims else {
        return true;
    };
    let through = || record.claims.through(existing.record.key());
    deps.store.read(|state| writers(state, through()).is_empty())
}

/// The claims that outlive the registration are still detached; a tombstone keeps what that needs
/// (W59).
fn orphaned_claims(deps: &VolumeDeps, existing: &VolumeView) -> Option<EventKind> {
    let claims = existing.claims.as_ref()?;
    claims.claims.through(existing.record.key()).next()?;
    let tombstone = Tombstone {
        volume: existing.record.key().clone(),
        secrets: existing.record.secrets.clone(),
        since: deps.store.now(),
    };
    let event = ClaimEvent::Orphaned {
        registration: Some(tombstone.volume.clone()),
        tombstone: Box::new(tombstone),
    };
    Some(EventKind::Claim { volume: claims.volume.clone(), event: Box::new(event) })
}
