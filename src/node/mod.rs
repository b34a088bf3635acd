//! The client half of the agent: the plugins that run on this node.
//!
//! A [`Supervisor`] keeps the task of one plugin running. It registers the plugin's connection in the
//! [`Registry`], where the server half finds it, and reports the plugin's health to
//! [`crate::ports::PluginObserver`]. Processes, sockets and gRPC are behind ports.

#[cfg(test)]
mod fakes;
mod fingerprint;
mod registry;
mod supervisor;

pub use registry::Registry;
pub use supervisor::{PluginTask, Supervisor, SupervisorDeps, TaskStatus, wait_until_healthy};
