//! Which plugin is reached how on this node (`csi-orchestration` 6.5).
//!
//! Of one plugin several tasks may be registered while it is being upgraded; the newest counts. The
//! end of an older one changes nothing, and the end of the newest brings the one before it back at
//! once (B71, W40). Registering a task again replaces its connection and keeps its place (W43).
//!
//! Nothing is kept beyond the process: after a restart the supervisors register what they start.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use crate::model::{AllocId, NodeId, PluginId};
use crate::ports::{PluginConnection, PluginDirectory};

/// The live connections of one node.
pub struct Registry {
    node: NodeId,
    /// Per plugin its tasks, the newest last; never an empty list.
    plugins: Mutex<BTreeMap<PluginId, Vec<Registration>>>,
}

struct Registration {
    task: AllocId,
    connection: PluginConnection,
}

impl Registry {
    /// An empty registry of that node.
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            plugins: Mutex::default(),
        }
    }

    /// Makes the connection of `task` the way to reach `plugin`, unless a newer task serves it.
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

    /// Forgets `task`. Whether it was known.
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

    /// B65, B71 and W40: the scenarios of section 6.5, as far as one process goes.
    #[tokio::test]
    async fn the_newest_task_counts_and_the_one_before_it_comes_back() {
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
        assert!(!registry.deregister(&id, &second), "already forgotten");
        assert!(registry.deregister(&id, &first));
        assert_eq!(current(&registry, "ebs").await, None);
    }

    /// W43: a definition that changed is taken.
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
