//! Register: records volumes that the provider has, or updates their registrations.
//!
//! All volumes of a request are planned and validated by the plugin, and then written at once (B94). A
//! new registration contains only what a client may set. An external volume may be registered twice,
//! with a warning, but not while it is being deleted.

use std::collections::{BTreeMap, BTreeSet};

use tracing::info;

use super::creation::CreationProtocol;
use super::expand::{ExpansionResult, VolumeExpander};
use super::limiter::{LockedResource, OperationLimiter};
use super::plugin::VolumePlugin;
use super::store::{VolumeStore, conflict};
use super::submission::{VolumeSubmission, VolumeWriteResult};
use super::update::{PlannedUpdate, PlannedWrite, plan_update, with_kept_context};
use super::validation::{ValidationTarget, validate_submission};
use super::warnings::{
    expansion_warnings, ignored_field_warnings, shared_warning, topology_warning,
};
use crate::model::{
    ExternalId, NamespacedId, PluginId, RemoteVolume, Secrets, Volume, VolumeRequest,
};
use crate::ports::ValidateVolume;
use crate::server::call_line::CallClass;
use crate::server::cell::Expected;
use crate::server::error::{
    CallTarget, ControllerOperation, PluginFailure, ResidualState, ServerError, UpdateOrigin,
};
use crate::server::forward::Forwarder;
use crate::server::sealing::VolumeSealer;
use crate::state::{EventKind, Phase, ProviderFacts, VolumeRecord, volume, volumes_sharing};

const ORIGIN: UpdateOrigin = UpdateOrigin::Register;

/// Registers volumes, or updates their registrations.
pub(super) struct VolumeRegistrar {
    pub(super) store: VolumeStore,
    pub(super) sealer: VolumeSealer,
    pub(super) limiter: OperationLimiter,
    pub(super) forwarder: Forwarder,
    pub(super) creation: CreationProtocol,
    pub(super) expander: VolumeExpander,
}

impl VolumeRegistrar {
    pub(super) async fn register_all(
        &self,
        submissions: Vec<VolumeSubmission>,
        at: Option<u64>,
    ) -> Result<VolumeWriteResult, ServerError> {
        if submissions.is_empty() {
            return Err(ServerError::MissingDefinition);
        }
        check_duplicates(&submissions)?;
        let resources = submissions
            .iter()
            .flat_map(|submission| resources(&submission.request));
        let _permits = self.limiter.acquire_all(resources.collect()).await?;
        for submission in &submissions {
            let key = submission.request.key();
            self.store.check_spec_index(&key, at)?;
        }
        self.store
            .retry_on_conflict(&submissions[0].request.key(), || {
                self.register_once(&submissions)
            })
            .await?;
        Ok(self.result(&submissions))
    }

    async fn register_once(&self, submissions: &[VolumeSubmission]) -> Result<(), ServerError> {
        let mut writes = vec![];
        for submission in submissions {
            let write = self.plan(submission).await;
            let write = write
                .map_err(|error| error.in_batch(&submission.request.key(), submissions.len()))?;
            writes.extend(write);
        }
        self.write_all(writes).await
    }

    /// Plans the write of one volume; `None` if its registration needs no change.
    async fn plan(
        &self,
        submission: &VolumeSubmission,
    ) -> Result<Option<PlannedWrite>, ServerError> {
        let request = &submission.request;
        let key = request.key();
        let target = ValidationTarget {
            origin: ORIGIN,
            exists: self.store.view(&key).is_some(),
        };
        validate_submission(submission, target)?;
        self.creation.settle(&key, request.secrets.as_ref()).await?;
        let (existing, plugin) = self.store.read(|state| {
            (
                volume(state, &key),
                VolumePlugin::read(state, &request.plugin_id),
            )
        });
        let plugin = plugin.ok_or_else(|| ServerError::UnknownPlugin(request.plugin_id.clone()))?;
        plugin.check_controller()?;
        self.store.check_namespace(&key)?;
        let update = match &existing {
            None => self.plan_registration(request, &plugin)?,
            Some(view) if view.record.phase == Phase::Deleting => {
                return Err(ServerError::BeingDeleted(key));
            }
            Some(view) => plan_update(&self.sealer, view, request, &plugin, ORIGIN)?,
        };
        self.validate_at_plugin(&update.volume, &update.secrets, &plugin)
            .await?;
        Ok(update.write)
    }

    fn plan_registration(
        &self,
        request: &VolumeRequest,
        plugin: &VolumePlugin,
    ) -> Result<PlannedUpdate, ServerError> {
        with_kept_context(request, &BTreeMap::new())?;
        let volume = registered_volume(request, plugin);
        self.check_not_being_deleted(&volume)?;
        let secrets = request.secrets.clone().unwrap_or_default();
        let write = PlannedWrite {
            expected: Expected::VolumeAbsent(volume.key()),
            expansion: None,
            event: Some(EventKind::VolumeRegistered {
                definition: Box::new(self.sealer.definition(request)),
                provided: Box::new(ProviderFacts::from(&volume)),
                secrets: self.sealer.seal(&volume.key(), &secrets),
            }),
        };
        Ok(PlannedUpdate {
            volume,
            secrets,
            write: Some(write),
        })
    }

    fn check_not_being_deleted(&self, volume: &Volume) -> Result<(), ServerError> {
        let external_id = volume.remote_id();
        let is_deleting = |record: &VolumeRecord| record.phase == Phase::Deleting;
        let other = self.store.read(|state| {
            let keys = volumes_sharing(state, &volume.plugin_id, &external_id);
            keys.into_iter()
                .find(|key| state.record(key).is_some_and(|record| is_deleting(record)))
        });
        match other {
            None => Ok(()),
            Some(other) => Err(ServerError::SourceBeingDeleted {
                volume: volume.key(),
                external_id,
                other,
            }),
        }
    }

