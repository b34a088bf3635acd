//! The plugin instances that are reachable now.

use async_trait::async_trait;

use super::connector::PluginConnection;
use nomad_csi_model::{AllocId, PluginId};

/// The open connections to the plugins of this agent.
#[async_trait]
pub trait PluginDirectory: Send + Sync {
    /// Returns the connection to the instance of `plugin` that `alloc` runs, if it runs.
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection>;
}
