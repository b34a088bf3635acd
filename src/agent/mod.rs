//! Assembles and runs the embedded orchestrator: server, node and the plugin's process in one.

mod config;

pub use config::{AgentConfig, AgentOptions, DataDirectory, embedded_directory};
