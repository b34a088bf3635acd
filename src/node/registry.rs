//! The connections to the plugins of this node, by allocation.
//!
//! Several allocations of one plugin may be registered: a controller and a node plugin, or two of an
//! upgrade. Which of them is called is decided from the state (`state::PluginRecord`). Registering an
//! allocation again replaces its connection. Nothing is stored: after a restart the supervisors
//! register their tasks.
//!
//! Every connection has a controller that takes the call locks of this process.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use super::process_run::ProcessRun;
use super::serialized_controller::SerializedController;
use super::volume_call_locks::{PluginProcess, VolumeCallLocks};
use nomad_csi_model::{AllocId, ControllerCapabilities, NodeCapabilities, PluginId};
use nomad_csi_ports::{HostError, PluginConnection, PluginDirectory};

/// A plugin that answers, as its last fingerprint showed it.
#[derive(Clone)]
pub struct RunningInstance {
    /// The connection.
    pub connection: PluginConnection,
    /// The controller's capabilities, if it serves a controller.
    pub controller: Option<ControllerCapabilities>,
    /// The node's capabilities, if it serves a node.
    pub node: Option<NodeCapabilities>,
    /// The process.
    pub run: ProcessRun,
    /// Where it sees the directory of its volumes, if not at the path of the host
    /// (`stage_publish_base_dir`).
    pub volumes_in_plugin: Option<PathBuf>,
}

/// The live connections of one node.
pub struct Registry {
    call_locks: VolumeCallLocks,
    instances: Mutex<Instances>,
}

type Instances = BTreeMap<(PluginId, AllocId), RunningInstance>;

impl Registry {
    /// A registry without plugins, whose controllers take these call locks.
    pub fn new(call_locks: VolumeCallLocks) -> Self {
        Self { call_locks, instances: Mutex::default() }
    }

    /// The call locks of this process.
    pub fn call_locks(&self) -> &VolumeCallLocks {
        &self.call_locks
    }

    /// Registers the instance of `plugin` that `alloc` runs.
    pub fn register(&self, plugin: &PluginId, alloc: &AllocId, instance: RunningInstance) {
        let key = (plugin.clone(), alloc.clone());
        self.locked().insert(key, instance);
    }

    /// Removes `alloc`. Returns whether it was registered.
    pub fn deregister(&self, plugin: &PluginId, alloc: &AllocId) -> bool {
        let key = (plugin.clone(), alloc.clone());
        self.locked().remove(&key).is_some()
    }

    /// Returns the instance if its process is not known to be gone.
    ///
    /// # Errors
    /// If it does not run here.
    pub fn running(
        &self,
        plugin: &PluginId,
        alloc: &AllocId,
    ) -> Result<RunningInstance, HostError> {
        let key = (plugin.clone(), alloc.clone());
        let instance = self.locked().get(&key).cloned();
        let instance = instance.filter(|instance| !instance.run.is_gone());
        instance
            .ok_or_else(|| HostError::NoPlugin { plugin: plugin.clone(), instance: alloc.clone() })
    }

    fn locked(&self) -> MutexGuard<'_, Instances> {
        self.instances.lock()
    }
}

#[async_trait]
impl PluginDirectory for Registry {
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        let key = (plugin.clone(), alloc.clone());
        let instance = self.locked().get(&key).cloned()?;
        let controller = SerializedController {
            inner: instance.connection.controller,
            call_locks: self.call_locks.clone(),
            process: PluginProcess {
                plugin: plugin.clone(),
                alloc: alloc.clone(),
                run: instance.run,
            },
        };
        Some(PluginConnection { controller: Arc::new(controller), ..instance.connection })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{connection, plugin_named};

    fn empty() -> Registry {
        Registry::new(VolumeCallLocks::new("session".into()))
    }

    async fn current(registry: &Registry, plugin: &str, alloc: &str) -> Option<String> {
        let connection = registry.instance(&plugin.into(), &alloc.into()).await?;
        Some(connection.identity.plugin_info().await.unwrap().name)
    }

    fn plugin(name: &str) -> RunningInstance {
        RunningInstance {
            connection: connection(&plugin_named(name)),
            controller: None,
            node: None,
            run: ProcessRun::default(),
            volumes_in_plugin: None,
        }
    }

    /// B65: in every order of starts, replacements and ends of three allocations of two plugins, each one that was started
    /// and has not ended has its newest connection, and no other has one.
    #[tokio::test]
    async fn every_order_of_starts_replacements_and_ends_is_followed() {
        let keys = [("ebs", "a1"), ("ebs", "a2"), ("nfs", "a1")];
        // Two starts of each, the second of which replaces the first, and its end.
        let actions = ["start", "replace", "end"];
        let moves: Vec<_> =
            keys.iter().flat_map(|key| actions.map(|action| (*key, action))).collect();
        let mut state = 1_u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % below
        };
        for round in 0..200 {
            let registry = empty();
            let mut expected = BTreeMap::new();
            for step in 0..12 {
                let ((id, alloc), action) = moves[next(moves.len())];
                let name = format!("{id} {alloc} {step}");
                let (plugin_id, alloc_id) = (PluginId::new(id), AllocId::new(alloc));
                if action == "end" {
                    let removed = registry.deregister(&plugin_id, &alloc_id);
                    assert_eq!(removed, expected.remove(&(id, alloc)).is_some(), "{round}: {name}");
                } else {
                    registry.register(&plugin_id, &alloc_id, plugin(&name));
                    expected.insert((id, alloc), name);
                }
                for (id, alloc) in keys {
                    let found = current(&registry, id, alloc).await;
                    assert_eq!(found.as_ref(), expected.get(&(id, alloc)), "{round}: step {step}");
                }
            }
        }
    }

    /// Each allocation has its own connection. W40: removing an unknown allocation changes nothing.
    #[tokio::test]
    async fn the_end_of_one_allocation_leaves_the_others() {
        let registry = empty();
        let (id, first, second) = ("ebs".into(), "alloc-1".into(), "alloc-2".into());
        registry.register(&id, &first, plugin("first"));
        registry.register(&id, &second, plugin("second"));
        for (alloc, name) in [("alloc-1", "first"), ("alloc-2", "second")] {
            assert_eq!(current(&registry, "ebs", alloc).await.as_deref(), Some(name));
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
        let registry = empty();
        let (id, alloc) = ("ebs".into(), "alloc-1".into());
        registry.register(&id, &alloc, plugin("old"));
        registry.register(&id, &alloc, plugin("new"));
        let current = current(&registry, "ebs", "alloc-1").await;
        assert_eq!(current.as_deref(), Some("new"));
    }

    #[tokio::test]
    async fn an_allocation_serves_only_its_plugin() {
        let registry = empty();
        registry.register(&"ebs".into(), &"alloc-1".into(), plugin("ebs"));
        assert_eq!(current(&registry, "nfs", "alloc-1").await, None);
    }

    /// A process that is gone is not called, although its allocation stays registered for its next one.
    #[tokio::test]
    async fn a_process_that_is_gone_does_not_run() {
        let registry = empty();
        let (id, alloc) = ("ebs".into(), "alloc-1".into());
        let instance = plugin("ebs");
        registry.register(&id, &alloc, instance.clone());
        assert!(registry.running(&id, &alloc).is_ok());
        instance.run.end().await;
        let refused = registry.running(&id, &alloc).err();
        assert!(matches!(refused, Some(HostError::NoPlugin { .. })));
        assert!(registry.instance(&id, &alloc).await.is_some());
    }
}
