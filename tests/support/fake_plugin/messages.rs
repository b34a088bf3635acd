//! Converts CSI messages to and from the types of the model. A message that the specification forbids is an error.

use std::path::PathBuf;

use nomad_csi_csi::convert;
use nomad_csi_model::{
    AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, ExternalNodeId, ExternalVolume,
    MountOptions, ReportedQuantity, Secrets, Snapshot, SnapshotId, StatsUnit, StorageStatus,
    StorageStatusKind, Topology, TopologyRequest, VolumeStatus, VolumeStatusKind,
};
use nomad_csi_ports::{
    ControllerPublishVolume, ControllerUnpublishVolume, CreateVolume, ExpandVolume, GetCapacity,
    ListSnapshots, NodeExpandVolume, NodeVolumeHealth, NodeVolumeStats, PageRequest, PublishVolume,
    StageVolume, ValidateVolume, VolumeSource,
};
use nomad_csi_proto as proto;
use nomad_csi_proto::node_get_storage_health_response::StorageBackendHealth;
use nomad_csi_proto::volume_capability::{AccessType, BlockVolume, MountVolume};
use nomad_csi_proto::volume_health::VolumeHealthEntry;
use nomad_csi_proto::volume_usage::Unit;
use nomad_csi_testing::ReportedStats;

pub(super) fn capabilities(
    list: &[proto::VolumeCapability],
) -> Result<(Vec<Capability>, MountOptions), &'static str> {
    let mut options: Option<MountOptions> = None;
    let mut all = vec![];
    for each in list {
        let (capability, mount) = capability(each)?;
        all.push(capability);
        let Some(mount) = mount else { continue };
        if options.get_or_insert_with(|| mount.clone()) != &mount {
            return Err("the capabilities have different mount options");
        }
    }
    Ok((all, options.unwrap_or_default()))
}

pub(super) fn capacity_request(
    request: proto::GetCapacityRequest,
) -> Result<GetCapacity, &'static str> {
    let (capabilities, mount_options) = capabilities(&request.volume_capabilities)?;
    let topology = request.accessible_topology;
    Ok(GetCapacity {
        capabilities,
        mount_options,
        parameters: request.parameters,
        topology: topology.map(|topology| Topology { segments: topology.segments }),
    })
}

pub(super) fn capability(
    capability: &proto::VolumeCapability,
) -> Result<(Capability, Option<MountOptions>), &'static str> {
    let mode = capability.access_mode.as_ref().ok_or("the access mode is missing")?;
    let access_mode = convert::access_mode_from(mode.mode()).ok_or("the access mode is unknown")?;
    let (attachment_mode, options) = match &capability.access_type {
        None => return Err("the access type is missing"),
        Some(AccessType::Block(_)) => (AttachmentMode::BlockDevice, None),
        Some(AccessType::Mount(mount)) if mount.volume_mount_group.is_empty() => {
            let options = MountOptions {
                fs_type: mount.fs_type.clone(),
                mount_flags: mount.mount_flags.clone(),
            };
            (AttachmentMode::FileSystem, Some(options))
        }
        Some(AccessType::Mount(_)) => {
            return Err("volume_mount_group is set, but VOLUME_MOUNT_GROUP is not advertised");
        }
    };
    let capability = Capability { access_mode, attachment_mode };
    Ok((capability, options))
}

pub(super) fn one_capability(
    each: Option<&proto::VolumeCapability>,
) -> Result<(Capability, MountOptions), &'static str> {
    let (capability, options) = capability(each.ok_or("the capability is missing")?)?;
    Ok((capability, options.unwrap_or_default()))
}

pub(super) fn capacity(range: Option<proto::CapacityRange>) -> Result<CapacityRange, &'static str> {
    let Some(range) = range else {
        return Ok(CapacityRange::default());
    };
    let bytes = |bytes| {
        let bytes = u64::try_from(bytes).map_err(|_| "a size is negative")?;
        Bytes::new(bytes).ok_or("a size is too large")
    };
    let range = CapacityRange { min: bytes(range.required_bytes)?, max: bytes(range.limit_bytes)? };
    if range.is_unset() {
        return Err("the capacity range is empty (GH-11238)");
    }
    Ok(range)
}

pub(super) fn topology(
    requirement: Option<proto::TopologyRequirement>,
) -> Result<Option<TopologyRequest>, &'static str> {
    let Some(requirement) = requirement else {
        return Ok(None);
    };
    let topologies = |list: Vec<proto::Topology>| {
        let topology = |topology: proto::Topology| Topology { segments: topology.segments };
        list.into_iter().map(topology).collect()
    };
    let request = TopologyRequest {
        required: topologies(requirement.requisite),
        preferred: topologies(requirement.preferred),
    };
    if request.is_empty() {
        return Err("the topology requirement is empty (W27)");
    }
    Ok(Some(request))
}

