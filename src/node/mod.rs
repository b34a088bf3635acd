//! The client half of the agent: the plugins that run on this node.
//!
//! [`Supervisor`] keeps one plugin's task running and says how it is; it registers the plugin's
//! connection in the [`Registry`], where the server half finds it, and has its findings recorded
//! through [`crate::ports::PluginObserver`]. Nothing here knows processes, sockets or gRPC: those are
//! ports.

#[cfg(test)]
mod fakes;
mod fingerprint;
mod registry;
mod supervisor;

pub use registry::Registry;
pub use supervisor::{PluginTask, Supervisor, Surroundings, TaskStatus, wait_until_healthy};
