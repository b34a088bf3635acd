//! Logs, and metrics with their HTTP endpoint.

mod agent_metrics;
mod endpoint;
mod log;
mod metrics;

pub use agent_metrics::AgentMetrics;
pub use endpoint::serve_metrics;
pub use log::{LogFormat, LogLevel, LogSettings, init_logging};
pub use metrics::{METRICS_CONTENT_TYPE, ReconcileMetrics};
