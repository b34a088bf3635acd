//! How the instances of plugins are reached: the state says on which node each of them runs, and the directory how to reach
//! that node.

use std::sync::Arc;

use async_trait::async_trait;

use super::cell::StateCell;
use nomad_csi_model::{AllocId, HostSession, PluginId};
use nomad_csi_ports::{ConnectedNode, ControllerHost, HostDirectory, PluginConnection};

/// The machine of a controller, with the run of its process that requests must name.
pub(super) struct ControllerMachine {
    pub(super) host: Arc<dyn ControllerHost>,
    pub(super) session: HostSession,
}

/// Reaches instances of plugins.
#[async_trait]
pub(super) trait PluginInstances: Send + Sync {
    /// Returns the connection to an instance; `None` if it cannot be reached.
    async fn connection(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection>;

    /// Returns the machine of an instance; `None` if it cannot be reached.
    fn machine(&self, plugin: &PluginId, alloc: &AllocId) -> Option<ControllerMachine>;
}

/// The instances that are on record.
pub(super) struct RecordedInstances {
    pub(super) cell: StateCell,
    pub(super) hosts: Arc<dyn HostDirectory>,
}

impl RecordedInstances {
    fn node_of(&self, plugin: &PluginId, alloc: &AllocId) -> Option<(ConnectedNode, HostSession)> {
        let (node, session) = self.cell.read(|state| {
            let node = state.node_of_instance(plugin, alloc)?.clone();
            let session = state.session(&node)?.clone();
            Some((node, session))
        })?;
        Some((self.hosts.node(&node)?, session))
    }
}

#[async_trait]
impl PluginInstances for RecordedInstances {
    async fn connection(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        let (node, _) = self.node_of(plugin, alloc)?;
        node.plugins.instance(plugin, alloc).await
    }

    fn machine(&self, plugin: &PluginId, alloc: &AllocId) -> Option<ControllerMachine> {
        let (node, session) = self.node_of(plugin, alloc)?;
        Some(ControllerMachine { host: node.controllers, session })
    }
}
