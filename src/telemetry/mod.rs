//! What the program says of itself while it runs: logs, and metrics with the place to read them.

mod endpoint;
mod log;
mod metrics;

pub use endpoint::serve_metrics;
pub use log::{LogFormat, LogLevel, LogSettings, start};
pub use metrics::{METRICS_CONTENT_TYPE, ReconcileMetrics};
