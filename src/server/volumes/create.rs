//! Create: the provider creates a volume, and the volume is registered.
//!
//! CreateVolume is sent under a name that only this volume has. CSI makes that name the identity: the
//! same name gives the same volume (CSI 1.12, CreateVolume). A pending creation is continued under
//! the same name, so a volume is never created twice or left behind.
//!
//! A changed request for a pending creation is sent as changed, and those before it stay on record.
//! ALREADY_EXISTS means that one of these created the volume: they are sent again to learn the volume's ID, and
//! the changed one updates the volume. A volume that exists is never created again; the request updates it.

use tracing::{Instrument as _, info};

use super::call_effect::{is_answered_with, is_certainly_refused};
use super::creation::{
    GivenUp, create_request, give_up_intent, prepare_call, record_intent, restore_intent,
    resume_creation, send_and_record, settle_creation, try_earlier_requests,
};
use super::deps::{VolumeDeps, volume_span};
use super::expand::{ExpansionResult, run_expansion};
use super::named_intent::Prior;
use super::plugin::VolumePlugin;
use super::plugin_validation::validate_at_plugin;
use super::store::{conflict, unchanged};
use super::submission::{VolumeSubmission, VolumeWriteResult};
use super::update::plan_update;
use super::validation::{ValidationTarget, validate_submission};
use super::warnings::{
    expansion_warnings, ignored_field_warnings, shared_warning, topology_warning,
};
use crate::cell::Expected;
use crate::early_reply::EarlyReply;
use crate::error::{ResidualState, ServerError, UpdateOrigin};
use crate::forward_error::ForwardOutcome;
use nomad_csi_claims::state::{CreateRequest, Phase, State, VolumeRecord, VolumeView, volume};
use nomad_csi_model::{NamespacedId, Volume, VolumeRequest};
use nomad_csi_ports::StatusCode;

const ORIGIN: UpdateOrigin = UpdateOrigin::Create;

/// How many different requests of one creation are remembered.
const MAX_REQUESTS: usize = 8;

/// Creates volumes, or updates those that exist.
pub(super) async fn create_volumes(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    submissions: Vec<VolumeSubmission>,
) -> Result<VolumeWriteResult, ServerError> {
    if submissions.is_empty() {
        return Err(ServerError::MissingDefinition);
    }
    for submission in &submissions {
        let checked = check_submission(deps, submission);
        checked.map_err(|error| error.in_batch(&submission.request.key(), submissions.len()))?;
    }
    let mut result = VolumeWriteResult::default();
    let mut failures = vec![];
    for submission in submissions {
        let span = volume_span(&submission.request.key());
        match create_volume(deps, reply, submission).instrument(span).await {
            Ok((view, warnings)) => {
                result.volumes.push(view);
                result.warnings.extend(warnings);
            }
            Err(error) => failures.push(error),
        }
    }
    result.index = deps.store.index();
    if failures.is_empty() { Ok(result) } else { Err(ServerError::Multiple(failures)) }
}

/// Checks what can be checked before any volume of the request is created.
fn check_submission(deps: &VolumeDeps, submission: &VolumeSubmission) -> Result<(), ServerError> {
    let request = &submission.request;
    let (exists, plugin) = deps.store.read(|state| {
        (volume(state, &request.key()).is_some(), VolumePlugin::read(state, &request.plugin_id))
    });
    let target = ValidationTarget { origin: ORIGIN, exists };
    validate_submission(submission, target)?;
    let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
    plugin.check_create()?;
    deps.store.check_namespace(&request.key())?;
    if exists {
        return Ok(());
    }
    plugin.check_source(request)
}

async fn create_volume(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    submission: VolumeSubmission,
) -> Result<(VolumeView, Vec<String>), ServerError> {
    let key = submission.request.key();
    let mut warnings = ignored_field_warnings(&submission.request, ORIGIN);
    let request = submission.request.for_create();
    let _volume = deps.locks.acquire_volume(&key).await?;
    let create = || create_once(deps, reply, &request);
    let view = deps.store.retry_on_conflict(&key, create).await?;
    let of_state = |state: &State| [shared_warning(state, &view), topology_warning(state, &view)];
    warnings.extend(deps.store.read(of_state).into_iter().flatten());
    warnings.extend(expansion_warnings(&view.record));
    Ok((view, warnings))
}

async fn create_once(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    request: &VolumeRequest,
) -> Result<VolumeView, ServerError> {
    let key = request.key();
    let Some(record) = deps.store.record(&key) else {
        return start_creation(deps, reply, request).await;
    };
    match record.phase {
        Phase::Deleting => Err(ServerError::BeingDeleted(key)),
        Phase::Registered => update_volume(deps, reply, request).await,
        Phase::Creating if record.definition.plugin_id == request.plugin_id => {
            resume_with_request(deps, reply, &record, request).await
        }
        Phase::Creating => {
            settle_creation(deps, reply, &key, None).await?;
            Err(conflict(&key))
        }
    }
}

