//! The state of the fake plugin: volumes, snapshots, staged and published volumes of one node.
//!
//! The fake follows CSI 1.12 instead of scripted answers. A normal error, such as a taken name or a
//! missing volume, is a [`Refusal`]. A call that CSI forbids is refused *and* recorded as a violation,
//! which fails the test: publish before stage, a second staging path, unstage or delete of a
//! published volume, a foreign volume context, missing secrets, or an RPC without its capability.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::settings::PluginSettings;
use crate::model::{
    AccessMode, Bytes, Capability, CapacityRange, Condition, ControllerCapabilities, ExternalId,
    MountOptions, NodeCapabilities, Secrets, SnapshotId, TopologyRequest,
};
use crate::ports::plugin::{
    CreateVolume, CreatedVolume, PublishVolume, Rpc, StageVolume, StatusCode, ValidateVolume,
    VolumeSource,
};

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The gRPC status code.
    pub code: StatusCode,
    /// The plugin's message.
    pub message: String,
}

pub(super) fn refuse<T>(code: StatusCode, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        code,
        message: message.into(),
    })
}

/// A volume of the fake plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeVolume {
    /// `fake-1`, `fake-2` and so on, or the ID that the test gave.
    pub external_id: ExternalId,
    /// The name at creation; `None` if the test added the volume.
    pub name: Option<String>,
    /// The volume context, which later calls must send back.
    pub context: BTreeMap<String, String>,
    /// The size.
    pub capacity: Bytes,
    /// The condition that the plugin reports.
    pub condition: Condition,
    pub(super) arguments: CreateArguments,
}

/// A snapshot of the fake plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeSnapshot {
    /// `snap-1`, `snap-2` and so on.
    pub id: SnapshotId,
    /// The name at creation.
    pub name: String,
    /// The volume of the snapshot.
    pub source: ExternalId,
    /// The size of the volume at that time.
    pub size: Bytes,
    /// The creation time in seconds since the epoch.
    pub created_at: u64,
}

/// The arguments of CreateVolume. A second call with the same name must have the same arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CreateArguments {
    capacity: CapacityRange,
    capabilities: BTreeSet<Capability>,
    mount_options: MountOptions,
    parameters: BTreeMap<String, String>,
    pub(super) source: Option<VolumeSource>,
    topology: TopologyRequest,
}

/// A staged volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeStaging {
    /// The staging path, the only one on this node.
    pub path: PathBuf,
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
}

/// A published volume at one target path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeTarget {
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
    /// Whether the target refuses writes.
    pub read_only: bool,
}

/// The state of the plugin.
#[derive(Debug, Default)]
pub struct ProviderState {
    /// What the plugin reports and requires.
    pub settings: PluginSettings,
    pub(super) volumes: BTreeMap<ExternalId, FakeVolume>,
    pub(super) snapshots: BTreeMap<SnapshotId, FakeSnapshot>,
    pub(super) stagings: BTreeMap<ExternalId, FakeStaging>,
    pub(super) targets: BTreeMap<(ExternalId, PathBuf), FakeTarget>,
    pub(super) violations: Vec<String>,
    created: u64,
    pub(super) snapshots_created: u64,
}

