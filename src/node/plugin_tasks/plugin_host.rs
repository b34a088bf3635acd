//! What the plugins of all tasks of this node share.
//!
//! The directory of a plugin's volumes becomes a shared mount when its first task starts, and stays one while the
//! agent runs. [`PluginHost::release_directories`] ends that for plugins without a task and without a mounted volume.
//! When an agent stops, [`PluginHost::record_idle`] notes which plugins the next agent may use as they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::plugin_paths::{PluginDirectories, remove_socket_directory};
use super::serving_tasks::{PluginRun, ServingTasks};
use crate::registry::Registry;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, NodeId, PluginId};
use nomad_csi_ports::{
    Clock, Connector, IdSource, Mounter, PluginObserver, SentSecretsReader, run_blocking,
};

/// The pauses between reports that are refused.
const REPORT: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(15) };

/// The dependencies of a [`PluginHost`].
pub struct PluginHostDeps {
    /// Connects to sockets.
    pub connector: Arc<dyn Connector>,
    /// The secrets that plugins got before.
    pub sent: Arc<dyn SentSecretsReader>,
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
    pub(super) tasks: ServingTasks,
}

impl PluginHost {
    /// A host without plugins.
    pub fn new(deps: PluginHostDeps) -> Self {
        Self { deps, tasks: ServingTasks::default() }
    }

    /// Returns the tasks that run plugins.
    pub(crate) fn tasks(&self) -> &ServingTasks {
        &self.tasks
    }

    /// Returns the directories of plugins on this node.
    pub(crate) fn directories(&self) -> PluginDirectories {
        PluginDirectories { sockets: self.deps.sockets.clone(), volumes: self.deps.volumes.clone() }
    }

    /// Records which plugins have no call under way, so that the next agent need not restart them. No call may start
    /// from now on, and no runner of a task may run.
    pub async fn record_idle(&self) {
        for run in self.idle_runs() {
            let shown = run.directory.path().display().to_string();
            let recorded = run_blocking(move || {
                let Some(mut record) = run.directory.read_record()? else {
                    return Ok(());
                };
                record.idle_run = Some(run.number);
                run.directory.write_record(&record)
            });
            if let Err(error) = recorded.await {
                tracing::warn!(directory = shown, %error, "the next agent restarts a plugin: its state was not recorded");
            }
        }
    }

    fn idle_runs(&self) -> Vec<PluginRun> {
        let is_idle = |plugin: &PluginId, alloc: &AllocId| {
            let instance = self.deps.registry.running(plugin, alloc);
            instance.is_ok_and(|instance| instance.run.pending_calls() == 0)
        };
        let runs = self.tasks.runs().into_iter();
        runs.filter(|(plugin, alloc, _)| is_idle(plugin, alloc)).map(|(.., run)| run).collect()
    }

    /// Ends the calls of a plugin whose processes are gone, and removes their sockets.
    pub async fn end_processes(&self, plugin: &PluginId) {
        for (served, alloc, run) in self.tasks.runs() {
            if served == *plugin {
                run.process.end().await;
                self.remove_socket(&alloc).await;
            }
        }
    }

    /// Reports that the process of a plugin is gone, until the server knows.
    pub(crate) async fn report_gone(&self, plugin: &PluginId, alloc: &AllocId) {
        let mut attempt = 0;
        while let Err(error) = self.deps.observer.gone(plugin, alloc).await {
            tracing::warn!(plugin.id = %plugin, %error, "the removal of the plugin was not recorded; trying again");
            sleep(REPORT.delay(attempt, 1.0)).await;
            attempt = attempt.saturating_add(1);
        }
    }

    /// Removes the socket of a plugin whose process is gone, with its directory.
    pub(super) async fn remove_socket(&self, alloc: &AllocId) {
        let directory = self.directories().socket_directory_of(alloc);
        let shown = directory.display().to_string();
        let removed = run_blocking(move || remove_socket_directory(&directory));
        if let Err(error) = removed.await {
            tracing::info!(directory = shown, %error, "the directory of a plugin's socket stays");
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
        let unused = self.tasks.plugins_without_task().into_iter();
        let unused: Vec<_> = unused.map(|plugin| directories.volumes_of(&plugin)).collect();
        let targets = mounts.into_iter().map(|mount| mount.target);
        for root in targets.filter(|target| unused.contains(target)) {
            if let Err(error) = mounter.unmount(&root).await {
                tracing::info!(directory = %root.display(), %error, "the directory of a plugin stays shared");
            }
        }
    }
}
