//! Which plugin is reached how.

use async_trait::async_trait;

use super::connector::PluginConnection;
use crate::model::{NodeId, PluginId};

/// The live connections of this agent's plugins.
#[async_trait]
pub trait PluginDirectory: Send + Sync {
    /// The connection to the instance of `plugin` that runs on `node`, if there is one.
    async fn instance(&self, plugin: &PluginId, node: &NodeId) -> Option<PluginConnection>;
}
