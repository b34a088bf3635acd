//! The plugins that tasks with `csi_plugin` run.
//!
//! A plugin is registered and reported only after its first healthy fingerprint (B62), and stays so until its task
//! has ended. It is reported as gone only when its process is gone, so the server never asks a second instance while
//! a call may still run in the first one.
//!
//! A plugin that an earlier agent left running may still carry out a call of that agent. So the agent that finds it
//! stops it, and starts it again only when its process is gone; no new call reaches the old process. A plugin whose
//! process holds its mounts, as with FUSE, loses them then.

mod plugin_host;
mod plugin_places;
mod supervision;
#[cfg(test)]
mod tests;

pub use plugin_host::{PluginHost, PluginHostDeps};
pub(super) use plugin_places::{PluginDirectories, PluginPlaces};
pub(super) use supervision::{HealthChange, PluginSupervision};
