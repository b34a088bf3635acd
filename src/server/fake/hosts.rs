//! The nodes of [`super::FakeAgent`].

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use nomad_csi_model::NodeId;
use nomad_csi_ports::{
    AllocAccess, ConnectedNode, ControllerHost, HostDirectory, NodeHost, PluginDirectory, TaskLogs,
};

/// Nodes that share their plugins and controllers.
#[derive(Clone)]
pub struct FakeHosts {
    nodes: Arc<Mutex<BTreeMap<NodeId, Arc<dyn NodeHost>>>>,
    controllers: Arc<dyn ControllerHost>,
    plugins: Arc<dyn PluginDirectory>,
    logs: Arc<Mutex<Option<Arc<dyn TaskLogs>>>>,
    allocs: Arc<Mutex<Option<Arc<dyn AllocAccess>>>>,
}

impl FakeHosts {
    /// Nodes with these hosts.
    pub fn new(
        nodes: impl IntoIterator<Item = (NodeId, Arc<dyn NodeHost>)>,
        controllers: Arc<dyn ControllerHost>,
        plugins: Arc<dyn PluginDirectory>,
    ) -> Self {
        let nodes = Arc::new(Mutex::new(nodes.into_iter().collect()));
        Self { nodes, controllers, plugins, logs: Arc::default(), allocs: Arc::default() }
    }

    /// Adds a node.
    pub fn add(&self, node: NodeId, host: Arc<dyn NodeHost>) {
        self.nodes.lock().insert(node, host);
    }

    /// Lets all nodes have these tasks and files.
    pub fn set_allocs(&self, allocs: Arc<dyn AllocAccess>) {
        *self.allocs.lock() = Some(allocs);
    }

    /// Lets all nodes have this output of tasks.
    pub fn set_logs(&self, logs: Arc<dyn TaskLogs>) {
        *self.logs.lock() = Some(logs);
    }
}

impl HostDirectory for FakeHosts {
    fn node(&self, node: &NodeId) -> Option<ConnectedNode> {
        let host = self.nodes.lock().get(node)?.clone();
        let (controllers, plugins) = (self.controllers.clone(), self.plugins.clone());
        let (logs, allocs) = (self.logs.lock().clone(), self.allocs.lock().clone());
        Some(ConnectedNode { host, controllers, plugins, logs, allocs })
    }

    fn nodes(&self) -> Vec<NodeId> {
        self.nodes.lock().keys().cloned().collect()
    }
}
