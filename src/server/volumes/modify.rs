//! Modify: the provider changes mutable parameters of a volume, also while it is in use.
//!
//! The intent is recorded before ControllerModifyVolume, with the controller that gets it. It is removed with the answer, or when the call had certainly no
//! effect: an invalid request changes nothing (CSI, ControllerModifyVolume). It is also removed if the plugin refuses the call as it
//! is, and every earlier one sent the same or went to a controller that is gone: then its parameters are not known to be in
//! force any more. Otherwise the next request sends the identical
//! call first, and then its own; one that sets all parameters of the pending call takes its place. If that one is refused
//! at once, the earlier call is pending again, at the controller that it is bound to: it may have had its effect. What is in force is recorded: a parameter that was set stays
//! until it is set again.

use std::collections::BTreeMap;

use tracing::{info, warn};

use super::call_effect::{certainly_had_no_effect, is_permanently_refused};
use super::deps::VolumeDeps;
use super::named_intent::{NamedIntent, Prior, is_named, named_call};
use super::store::{conflict, unchanged};
use crate::cell::Expected;
use crate::early_reply::EarlyReply;
use crate::error::{
    CallDescription, ControllerOperation, ResidualState, ServerError, UnsupportedOperation,
};
use crate::forward::PermittedCalls;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{ControllerCall, EventKind, Phase, VolumeIntent, VolumeRecord};
use nomad_csi_model::NamespacedId;
use nomad_csi_ports::{ModifyVolume, Rpc};

/// The most mutable parameters of a volume.
pub(super) const MAX_PARAMETERS: usize = 64;
/// The most bytes of their names and values (CSI, "Size Limits").
pub(super) const MAX_BYTES: usize = 4096;

type Parameters = BTreeMap<String, String>;

/// The mutable parameters of a volume after a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifiedVolume {
    /// Those that are in force, as far as they were set through the agent.
    pub parameters: BTreeMap<String, String>,
    /// The index of the change.
    pub index: u64,
}

/// Changes mutable parameters of a volume.
pub(super) async fn modify_volume(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
    parameters: &Parameters,
) -> Result<ModifiedVolume, ServerError> {
    let _volume = deps.locks.acquire_volume(key).await?;
    let record = registered_record(deps, key)?;
    check(key, &record, parameters)?;
    let (plugin, id) = (&record.definition.plugin_id, record.provider_id());
    let _external = deps.locks.acquire_external(plugin, &id).await?;
    let covers = |pending: &Parameters| pending.keys().all(|name| parameters.contains_key(name));
    let pending = record.modifying.filter(|pending| !covers(pending));
    if let Some(pending) = pending {
        let settle = || send_and_record(deps, reply, key, &pending);
        let settled = deps.store.retry_on_conflict(key, settle).await;
        if registered_record(deps, key)?.modifying.is_some() {
            settled?;
        }
    }
    let change = || send_and_record(deps, reply, key, parameters);
    deps.store.retry_on_conflict(key, change).await
}

fn registered_record(deps: &VolumeDeps, key: &NamespacedId) -> Result<VolumeRecord, ServerError> {
    let record = deps.store.record(key);
    let record = record.ok_or(ServerError::NoVolumeToRead)?;
    match record.phase {
        Phase::Registered => Ok(VolumeRecord::clone(&record)),
        Phase::Creating => Err(ServerError::NoVolumeToRead),
        Phase::Deleting => Err(ServerError::BeingDeleted(key.clone())),
    }
}

async fn send_and_record(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
    parameters: &Parameters,
) -> Result<ModifiedVolume, ServerError> {
    let record = registered_record(deps, key)?;
    let id = record.definition.plugin_id.clone();
    let plugin = deps.store.plugin(&id)?;
    if !plugin.can(|controller| controller.modify_volume) {
        return Err(ServerError::NotSupported {
            plugin: id,
            operation: UnsupportedOperation::ModifyVolume,
        });
    }
    let (operation, external_id) = (ControllerOperation::Modify, record.provider_id());
    let call = CallDescription::of_volume(operation, key.clone(), &external_id, &id);
    let left = residual(deps, &record);
    let bound = ControllerCall::of_intent(&record, VolumeIntent::Modify);
    let calls = deps.admit_for((CallClass::Change, &bound), &plugin, &call, left).await?;
    let secrets = deps.sealer.secrets_of(&record)?;
    let earlier = record.modifying.clone();
    let request =
        ModifyVolume { external_id: record.provider_id(), parameters: parameters.clone(), secrets };
    let intent = record_intent(deps, record, &request, (&bound, &calls)).await?;
    let report = |error| reply.send(call.failed(error, residual(deps, &intent.latest())));
    let rpc = Rpc::ControllerModifyVolume;
    let answer = calls.change((rpc, &intent), report, |controller| {
        let request = request.clone();
        async move { controller.modify_volume(request).await }
    });
    match answer.await {
        Ok(()) => record_success(deps, &intent.latest()).await,
        Err(error) => Err(record_failure(deps, &call, &intent, earlier, error).await),
    }
}

