//! The plugins that tasks with `csi_plugin` run.
//!
//! A plugin is registered and reported only after its first healthy fingerprint (B62), and stays so until its task
//! has ended. It is reported as gone only when its process is gone, so the server never asks a second instance while
//! a call may still run in the first one.
//!
//! A plugin that an earlier agent left running may still carry out a call of that agent. So the agent that finds it
//! stops it, and starts it again only when its process is gone; no new call reaches the old process. A plugin whose
//! process holds its mounts, as with FUSE, loses them then. The exception is an agent that stopped in order: it waited
//! for its calls, and recorded that the plugin had none. Such a plugin is used as it is, once for each record.

mod plugin_host;
mod plugin_paths;
mod serving_tasks;
mod supervision;
#[cfg(test)]
mod tests;

pub use plugin_host::{PluginHost, PluginHostDeps};
pub(super) use plugin_paths::{PluginDirectories, PluginPaths};
pub(super) use supervision::{HealthChange, PluginSupervision};
