//! What a node reports of its plugins. It speaks for its own only.

use async_trait::async_trait;

use crate::cell::StateCell;
use crate::observer::RecordingObserver;
use nomad_csi_claims::state::State;
use nomad_csi_model::{AllocId, NodeId, PluginId, PluginInstance};
use nomad_csi_ports::{PluginObserver, ReportRefused};

/// Records the reports of one node.
pub(super) struct NodePlugins {
    pub(super) cell: StateCell,
    pub(super) node: NodeId,
    pub(super) reports: RecordingObserver,
}

impl NodePlugins {
    /// An allocation that is on record nowhere is a plugin that no job runs, which the node has started or found.
    fn check(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused> {
        let other = |state: &State| {
            let placed = state.alloc(alloc).map(|record| record.node.clone());
            let known = state.node_of_instance(plugin, alloc).cloned();
            placed.into_iter().chain(known).find(|node| *node != self.node)
        };
        match self.cell.read(other) {
            None => Ok(()),
            Some(_) => Err(refused(alloc)),
        }
    }
}

fn refused(alloc: &AllocId) -> ReportRefused {
    ReportRefused { reason: format!("allocation `{alloc}` is not one of this node") }
}

#[async_trait]
impl PluginObserver for NodePlugins {
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        if *node != self.node {
            return Err(refused(&instance.alloc_id));
        }
        self.check(plugin, &instance.alloc_id)?;
        self.reports.changed(plugin, node, instance).await
    }

    async fn gone(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused> {
        self.check(plugin, alloc)?;
        self.reports.gone(plugin, alloc).await
    }
}
