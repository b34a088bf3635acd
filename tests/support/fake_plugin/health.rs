//! Messages for health, to and from the model.

use std::path::PathBuf;

use nomad_csi_model::{
    AttachmentMode, ExternalId, StorageStatus, StorageStatusKind, VolumeStatus, VolumeStatusKind,
};
use nomad_csi_ports::NodeVolumeHealth;
use nomad_csi_proto as proto;
use nomad_csi_proto::node_get_storage_health_response::StorageBackendHealth;
use nomad_csi_proto::volume_capability::{AccessType, BlockVolume, MountVolume};
use nomad_csi_proto::volume_health::VolumeHealthEntry;

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
