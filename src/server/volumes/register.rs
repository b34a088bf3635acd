//! Register: records volumes that the provider has, or updates their registrations.
//!
//! All volumes of a request are planned and validated by the plugin, and then written at once (B94). A
//! new registration contains only what a client may set. Data that is registered is registered again only if the
//! client allows it, and then with a warning, but not while it is being deleted.

use std::collections::{BTreeMap, BTreeSet};

use tracing::info;

use super::creation::settle_creation;
use super::deps::VolumeDeps;
use super::expand::{ExpansionResult, run_expansion};
use super::plugin::VolumePlugin;
use super::plugin_validation::validate_at_plugin;
use super::resource_locks::LockedResource;
use super::store::conflict;
use super::submission::{VolumeSubmission, VolumeWriteResult};
use super::update::{PlannedUpdate, PlannedWrite, plan_update, with_kept_context};
use super::validation::{ValidationTarget, validate_submission};
use super::warnings::{
    expansion_warnings, ignored_field_warnings, shared_warning, topology_warning,
};
use crate::cell::Expected;
use crate::early_reply::EarlyReply;
use crate::error::{ServerError, UpdateOrigin};
use nomad_csi_claims::state::{
    EventKind, Phase, ProviderFacts, VolumeRecord, volume, volumes_sharing,
};
use nomad_csi_model::{ExternalId, NamespacedId, PluginId, RemoteVolume, Volume, VolumeRequest};

const ORIGIN: UpdateOrigin = UpdateOrigin::Register;

/// Registers volumes, or updates their registrations.
pub(super) async fn register_volumes(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    submissions: Vec<VolumeSubmission>,
    at: Option<u64>,
) -> Result<VolumeWriteResult, ServerError> {
    if submissions.is_empty() {
        return Err(ServerError::MissingDefinition);
    }
    check_duplicates(&submissions)?;
    check_data(deps, &submissions)?;
    let resources = submissions.iter().flat_map(|submission| resources(&submission.request));
    let _locks = deps.locks.acquire_all(resources.collect()).await?;
    for submission in &submissions {
        let key = submission.request.key();
        deps.store.check_spec_index(&key, at)?;
    }
    deps.store
        .retry_on_conflict(&submissions[0].request.key(), || {
            register_once(deps, reply, &submissions)
        })
        .await?;
    Ok(result(deps, &submissions))
}

/// Checks that the request registers no data twice.
fn check_data(deps: &VolumeDeps, submissions: &[VolumeSubmission]) -> Result<(), ServerError> {
    let mut first: BTreeMap<(PluginId, ExternalId), (NamespacedId, bool)> = BTreeMap::new();
    let requests = submissions.iter().map(|submission| &submission.request);
    for request in requests.filter(|request| !request.share) {
        let key = request.key();
        let is_new = deps.store.view(&key).is_none();
        let external_id = external_id(request);
        let data = (request.plugin_id.clone(), external_id.clone());
        let Some((other, other_is_new)) = first.insert(data, (key.clone(), is_new)) else {
            continue;
        };
        if is_new || other_is_new {
            return Err(ServerError::SecondRegistration {
                volume: key,
                external_id,
                others: vec![other],
            });
        }
    }
    Ok(())
}

async fn register_once(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    submissions: &[VolumeSubmission],
) -> Result<(), ServerError> {
    let mut writes = vec![];
    for submission in submissions {
        let write = plan_write(deps, reply, submission).await;
        let write =
            write.map_err(|error| error.in_batch(&submission.request.key(), submissions.len()))?;
        writes.extend(write);
    }
    write_all(deps, reply, writes).await
}

/// Plans the write of one volume; `None` if its registration needs no change.
async fn plan_write(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    submission: &VolumeSubmission,
) -> Result<Option<PlannedWrite>, ServerError> {
    let request = &submission.request;
    let key = request.key();
    let target = ValidationTarget { origin: ORIGIN, exists: deps.store.view(&key).is_some() };
    validate_submission(submission, target)?;
    settle_creation(deps, reply, &key, request.secrets.as_ref()).await?;
    let (existing, plugin) = deps
        .store
        .read(|state| (volume(state, &key), VolumePlugin::read(state, &request.plugin_id)));
    let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
    plugin.check_controller()?;
    deps.store.check_namespace(&key)?;
    let update = match &existing {
        None => plan_registration(deps, request, &plugin)?,
        Some(view) if view.record.phase == Phase::Deleting => {
            return Err(ServerError::BeingDeleted(key));
        }
        Some(view) => plan_update(&deps.sealer, view, request, &plugin, ORIGIN)?,
    };
    validate_at_plugin(deps, &update.volume, &update.secrets, &plugin).await?;
    Ok(update.write)
}

fn plan_registration(
    deps: &VolumeDeps,
    request: &VolumeRequest,
    plugin: &VolumePlugin,
) -> Result<PlannedUpdate, ServerError> {
    with_kept_context(request, &BTreeMap::new())?;
    let volume = registered_volume(request, plugin);
    check_not_being_deleted(deps, &volume)?;
    if !request.share {
        check_alone(deps, &volume)?;
    }
    let secrets = request.secrets.clone().unwrap_or_default();
    let write = PlannedWrite {
        expected: expected_of_new(&volume, request.share),
        expansion: None,
        event: Some(EventKind::VolumeRegistered {
            definition: Box::new(deps.sealer.definition(request)),
            provided: Box::new(ProviderFacts::from(&volume)),
            secrets: deps.sealer.seal(&volume.key(), &secrets),
        }),
    };
    Ok(PlannedUpdate { volume, secrets, write: Some(write) })
}

