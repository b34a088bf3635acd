//! From a socket to the plugin ports.

use std::path::Path;
use std::sync::Arc;

use super::plugin::{Controller, Identity, NodeService};

/// One plugin's three services over one connection, which is made on first use and again when it
/// breaks.
#[derive(Clone)]
pub struct PluginConnection {
    /// Every plugin has it.
    pub identity: Arc<dyn Identity>,
    /// Answers `UNIMPLEMENTED` where the plugin has none.
    pub controller: Arc<dyn Controller>,
    /// Answers `UNIMPLEMENTED` where the plugin has none.
    pub node: Arc<dyn NodeService>,
}

/// Makes connections.
pub trait Connector: Send + Sync {
    /// A connection to the plugin that listens, or will listen, on `socket`. Does no I/O.
    fn connect(&self, socket: &Path) -> PluginConnection;
}
