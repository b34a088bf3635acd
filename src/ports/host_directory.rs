//! The nodes that can be reached now, and what each of them carries out.
//!
//! Which node has to carry something out is decided from the state; this only says how to reach it. A node that is
//! not there may still carry out what it was sent before.

use std::sync::Arc;

use super::alloc_access::AllocAccess;
use super::controller_host::ControllerHost;
use super::node_host::NodeHost;
use super::plugins::PluginDirectory;
use super::task_logs::TaskLogs;
use nomad_csi_model::NodeId;

/// What one node carries out. Clones reach the same node.
#[derive(Clone)]
pub struct ConnectedNode {
    /// The steps of claims on the node.
    pub host: Arc<dyn NodeHost>,
    /// The attaches and detaches of the controllers that run there.
    pub controllers: Arc<dyn ControllerHost>,
    /// The plugins that run there.
    pub plugins: Arc<dyn PluginDirectory>,
    /// The output of the tasks that run there; `None` if none can run.
    pub logs: Option<Arc<dyn TaskLogs>>,
    /// The tasks and the files of the allocations that run there; `None` if none can run.
    pub allocs: Option<Arc<dyn AllocAccess>>,
}

/// The nodes that can be reached now.
pub trait HostDirectory: Send + Sync {
    /// Returns a node; `None` if it cannot be reached.
    fn node(&self, node: &NodeId) -> Option<ConnectedNode>;

    /// Returns the nodes that can be reached, sorted.
    fn nodes(&self) -> Vec<NodeId>;
}