impl ProviderState {
    pub(super) fn new(settings: PluginSettings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// Records a violation and refuses the call.
    ///
    /// # Errors
    /// Always returns the refusal.
    pub fn violation<T>(
        &mut self,
        rpc: Rpc,
        code: StatusCode,
        what: impl std::fmt::Display,
    ) -> Result<T, Refusal> {
        self.violations.push(format!("{rpc}: {what}"));
        refuse(code, what.to_string())
    }

    /// Adds a volume that was not created through this plugin.
    pub(super) fn add(&mut self, external_id: ExternalId, context: BTreeMap<String, String>) {
        let volume = FakeVolume {
            external_id: external_id.clone(),
            name: None,
            context,
            capacity: self.settings.default_capacity,
            condition: Condition::default(),
            arguments: CreateArguments::default(),
        };
        self.volumes.insert(external_id, volume);
    }

    /// Handles CreateVolume.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn create(&mut self, request: &CreateVolume) -> Result<CreatedVolume, Refusal> {
        let rpc = Rpc::CreateVolume;
        self.require_capability(rpc, self.controller().create_delete_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.check_create(request)?;
        let wanted = CreateArguments::from(request);
        let same_name = |volume: &&FakeVolume| volume.name.as_ref() == Some(&request.name);
        if let Some(existing) = self.volumes.values().find(same_name) {
            if existing.arguments == wanted {
                return Ok(created(existing));
            }
            let message = format!("the name {} is taken by another volume", request.name);
            return refuse(StatusCode::AlreadyExists, message);
        }
        if let Some(VolumeSource::Volume(id)) = &request.source
            && !self.volumes.contains_key(&ExternalId::new(id.as_str()))
        {
            return refuse(StatusCode::NotFound, format!("no source volume {id}"));
        }
        if let Some(VolumeSource::Snapshot(id)) = &request.source
            && !self.snapshots.contains_key(&SnapshotId::new(id.as_str()))
        {
            return refuse(StatusCode::NotFound, format!("no snapshot {id}"));
        }
        self.created += 1;
        let external_id = ExternalId::new(format!("fake-{}", self.created));
        let capacity = if request.capacity.is_unset() {
            self.settings.default_capacity
        } else {
            request.capacity.min.max(Bytes::ZERO)
        };
        let volume = FakeVolume {
            external_id: external_id.clone(),
            name: Some(request.name.clone()),
            context: [("made-by".to_owned(), external_id.to_string())].into(),
            capacity,
            condition: Condition::default(),
            arguments: wanted,
        };
        let answer = created(&volume);
        self.volumes.insert(external_id, volume);
        Ok(answer)
    }

    /// Checks the rules of CSI for CreateVolume that hold for every plugin.
    fn check_create(&mut self, request: &CreateVolume) -> Result<(), Refusal> {
        let (min, max) = (request.capacity.min, request.capacity.max);
        let forbidden = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
        let wrong = if request.name.is_empty() {
            "the name is empty"
        } else if request.name.len() > 128 {
            "the name has more than 128 bytes"
        } else if request.name.chars().any(forbidden) {
            "the name has control characters"
        } else if request.capabilities.is_empty() {
            "the request has no capability"
        } else if !max.is_zero() && min > max {
            "the minimum size is above the maximum"
        } else if request.topology.as_ref().is_some_and(|topology| {
            !topology.is_empty() && !self.settings.plugin.volume_accessibility_constraints
        }) {
            "the plugin does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS for a topology"
        } else if request.source.is_some() && !self.supports_source(request.source.as_ref()) {
            "the plugin does not advertise the content source"
        } else {
            return Ok(());
        };
        self.violation(Rpc::CreateVolume, StatusCode::InvalidArgument, wrong)
    }

    fn supports_source(&self, source: Option<&VolumeSource>) -> bool {
        let can = self.controller();
        match source {
            None => true,
            Some(VolumeSource::Volume(_)) => can.clone_volume,
            Some(VolumeSource::Snapshot(_)) => can.create_delete_snapshot,
        }
    }

    /// Handles DeleteVolume, which succeeds if the volume does not exist.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn delete(&mut self, id: &ExternalId, secrets: &Secrets) -> Result<(), Refusal> {
        let rpc = Rpc::DeleteVolume;
        self.require_capability(rpc, self.controller().create_delete_volume)?;
        self.require_secrets(rpc, secrets)?;
        self.require_id(rpc, id)?;
        if self.stagings.contains_key(id) || self.is_published(id) {
            let what = format!("{id} is still staged or published");
            return self.violation(rpc, StatusCode::FailedPrecondition, what);
        }
        match self.volumes.remove(id) {
            None if self.settings.unknown_is_not_found => unknown(id),
            None | Some(_) => Ok(()),
        }
    }

