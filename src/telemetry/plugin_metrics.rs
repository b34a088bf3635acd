//! Metrics of the embedded plugin in Prometheus format.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::registry::Registry;
use tokio::sync::Notify;

use super::operations::Operations;
use super::registry_text::registry_text;
use nomad_csi_ports::{CallMeasurements, MetricsSource, StatusCode};

/// The metrics of a plugin.
#[derive(Debug)]
pub struct PluginMetrics {
    registry: Registry,
    operations: Operations,
}

impl Default for PluginMetrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let operations = Operations::register(&mut registry, "csi_plugin");
        Self { registry, operations }
    }
}

impl CallMeasurements for PluginMetrics {
    fn plugin_call(&self, driver: &str, method: &str, code: StatusCode, took: Duration) {
        self.operations.observe(driver, method, code, took);
    }
}

impl MetricsSource for PluginMetrics {
    fn metrics(&self) -> String {
        registry_text(&self.registry)
    }

    /// Never notified: nothing here is costly.
    fn reads(&self) -> Arc<Notify> {
        Arc::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_the_names_and_labels_of_the_sidecars() {
        let metrics = PluginMetrics::default();
        let took = Duration::from_millis(30);
        let method = "/csi.v1.Controller/CreateVolume";
        metrics.plugin_call("hostpath.csi", method, StatusCode::AlreadyExists, took);
        let text = metrics.metrics();
        let labels = format!(
            "driver_name=\"hostpath.csi\",method_name=\"{method}\",grpc_status_code=\"AlreadyExists\""
        );
        for line in [
            format!("csi_plugin_operations_seconds_bucket{{le=\"0.02\",{labels}}} 0"),
            format!("csi_plugin_operations_seconds_bucket{{le=\"0.1\",{labels}}} 1"),
            format!("csi_plugin_operations_seconds_count{{{labels}}} 1"),
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
    }
}
