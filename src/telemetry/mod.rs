//! Logs, and metrics with their HTTP endpoint.

mod endpoint;
mod log;
mod metrics;

pub use endpoint::serve_metrics;
pub use log::{LogFormat, LogLevel, LogSettings, init_logging};
pub use metrics::{METRICS_CONTENT_TYPE, ReconcileMetrics};
