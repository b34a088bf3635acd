//! The nodes that are connected to this server, as its services reach them.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use nomad_csi_etcd::Leadership;
use nomad_csi_model::{HostSession, NodeId, Term};
use nomad_csi_ports::{ConnectedNode, HostDirectory, NodePresence};
use nomad_csi_rpc::{ConnectedNodes, RemoteNode};

/// Nodes of other processes.
pub(super) struct ClusterNodes {
    pub(super) connected: Arc<ConnectedNodes>,
    /// The leadership that requests carry.
    pub(super) term: Term,
    /// Says whether no other server can lead at this moment; `None` if there is no other.
    pub(super) leadership: Option<Arc<Leadership>>,
}

impl HostDirectory for ClusterNodes {
    fn node(&self, node: &NodeId) -> Option<ConnectedNode> {
        // A node is reached again when the lease was renewed.
        self.leadership.as_ref().is_none_or(|leads| leads.is_certain()).then_some(())?;
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
