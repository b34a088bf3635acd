//! The histogram of calls of plugins, with the names and labels of the CSI sidecars and their library, so
//! that their dashboards and alerts fit.

use std::time::Duration;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use nomad_csi_ports::StatusCode;

type Labels = Vec<(&'static str, String)>;

/// How long calls of plugins took.
#[derive(Clone, Debug)]
pub(super) struct Operations(Family<Labels, Histogram, fn() -> Histogram>);

impl Operations {
    /// Registers the histogram as `PREFIX_operations_seconds`.
    pub(super) fn register(registry: &mut Registry, prefix: &str) -> Self {
        let operations = Self(Family::new_with_constructor(buckets));
        registry.register_with_unit(
            format!("{prefix}_operations"),
            "Time until a plugin answered a call",
            Unit::Seconds,
            operations.0.clone(),
        );
        operations
    }

    pub(super) fn observe(&self, driver: &str, method: &str, code: StatusCode, took: Duration) {
        let labels = vec![
            ("driver_name", driver.to_owned()),
            ("method_name", method.to_owned()),
            ("grpc_status_code", code.as_str().to_owned()),
        ];
        self.0.get_or_create(&labels).observe(took.as_secs_f64());
    }
}

/// The buckets of the sidecars, with two below them: a local plugin answers in milliseconds.
fn buckets() -> Histogram {
    Histogram::new([
        0.002, 0.02, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
    ])
}
