//! Counters and gauges of `reconcile`, as Prometheus reads them.
//!
//! Labels are sets, states and codes, all of which are few; no volume is a label. Nothing here knows
//! what is measured, only how it is called.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The form that [`ReconcileMetrics::text`] has.
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Labels = Vec<(&'static str, String)>;

/// What `reconcile` measures.
#[derive(Debug)]
pub struct ReconcileMetrics {
    registry: Registry,
    drift: Family<Labels, Gauge>,
    last_success: Family<Labels, Gauge<f64, AtomicU64>>,
    duration: Histogram,
    rounds: Family<Labels, Counter>,
    errors: Family<Labels, Counter>,
    changes: Family<Labels, Counter>,
}

impl Default for ReconcileMetrics {
    fn default() -> Self {
        // From a plan of one volume to one of ten thousand.
        const SECONDS: [f64; 9] = [0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 60.0, 300.0, 1200.0];
        let mut metrics = Self {
            registry: Registry::with_prefix("nomad_csi"),
            drift: Family::default(),
            last_success: Family::default(),
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
            "Volumes by how they are beside what was last applied",
            self.drift.clone(),
        );
        registry.register(
            "reconcile_last_success_timestamp_seconds",
            "When a round last found out everything that it wanted to know",
            self.last_success.clone(),
        );
        registry.register(
            "reconcile_duration_seconds",
            "How long rounds took",
            self.duration.clone(),
        );
        registry.register(
            "reconcile_rounds",
            "Rounds by how they ended",
            self.rounds.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Errors by their codes",
            self.errors.clone(),
        );
        registry.register(
            "reconcile_changes",
            "Changes of volumes by how they ended",
            self.changes.clone(),
        );
    }

    /// So many volumes of a set are in a state.
    pub fn drift(&self, set: &str, state: &str, volumes: usize) {
        let labels = vec![("set", set.to_owned()), ("state", state.to_owned())];
        let volumes = i64::try_from(volumes).unwrap_or(i64::MAX);
        self.drift.get_or_create(&labels).set(volumes);
    }

    /// A round ended so, after that time.
    pub fn round(&self, result: &str, took: Duration) {
        let labels = vec![("result", result.to_owned())];
        self.rounds.get_or_create(&labels).inc();
        self.duration.observe(took.as_secs_f64());
    }

    /// A round found out everything, at that time: seconds since the epoch.
    pub fn success(&self, set: &str, at: f64) {
        let labels = vec![("set", set.to_owned())];
        self.last_success.get_or_create(&labels).set(at);
    }

    /// There was an error of that code.
    pub fn error(&self, code: &str) {
        let labels = vec![("code", code.to_owned())];
        self.errors.get_or_create(&labels).inc();
    }

    /// A change of a volume ended so.
    pub fn change(&self, result: &str) {
        let labels = vec![("result", result.to_owned())];
        self.changes.get_or_create(&labels).inc();
    }

    /// All of it, in the form of [`METRICS_CONTENT_TYPE`].
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Only a writer that fails makes it fail, and a text does not.
            Err(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_told() {
        let metrics = ReconcileMetrics::default();
        metrics.drift("web", "changed", 2);
        metrics.drift("web", "changed", 1);
        metrics.round("done", Duration::from_millis(100));
        metrics.success("web", 1_767_323_045.5);
        metrics.error("api/unreachable");
        metrics.error("api/unreachable");
        metrics.change("done");
        let text = metrics.text();
        for line in [
            "nomad_csi_drift_volumes{set=\"web\",state=\"changed\"} 1",
            "nomad_csi_reconcile_last_success_timestamp_seconds{set=\"web\"} 1767323045.5",
            "nomad_csi_reconcile_duration_seconds_bucket{le=\"0.2\"} 1",
            "nomad_csi_reconcile_rounds_total{result=\"done\"} 1",
            "nomad_csi_reconcile_errors_total{code=\"api/unreachable\"} 2",
            "nomad_csi_reconcile_changes_total{result=\"done\"} 1",
            "# EOF",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line} is not in\n{text}"
            );
        }
    }
}
