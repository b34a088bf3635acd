//! Conversion of the statistics of a volume.

use nomad_csi_model::{Condition, ReportedQuantity, StatsUnit, VolumeStats};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_usage::Unit;

/// Reads the answer of NodeGetVolumeStats. A unit of a later version of CSI is left out.
pub(super) fn volume_stats(response: proto::NodeGetVolumeStatsResponse) -> VolumeStats {
    let quantity = |usage: &proto::VolumeUsage| {
        let unit = match usage.unit() {
            Unit::Bytes => StatsUnit::Bytes,
            Unit::Inodes => StatsUnit::Inodes,
            Unit::Unknown => return None,
        };
        Some(ReportedQuantity {
            unit,
            total: usage.total,
            used: usage.used,
            available: usage.available,
        })
    };
    let reported: Vec<_> = response.usage.iter().filter_map(quantity).collect();
    let condition = response
        .volume_condition
        .map(|condition| Condition { abnormal: condition.abnormal, message: condition.message });
    VolumeStats::read(&reported, condition)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit that this version does not know is not taken for another one.
    #[test]
    fn a_unit_that_is_not_known_is_left_out() {
        let usage = |unit, total| proto::VolumeUsage { available: 0, total, used: 0, unit };
        let response = proto::NodeGetVolumeStatsResponse {
            usage: vec![usage(0, 7), usage(3, 8), usage(-1, 9), usage(2, 5)],
            volume_condition: None,
        };
        let stats = volume_stats(response);
        assert_eq!(stats.bytes, None);
        assert_eq!(stats.inodes.and_then(|inodes| inodes.total), Some(5));
        assert_eq!(stats.problems, Vec::<String>::new());
    }
}
