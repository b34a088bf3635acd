//! Delete: the provider deletes a volume, and its registration is removed.
//!
//! The agent checks for claims and for other registrations before it asks the plugin, then records
//! the intent with the controller that gets the call. From then on only a delete is possible. The answer resolves the intent: the volume is
//! gone, or it is registered as before if certainly nothing was deleted. An answer to a request with other secrets resolves
//! nothing. Without an answer the intent
//! stays, and the next delete sends the same call again.

use std::collections::BTreeSet;

use tracing::{info, warn};

use super::call_effect::certainly_had_no_effect;
use super::creation::settle_creation;
use super::deps::VolumeDeps;
use super::named_intent::{NamedIntent, Prior, is_named};
use super::plugin::VolumePlugin;
use super::store::unchanged;
use crate::early_reply::EarlyReply;
use crate::error::{CallDescription, ControllerOperation, ResidualState, ServerError};
use crate::forward::PermittedCalls;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{
    ControllerCall, EventKind, Phase, VolumeIntent, VolumeRecord, VolumeView, volumes_of_data,
};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{NamespacedId, Secrets, Volume};
use nomad_csi_ports::{Rpc, StatusCode};

/// Deletes a volume; `secrets` overlay the stored ones.
pub(super) async fn delete_volume(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
    secrets: Secrets,
    at: Option<u64>,
) -> Result<u64, ServerError> {
    let _volume = deps.locks.acquire_volume(key).await?;
    deps.store.check_spec_index(key, at)?;
    deps.store.retry_on_conflict(key, || delete_once(deps, reply, key, &secrets)).await
}

async fn delete_once(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
    secrets: &Secrets,
) -> Result<u64, ServerError> {
    let existed = deps.store.record(key).is_some();
    settle_creation(deps, reply, key, None).await?;
    let existing = match deps.store.view(key) {
        Some(existing) => existing,
        // The creation was pending and had no effect, so the volume counts as deleted.
        None if existed => return Ok(deps.store.index()),
        None => return Err(ServerError::VolumeNotFound(key.clone())),
    };
    let volume = existing.volume();
    let (plugin, external_id) = (&volume.plugin_id, volume.remote_id());
    let _external = deps.locks.acquire_external(plugin, &external_id).await?;
    check_deletable(deps, &existing)?;
    let plugin = deleting_plugin(deps, &volume)?;
    let call = CallDescription::of_volume(
        ControllerOperation::Delete,
        volume.key(),
        &external_id,
        plugin.id(),
    );
    let left = match existing.record.phase {
        Phase::Deleting => pending(deps, key),
        Phase::Registered | Phase::Creating => ResidualState::None,
    };
    let bound = ControllerCall::of_intent(&existing.record, VolumeIntent::Delete);
    let calls = deps.admit_for((CallClass::Release, &bound), &plugin, &call, left).await?;
    let stored = deps.sealer.secrets_of(&existing.record)?;
    let secrets = stored.merged_with(secrets);
    let facts = [("external ID".to_owned(), external_id.to_string())];
    let request = deps.sealer.request_fingerprint(key, facts, &secrets);
    let intent = record_intent(deps, &existing, request, (&bound, &calls)).await?;
    let report = |error| reply.send(call.failed(error, pending(deps, key)));
    let answer = send((&calls, &intent), report, &volume, secrets).await;
    record_answer(deps, &call, &intent, answer).await
}

/// Returns the plugin of a volume, which must be able to delete it.
fn deleting_plugin(deps: &VolumeDeps, volume: &Volume) -> Result<VolumePlugin, ServerError> {
    let id = &volume.plugin_id;
    let plugin = deps.store.read(|state| VolumePlugin::read(state, id));
    let plugin = plugin.ok_or_else(|| ServerError::PluginNotFound(id.clone()))?;
    if !plugin.needs_controller() {
        return Err(ServerError::CannotDelete { volume: volume.key(), plugin: id.clone() });
    }
    Ok(plugin)
}

