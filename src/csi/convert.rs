//! Conversions between the types of the model and CSI messages.
//!
//! Fields that the specification forbids to send empty are omitted here: an empty capacity range
//! (GH-11238) and an empty topology requirement (W27). CSI modes without a type in the model convert
//! to `None`.

use std::collections::BTreeMap;

use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, CapacityRange, ControllerCapabilities, MountOptions,
    NodeCapabilities, Secrets, Topology, TopologyRequest,
};
use nomad_csi_ports::{PluginCapabilities, VolumeSource};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{
    AccessMode as ProtoAccessMode, AccessType, BlockVolume, MountVolume,
};

/// Converts an access mode to CSI.
pub const fn access_mode(mode: AccessMode) -> Mode {
    match mode {
        AccessMode::SingleNodeReaderOnly => Mode::SingleNodeReaderOnly,
        AccessMode::SingleNodeWriter => Mode::SingleNodeWriter,
        AccessMode::MultiNodeReaderOnly => Mode::MultiNodeReaderOnly,
        AccessMode::MultiNodeSingleWriter => Mode::MultiNodeSingleWriter,
        AccessMode::MultiNodeMultiWriter => Mode::MultiNodeMultiWriter,
    }
}

/// Converts an access mode from CSI, if the model has it.
pub const fn access_mode_from(mode: Mode) -> Option<AccessMode> {
    match mode {
        Mode::SingleNodeReaderOnly => Some(AccessMode::SingleNodeReaderOnly),
        Mode::SingleNodeWriter => Some(AccessMode::SingleNodeWriter),
        Mode::MultiNodeReaderOnly => Some(AccessMode::MultiNodeReaderOnly),
        Mode::MultiNodeSingleWriter => Some(AccessMode::MultiNodeSingleWriter),
        Mode::MultiNodeMultiWriter => Some(AccessMode::MultiNodeMultiWriter),
        Mode::Unknown | Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter => None,
    }
}

/// Converts a capability. Only a file system gets the mount options.
pub fn capability(capability: Capability, options: &MountOptions) -> proto::VolumeCapability {
    let access_type = match capability.attachment_mode {
        AttachmentMode::BlockDevice => AccessType::Block(BlockVolume {}),
        AttachmentMode::FileSystem => AccessType::Mount(MountVolume {
            fs_type: options.fs_type.clone(),
            mount_flags: options.mount_flags.clone(),
            volume_mount_group: String::new(),
        }),
    };
    proto::VolumeCapability {
        access_mode: Some(ProtoAccessMode { mode: access_mode(capability.access_mode).into() }),
        access_type: Some(access_type),
    }
}

/// Converts all capabilities of a volume.
pub fn capabilities(
    capabilities: &[Capability],
    options: &MountOptions,
) -> Vec<proto::VolumeCapability> {
    capabilities.iter().map(|each| capability(*each, options)).collect()
}

/// Converts a capacity range; `None` if it is empty.
pub fn capacity_range(range: CapacityRange) -> Option<proto::CapacityRange> {
    (!range.is_unset()).then(|| proto::CapacityRange {
        required_bytes: range.min.to_wire(),
        limit_bytes: range.max.to_wire(),
    })
}

/// Converts a topology to CSI.
pub fn topology(topology: &Topology) -> proto::Topology {
    proto::Topology { segments: topology.segments.clone() }
}

/// Converts a topology from CSI; `None` if it is empty.
pub fn topology_from(topology: proto::Topology) -> Option<Topology> {
    (!topology.segments.is_empty()).then_some(Topology { segments: topology.segments })
}

/// Converts a topology request; `None` if it is empty.
pub fn topology_requirement(
    request: Option<&TopologyRequest>,
) -> Option<proto::TopologyRequirement> {
    let request = request.filter(|request| !request.is_empty())?;
    Some(proto::TopologyRequirement {
        requisite: request.required.iter().map(topology).collect(),
        preferred: request.preferred.iter().map(topology).collect(),
    })
}

/// Converts the content source of a new volume.
pub fn content_source(source: &VolumeSource) -> proto::VolumeContentSource {
    use proto::volume_content_source::{SnapshotSource, Type, VolumeSource as ProtoVolumeSource};
    let source = match source {
        VolumeSource::Volume(id) => Type::Volume(ProtoVolumeSource { volume_id: id.clone() }),
        VolumeSource::Snapshot(id) => Type::Snapshot(SnapshotSource { snapshot_id: id.clone() }),
    };
    proto::VolumeContentSource { r#type: Some(source) }
}

/// Returns the secrets in plain text, for a request.
pub fn secrets(secrets: &Secrets) -> BTreeMap<String, String> {
    secrets.expose().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// Converts the capabilities of a plugin, and ignores unknown ones.
pub fn plugin_capabilities(list: &[proto::PluginCapability]) -> PluginCapabilities {
    use proto::plugin_capability::{Type as Arm, service::Type};
    let mut known = PluginCapabilities::default();
    for each in list {
        let Some(Arm::Service(service)) = &each.r#type else {
            continue;
        };
        match service.r#type() {
            Type::ControllerService => known.controller_service = true,
            Type::VolumeAccessibilityConstraints => known.volume_accessibility_constraints = true,
            Type::Unknown
            | Type::GroupControllerService
            | Type::SnapshotMetadataService
            | Type::SnapshotAccessibilityConstraints => {}
        }
    }
    known
}

