//! The receiver of plugin changes that a node detects.

use async_trait::async_trait;

use nomad_csi_model::{AllocId, NodeId, PluginId, PluginInstance};

/// The report was not recorded. The sender keeps it and tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the report was not recorded: {reason}")]
pub struct ReportRefused {
    /// The reason that the receiver gives.
    pub reason: String,
}

/// Records plugin changes of a node, in the order in which the node detects them.
#[async_trait]
pub trait PluginObserver: Send + Sync {
    /// Records the new state of an instance of `plugin` on `node`; the instance names its allocation.
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused>;

    /// Records that `alloc` no longer runs `plugin`.
    async fn gone(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused>;
}
