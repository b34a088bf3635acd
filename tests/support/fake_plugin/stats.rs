//! Messages for statistics, to and from the model.

use std::path::PathBuf;

use nomad_csi_model::{ExternalId, ReportedQuantity, StatsUnit};
use nomad_csi_ports::NodeVolumeStats;
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_usage::Unit;
use nomad_csi_testing::ReportedStats;

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