pub(super) fn source(
    source: Option<proto::VolumeContentSource>,
) -> Result<Option<VolumeSource>, &'static str> {
    use proto::volume_content_source::Type;
    let Some(source) = source else {
        return Ok(None);
    };
    match source.r#type {
        None => Err("the content source is empty"),
        Some(Type::Volume(volume)) => Ok(Some(VolumeSource::Volume(volume.volume_id))),
        Some(Type::Snapshot(snapshot)) => Ok(Some(VolumeSource::Snapshot(snapshot.snapshot_id))),
    }
}

pub(super) fn create(request: proto::CreateVolumeRequest) -> Result<CreateVolume, &'static str> {
    let (capabilities, mount_options) = capabilities(&request.volume_capabilities)?;
    if !request.mutable_parameters.is_empty() {
        return Err("mutable parameters are set, but MODIFY_VOLUME is not advertised");
    }
    Ok(CreateVolume {
        name: request.name,
        capacity: capacity(request.capacity_range)?,
        capabilities,
        mount_options,
        parameters: request.parameters,
        secrets: Secrets::from_iter(request.secrets),
        source: source(request.volume_content_source)?,
        topology: topology(request.accessibility_requirements)?,
    })
}

pub(super) fn validate(
    request: proto::ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolume, &'static str> {
    let (capabilities, mount_options) = capabilities(&request.volume_capabilities)?;
    Ok(ValidateVolume {
        external_id: ExternalId::new(request.volume_id),
        capabilities,
        mount_options,
        parameters: request.parameters,
        context: request.volume_context,
        secrets: Secrets::from_iter(request.secrets),
    })
}

pub(super) fn stage(request: proto::NodeStageVolumeRequest) -> Result<StageVolume, &'static str> {
    let (capability, mount_options) = one_capability(request.volume_capability.as_ref())?;
    Ok(StageVolume {
        external_id: ExternalId::new(request.volume_id),
        publish_context: request.publish_context,
        staging_path: request.staging_target_path.into(),
        capability,
        mount_options,
        secrets: Secrets::from_iter(request.secrets),
        context: request.volume_context,
    })
}

pub(super) fn publish(
    request: proto::NodePublishVolumeRequest,
) -> Result<PublishVolume, &'static str> {
    let (capability, mount_options) = one_capability(request.volume_capability.as_ref())?;
    let staging_path = request.staging_target_path;
    Ok(PublishVolume {
        external_id: ExternalId::new(request.volume_id),
        publish_context: request.publish_context,
        staging_path: (!staging_path.is_empty()).then(|| staging_path.into()),
        target_path: request.target_path.into(),
        capability,
        mount_options,
        read_only: request.readonly,
        secrets: Secrets::from_iter(request.secrets),
        context: request.volume_context,
    })
}

pub(super) fn attach(
    request: proto::ControllerPublishVolumeRequest,
) -> Result<ControllerPublishVolume, &'static str> {
    let (capability, mount_options) = one_capability(request.volume_capability.as_ref())?;
    Ok(ControllerPublishVolume {
        external_id: ExternalId::new(request.volume_id),
        node_id: ExternalNodeId::new(request.node_id),
        capability,
        mount_options,
        read_only: request.readonly,
        secrets: Secrets::from_iter(request.secrets),
        context: request.volume_context,
    })
}

pub(super) fn detach(
    request: proto::ControllerUnpublishVolumeRequest,
) -> ControllerUnpublishVolume {
    ControllerUnpublishVolume {
        external_id: ExternalId::new(request.volume_id),
        node_id: ExternalNodeId::new(request.node_id),
        secrets: Secrets::from_iter(request.secrets),
    }
}

pub(super) fn node_expand(
    request: proto::NodeExpandVolumeRequest,
) -> Result<NodeExpandVolume, &'static str> {
    let (used, options) = used_capability(request.volume_capability.as_ref())?;
    let staging_path = request.staging_target_path;
    Ok(NodeExpandVolume {
        external_id: ExternalId::new(request.volume_id),
        volume_path: request.volume_path.into(),
        capacity: capacity(request.capacity_range)?,
        staging_path: (!staging_path.is_empty()).then(|| staging_path.into()),
        capability: used,
        mount_options: options,
        secrets: Secrets::from_iter(request.secrets),
    })
}

/// Reads the capability in use, which an expansion may leave out.
fn used_capability(
    each: Option<&proto::VolumeCapability>,
) -> Result<(Option<Capability>, MountOptions), &'static str> {
    let Some(each) = each else {
        return Ok((None, MountOptions::default()));
    };
    let (capability, options) = capability(each)?;
    Ok((Some(capability), options.unwrap_or_default()))
}

pub(super) fn page(max_entries: i32, token: String) -> Result<PageRequest, &'static str> {
    let entries = u32::try_from(max_entries).map_err(|_| "max_entries is negative")?;
    Ok(PageRequest { entries, starting_token: token })
}

pub(super) fn list_snapshots(
    request: proto::ListSnapshotsRequest,
) -> Result<ListSnapshots, &'static str> {
    let (source, id) = (request.source_volume_id, request.snapshot_id);
    Ok(ListSnapshots {
        page: page(request.max_entries, request.starting_token)?,
        source: (!source.is_empty()).then(|| ExternalId::new(source)),
        id: (!id.is_empty()).then(|| SnapshotId::new(id)),
        secrets: Secrets::from_iter(request.secrets),
    })
}

