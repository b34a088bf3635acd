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

/// Creates connections.
pub trait Connector: Send + Sync {
    /// Returns a connection to the plugin at `socket`. Does no I/O, so the plugin may start later. With a
    /// process ID, calls fail while another process listens there.
    fn connect(&self, socket: &Path, required_peer: Option<i32>) -> PluginConnection;
}
