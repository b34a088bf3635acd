//! The text of a registry of metrics, as Prometheus reads it.

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

/// Returns all metrics as [`nomad_csi_ports::METRICS_CONTENT_TYPE`].
pub(super) fn registry_text(registry: &Registry) -> String {
    let mut text = String::new();
    match encode(&mut text, registry) {
        Ok(()) => text,
        // Writing to a string never fails.
        Err(_) => String::new(),
    }
}
