//! What the plugins of all tasks of this node share.
//!
//! The directory of a plugin's volumes becomes a shared mount when its first task starts, and stays one while the
//! agent runs. [`PluginHost::release_directories`] ends that for plugins without a task and without a mounted volume.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::plugin_places::PluginDirectories;
use crate::model::{NodeId, PluginId};
use crate::node::registry::Registry;
use crate::ports::{Clock, Connector, IdSource, Mounter, PluginObserver};

/// The dependencies of a [`PluginHost`].
pub struct PluginHostDeps {
    /// Connects to sockets.
    pub connector: Arc<dyn Connector>,
    /// Publishes connections.
    pub registry: Arc<Registry>,
    /// Records the state of plugins.
    pub observer: Arc<dyn PluginObserver>,
    /// Shares the directories of volumes.
    pub mounter: Arc<dyn Mounter>,
    /// The time of fingerprints.
    pub clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub ids: Arc<dyn IdSource>,
    /// This node.
    pub node: NodeId,
    /// The parent directory of the directories of sockets: private, with a short path.
    pub sockets: PathBuf,
    /// The parent directory of the volumes of all plugins, without symbolic links.
    pub volumes: PathBuf,
}

/// Supervises the plugins that tasks run.
pub struct PluginHost {
    pub(super) deps: PluginHostDeps,
    /// How many tasks run each plugin that this agent has supervised.
    running: Mutex<BTreeMap<PluginId, usize>>,
}

impl PluginHost {
    /// A host without plugins.
    pub fn new(deps: PluginHostDeps) -> Self {
        Self {
            deps,
            running: Mutex::default(),
        }
    }

    /// Returns the directories of plugins on this node.
    pub(in crate::node) fn directories(&self) -> PluginDirectories {
        PluginDirectories {
            sockets: self.deps.sockets.clone(),
            volumes: self.deps.volumes.clone(),
        }
    }

    /// Notes that a task runs the plugin.
    pub(super) fn note_begin(&self, plugin: &PluginId) {
        *self.running().entry(plugin.clone()).or_default() += 1;
    }

    /// Notes that a task of the plugin has ended.
    pub(super) fn note_end(&self, plugin: &PluginId) {
        let mut running = self.running();
        if let Some(count) = running.get_mut(plugin) {
            *count = count.saturating_sub(1);
        }
    }

    /// Removes the shared mounts of plugins whose tasks have all ended. One in which a volume is mounted stays.
    pub async fn release_directories(&self) {
        let mounter = &self.deps.mounter;
        let mounts = match mounter.list().await {
            Ok(mounts) => mounts,
            Err(error) => {
                tracing::warn!(%error, "cannot list the mounts of plugins");
                return;
            }
        };
        let directories = self.directories();
        let unused: Vec<_> = self
            .running()
            .iter()
            .filter(|(_, count)| **count == 0)
            .map(|(plugin, _)| directories.volumes_of(plugin))
            .collect();
        let targets = mounts.into_iter().map(|mount| mount.target);
        for root in targets.filter(|target| unused.contains(target)) {
            if let Err(error) = mounter.unmount(&root).await {
                tracing::info!(directory = %root.display(), %error, "the directory of a plugin stays shared");
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<PluginId, usize>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
