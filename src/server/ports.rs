//! The ports of the services.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cell::StateCell;
use super::plugin_call_queues::PluginCallQueues;
use super::sealer::Sealer;
use nomad_csi_model::NodeId;
use nomad_csi_ports::{Clock, IdSource, NodeHost};

/// The ports of all services. Clones share their state.
#[derive(Clone)]
pub struct ServerPorts {
    /// The agent's state.
    pub cell: StateCell,
    /// Seals secrets, mount flags, settings of jobs and items of variables.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events, pauses and the expiry of locks.
    pub clock: Arc<dyn Clock>,
    /// IDs, and jitter for pauses.
    pub ids: Arc<dyn IdSource>,
    /// The nodes.
    pub nodes: NodeHosts,
    /// The call queues of the plugins, the only way to their controllers.
    pub calls: PluginCallQueues,
}

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
