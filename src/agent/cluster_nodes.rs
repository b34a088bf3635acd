//! The nodes that are connected to this server, as its services reach them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use nomad_csi_model::{HostSession, NodeId, Term};
use nomad_csi_ports::{ConnectedNode, HostDirectory, LeaderLease, NodePresence};
use nomad_csi_rpc::{ConnectedNodes, RemoteNode};

/// Nodes of other processes.
pub(super) struct ClusterNodes {
    pub(super) connected: Arc<ConnectedNodes>,
    /// The leadership that requests carry.
    pub(super) term: Term,
    /// Whether this server may call nodes.
    pub(super) lease: Arc<dyn LeaderLease>,
}

impl HostDirectory for ClusterNodes {
    fn node(&self, node: &NodeId) -> Option<ConnectedNode> {
        // A node is reached again when the lease was renewed.
        self.lease.is_certain().then_some(())?;
        let channel = self.connected.channel(node)?.channel;
        Some(RemoteNode::new(channel, node.clone(), self.term).connected())
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.connected.nodes()
    }
}

impl NodePresence for ClusterNodes {
    fn connected(&self) -> BTreeMap<NodeId, HostSession> {
        self.connected.sessions()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.connected.changes()
    }
}