    /// Validates the volume's capabilities at the plugin. A plugin without a controller has no such
    /// call.
    async fn validate_at_plugin(
        &self,
        volume: &Volume,
        secrets: &Secrets,
        plugin: &VolumePlugin,
    ) -> Result<(), ServerError> {
        if !plugin.needs_controller() {
            return Ok(());
        }
        let operation = ControllerOperation::Validate;
        let failed = |error| {
            ServerError::Plugin(Box::new(PluginFailure {
                operation,
                target: CallTarget::Volume(volume.key()),
                subject: volume.remote_id().to_string(),
                plugin: plugin.id().clone(),
                error,
                residual: ResidualState::None,
            }))
        };
        let candidates = plugin.candidates().map_err(|error| failed(error.into()))?;
        let class = CallClass::Create;
        let _permit = self.limiter.acquire_call(class, plugin.id()).await?;
        let remote = RemoteVolume {
            plugin_id: volume.plugin_id.clone(),
            external_id: volume.remote_id(),
        };
        let request = ValidateVolume {
            external_id: volume.remote_id(),
            capabilities: volume.capabilities.clone(),
            mount_options: volume.mount_options.clone().unwrap_or_default(),
            parameters: volume.parameters.clone(),
            context: self.sealer.open_context(&remote, &volume.context)?,
            secrets: secrets.clone(),
        };
        let rpc = operation.rpc();
        let answer = self.forwarder.read(&candidates, rpc, |controller| {
            let request = request.clone();
            async move { controller.validate_volume(request).await }
        });
        answer.await.map_err(failed)
    }

    /// Runs the expansions, then writes all or nothing. If an expansion changed a volume, nothing is written and all
    /// volumes are planned again.
    async fn write_all(&self, writes: Vec<PlannedWrite>) -> Result<(), ServerError> {
        let steps = writes.iter().filter_map(|write| write.expansion.as_ref());
        let mut settled = None;
        for step in steps {
            if self.expander.run(step).await? == ExpansionResult::Settled {
                settled = Some(&step.key);
            }
        }
        if let Some(key) = settled {
            return Err(conflict(key));
        }
        let written = writes
            .into_iter()
            .filter_map(|write| Some((write.expected, write.event?)));
        let (expected, events): (Vec<_>, Vec<_>) = written.unzip();
        if events.is_empty() {
            return Ok(());
        }
        let changes = events
            .iter()
            .map(|event| (event.volume().cloned(), event.name()));
        let changes: Vec<_> = changes.collect();
        let index = self.store.commit_all(expected, events).await?;
        for (volume, change) in changes {
            if let Some(NamespacedId { namespace, id }) = volume {
                info!(volume.id = %id, volume.namespace = %namespace, index, "{change}");
            }
        }
        Ok(())
    }

    fn result(&self, submissions: &[VolumeSubmission]) -> VolumeWriteResult {
        self.store.read(|state| {
            let views = submissions
                .iter()
                .filter_map(|submission| volume(state, &submission.request.key()));
            let volumes: Vec<_> = views.collect();
            let ignored = submissions
                .iter()
                .flat_map(|submission| ignored_field_warnings(&submission.request, ORIGIN));
            let of_state = volumes
                .iter()
                .flat_map(|view| [shared_warning(state, view), topology_warning(state, view)])
                .flatten();
            let pending = volumes
                .iter()
                .flat_map(|view| expansion_warnings(&view.record));
            let warnings = ignored.chain(of_state).chain(pending).collect();
            VolumeWriteResult {
                index: state.index(),
                volumes,
                warnings,
            }
        })
    }
}

/// The resources that a registration locks: the volume and its external volume.
fn resources(request: &VolumeRequest) -> [LockedResource; 2] {
    let id = || ExternalId::new(request.id.as_str());
    let external_id = request.external_id.clone().unwrap_or_else(id);
    let plugin: PluginId = request.plugin_id.clone();
    [
        LockedResource::Volume(request.key()),
        LockedResource::External(plugin, external_id),
    ]
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
        namespace: request.namespace.clone(),
        id: request.id.clone(),
        name: request.name.clone().unwrap_or_default(),
        external_id: request.external_id.clone(),
        plugin_id: request.plugin_id.clone(),
        provider: provider.to_owned(),
        provider_version: provider_version.to_owned(),
        capabilities: request.capabilities.clone(),
        requested_capacity: request.capacity,
        capacity: Default::default(),
        topologies: topologies
            .map(|request| request.required.clone())
            .unwrap_or_default(),
        topology_request: request.topology_request.clone(),
        clone_id: request.clone_id.clone(),
        snapshot_id: request.snapshot_id.clone(),
        mount_options: request.mount_options.clone(),
        parameters: request.parameters.clone().unwrap_or_default(),
        context: request.context.clone().unwrap_or_default(),
        access_mode: None,
        attachment_mode: None,
        read_allocs: Default::default(),
        write_allocs: Default::default(),
        allocs: vec![],
        schedulable: false,
        controller_required: plugin.needs_controller(),
        controllers: Default::default(),
        nodes: Default::default(),
        create_index: 0,
        modify_index: 0,
        spec_index: 0,
        create_time: 0,
        modify_time: 0,
        kept_files: vec![],
    }
}
