//! Metrics of the agent in Prometheus format.
//!
//! Labels are plugins and classes of calls, which have few values. Volumes are labels of their statistics only, of
//! which a sample has a limited number.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use super::operations::Operations;
use super::registry_text::registry_text;
use super::volume_stats::StatsGauges;
use nomad_csi_model::PluginId;
use nomad_csi_ports::{
    CallLoad, CallMeasurements, CallObserver, Measurements, MetricsSource, StatusCode,
    VolumeHealthCounts, VolumeStatsSample,
};

type Labels = Vec<(&'static str, String)>;
type Times = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of the agent.
#[derive(Debug)]
pub struct AgentMetrics {
    registry: Registry,
    running: Family<Labels, Gauge>,
    waiting: Family<Labels, Gauge>,
    waits: Times,
    refused: Family<Labels, Counter>,
    operations: Operations,
    requests: Times,
    journal_writes: Times,
    journal_events: Counter,
    snapshots: Times,
    volumes: Family<Labels, Gauge>,
    /// The counts that `volumes` shows.
    counted: Mutex<VolumeHealthCounts>,
    stats: StatsGauges,
    reads: Arc<Notify>,
}

impl Default for AgentMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let mut metrics = Self {
            operations: Operations::register(&mut registry, "csi_sidecar"),
            registry,
            running: Family::default(),
            waiting: Family::default(),
            waits: Family::new_with_constructor(seconds),
            refused: Family::default(),
            requests: Family::new_with_constructor(request_seconds),
            journal_writes: Family::new_with_constructor(write_seconds),
            journal_events: Counter::default(),
            snapshots: Family::new_with_constructor(request_seconds),
            volumes: Family::default(),
            counted: Mutex::default(),
            stats: StatsGauges::default(),
            reads: Arc::default(),
        };
        metrics.register();
        metrics
    }
}

/// From a free place to the longest wait.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.01, 0.1, 1.0, 5.0, 20.0, 60.0, 180.0])
}

/// From a read of one volume to a create at a slow provider.
fn request_seconds() -> Histogram {
    Histogram::new([0.0005, 0.002, 0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 60.0, 300.0])
}

/// From a local disk to one that fails.
fn write_seconds() -> Histogram {
    Histogram::new([0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0, 10.0])
}

impl AgentMetrics {
    fn register(&mut self) {
        let registry = self.registry.sub_registry_with_prefix("nomad_csi");
        registry.register(
            "plugin_calls_running",
            "Number of calls that a plugin has not answered",
            self.running.clone(),
        );
        registry.register(
            "plugin_calls_waiting",
            "Number of calls that wait in the queue of a plugin",
            self.waiting.clone(),
        );
        registry.register(
            "plugin_call_wait_seconds",
            "Time that calls waited in the queue of a plugin",
            self.waits.clone(),
        );
        registry.register(
            "plugin_calls_refused",
            "Number of calls refused because the queue of a plugin is full",
            self.refused.clone(),
        );
        registry.register(
            "http_request_seconds",
            "Time until a request was answered",
            self.requests.clone(),
        );
        registry.register(
            "journal_write_seconds",
            "Time until events were durable",
            self.journal_writes.clone(),
        );
        registry.register(
            "journal_events",
            "Number of events that are durable",
            self.journal_events.clone(),
        );
        registry.register(
            "journal_snapshot_seconds",
            "Time until a snapshot was durable",
            self.snapshots.clone(),
        );
        registry.register(
            "volumes",
            "Number of registered volumes by the worst health that their plugin reported",
            self.volumes.clone(),
        );
        self.stats.register(registry);
    }
}

impl MetricsSource for AgentMetrics {
    fn metrics(&self) -> String {
        // Without a receiver nothing is kept.
        self.reads.notify_waiters();
        registry_text(&self.registry)
    }

    fn reads(&self) -> Arc<Notify> {
        self.reads.clone()
    }
}

fn health_labels(plugin: &PluginId, health: &str) -> Labels {
    vec![("plugin", plugin.as_str().to_owned()), ("health", health.to_owned())]
}

fn result(is_done: bool) -> Labels {
    let result = if is_done { "ok" } else { "error" };
    vec![("result", result.to_owned())]
}

impl CallMeasurements for AgentMetrics {
    fn plugin_call(&self, driver: &str, method: &str, code: StatusCode, took: Duration) {
        self.operations.observe(driver, method, code, took);
    }
}

impl Measurements for AgentMetrics {
    fn request(&self, operation: &str, is_blocking: bool, status: u16, took: Duration) {
        let labels = vec![
            ("operation", operation.to_owned()),
            ("blocking", is_blocking.to_string()),
            ("code", status.to_string()),
        ];
        let requests = self.requests.get_or_create(&labels);
        requests.observe(took.as_secs_f64());
    }

    fn journal_write(&self, events: usize, is_done: bool, took: Duration) {
        let writes = self.journal_writes.get_or_create(&result(is_done));
        writes.observe(took.as_secs_f64());
        if is_done {
            self.journal_events.inc_by(events as u64);
        }
    }

