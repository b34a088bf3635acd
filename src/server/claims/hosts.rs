//! The hosts of steps that this server can reach.

use std::collections::BTreeMap;
use std::sync::Arc;

use nomad_csi_model::NodeId;
use nomad_csi_ports::{ControllerHost, NodeHost};

/// The hosts of nodes. Clones share their state.
#[derive(Clone, Default)]
pub struct NodeHosts(Arc<BTreeMap<NodeId, Arc<dyn NodeHost>>>);

impl NodeHosts {
    /// Hosts by node.
    pub fn new(hosts: impl IntoIterator<Item = (NodeId, Arc<dyn NodeHost>)>) -> Self {
        Self(Arc::new(hosts.into_iter().collect()))
    }

    /// Returns all hosts with their nodes.
    pub(super) fn all(&self) -> impl Iterator<Item = (&NodeId, &Arc<dyn NodeHost>)> {
        self.0.iter()
    }

    /// Returns the host of a node.
    pub(super) fn of(&self, node: &NodeId) -> Option<&Arc<dyn NodeHost>> {
        self.0.get(node)
    }
}

/// What carries out the steps of claims. Clones share their state.
#[derive(Clone)]
pub struct ClaimHosts {
    /// The nodes.
    pub nodes: NodeHosts,
    /// The controllers.
    pub controllers: Arc<dyn ControllerHost>,
}
