//! Logs, and metrics with their HTTP endpoint.

mod agent_metrics;
mod endpoint;
mod log;
mod metrics;
mod operations;
mod plugin_metrics;
mod registry_text;
mod volume_stats;

pub use agent_metrics::AgentMetrics;
pub use endpoint::serve_metrics;
pub use log::{LogFormat, LogLevel, LogSettings, init_logging};
pub use metrics::ReconcileMetrics;
pub use plugin_metrics::PluginMetrics;
