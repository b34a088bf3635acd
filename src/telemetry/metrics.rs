//! Metrics of `reconcile` in Prometheus format.
//!
//! Labels are sets, states and codes, which have few values; volumes are not labels. This module
//! defines names only; the caller measures.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::registry_text::registry_text;

type Labels = Vec<(&'static str, String)>;

/// The metrics of `reconcile`.
#[derive(Debug)]
pub struct ReconcileMetrics {
    registry: Registry,
    drift: Family<Labels, Gauge>,
    last_success: Family<Labels, Gauge<f64, AtomicU64>>,
    uncorrected: Family<Labels, Gauge>,
    duration: Histogram,
    rounds: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    changes: Family<Labels, Counter>,
}

impl Default for ReconcileMetrics {
    fn default() -> Self {
        // From a plan of one volume to one of ten thousand volumes.
        const SECONDS: [f64; 9] = [0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 60.0, 300.0, 1200.0];
        let mut metrics = Self {
            registry: Registry::with_prefix("nomad_csi"),
            drift: Family::default(),
            last_success: Family::default(),
            uncorrected: Family::default(),
            duration: Histogram::new(SECONDS),
            rounds: Family::default(),
            errors: Family::default(),
            changes: Family::default(),
        };
        metrics.register();
        metrics
    }
}

impl ReconcileMetrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "drift_volumes",
            "Number of volumes by their drift since the last apply",
            self.drift.clone(),
        );
        registry.register(
            "reconcile_last_success_timestamp_seconds",
            "Time of the last round that read the complete state",
            self.last_success.clone(),
        );
        registry.register(
            "reconcile_uncorrected_volumes",
            "Number of volumes that the last round should have changed and did not",
            self.uncorrected.clone(),
        );
        registry.register(
            "reconcile_duration_seconds",
            "Duration of rounds",
            self.duration.clone(),
        );
        registry.register("reconcile_rounds", "Number of rounds by result", self.rounds.clone());
        registry.register("reconcile_errors", "Number of errors by code", self.errors.clone());
        registry.register(
            "reconcile_changes",
            "Number of volume changes by result",
            self.changes.clone(),
        );
    }

    /// Records the number of volumes of a set in a drift state.
    pub fn drift(&self, set: &str, state: &str, volumes: usize) {
        let labels = vec![("set", set.to_owned()), ("state", state.to_owned())];
        let volumes = i64::try_from(volumes).unwrap_or(i64::MAX);
        self.drift.get_or_create(&labels).set(volumes);
    }

    /// Records a finished round.
    pub fn round(&self, result: &str, took: Duration) {
        let labels = vec![("result", result.to_owned())];
        self.rounds.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// Records a round that read the complete state, at this time in seconds since the epoch.
    pub fn success(&self, set: &str, at: f64) {
        let labels = vec![("set", set.to_owned())];
        self.last_success.get_or_create(&labels).set(at);
    }

    /// Records the number of volumes of a set that a round should have changed and did not.
    pub fn uncorrected(&self, set: &str, volumes: usize) {
        let labels = vec![("set", set.to_owned())];
        let volumes = i64::try_from(volumes).unwrap_or(i64::MAX);
        self.uncorrected.get_or_create(&labels).set(volumes);
    }

    /// Records an error.
    pub fn error(&self, code: &str) {
        let labels = vec![("code", code.to_owned())];
        self.errors.get_or_create(&labels).inc();
    }

    /// Records a finished change of a volume.
    pub fn change(&self, result: &str) {
        let labels = vec![("result", result.to_owned())];
        self.changes.get_or_create(&labels).inc();
    }

    /// Returns all metrics as [`nomad_csi_ports::METRICS_CONTENT_TYPE`].
    pub fn text(&self) -> String {
        registry_text(&self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_values_appear_in_the_text() {
        let metrics = ReconcileMetrics::default();
        metrics.drift("web", "changed", 2);
        metrics.drift("web", "changed", 1);
        metrics.round("done", Duration::from_millis(100));
        metrics.success("web", 1_767_323_045.5);
        metrics.error("api/unreachable");
        metrics.error("api/unreachable");
        metrics.change("done");
        metrics.uncorrected("web", 3);
        metrics.uncorrected("web", 2);
        let text = metrics.text();
        for line in [
            "nomad_csi_drift_volumes{set=\"web\",state=\"changed\"} 1",
            "nomad_csi_reconcile_last_success_timestamp_seconds{set=\"web\"} 1767323045.5",
            "nomad_csi_reconcile_uncorrected_volumes{set=\"web\"} 2",
            "nomad_csi_reconcile_duration_seconds_bucket{le=\"0.2\"} 1",
            "nomad_csi_reconcile_rounds_total{result=\"done\"} 1",
            "nomad_csi_reconcile_errors_total{code=\"api/unreachable\"} 2",
            "nomad_csi_reconcile_changes_total{result=\"done\"} 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}
