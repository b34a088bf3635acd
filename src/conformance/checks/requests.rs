//! Valid requests for the checks, with the options of the run and a unique name.

use crate::check::{Check, StopReason};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::plugin_capability::service::Type as Service;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use nomad_csi_proto::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use nomad_csi_proto::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, Topology, TopologyRequirement, Volume,
    VolumeCapability, VolumeContentSource,
};

/// The code for a missing or impossible value.
pub(super) const INVALID: &[StatusCode] = &[StatusCode::InvalidArgument];
/// The code for something that does not exist.
pub(super) const NOT_FOUND: &[StatusCode] = &[StatusCode::NotFound];
/// The code for a name or path that is already in use with other arguments.
pub(super) const ALREADY_EXISTS: &[StatusCode] = &[StatusCode::AlreadyExists];
/// The code for an invalid page token.
pub(super) const ABORTED: &[StatusCode] = &[StatusCode::Aborted];

/// Returns the content source for a snapshot.
pub(super) fn from_snapshot(id: &str) -> VolumeContentSource {
    let snapshot_id = id.to_owned();
    VolumeContentSource { r#type: Some(Source::Snapshot(SnapshotSource { snapshot_id })) }
}

/// Returns the content source for a volume.
pub(super) fn from_volume(id: &str) -> VolumeContentSource {
    let volume_id = id.to_owned();
    VolumeContentSource { r#type: Some(Source::Volume(VolumeSource { volume_id })) }
}

/// Returns the capability for a file system of the plugin's choice.
pub(super) fn mount(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// Returns the capability for a block device.
pub(super) fn block(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

/// Returns the range of at least `bytes` bytes.
pub(super) fn at_least(bytes: i64) -> CapacityRange {
    CapacityRange { required_bytes: bytes, limit_bytes: 0 }
}

/// Returns the range of exactly `bytes` bytes.
pub(super) fn exactly(bytes: i64) -> CapacityRange {
    CapacityRange { required_bytes: bytes, limit_bytes: bytes }
}

impl Check<'_> {
    /// Returns a request for a file system with one writer, accessible from this node.
    pub(super) fn create_request(&mut self) -> CreateVolumeRequest {
        let name = self.unique_name();
        CreateVolumeRequest {
            name,
            capacity_range: Some(at_least(self.options().size)),
            volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
            parameters: self.options().parameters.clone(),
            secrets: self.secrets(),
            accessibility_requirements: self.topology_requirement(),
            ..Default::default()
        }
    }

    /// Returns the requirement for the topology of the plugin's node.
    pub(super) fn topology_requirement(&self) -> Option<TopologyRequirement> {
        let topology = self.node_topology()?;
        Some(TopologyRequirement { requisite: vec![topology], preferred: vec![] })
    }

    /// Returns the topology of the plugin's node.
    pub(super) fn node_topology(&self) -> Option<Topology> {
        self.has_topology().then_some(())?;
        let node = self.plugin().described_node()?;
        node.accessible_topology.clone()
    }

    pub(super) fn has_topology(&self) -> bool {
        self.plugin().has_service(Service::VolumeAccessibilityConstraints)
    }

    pub(super) fn delete_request(&self, id: &str) -> DeleteVolumeRequest {
        DeleteVolumeRequest { volume_id: id.to_owned(), secrets: self.secrets() }
    }

    /// Creates a volume for use in a check.
    ///
    /// # Errors
    /// Stops the check as not run if the call fails.
    pub(super) async fn new_volume(&mut self) -> Result<Volume, StopReason> {
        let request = self.create_request();
        self.create_volume(request).await
    }

    /// Creates the requested volume for use in a check.
    ///
    /// # Errors
    /// Stops the check as not run if the call fails.
    pub(super) async fn create_volume(
        &mut self,
        request: CreateVolumeRequest,
    ) -> Result<Volume, StopReason> {
        let volume = self.prepare(request).await?.volume;
        let volume = volume.filter(|volume| !volume.volume_id.is_empty());
        volume.ok_or_else(|| StopReason::NotRun("CreateVolume returned no volume".to_owned()))
    }

    /// Creates a volume with one capability.
    ///
    /// # Errors
    /// Stops the check as not run if the call fails.
    pub(super) async fn new_volume_with(
        &mut self,
        capability: VolumeCapability,
    ) -> Result<Volume, StopReason> {
        let mut request = self.create_request();
        request.volume_capabilities = vec![capability];
        self.create_volume(request).await
    }
}
