//! Connections to plugins by socket.

use std::path::Path;
use std::sync::Arc;

use super::plugin::{Controller, Identity, NodeService};

/// The three services of one plugin over one connection. The connection is opened on first use and
/// reopened after a failure.
#[derive(Clone)]
pub struct PluginConnection {
    /// The Identity service, which every plugin has.
    pub identity: Arc<dyn Identity>,
    /// The Controller service; returns `UNIMPLEMENTED` if the plugin has none.
    pub controller: Arc<dyn Controller>,
    /// The Node service; returns `UNIMPLEMENTED` if the plugin has none.
    pub node: Arc<dyn NodeService>,
}

/// A process at the other end of a connection. Its number is given to another process after its end, its number and
/// start time together are not, until the machine starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// The process ID.
    pub pid: i32,
    /// The start time in clock ticks since the boot.
    pub start_time: u64,
}

/// Creates connections.
pub trait Connector: Send + Sync {
    /// Returns a connection to the plugin at `socket`. Does no I/O, so the plugin may start later. With a
    /// process, calls fail while another one listens there.
    fn connect(&self, socket: &Path, required_peer: Option<PeerProcess>) -> PluginConnection;
}
