//! Assembles and runs the embedded orchestrator: server, node and the plugin's process in one.
//!
//! [`run`] is `nomad-csi agent`; [`Embedded`] is the same agent for one command. Both work on a
//! directory that they hold alone, and both leave no process, socket or lock behind, however they end.

mod assemble;
mod blocking;
mod claim;
mod config;
mod directory;
mod embedded;
mod listen;
mod plugin;
mod run;
mod serve_plugin;

pub use config::{AgentConfig, AgentOptions, DataDirectory, OnHeld, embedded_directory};
pub use embedded::Embedded;
pub use run::run;
pub use serve_plugin::{PlayOptions, PluginOptions, serve_plugin};
