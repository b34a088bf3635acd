//! The statistics of published volumes as gauges.
//!
//! Each sample replaces the one before: a volume that is gone has no gauge, and neither has a number that is not known.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use nomad_csi_model::{NamespacedId, NodeId, Quantity, VolumeStats};
use nomad_csi_ports::VolumeStatsSample;

type Labels = Vec<(&'static str, String)>;
type Key = (NamespacedId, NodeId);

/// One number of the statistics.
struct Number {
    name: &'static str,
    help: &'static str,
    read: fn(&VolumeStats) -> Option<u64>,
}

fn bytes(stats: &VolumeStats, read: fn(Quantity) -> Option<u64>) -> Option<u64> {
    stats.bytes.and_then(read)
}

fn inodes(stats: &VolumeStats, read: fn(Quantity) -> Option<u64>) -> Option<u64> {
    stats.inodes.and_then(read)
}

/// The numbers, with the names that kubelet gives them.
const NUMBERS: [Number; 7] = [
    Number {
        name: "volume_stats_capacity_bytes",
        help: "Size of a published volume in bytes",
        read: |stats| bytes(stats, |bytes| bytes.total),
    },
    Number {
        name: "volume_stats_used_bytes",
        help: "Number of bytes in use",
        read: |stats| bytes(stats, |bytes| bytes.used),
    },
    Number {
        name: "volume_stats_available_bytes",
        help: "Number of bytes that are left for the users of the volume",
        read: |stats| bytes(stats, |bytes| bytes.available),
    },
    Number {
        name: "volume_stats_inodes",
        help: "Number of inodes of a published volume",
        read: |stats| inodes(stats, |inodes| inodes.total),
    },
    Number {
        name: "volume_stats_inodes_used",
        help: "Number of inodes in use",
        read: |stats| inodes(stats, |inodes| inodes.used),
    },
    Number {
        name: "volume_stats_inodes_free",
        help: "Number of inodes that are left",
        read: |stats| inodes(stats, |inodes| inodes.available),
    },
    Number {
        name: "volume_stats_health_abnormal",
        help: "Whether the plugin reports an abnormal condition of a published volume (CSI 1.3 to 1.12)",
        read: |stats| {
            let condition = stats.condition.as_ref();
            condition.map(|condition| u64::from(condition.abnormal))
        },
    },
];

/// The gauges.
#[derive(Debug, Default)]
pub(super) struct StatsGauges {
    gauges: [Family<Labels, Gauge>; NUMBERS.len()],
    unknown: Gauge,
    /// The volumes that the gauges show.
    shown: Mutex<BTreeSet<Key>>,
}

fn labels((volume, node): &Key) -> Labels {
    vec![
        ("namespace", volume.namespace.to_string()),
        ("volume", volume.id.to_string()),
        ("node", node.to_string()),
    ]
}

impl StatsGauges {
    pub(super) fn register(&self, registry: &mut Registry) {
        for (number, gauge) in NUMBERS.iter().zip(&self.gauges) {
            registry.register(number.name, number.help, gauge.clone());
        }
        registry.register(
            "volume_stats_unknown",
            "Number of published volumes, on each node, of which the statistics are not known",
            self.unknown.clone(),
        );
    }

    /// Shows a sample, and nothing else.
    pub(super) fn show(&self, sample: VolumeStatsSample) {
        let mut shown = self.shown.lock();
        for (number, gauge) in NUMBERS.iter().zip(&self.gauges) {
            for (key, stats) in &sample.stats {
                match (number.read)(stats) {
                    Some(value) => {
                        let value = i64::try_from(value).unwrap_or(i64::MAX);
                        gauge.get_or_create(&labels(key)).set(value);
                    }
                    None => {
                        gauge.remove(&labels(key));
                    }
                }
            }
            for gone in shown.iter().filter(|key| !sample.stats.contains_key(key)) {
                gauge.remove(&labels(gone));
            }
        }
        self.unknown.set(i64::try_from(sample.unknown).unwrap_or(i64::MAX));
        *shown = sample.stats.into_keys().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Condition, Namespace, VolumeId};

    fn key(volume: &str) -> Key {
        let volume = NamespacedId::new(Namespace::new("prod"), VolumeId::new(volume));
        (volume, NodeId::new("n1"))
    }

    fn shown(gauges: &StatsGauges) -> Vec<String> {
        let mut registry = Registry::default();
        gauges.register(&mut registry);
        let text = crate::telemetry::registry_text::registry_text(&registry);
        let values = text.lines().filter(|line| !line.starts_with('#'));
        values.map(str::to_owned).collect()
    }

    /// W56: a sample replaces the one before, with every number that it does not know any more.
    #[test]
    fn a_volume_that_is_gone_has_no_gauge() {
        let gauges = StatsGauges::default();
        let stats = VolumeStats {
            bytes: Some(Quantity { total: Some(100), used: Some(40), available: Some(u64::MAX) }),
            inodes: None,
            condition: Some(Condition { abnormal: true, message: "slow".to_owned() }),
            problems: vec![],
        };
        let mut sample = VolumeStatsSample {
            stats: [(key("a\"b"), stats.clone()), (key("c"), stats.clone())].into(),
            unknown: 3,
        };
        gauges.show(sample.clone());
        let lines = shown(&gauges);
        assert_eq!(lines.len(), 9, "{lines:#?}");
        for line in [
            "volume_stats_used_bytes{namespace=\"prod\",volume=\"a\\\"b\",node=\"n1\"} 40",
            "volume_stats_available_bytes{namespace=\"prod\",volume=\"c\",node=\"n1\"} 9223372036854775807",
            "volume_stats_health_abnormal{namespace=\"prod\",volume=\"c\",node=\"n1\"} 1",
            "volume_stats_unknown 3",
        ] {
            assert!(lines.iter().any(|one| one == line), "{line}: {lines:#?}");
        }
        sample.unknown = 0;
        sample.stats.remove(&key("c"));
        let only_total = Quantity { total: Some(100), ..Quantity::default() };
        let known = VolumeStats { bytes: Some(only_total), ..VolumeStats::default() };
        sample.stats.insert(key("a\"b"), known);
        gauges.show(sample);
        assert_eq!(
            shown(&gauges),
            [
                "volume_stats_capacity_bytes{namespace=\"prod\",volume=\"a\\\"b\",node=\"n1\"} 100",
                "volume_stats_unknown 0",
            ]
        );
        gauges.show(VolumeStatsSample::default());
        assert_eq!(shown(&gauges), ["volume_stats_unknown 0"]);
    }
}