async fn update_volume(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    request: &VolumeRequest,
) -> Result<VolumeView, ServerError> {
    let key = request.key();
    let (existing, plugin) = deps
        .store
        .read(|state| (volume(state, &key), VolumePlugin::read(state, &request.plugin_id)));
    let existing = existing.ok_or_else(|| conflict(&key))?;
    let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
    let update = plan_update(&deps.sealer, &existing, request, &plugin, ORIGIN)?;
    if update.write.is_some() && is_used_otherwise(&existing.volume(), &update.volume) {
        // A node would refuse the volume, and every job that uses it would wait.
        validate_at_plugin(deps, &update.volume, &update.secrets, &plugin).await?;
    }
    if let Some(write) = update.write {
        if let Some(step) = &write.expansion {
            let volume = existing.volume();
            let (plugin, id) = (&volume.plugin_id, volume.remote_id());
            let _external = deps.locks.acquire_external(plugin, &id).await?;
            if run_expansion(deps, reply, step).await? == ExpansionResult::Settled {
                return Err(conflict(&key));
            }
        }
        if let Some(event) = write.event {
            let index = deps.store.commit(write.expected, event).await?;
            info!(volume.id = %key.id, volume.namespace = %key.namespace, index, "volume updated");
        }
    }
    deps.store.written(&key)
}

/// Creates a volume that has no record.
async fn start_creation(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    request: &VolumeRequest,
) -> Result<VolumeView, ServerError> {
    let definition = deps.sealer.definition(request);
    let call = prepare_call(deps, &definition, ResidualState::None).await?;
    let secrets = request.secrets.clone().unwrap_or_default();
    let share = request.share;
    let expected = (Expected::VolumeAbsent(request.key()), call.preferred());
    let request = create_request(deps, &definition, &secrets);
    let intent = record_intent(deps, &call, expected, (request, vec![]), Prior::None).await?;
    send_and_record(deps, reply, &intent, &call, share).await?;
    deps.store.written(&definition.key)
}

/// Continues a pending creation without a request of a client.
pub(super) async fn continue_creation(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    key: &NamespacedId,
) -> Result<(), ServerError> {
    let _volume = deps.locks.acquire_volume(key).await?;
    let record = deps.store.record(key);
    match record.filter(|record| record.phase == Phase::Creating) {
        // No client can allow it to share data now.
        Some(record) => resume_creation(deps, reply, &record, None, false).await,
        None => Ok(()),
    }
}

/// Gives a pending creation up. The provider may have its volume.
pub(super) async fn give_up_creation(
    deps: &VolumeDeps,
    key: &NamespacedId,
) -> Result<GivenUp, ServerError> {
    let _volume = deps.locks.acquire_volume(key).await?;
    give_up_intent(deps, key).await
}

/// Continues a pending creation, with a request that may have changed.
async fn resume_with_request(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    record: &VolumeRecord,
    request: &VolumeRequest,
) -> Result<VolumeView, ServerError> {
    if deps.sealer.is_definition_of(request, &record.definition)? {
        resume_creation(deps, reply, record, request.secrets.as_ref(), request.share).await?;
        // An earlier request may have created the volume, and this one updates it.
        let created = deps.store.record(record.key());
        let is_answer = created.is_some_and(|created| created.definition == record.definition);
        return match is_answer {
            true => deps.store.written(&request.key()),
            false => Err(conflict(record.key())),
        };
    }
    let secrets = match &request.secrets {
        Some(secrets) => secrets.clone(),
        None => deps.sealer.secrets_of(record)?,
    };
    let earlier = other_requests(deps, record, request)?;
    let desired = deps.sealer.definition(request);
    let call = prepare_call(deps, &desired, deps.pending(record)).await?;
    let desired = create_request(deps, &desired, &secrets);
    let expected = (unchanged(record), call.preferred());
    let requests = (desired, earlier);
    let changed = record_intent(deps, &call, expected, requests, Prior::Possible).await?;
    let error = match send_and_record(deps, reply, &changed, &call, request.share).await {
        Ok(()) => return deps.store.written(&request.key()),
        Err(error) => error,
    };
    if is_answered_with(&error, StatusCode::AlreadyExists) {
        let secrets = request.secrets.as_ref();
        let share = request.share;
        let tried = try_earlier_requests(deps, reply, &changed, secrets, &call, share, error).await;
        let Err(error) = tried else {
            return Err(conflict(record.key()));
        };
        if is_certainly_refused(&error) {
            restore_intent(deps, record).await;
        }
        return Err(error);
    }
    if had_no_effect(&error) {
        restore_intent(deps, record).await;
    }
    Err(error)
}

/// The requests of a pending creation that differ from this one, which is about to be sent.
fn other_requests(
    deps: &VolumeDeps,
    record: &VolumeRecord,
    request: &VolumeRequest,
) -> Result<Vec<CreateRequest>, ServerError> {
    let mut others = vec![];
    for sent in record.create_requests() {
        if !deps.sealer.is_definition_of(request, &sent.definition)? {
            others.push(sent);
        }
    }
    if others.len() < MAX_REQUESTS {
        return Ok(others);
    }
    Err(ServerError::TooManyCreateRequests { volume: record.key().clone(), requests: others.len() })
}

/// Returns whether nodes use the volume in another way after an update.
fn is_used_otherwise(before: &Volume, after: &Volume) -> bool {
    let fs_type = |volume: &Volume| {
        let options = volume.mount_options.as_ref();
        options.map(|options| options.fs_type.clone()).unwrap_or_default()
    };
    before.capabilities != after.capabilities || fs_type(before) != fs_type(after)
}

/// Returns whether this call, apart from earlier ones, has certainly created nothing.
fn had_no_effect(error: &ServerError) -> bool {
    let ServerError::Plugin(failure) = error else {
        return false;
    };
    failure.error.outcome() == ForwardOutcome::NoEffect
}
