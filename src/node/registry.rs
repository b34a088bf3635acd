//! The connections to the plugins of this node, by allocation.
//!
//! Several allocations of one plugin may be registered: a controller and a node plugin, or two of an
//! upgrade. Which of them is called is decided from the state (`state::PluginRecord`). Registering an
//! allocation again replaces its connection. Nothing is stored: after a restart the supervisors
//! register their tasks.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::model::{AllocId, PluginId};
use crate::ports::{PluginConnection, PluginDirectory};

/// The live connections of one node.
#[derive(Default)]
pub struct Registry {
    connections: Mutex<Connections>,
}

type Connections = BTreeMap<(PluginId, AllocId), PluginConnection>;

impl Registry {
    /// Registers the connection to the instance of `plugin` that `alloc` runs.
    pub fn register(&self, plugin: &PluginId, alloc: &AllocId, connection: PluginConnection) {
        let key = (plugin.clone(), alloc.clone());
        self.locked().insert(key, connection);
    }

    /// Removes `alloc`. Returns whether it was registered.
    pub fn deregister(&self, plugin: &PluginId, alloc: &AllocId) -> bool {
        let key = (plugin.clone(), alloc.clone());
        self.locked().remove(&key).is_some()
    }

    fn locked(&self) -> MutexGuard<'_, Connections> {
        let connections = self.connections.lock();
        connections.unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl PluginDirectory for Registry {
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        let key = (plugin.clone(), alloc.clone());
        self.locked().get(&key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::fakes::FakePlugin;

    async fn current(registry: &Registry, plugin: &str, alloc: &str) -> Option<String> {
        let connection = registry.instance(&plugin.into(), &alloc.into()).await?;
        Some(connection.identity.plugin_info().await.unwrap().name)
    }

    fn plugin(name: &str) -> PluginConnection {
        Arc::new(FakePlugin::named(name)).connection()
    }

    /// B65: each allocation has its own connection, in every order of starts and ends. W40: removing an
    /// unknown allocation changes nothing.
    #[tokio::test]
    async fn the_end_of_one_allocation_leaves_the_others() {
        let registry = Registry::default();
        let (id, first, second) = ("ebs".into(), "alloc-1".into(), "alloc-2".into());
        registry.register(&id, &first, plugin("first"));
        registry.register(&id, &second, plugin("second"));
        for (alloc, name) in [("alloc-1", "first"), ("alloc-2", "second")] {
            assert_eq!(
                current(&registry, "ebs", alloc).await.as_deref(),
                Some(name)
            );
        }
        assert!(registry.deregister(&id, &second));
        assert!(!registry.deregister(&id, &second), "already removed");
        assert!(!registry.deregister(&id, &"unknown".into()));
        assert_eq!(current(&registry, "ebs", "alloc-2").await, None);
        let first_left = current(&registry, "ebs", "alloc-1").await;
        assert_eq!(first_left.as_deref(), Some("first"));
        assert!(registry.deregister(&id, &first));
        assert_eq!(current(&registry, "ebs", "alloc-1").await, None);
    }

    /// W43: registering an allocation again takes its new connection.
    #[tokio::test]
    async fn registering_again_replaces_the_connection() {
        let registry = Registry::default();
        let (id, alloc) = ("ebs".into(), "alloc-1".into());
        registry.register(&id, &alloc, plugin("old"));
        registry.register(&id, &alloc, plugin("new"));
        let current = current(&registry, "ebs", "alloc-1").await;
        assert_eq!(current.as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn an_allocation_serves_only_its_plugin() {
        let registry = Registry::default();
        registry.register(&"ebs".into(), &"alloc-1".into(), plugin("ebs"));
        assert_eq!(current(&registry, "nfs", "alloc-1").await, None);
    }
}
