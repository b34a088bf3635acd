//! Which nodes are connected.

use std::collections::BTreeMap;

use tokio::sync::watch;

use nomad_csi_model::{HostSession, NodeId};

/// The nodes with a connection on which they can be called. The connection is the heartbeat: pings end one that is dead.
pub trait NodePresence: Send + Sync {
    /// Returns the connected nodes, each with the run of its process.
    fn connected(&self) -> BTreeMap<NodeId, HostSession>;

    /// Returns a counter that grows when a node comes or goes.
    fn changes(&self) -> watch::Receiver<u64>;
}