/// Records the intent with its controller, unless it is on record already.
async fn record_intent(
    deps: &VolumeDeps,
    record: VolumeRecord,
    request: &ModifyVolume,
    (bound, calls): (&ControllerCall, &PermittedCalls),
) -> Result<NamedIntent, ServerError> {
    let intent = VolumeIntent::Modify;
    let fingerprint =
        deps.sealer.request_fingerprint(record.key(), facts(request), &request.secrets);
    let parameters = &request.parameters;
    let is_repeated = record.modifying.as_ref() == Some(parameters);
    let prior = if is_repeated { Prior::Possible } else { Prior::None };
    if is_repeated && is_named(deps, &record, (intent, &fingerprint), calls) {
        return Ok(NamedIntent::found(deps, record, (intent, fingerprint), prior));
    }
    let (key, instance) = (record.key(), calls.preferred().cloned());
    let named = deps.store.intent_request(&record, (intent, instance.as_ref()), &fingerprint);
    let event = EventKind::VolumeModifyIntended {
        key: key.clone(),
        parameters: parameters.clone(),
        instance: instance.clone(),
        request: Some(named),
    };
    let expected = (unchanged(&record), instance);
    NamedIntent::record(deps, (key, bound, (intent, fingerprint)), expected, event, prior).await
}

/// Returns what a change sends besides its secrets, as its fingerprint has it.
fn facts(request: &ModifyVolume) -> impl Iterator<Item = (String, String)> {
    let ModifyVolume { external_id, parameters, secrets: _ } = request;
    let external_id = ("external ID".to_owned(), external_id.to_string());
    let parameters = parameters.iter();
    let parameters = parameters.map(|(name, value)| (format!("parameter {name}"), value.clone()));
    [external_id].into_iter().chain(parameters)
}

async fn record_success(
    deps: &VolumeDeps,
    intended: &VolumeRecord,
) -> Result<ModifiedVolume, ServerError> {
    let key = intended.key();
    let event = EventKind::VolumeModified { key: key.clone() };
    let index = deps.store.commit(unchanged(intended), event).await?;
    info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume modified");
    let modified = deps.store.record(key).ok_or_else(|| conflict(key))?;
    Ok(ModifiedVolume { parameters: modified.mutable_parameters.clone(), index })
}

async fn record_failure(
    deps: &VolumeDeps,
    call: &CallDescription,
    intent: &NamedIntent,
    earlier: Option<Parameters>,
    error: ForwardError,
) -> ServerError {
    let (intended, prior) = (&intent.latest(), intent.prior());
    let key = intended.key();
    let replaced = earlier.filter(|earlier| Some(earlier) != intended.modifying.as_ref());
    let without_effect = call.failed(error.clone(), ResidualState::None).into();
    let is_certain = certainly_had_no_effect(&error, prior);
    // A change that may have an effect stays on record, and so does not give way to the one that it replaced.
    let is_ended =
        replaced.is_none() && is_permanently_refused(&without_effect) && prior.have_ended();
    if is_certain || is_ended {
        let mut expected = vec![unchanged(intended)];
        let (event, outcome) = match replaced {
            None => {
                let may_have_changed = !is_certain && !intent.went_to_one_program();
                let key = key.clone();
                (EventKind::VolumeModifyAbandoned { key, may_have_changed }, without_effect)
            }
            Some(parameters) => {
                let (key, modify) = (key.clone(), VolumeIntent::Modify);
                let (instance, request) = named_call(intended, modify).unzip();
                // Another call may have bound the volume in the meantime.
                let bound = ControllerCall::of_intent(intended, modify);
                expected
                    .extend(instance.clone().map(|instance| Expected::Controller(bound, instance)));
                let request = request.flatten();
                let again = EventKind::VolumeModifyIntended { key, parameters, instance, request };
                (again, call.failed(error.clone(), residual(deps, intended)).into())
            }
        };
        match deps.store.commit_all(expected, vec![event]).await {
            Ok(_) => return outcome,
            Err(error) => {
                warn!(volume.id = %key.id, volume.namespace = %key.namespace, error = error.detail(),
                    "the intent to modify the volume stays on record");
            }
        }
    }
    call.failed(error, residual(deps, intended)).into()
}

/// The state that a failure leaves: the pending change, if one is on record.
fn residual(deps: &VolumeDeps, record: &VolumeRecord) -> ResidualState {
    match record.modifying {
        None => ResidualState::None,
        Some(_) => deps.pending(record),
    }
}

/// Refuses what cannot be sent, and what would be too much to keep.
fn check(
    key: &NamespacedId,
    record: &VolumeRecord,
    parameters: &Parameters,
) -> Result<(), ServerError> {
    let mut kept = record.mutable_parameters.clone();
    kept.extend(record.modifying.clone().unwrap_or_default());
    kept.extend(parameters.clone());
    let bytes: usize = kept.iter().map(|(name, value)| name.len() + value.len()).sum();
    let has_nul = |text: &str| text.contains('\0');
    let problem = if parameters.is_empty() {
        "no mutable parameters are given".to_owned()
    } else if parameters.contains_key("") {
        "a mutable parameter has no name".to_owned()
    } else if parameters.iter().any(|(name, value)| has_nul(name) || has_nul(value)) {
        "a mutable parameter has a NUL".to_owned()
    } else if kept.len() > MAX_PARAMETERS {
        format!(
            "a volume has at most {MAX_PARAMETERS} mutable parameters, and this one would have {}",
            kept.len()
        )
    } else if bytes > MAX_BYTES {
        format!(
            "the mutable parameters of a volume have at most {MAX_BYTES} bytes, and those of this one would have {bytes}"
        )
    } else {
        return Ok(());
    };
    Err(ServerError::Invalid { volume: key.id.clone(), problems: vec![problem] })
}