    fn snapshot_write(&self, is_done: bool, took: Duration) {
        let snapshots = self.snapshots.get_or_create(&result(is_done));
        snapshots.observe(took.as_secs_f64());
    }

    fn volume_health(&self, counts: VolumeHealthCounts) {
        for ((plugin, health), count) in &counts {
            let volumes = self.volumes.get_or_create(&health_labels(plugin, health));
            volumes.set(gauge(*count));
        }
        let mut counted = self.counted.lock();
        for gone in counted.keys().filter(|key| !counts.contains_key(key)) {
            self.volumes.remove(&health_labels(&gone.0, gone.1));
        }
        *counted = counts;
    }

    fn volume_stats(&self, sample: VolumeStatsSample) {
        self.stats.show(sample);
    }
}

fn labels(plugin: &PluginId, class: &str) -> Labels {
    vec![("plugin", plugin.as_str().to_owned()), ("class", class.to_owned())]
}

fn gauge(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl CallObserver for AgentMetrics {
    fn load(&self, plugin: &PluginId, class: &'static str, load: CallLoad) {
        let labels = labels(plugin, class);
        self.running.get_or_create(&labels).set(gauge(load.running));
        self.waiting.get_or_create(&labels).set(gauge(load.waiting));
    }

    fn admitted(&self, plugin: &PluginId, class: &'static str, waited: Duration) {
        let waits = self.waits.get_or_create(&labels(plugin, class));
        waits.observe(waited.as_secs_f64());
    }

    fn refused(&self, plugin: &PluginId, class: &'static str) {
        self.refused.get_or_create(&labels(plugin, class)).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_health_of_volumes_replaces_what_was_read_before() {
        let metrics = AgentMetrics::default();
        let shown = || {
            let text = metrics.metrics();
            let lines = text.lines().filter(|line| line.starts_with("nomad_csi_volumes{"));
            let mut lines: Vec<_> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        let counts = |all: &[(&str, &'static str, usize)]| {
            let one = |(plugin, health, count): &(&str, &'static str, usize)| {
                ((PluginId::new(*plugin), *health), *count)
            };
            all.iter().map(one).collect()
        };
        metrics.volume_health(counts(&[("a", "ok", 4), ("a", "data_loss", 1), ("b", "ok", 2)]));
        assert_eq!(
            shown(),
            [
                "nomad_csi_volumes{plugin=\"a\",health=\"data_loss\"} 1",
                "nomad_csi_volumes{plugin=\"a\",health=\"ok\"} 4",
                "nomad_csi_volumes{plugin=\"b\",health=\"ok\"} 2",
            ]
        );
        metrics.volume_health(counts(&[("a", "ok", 5)]));
        assert_eq!(shown(), ["nomad_csi_volumes{plugin=\"a\",health=\"ok\"} 5"]);
    }

    #[test]
    fn observed_calls_appear_in_the_text() {
        let metrics = AgentMetrics::default();
        let plugin = PluginId::new("ebs");
        let load = |running, waiting| CallLoad { running, waiting };
        metrics.load(&plugin, "create", load(1, 4));
        metrics.load(&plugin, "create", load(2, 3));
        metrics.admitted(&plugin, "create", Duration::from_millis(50));
        metrics.refused(&plugin, "release");
        let took = Duration::from_millis(3);
        let method = "/csi.v1.Node/NodeStageVolume";
        metrics.plugin_call("ebs.csi", method, StatusCode::Ok, took);
        metrics.request("ReadVolume", true, 200, took);
        metrics.journal_write(4, true, took);
        metrics.journal_write(4, false, took);
        metrics.snapshot_write(true, took);
        let text = metrics.metrics();
        for line in [
            "nomad_csi_plugin_calls_running{plugin=\"ebs\",class=\"create\"} 2",
            "nomad_csi_plugin_calls_waiting{plugin=\"ebs\",class=\"create\"} 3",
            "nomad_csi_plugin_call_wait_seconds_bucket{le=\"0.1\",plugin=\"ebs\",class=\"create\"} 1",
            "nomad_csi_plugin_calls_refused_total{plugin=\"ebs\",class=\"release\"} 1",
            "csi_sidecar_operations_seconds_count{driver_name=\"ebs.csi\",method_name=\"/csi.v1.Node/NodeStageVolume\",grpc_status_code=\"OK\"} 1",
            "nomad_csi_http_request_seconds_count{operation=\"ReadVolume\",blocking=\"true\",code=\"200\"} 1",
            "nomad_csi_journal_write_seconds_bucket{le=\"0.005\",result=\"ok\"} 1",
            "nomad_csi_journal_write_seconds_count{result=\"error\"} 1",
            "nomad_csi_journal_events_total 4",
            "nomad_csi_journal_snapshot_seconds_count{result=\"ok\"} 1",
            "# EOF",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}
