//! The state of the fake plugin: volumes, snapshots, and what its nodes have of them.
//!
//! The fake follows CSI 1.13 instead of scripted answers. A normal error, such as a taken name or a
//! missing volume, is a [`Refusal`]. A call that CSI forbids is refused *and* recorded as a violation,
//! which fails the test: a foreign volume context, missing secrets, an RPC without its capability, a
//! delete of a volume in use, and what `attachment_state` and `node_state` name.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::in_use::{FakeAttachment, FakeStaging, FakeTarget};
use super::machine::FakeMachine;
use super::refusal::{Refusal, refuse, unknown};
use super::settings::PluginSettings;
use nomad_csi_model::{
    Bytes, Capability, CapacityRange, Condition, ControllerCapabilities, ExternalId,
    ExternalNodeId, MountOptions, NodeCapabilities, ReportedCapacity, ReportedQuantity, Secrets,
    SnapshotId, StorageStatus, Topology, TopologyRequest, VolumeStatus,
};
use nomad_csi_ports::{
    CreateVolume, CreatedVolume, GetCapacity, Rpc, StatusCode, ValidateVolume, VolumeSource,
};

/// The adverse conditions that a test defines.
#[derive(Debug, Default)]
pub(super) struct ReportedHealth {
    /// The reports of the controller.
    pub(super) volumes: BTreeMap<ExternalId, Vec<VolumeStatus>>,
    /// The reports of nodes.
    pub(super) on_nodes: BTreeMap<(ExternalNodeId, ExternalId), Vec<VolumeStatus>>,
    /// The report of every node.
    pub(super) storage: Vec<StorageStatus>,
}

/// A node's report about a volume, as it is sent: it may be nonsense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedStats {
    /// The quantities.
    pub quantities: Vec<ReportedQuantity>,
    /// The condition of a plugin of CSI 1.3 to 1.12.
    pub condition: Option<Condition>,
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
    /// The mutable parameters that were set.
    pub mutable_parameters: BTreeMap<String, String>,
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

/// The state of the plugin.
#[derive(Debug, Default)]
pub struct ProviderState {
    /// The settings of the plugin.
    pub settings: PluginSettings,
    pub(super) volumes: BTreeMap<ExternalId, FakeVolume>,
    pub(super) snapshots: BTreeMap<SnapshotId, FakeSnapshot>,
    pub(super) attachments: BTreeMap<(ExternalId, ExternalNodeId), FakeAttachment>,
    pub(super) stagings: BTreeMap<(ExternalNodeId, ExternalId), FakeStaging>,
    pub(super) targets: BTreeMap<(ExternalNodeId, ExternalId, PathBuf), FakeTarget>,
    pub(super) expanded: BTreeMap<(ExternalNodeId, ExternalId), Bytes>,
    pub(super) machines: BTreeMap<ExternalNodeId, Option<FakeMachine>>,
    /// Nodes that are gone for good as far as the provider knows: a volume may be detached from them.
    pub(super) lost: BTreeSet<ExternalNodeId>,
    pub(super) capacities: BTreeMap<Option<Topology>, ReportedCapacity>,
    pub(super) health: ReportedHealth,
    pub(super) stats: BTreeMap<(ExternalNodeId, ExternalId), ReportedStats>,
    pub(super) violations: Vec<String>,
    created: u64,
    pub(super) snapshots_created: u64,
}

impl ProviderState {
    pub(super) fn new(settings: PluginSettings) -> Self {
        Self { settings, ..Self::default() }
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
            mutable_parameters: BTreeMap::new(),
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
        let desired = CreateArguments::from(request);
        let same_name = |volume: &&FakeVolume| volume.name.as_ref() == Some(&request.name);
        if let Some(existing) = self.volumes.values().find(same_name) {
            if existing.arguments == desired {
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
            mutable_parameters: BTreeMap::new(),
            condition: Condition::default(),
            arguments: desired,
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
        if self.is_in_use(id) {
            let what = format!("{id} is still attached, staged or published");
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

    fn is_in_use(&self, id: &ExternalId) -> bool {
        let is_staged = self.stagings.keys().any(|(_, volume)| volume == id);
        let is_published = self.targets.keys().any(|(_, volume, _)| volume == id);
        let is_attached = self.attachments.keys().any(|(volume, _)| volume == id);
        is_staged || is_published || is_attached
    }

    pub(super) fn controller(&self) -> ControllerCapabilities {
        self.settings.controller.unwrap_or_default()
    }

    pub(super) fn node(&self) -> NodeCapabilities {
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

    pub(super) fn require_absolute(&mut self, rpc: Rpc, path: &Path) -> Result<(), Refusal> {
        if path.is_absolute() {
            return Ok(());
        }
        let what = format!("the path {} is not absolute", path.display());
        self.violation(rpc, StatusCode::InvalidArgument, what)
    }

    pub(super) fn require_context(
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

impl ProviderState {
    /// Defines what the controller reports for a topology, or for everywhere.
    pub(super) fn set_capacity(&mut self, topology: Option<Topology>, reported: ReportedCapacity) {
        self.capacities.insert(topology, reported);
    }

    /// Handles GetCapacity.
    ///
    /// # Errors
    /// A refusal, or a violation of CSI.
    pub fn capacity(&mut self, request: &GetCapacity) -> Result<ReportedCapacity, Refusal> {
        let rpc = Rpc::GetCapacity;
        self.require_capability(rpc, self.controller().get_capacity)?;
        let has_topology = self.settings.plugin.volume_accessibility_constraints;
        if request.topology.is_some() && !has_topology {
            let what =
                "the plugin does not advertise VOLUME_ACCESSIBILITY_CONSTRAINTS for a topology";
            return self.violation(rpc, StatusCode::InvalidArgument, what);
        }
        let reported = self.capacities.get(&request.topology);
        Ok(reported.copied().unwrap_or_default())
    }
}
