//! What is measured: calls of plugins, requests of clients, writes of the journal.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::plugin::StatusCode;
use nomad_csi_model::{NamespacedId, NodeId, PluginId, VolumeStats};

/// The number of registered volumes of each plugin, by the worst health that the plugin reports. The words
/// are those of `model::health_word`.
pub type VolumeHealthCounts = BTreeMap<(PluginId, &'static str), usize>;

/// The statistics of published volumes, by registration and node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeStatsSample {
    /// The statistics that plugins reported.
    pub stats: BTreeMap<(NamespacedId, NodeId), VolumeStats>,
    /// How many more there are, of which nothing is known.
    pub unknown: usize,
}

/// Receives how long calls of plugins took. Returns immediately.
pub trait CallMeasurements: std::fmt::Debug + Send + Sync {
    /// A call of a plugin was answered, or given up. `driver` is the name that the plugin gives itself, and
    /// `method` the method of gRPC: `/csi.v1.Node/NodeStageVolume`.
    fn plugin_call(&self, driver: &str, method: &str, code: StatusCode, took: Duration);
}

/// Receives how long the work of an agent took. Everything returns immediately.
pub trait Measurements: CallMeasurements {
    /// A request of a client was answered. `is_blocking` says that it asked for the next change of what it
    /// reads, so it may have waited for minutes.
    fn request(&self, operation: &str, is_blocking: bool, status: u16, took: Duration);
    /// The journal has written events, or failed to.
    fn journal_write(&self, events: usize, is_done: bool, took: Duration);
    /// The journal has written a snapshot, or failed to.
    fn snapshot_write(&self, is_done: bool, took: Duration);
    /// The health of volumes was read. Replaces what was read before.
    fn volume_health(&self, counts: VolumeHealthCounts);
    /// The statistics of volumes were read. Replaces what was read before.
    fn volume_stats(&self, sample: VolumeStatsSample);
}

/// Measures nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMeasurements;

impl CallMeasurements for NoMeasurements {
    fn plugin_call(&self, _: &str, _: &str, _: StatusCode, _: Duration) {}
}

impl Measurements for NoMeasurements {
    fn request(&self, _: &str, _: bool, _: u16, _: Duration) {}
    fn journal_write(&self, _: usize, _: bool, _: Duration) {}
    fn snapshot_write(&self, _: bool, _: Duration) {}
    fn volume_health(&self, _: VolumeHealthCounts) {}
    fn volume_stats(&self, _: VolumeStatsSample) {}
}

/// The content type of [`MetricsSource::metrics`].
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Returns what was measured.
pub trait MetricsSource: Send + Sync {
    /// Returns all metrics as OpenMetrics text, which Prometheus reads.
    fn metrics(&self) -> String;
    /// Notified whenever the metrics are read: a reader wants what is costly to measure.
    fn reads(&self) -> Arc<Notify>;
}
