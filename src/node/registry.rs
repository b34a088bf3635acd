//! The connections to the plugins of this node.
//!
//! Several tasks of one plugin may be registered during an upgrade; the newest is used. When it is
//! deregistered, the one before it is used again. Registering a task again replaces its connection
//! and keeps its position. Nothing is stored: after a restart the supervisors register their tasks.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::model::{AllocId, NodeId, PluginId};
use crate::ports::{PluginConnection, PluginDirectory};

/// The live connections of one node.
pub struct Registry {
    node: NodeId,
    /// The tasks of each plugin, the newest last; never an empty list.
    plugins: Mutex<BTreeMap<PluginId, Vec<Registration>>>,
}

struct Registration {
    task: AllocId,
    connection: PluginConnection,
}

impl Registry {
    /// An empty registry for a node.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            plugins: Mutex::default(),
        }
    }

    /// Registers the connection of `task`, which is used unless a newer task serves `plugin`.
    pub fn register(&self, plugin: &PluginId, task: &AllocId, connection: PluginConnection) {
        let mut plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let tasks = plugins.entry(plugin.clone()).or_default();
        match tasks
            .iter_mut()
            .find(|registration| registration.task == *task)
        {
            Some(known) => known.connection = connection,
            None => tasks.push(Registration {
                task: task.clone(),
                connection,
            }),
        }
    }

    /// Removes `task`. Returns whether it was registered.
    pub fn deregister(&self, plugin: &PluginId, task: &AllocId) -> bool {
        let mut plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(tasks) = plugins.get_mut(plugin) else {
            return false;
        };
        let before = tasks.len();
        tasks.retain(|registration| registration.task != *task);
        let known = tasks.len() < before;
        if tasks.is_empty() {
            plugins.remove(plugin);
        }
        known
    }
}

#[async_trait]
impl PluginDirectory for Registry {
    async fn instance(&self, plugin: &PluginId, node: &NodeId) -> Option<PluginConnection> {
        if *node != self.node {
            return None;
        }
        let plugins = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        Some(plugins.get(plugin)?.last()?.connection.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::fakes::FakePlugin;

    async fn current(registry: &Registry, plugin: &str) -> Option<String> {
        let connection = registry.instance(&plugin.into(), &"here".into()).await?;
        Some(connection.identity.plugin_info().await.unwrap().name)
    }

    fn plugin(name: &str) -> PluginConnection {
        Arc::new(FakePlugin::named(name)).connection()
    }

    /// The newest task is used (B65); when it ends, the one before it is used again (B71, W40).
    #[tokio::test]
    async fn the_newest_task_is_used_and_then_the_one_before_it() {
        let registry = Registry::new("here".into());
        let (id, first, second) = ("ebs".into(), "task-1".into(), "task-2".into());
        registry.register(&id, &first, plugin("first"));
        registry.register(&id, &second, plugin("second"));
        assert_eq!(current(&registry, "ebs").await.as_deref(), Some("second"));

        registry.register(&id, &first, plugin("first again"));
        assert_eq!(
            current(&registry, "ebs").await.as_deref(),
            Some("second"),
            "older task"
        );

        assert!(registry.deregister(&id, &second));
        assert_eq!(
            current(&registry, "ebs").await.as_deref(),
            Some("first again")
        );
        assert!(!registry.deregister(&id, &second), "already removed");
        assert!(registry.deregister(&id, &first));
        assert_eq!(current(&registry, "ebs").await, None);
    }

    /// W43: registering a task again takes its new connection.
    #[tokio::test]
    async fn registering_again_replaces_the_connection() {
        let registry = Registry::new("here".into());
        let (id, task) = ("ebs".into(), "task-1".into());
        registry.register(&id, &task, plugin("old"));
        registry.register(&id, &task, plugin("new"));
        assert_eq!(current(&registry, "ebs").await.as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn another_node_has_no_instance_here() {
        let registry = Registry::new("here".into());
        registry.register(&"ebs".into(), &"task".into(), plugin("ebs"));
        assert!(
            registry
                .instance(&"ebs".into(), &"there".into())
                .await
                .is_none()
        );
    }
}
