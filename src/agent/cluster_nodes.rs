//! The nodes that are connected to this server, as its services reach them.

use std::sync::Arc;

use nomad_csi_model::{NodeId, Term};
use nomad_csi_ports::{ConnectedNode, HostDirectory};
use nomad_csi_rpc::{ConnectedNodes, RemoteNode};

/// Nodes of other processes.
pub(super) struct ClusterNodes {
    pub(super) connected: Arc<ConnectedNodes>,
    /// The leadership that requests carry.
    pub(super) term: Term,
}

impl HostDirectory for ClusterNodes {
    fn node(&self, node: &NodeId) -> Option<ConnectedNode> {
        let channel = self.connected.channel(node)?.channel;
        Some(RemoteNode::new(channel, node.clone(), self.term).connected())
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.connected.nodes()
    }
}