/// Converts the capabilities of a controller, and ignores unknown ones.
pub fn controller_capabilities(
    list: &[proto::ControllerServiceCapability],
) -> ControllerCapabilities {
    use proto::controller_service_capability::{Type as Arm, rpc::Type};
    let mut known = ControllerCapabilities::default();
    for each in list {
        let Some(Arm::Rpc(rpc)) = &each.r#type else {
            continue;
        };
        match rpc.r#type() {
            Type::CreateDeleteVolume => known.create_delete_volume = true,
            Type::PublishUnpublishVolume => known.publish_unpublish_volume = true,
            Type::ListVolumes => known.list_volumes = true,
            Type::GetCapacity => known.get_capacity = true,
            Type::CreateDeleteSnapshot => known.create_delete_snapshot = true,
            Type::ListSnapshots => known.list_snapshots = true,
            Type::CloneVolume => known.clone_volume = true,
            Type::PublishReadonly => known.publish_readonly = true,
            Type::ExpandVolume => known.expand_volume = true,
            Type::ListVolumesPublishedNodes => known.list_volumes_published_nodes = true,
            Type::VolumeCondition => known.volume_condition = true,
            Type::GetVolume => known.get_volume = true,
            Type::GetVolumeHealth => known.get_volume_health = true,
            Type::ListVolumeHealth => known.list_volume_health = true,
            Type::ModifyVolume => known.modify_volume = true,
            Type::Unknown | Type::SingleNodeMultiWriter | Type::GetSnapshot => {}
        }
    }
    known
}

/// Converts the capabilities of a node, and ignores unknown ones.
pub fn node_capabilities(list: &[proto::NodeServiceCapability]) -> NodeCapabilities {
    use proto::node_service_capability::{Type as Arm, rpc::Type};
    let mut known = NodeCapabilities::default();
    for each in list {
        let Some(Arm::Rpc(rpc)) = &each.r#type else {
            continue;
        };
        match rpc.r#type() {
            Type::StageUnstageVolume => known.stage_unstage_volume = true,
            Type::GetVolumeStats => known.get_volume_stats = true,
            Type::ExpandVolume => known.expand_volume = true,
            Type::VolumeCondition => known.volume_condition = true,
            Type::GetVolumeHealth => known.get_volume_health = true,
            Type::GetStorageHealth => known.get_storage_health = true,
            Type::Unknown | Type::SingleNodeMultiWriter | Type::VolumeMountGroup => {}
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::Bytes;

    fn options() -> MountOptions {
        MountOptions { fs_type: "ext4".into(), mount_flags: vec!["noatime".into()] }
    }

    #[test]
    fn access_modes_survive_the_conversion_to_csi_and_back() {
        for mode in AccessMode::ALL {
            assert_eq!(access_mode_from(access_mode(mode)), Some(mode));
        }
    }

    /// Only capabilities of file systems get the mount options (W24).
    #[test]
    fn only_file_systems_carry_mount_options() {
        let both = AttachmentMode::ALL.map(|attachment_mode| Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode,
        });
        let sent = capabilities(&both, &options());
        let Some(AccessType::Mount(mount)) = &sent[0].access_type else {
            panic!("{sent:?}");
        };
        assert_eq!(
            (mount.fs_type.as_str(), mount.mount_flags.as_slice()),
            ("ext4", ["noatime".to_owned()].as_slice())
        );
        assert_eq!(sent[1].access_type, Some(AccessType::Block(BlockVolume {})));
    }

    /// W07: an empty topology of a response is no topology.
    #[test]
    fn only_real_topologies_are_read() {
        let segments = BTreeMap::from([("zone".to_owned(), "a".to_owned())]);
        let real = proto::Topology { segments: segments.clone() };
        let sent = [proto::Topology::default(), real];
        let read: Vec<_> = sent.into_iter().filter_map(topology_from).collect();
        assert_eq!(read, [Topology { segments }]);
    }

    /// An empty capacity range (GH-11238) and an empty topology requirement (W27) are not sent.
    #[test]
    fn empty_ranges_and_requirements_are_not_sent() {
        assert_eq!(capacity_range(CapacityRange::default()), None);
        assert_eq!(topology_requirement(None), None);
        assert_eq!(topology_requirement(Some(&TopologyRequest::default())), None);
        let range = CapacityRange { min: Bytes::ZERO, max: Bytes::MAX };
        let sent = capacity_range(range).unwrap();
        assert_eq!((sent.required_bytes, sent.limit_bytes), (0, i64::MAX));
    }
}