/// Refuses a volume that has claims, or that is registered more than once. The claims of a registration
/// that is gone count too: its data may still be attached.
fn check_deletable(deps: &VolumeDeps, existing: &VolumeView) -> Result<(), ServerError> {
    let volume = existing.volume();
    if volume.is_claimed() {
        return Err(in_use(&volume));
    }
    let key = volume.key();
    let external_id = volume.remote_id();
    let mut others = deps.store.read(|state| volumes_of_data(state, existing));
    others.retain(|other| *other != key);
    if !others.is_empty() {
        return Err(ServerError::Shared { volume: key, external_id, others });
    }
    let orphaned = existing.claims.iter().flat_map(|record| record.claims.claims.keys());
    let claiming: BTreeSet<_> = orphaned.map(|key| key.alloc.clone()).collect();
    match claiming.is_empty() {
        true => Ok(()),
        false => Err(ServerError::VolumeInUse {
            volume: key,
            claiming_allocs: claiming.into_iter().collect(),
        }),
    }
}

/// Records the intent with its controller, unless it is on record already.
async fn record_intent(
    deps: &VolumeDeps,
    existing: &VolumeView,
    request: String,
    (bound, calls): (&ControllerCall, &PermittedCalls),
) -> Result<NamedIntent, ServerError> {
    let (record, intent) = (VolumeRecord::clone(&existing.record), VolumeIntent::Delete);
    let prior = Prior::of(&record, intent);
    if is_named(deps, &record, (intent, &request), calls) {
        return Ok(NamedIntent::found(deps, record, (intent, request), prior));
    }
    let (key, instance) = (record.key(), calls.preferred().cloned());
    let named = deps.store.intent_request(&record, (intent, instance.as_ref()), &request);
    let event = EventKind::VolumeDeleteIntended {
        key: key.clone(),
        instance: instance.clone(),
        request: Some(named),
    };
    let expected = (unchanged(&record), instance);
    NamedIntent::record(deps, (key, bound, (intent, request)), expected, event, prior).await
}

async fn send(
    (calls, intent): (&PermittedCalls, &NamedIntent),
    report: impl Fn(ForwardError) + Send + Sync,
    volume: &Volume,
    secrets: Secrets,
) -> Result<(), ForwardError> {
    let external_id = volume.remote_id();
    let answer = calls.change((Rpc::DeleteVolume, intent), report, |controller| {
        let (external_id, secrets) = (external_id.clone(), secrets.clone());
        async move { controller.delete_volume(external_id, secrets).await }
    });
    match answer.await {
        Err(ForwardError::Failed { error, .. }) if error.verdict == Verdict::AlreadyDone => Ok(()),
        answer => answer,
    }
}

/// The state that a failure leaves while the intent is on record.
fn pending(deps: &VolumeDeps, key: &NamespacedId) -> ResidualState {
    ResidualState::PendingIntent { provider_name: deps.store.provider_name(key) }
}

async fn record_answer(
    deps: &VolumeDeps,
    call: &CallDescription,
    intent: &NamedIntent,
    answer: Result<(), ForwardError>,
) -> Result<u64, ServerError> {
    let record = intent.latest();
    let (key, expected) = (record.key(), unchanged(&record));
    let error = match answer {
        Ok(()) => {
            let event = EventKind::VolumeDeleted { key: key.clone() };
            let index = deps.store.commit(expected, event).await?;
            info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume deleted");
            return Ok(index);
        }
        Err(error) => error,
    };
    let pending = pending(deps, key);
    let is_in_use = is_in_use_at_provider(&error) && intent.prior().have_ended();
    if !certainly_had_no_effect(&error, intent.prior()) && !is_in_use {
        return Err(call.failed(error, pending).into());
    }
    let event = EventKind::VolumeDeleteAbandoned { key: key.clone() };
    let residual = match deps.store.commit(expected, event).await {
        Ok(_) => ResidualState::None,
        Err(error) => {
            warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
                "the intent to delete the volume stays on record");
            pending
        }
    };
    Err(call.failed(error, residual).into())
}

/// Returns whether the plugin reports that the volume is in use: then no call that has ended has deleted it.
fn is_in_use_at_provider(error: &ForwardError) -> bool {
    match error {
        ForwardError::Failed { error, .. } => error.code == StatusCode::FailedPrecondition,
        ForwardError::NoController(_) | ForwardError::TimedOut { .. } => false,
    }
}

/// The refusal of a volume that has claims.
pub(super) fn in_use(volume: &Volume) -> ServerError {
    ServerError::VolumeInUse {
        volume: volume.key(),
        claiming_allocs: volume.claiming_allocs().cloned().collect(),
    }
}
