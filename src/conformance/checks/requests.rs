//! The requests that checks are made of: well-formed, with what the person gave, under a new name.

use crate::conformance::check::{Check, Stop};
use crate::csi::proto::plugin_capability::service::Type as Service;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use crate::csi::proto::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use crate::csi::proto::{
    CapacityRange, CreateVolumeRequest, DeleteVolumeRequest, Topology, TopologyRequirement, Volume,
    VolumeCapability, VolumeContentSource,
};
use crate::ports::StatusCode;

/// A required field is missing, or a value cannot be.
pub(super) const INVALID: &[StatusCode] = &[StatusCode::InvalidArgument];
/// Something does not exist.
pub(super) const NOT_FOUND: &[StatusCode] = &[StatusCode::NotFound];
/// A name or a path is taken.
pub(super) const ALREADY_EXISTS: &[StatusCode] = &[StatusCode::AlreadyExists];
/// Begin anew.
pub(super) const ABORTED: &[StatusCode] = &[StatusCode::Aborted];

/// A volume's content, of a snapshot.
pub(super) fn from_snapshot(id: &str) -> VolumeContentSource {
    let snapshot_id = id.to_owned();
    VolumeContentSource {
        r#type: Some(Source::Snapshot(SnapshotSource { snapshot_id })),
    }
}

/// A volume's content, of a volume.
pub(super) fn from_volume(id: &str) -> VolumeContentSource {
    let volume_id = id.to_owned();
    VolumeContentSource {
        r#type: Some(Source::Volume(VolumeSource { volume_id })),
    }
}

/// A file system of the plugin's choice.
pub(super) fn mount(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

/// A block device.
pub(super) fn block(mode: Mode) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

/// At least so many bytes.
pub(super) fn at_least(bytes: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: bytes,
        limit_bytes: 0,
    }
}

/// Exactly so many bytes.
pub(super) fn exactly(bytes: i64) -> CapacityRange {
    CapacityRange {
        required_bytes: bytes,
        limit_bytes: bytes,
    }
}

impl Check<'_> {
    /// A volume as a workload on this node would have it: a file system, one writer.
    pub(super) fn create_request(&mut self) -> CreateVolumeRequest {
        let name = self.name();
        CreateVolumeRequest {
            name,
            capacity_range: Some(at_least(self.setup().size)),
            volume_capabilities: vec![mount(Mode::SingleNodeWriter)],
            parameters: self.setup().parameters.clone(),
            secrets: self.secrets(),
            accessibility_requirements: self.here(),
            ..Default::default()
        }
    }

    /// Where the plugin's node is, as a requirement.
    pub(super) fn here(&self) -> Option<TopologyRequirement> {
        let place = self.place()?;
        Some(TopologyRequirement {
            requisite: vec![place],
            preferred: vec![],
        })
    }

    /// Where the plugin's node is.
    pub(super) fn place(&self) -> Option<Topology> {
        self.has_topology().then_some(())?;
        let node = self.profile().described_node()?;
        node.accessible_topology.clone()
    }

    pub(super) fn has_topology(&self) -> bool {
        self.profile().has(Service::VolumeAccessibilityConstraints)
    }

    pub(super) fn delete_request(&self, id: &str) -> DeleteVolumeRequest {
        DeleteVolumeRequest {
            volume_id: id.to_owned(),
            secrets: self.secrets(),
        }
    }

    /// A volume to check something with.
    ///
    /// # Errors
    /// If it cannot be had: then the check says nothing.
    pub(super) async fn volume(&mut self) -> Result<Volume, Stop> {
        let request = self.create_request();
        self.volume_of(request).await
    }

    /// The volume of a request, to check something with.
    ///
    /// # Errors
    /// If it cannot be had: then the check says nothing.
    pub(super) async fn volume_of(&mut self, request: CreateVolumeRequest) -> Result<Volume, Stop> {
        let volume = self.prepare(request).await?.volume;
        let volume = volume.filter(|volume| !volume.volume_id.is_empty());
        volume.ok_or_else(|| Stop::Untried("CreateVolume answered without a volume".to_owned()))
    }
}
