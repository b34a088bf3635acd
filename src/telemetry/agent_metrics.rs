//! Metrics of the agent in Prometheus format.
//!
//! Labels are plugins and classes of calls, which have few values; volumes are not labels.

use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::model::PluginId;
use crate::ports::{CallLoad, CallObserver};

type Labels = Vec<(&'static str, String)>;
type Waits = Family<Labels, Histogram, fn() -> Histogram>;

/// The metrics of the agent.
#[derive(Debug)]
pub struct AgentMetrics {
    registry: Registry,
    running: Family<Labels, Gauge>,
    waiting: Family<Labels, Gauge>,
    waits: Waits,
    refused: Family<Labels, Counter>,
}

impl Default for AgentMetrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("nomad_csi"),
            running: Family::default(),
            waiting: Family::default(),
            waits: Family::new_with_constructor(seconds),
            refused: Family::default(),
        };
        metrics.register();
        metrics
    }
}

/// From a free place to the longest wait.
fn seconds() -> Histogram {
    Histogram::new([0.001, 0.01, 0.1, 1.0, 5.0, 20.0, 60.0, 180.0])
}

impl AgentMetrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register(
            "plugin_calls_running",
            "Number of calls that a plugin has not answered",
            self.running.clone(),
        );
        registry.register(
            "plugin_calls_waiting",
            "Number of calls that wait in the line of a plugin",
            self.waiting.clone(),
        );
        registry.register(
            "plugin_call_wait_seconds",
            "Time that calls waited in the line of a plugin",
            self.waits.clone(),
        );
        registry.register(
            "plugin_calls_refused",
            "Number of calls refused because the line of a plugin is full",
            self.refused.clone(),
        );
    }

    /// Returns all metrics as [`super::METRICS_CONTENT_TYPE`].
    pub fn text(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            // Writing to a string never fails.
            Err(_) => String::new(),
        }
    }
}

fn labels(plugin: &PluginId, class: &str) -> Labels {
    vec![
        ("plugin", plugin.as_str().to_owned()),
        ("class", class.to_owned()),
    ]
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
    fn observed_calls_appear_in_the_text() {
        let metrics = AgentMetrics::default();
        let plugin = PluginId::new("ebs");
        let load = |running, waiting| CallLoad { running, waiting };
        metrics.load(&plugin, "create", load(1, 4));
        metrics.load(&plugin, "create", load(2, 3));
        metrics.admitted(&plugin, "create", Duration::from_millis(50));
        metrics.refused(&plugin, "release");
        let text = metrics.text();
        for line in [
            "nomad_csi_plugin_calls_running{plugin=\"ebs\",class=\"create\"} 2",
            "nomad_csi_plugin_calls_waiting{plugin=\"ebs\",class=\"create\"} 3",
            "nomad_csi_plugin_call_wait_seconds_bucket{le=\"0.1\",plugin=\"ebs\",class=\"create\"} 1",
            "nomad_csi_plugin_calls_refused_total{plugin=\"ebs\",class=\"release\"} 1",
            "# EOF",
        ] {
            assert!(
                text.lines().any(|one| one == line),
                "{line} is not in\n{text}"
            );
        }
    }
}
