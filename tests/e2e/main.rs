//! The real agent process, the real plugin process, real mounts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that fails, or is skipped, is to say so loudly"
)]

// The model of the plugin's own tests speaks of it so.
use nomad_csi::csi;

mod agent;
mod agent_crash;
mod agent_disk;
#[path = "../support/agent_process.rs"]
mod agent_process;
mod agent_stop;
mod embedded;
mod hostpath;
mod hostpath_crowd;
mod hostpath_images;
mod hostpath_reflink;
mod hostpath_sequences;
mod hostpath_world;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/namespace.rs"]
mod namespace;
mod plugin_check;
#[path = "../support/plugin_client.rs"]
mod plugin_client;
mod readme;
mod reconcile;
#[path = "../support/volumes.rs"]
mod volumes;
#[path = "../support/wait.rs"]
mod wait;