fn check_not_being_deleted(deps: &VolumeDeps, volume: &Volume) -> Result<(), ServerError> {
    let external_id = volume.remote_id();
    let is_deleting = |record: &VolumeRecord| record.phase == Phase::Deleting;
    let other = deps.store.read(|state| {
        let keys = volumes_sharing(state, &volume.plugin_id, &external_id);
        keys.into_iter().find(|key| state.record(key).is_some_and(|record| is_deleting(record)))
    });
    match other {
        None => Ok(()),
        Some(other) => {
            Err(ServerError::SourceBeingDeleted { volume: volume.key(), external_id, other })
        }
    }
}

/// Checks before the plugin is called that no other volume has the data. The write checks it again.
fn check_alone(deps: &VolumeDeps, volume: &Volume) -> Result<(), ServerError> {
    let external_id = volume.remote_id();
    let others = deps.store.read(|state| volumes_sharing(state, &volume.plugin_id, &external_id));
    match others.is_empty() {
        true => Ok(()),
        false => Err(ServerError::SecondRegistration { volume: volume.key(), external_id, others }),
    }
}

/// Runs the expansions, then writes all or nothing. If an expansion changed a volume, nothing is written and all
/// volumes are planned again.
async fn write_all(
    deps: &VolumeDeps,
    reply: &EarlyReply,
    writes: Vec<PlannedWrite>,
) -> Result<(), ServerError> {
    let steps = writes.iter().filter_map(|write| write.expansion.as_ref());
    let mut settled = None;
    for step in steps {
        if run_expansion(deps, reply, step).await? == ExpansionResult::Settled {
            settled = Some(&step.key);
        }
    }
    if let Some(key) = settled {
        return Err(conflict(key));
    }
    let written = writes.into_iter().filter_map(|write| Some((write.expected, write.event?)));
    let (expected, events): (Vec<_>, Vec<_>) = written.unzip();
    if events.is_empty() {
        return Ok(());
    }
    let changes = events.iter().map(|event| (event.volume().cloned(), event.name()));
    let changes: Vec<_> = changes.collect();
    let index = deps.store.commit_all(expected, events).await?;
    for (volume, change) in changes {
        if let Some(NamespacedId { namespace, id }) = volume {
            info!(volume.id = %id, volume.namespace = %namespace, index, "{change}");
        }
    }
    Ok(())
}

fn result(deps: &VolumeDeps, submissions: &[VolumeSubmission]) -> VolumeWriteResult {
    deps.store.read(|state| {
        let views =
            submissions.iter().filter_map(|submission| volume(state, &submission.request.key()));
        let volumes: Vec<_> = views.collect();
        let ignored = submissions
            .iter()
            .flat_map(|submission| ignored_field_warnings(&submission.request, ORIGIN));
        let of_state = volumes
            .iter()
            .flat_map(|view| [shared_warning(state, view), topology_warning(state, view)])
            .flatten();
        let pending = volumes.iter().flat_map(|view| expansion_warnings(&view.record));
        let warnings = ignored.chain(of_state).chain(pending).collect();
        VolumeWriteResult { index: state.index(), volumes, warnings }
    })
}

/// Returns what a new registration relies on: that no other volume has its data, unless the client allows it.
fn expected_of_new(volume: &Volume, may_share: bool) -> Expected {
    match may_share {
        true => Expected::VolumeAbsent(volume.key()),
        false => Expected::VolumeAloneAt {
            key: volume.key(),
            at: None,
            data: RemoteVolume {
                plugin_id: volume.plugin_id.clone(),
                external_id: volume.remote_id(),
            },
        },
    }
}

/// The resources that a registration locks: the volume and its external volume.
fn resources(request: &VolumeRequest) -> [LockedResource; 2] {
    [
        LockedResource::Volume(request.key()),
        LockedResource::External(request.plugin_id.clone(), external_id(request)),
    ]
}

/// The provider's ID of a volume, which is its own without another.
fn external_id(request: &VolumeRequest) -> ExternalId {
    let id = || ExternalId::new(request.id.as_str());
    request.external_id.clone().unwrap_or_else(id)
}

fn check_duplicates(submissions: &[VolumeSubmission]) -> Result<(), ServerError> {
    let mut seen = BTreeSet::new();
    for submission in submissions {
        let key = submission.request.key();
        if !seen.insert(key.clone()) {
            return Err(ServerError::Invalid {
                volume: key.id,
                problems: vec!["the request contains the volume twice".into()],
            });
        }
    }
    Ok(())
}

/// A new volume from the fields that a client may set: without claims, of unknown size, with the
/// requested topologies.
fn registered_volume(request: &VolumeRequest, plugin: &VolumePlugin) -> Volume {
    let (provider, provider_version) = plugin.provider();
    let topologies = request.topology_request.as_ref();
    Volume {
        provider: provider.to_owned(),
        provider_version: provider_version.to_owned(),
        topologies: topologies.map(|request| request.required.clone()).unwrap_or_default(),
        controller_required: plugin.needs_controller(),
        ..Volume::of_request(request.clone())
    }
}