pub(super) fn expand(
    request: proto::ControllerExpandVolumeRequest,
) -> Result<ExpandVolume, &'static str> {
    let (used, options) = used_capability(request.volume_capability.as_ref())?;
    Ok(ExpandVolume {
        external_id: ExternalId::new(request.volume_id),
        capacity: capacity(request.capacity_range)?,
        capability: used,
        mount_options: options,
        secrets: Secrets::from_iter(request.secrets),
    })
}

pub(super) fn listed(volume: ExternalVolume) -> proto::list_volumes_response::Entry {
    use proto::list_volumes_response::{Entry, VolumeStatus};
    let snapshot = volume.snapshot_id.map(VolumeSource::Snapshot);
    let source = volume.clone_id.map(VolumeSource::Volume).or(snapshot);
    let nodes = volume.published_nodes.iter();
    Entry {
        volume: Some(proto::Volume {
            capacity_bytes: volume.capacity.to_wire(),
            volume_id: volume.external_id.as_str().to_owned(),
            volume_context: volume.context,
            content_source: source.as_ref().map(convert::content_source),
            accessible_topology: vec![],
        }),
        status: Some(VolumeStatus {
            published_node_ids: nodes.map(ToString::to_string).collect(),
            volume_condition: volume.condition.map(|condition| proto::VolumeCondition {
                abnormal: condition.abnormal,
                message: condition.message,
            }),
        }),
    }
}

pub(super) fn snapshot(snapshot: &Snapshot) -> proto::Snapshot {
    let second = 1_000_000_000;
    proto::Snapshot {
        size_bytes: snapshot.size.to_wire(),
        snapshot_id: snapshot.id.as_str().to_owned(),
        source_volume_id: snapshot.source.as_str().to_owned(),
        creation_time: Some(prost_types::Timestamp {
            seconds: snapshot.create_time / second,
            nanos: i32::try_from(snapshot.create_time % second).expect("less than a second"),
        }),
        ready_to_use: snapshot.is_ready,
        group_snapshot_id: String::new(),
        accessible_topology: vec![],
    }
}

pub(super) fn volume_health(id: String, statuses: Vec<VolumeStatus>) -> proto::VolumeHealth {
    let entries = statuses.into_iter().map(|status| VolumeHealthEntry {
        status: match status.kind {
            VolumeStatusKind::Degraded => 1,
            VolumeStatusKind::Inaccessible => 2,
            VolumeStatusKind::DataLoss => 3,
            VolumeStatusKind::Unknown(number) => number,
            VolumeStatusKind::Abnormal => panic!("a VolumeCondition is not a status"),
        },
        reason: status.reason,
        message: status.message,
    });
    proto::VolumeHealth { volume_id: id, health_statuses: entries.collect() }
}

pub(super) fn node_volume_health(request: proto::NodeGetVolumeHealthRequest) -> NodeVolumeHealth {
    let path = |path: String| (!path.is_empty()).then(|| PathBuf::from(path));
    NodeVolumeHealth {
        external_id: ExternalId::new(request.volume_id),
        publish_path: path(request.volume_publish_path),
        staging_path: path(request.staging_target_path),
    }
}

pub(super) fn storage_health(status: StorageStatus) -> StorageBackendHealth {
    let access_type = |mode| match mode {
        AttachmentMode::BlockDevice => AccessType::Block(BlockVolume {}),
        AttachmentMode::FileSystem => AccessType::Mount(MountVolume::default()),
    };
    StorageBackendHealth {
        status: match status.kind {
            StorageStatusKind::Degraded => 1,
            StorageStatusKind::Unreachable => 2,
            StorageStatusKind::Unknown(number) => number,
        },
        reason: status.reason,
        message: status.message,
        volume_capability: status.attachment_mode.map(|mode| proto::VolumeCapability {
            access_mode: None,
            access_type: Some(access_type(mode)),
        }),
    }
}

pub(super) fn stats_request(request: proto::NodeGetVolumeStatsRequest) -> NodeVolumeStats {
    let staging = request.staging_target_path;
    NodeVolumeStats {
        external_id: ExternalId::new(request.volume_id),
        volume_path: PathBuf::from(request.volume_path),
        staging_path: (!staging.is_empty()).then(|| PathBuf::from(staging)),
    }
}

pub(super) fn stats_response(stats: ReportedStats) -> proto::NodeGetVolumeStatsResponse {
    let usage = |quantity: ReportedQuantity| proto::VolumeUsage {
        available: quantity.available,
        total: quantity.total,
        used: quantity.used,
        unit: match quantity.unit {
            StatsUnit::Bytes => Unit::Bytes.into(),
            StatsUnit::Inodes => Unit::Inodes.into(),
        },
    };
    proto::NodeGetVolumeStatsResponse {
        usage: stats.quantities.into_iter().map(usage).collect(),
        volume_condition: stats.condition.map(|condition| proto::VolumeCondition {
            abnormal: condition.abnormal,
            message: condition.message,
        }),
    }
}