    /// Handles ValidateVolumeCapabilities. A wrong context may come from a user who registers a
    /// volume, so it is refused without a violation.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn validate(&mut self, request: &ValidateVolume) -> Result<(), Refusal> {
        let rpc = Rpc::ValidateVolumeCapabilities;
        self.require_capability(rpc, self.settings.controller.is_some())?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, &request.external_id)?;
        if request.capabilities.is_empty() {
            return self.violation(
                rpc,
                StatusCode::InvalidArgument,
                "the request has no capability",
            );
        }
        match self.volumes.get(&request.external_id) {
            None => unknown(&request.external_id),
            Some(volume) if volume.context != request.context => refuse(
                StatusCode::InvalidArgument,
                format!("the context does not belong to {}", request.external_id),
            ),
            Some(_) => Ok(()),
        }
    }

    /// Handles NodeStageVolume: one staging path per volume on a node.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn stage(&mut self, request: &StageVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodeStageVolume;
        self.require_capability(rpc, self.node().stage_unstage_volume)?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, &request.external_id)?;
        self.require_absolute(rpc, &request.staging_path)?;
        self.require_context(rpc, &request.external_id, &request.context)?;
        let wanted = FakeStaging {
            path: request.staging_path.clone(),
            capability: request.capability,
            mount_options: request.mount_options.clone(),
        };
        match self.stagings.get(&request.external_id) {
            Some(staging) if staging.path != wanted.path => {
                let what = format!(
                    "{} is already staged at {}",
                    request.external_id,
                    staging.path.display()
                );
                self.violation(rpc, StatusCode::FailedPrecondition, what)
            }
            Some(staging) if *staging != wanted => refuse(
                StatusCode::AlreadyExists,
                format!("{} is staged with other arguments", request.external_id),
            ),
            Some(_) => Ok(()),
            None => {
                self.stagings.insert(request.external_id.clone(), wanted);
                Ok(())
            }
        }
    }

    /// Handles NodeUnstageVolume, which must follow every unpublish.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn unstage(&mut self, id: &ExternalId, path: &Path) -> Result<(), Refusal> {
        let rpc = Rpc::NodeUnstageVolume;
        self.require_capability(rpc, self.node().stage_unstage_volume)?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, path)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        if self
            .stagings
            .get(id)
            .is_none_or(|staging| staging.path != path)
        {
            return Ok(());
        }
        if self.is_published(id) {
            let what = format!("{id} is still published");
            return self.violation(rpc, StatusCode::FailedPrecondition, what);
        }
        self.stagings.remove(id);
        Ok(())
    }

    /// Handles NodePublishVolume.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn publish(&mut self, request: &PublishVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodePublishVolume;
        let id = &request.external_id;
        self.require_capability(rpc, self.settings.node.is_some())?;
        self.require_secrets(rpc, &request.secrets)?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, &request.target_path)?;
        self.require_context(rpc, id, &request.context)?;
        self.require_staged(request)?;
        let wanted = FakeTarget {
            capability: request.capability,
            mount_options: request.mount_options.clone(),
            read_only: request.read_only,
        };
        let key = (id.clone(), request.target_path.clone());
        match self.targets.get(&key) {
            Some(target) if *target == wanted => return Ok(()),
            Some(_) => {
                let message = format!("{id} is published at this path with other arguments");
                return refuse(StatusCode::AlreadyExists, message);
            }
            None => {}
        }
        let one_target = matches!(
            request.capability.access_mode,
            AccessMode::SingleNodeWriter | AccessMode::SingleNodeReaderOnly
        );
        if one_target && self.is_published(id) {
            let message = format!("{id} is published at another path");
            return refuse(StatusCode::FailedPrecondition, message);
        }
        self.targets.insert(key, wanted);
        Ok(())
    }

    fn require_staged(&mut self, request: &PublishVolume) -> Result<(), Refusal> {
        let rpc = Rpc::NodePublishVolume;
        if !self.node().stage_unstage_volume {
            return Ok(());
        }
        let staging = self.stagings.get(&request.external_id);
        let what = match (staging, &request.staging_path) {
            (None, _) => format!("{} is not staged", request.external_id),
            (Some(_), None) => "the staging path is missing".to_owned(),
            (Some(staging), Some(path)) if staging.path != *path => {
                format!("{} is staged at another path", request.external_id)
            }
            (Some(_), Some(_)) => return Ok(()),
        };
        self.violation(rpc, StatusCode::FailedPrecondition, what)
    }

    /// Handles NodeUnpublishVolume, which succeeds if the volume is not published.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn unpublish(&mut self, id: &ExternalId, path: &Path) -> Result<(), Refusal> {
        let rpc = Rpc::NodeUnpublishVolume;
        self.require_capability(rpc, self.settings.node.is_some())?;
        self.require_id(rpc, id)?;
        self.require_absolute(rpc, path)?;
        if self.settings.unknown_is_not_found && !self.volumes.contains_key(id) {
            return unknown(id);
        }
        self.targets.remove(&(id.clone(), path.to_owned()));
        Ok(())
    }

    fn is_published(&self, id: &ExternalId) -> bool {
        self.targets.keys().any(|(volume, _)| volume == id)
    }

    pub(super) fn controller(&self) -> ControllerCapabilities {
        self.settings.controller.unwrap_or_default()
    }

    fn node(&self) -> NodeCapabilities {
        self.settings.node.unwrap_or_default()
    }

    pub(super) fn require_capability(&mut self, rpc: Rpc, is_there: bool) -> Result<(), Refusal> {
        if is_there {
            return Ok(());
        }
        self.violation(
            rpc,
            StatusCode::Unimplemented,
            "the plugin does not advertise this capability",
        )
    }

    pub(super) fn require_secrets(&mut self, rpc: Rpc, secrets: &Secrets) -> Result<(), Refusal> {
        if self.settings.secrets.is_empty() || self.settings.secrets == *secrets {
            return Ok(());
        }
        self.violation(rpc, StatusCode::Unauthenticated, "secrets are missing")
    }

    pub(super) fn require_id(&mut self, rpc: Rpc, id: &ExternalId) -> Result<(), Refusal> {
        if !id.as_str().is_empty() {
            return Ok(());
        }
        self.violation(rpc, StatusCode::InvalidArgument, "the volume ID is empty")
    }

    fn require_absolute(&mut self, rpc: Rpc, path: &Path) -> Result<(), Refusal> {
        if path.is_absolute() {
            return Ok(());
        }
        let what = format!("the path {} is not absolute", path.display());
        self.violation(rpc, StatusCode::InvalidArgument, what)
    }

    fn require_context(
        &mut self,
        rpc: Rpc,
        id: &ExternalId,
        context: &BTreeMap<String, String>,
    ) -> Result<(), Refusal> {
        match self.volumes.get(id) {
            None => unknown(id),
            Some(volume) if volume.context == *context => Ok(()),
            Some(_) => {
                let what = format!("the context does not belong to {id}");
                self.violation(rpc, StatusCode::InvalidArgument, what)
            }
        }
    }
}

impl From<&CreateVolume> for CreateArguments {
    fn from(request: &CreateVolume) -> Self {
        Self {
            capacity: request.capacity,
            capabilities: request.capabilities.iter().copied().collect(),
            mount_options: request.mount_options.clone(),
            parameters: request.parameters.clone(),
            source: request.source.clone(),
            topology: request.topology.clone().unwrap_or_default(),
        }
    }
}

fn created(volume: &FakeVolume) -> CreatedVolume {
    CreatedVolume {
        external_id: volume.external_id.clone(),
        capacity: volume.capacity,
        context: volume.context.clone(),
        topologies: vec![],
    }
}

pub(super) fn unknown<T>(id: &ExternalId) -> Result<T, Refusal> {
    refuse(StatusCode::NotFound, format!("no volume {id}"))
}
