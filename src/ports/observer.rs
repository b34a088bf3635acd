//! Who is told what a node finds out about its plugins.

use async_trait::async_trait;

use crate::model::{NodeId, PluginId, PluginInstance};

/// The report was not recorded; the reporter keeps it and tries again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the report was not recorded: {reason}")]
pub struct ReportRefused {
    /// In the words of the one who refused.
    pub reason: String,
}

/// Records what a node finds. It is told of changes only, in the order in which they were found.
#[async_trait]
pub trait PluginObserver: Send + Sync {
    /// The instance of `plugin` on `node` is now like this: new, better, worse, or with other facts.
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused>;

    /// `node` no longer runs `plugin` (B70).
    async fn gone(&self, plugin: &PluginId, node: &NodeId) -> Result<(), ReportRefused>;
}
