//! Which tasks of this node run each plugin, and which of them serve.
//!
//! A task that must stop serves until the task of another allocation does, so that an upgrade of a plugin has no gap
//! (B71). It does not wait for one whose process has ended: two processes of a plugin may exclude each other.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::alloc_directory::TaskDirectory;
use crate::process_run::ProcessRun;
use nomad_csi_model::{AllocId, PluginId};

/// A run of the task of a plugin.
#[derive(Clone, Debug)]
pub(super) struct PluginRun {
    /// The directory of the task.
    pub(super) directory: TaskDirectory,
    /// The number of the run.
    pub(super) number: u32,
    /// Its process.
    pub(super) process: ProcessRun,
}

/// Where the task of a plugin is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ServingStage {
    /// It has to run, and was not healthy yet.
    #[default]
    Coming,
    /// It was healthy.
    Serving,
    /// Its process has ended, or must end.
    Leaving,
}

/// The task of one allocation.
#[derive(Debug, Default)]
struct ServingTask {
    stage: ServingStage,
    run: Option<PluginRun>,
}

/// The tasks of each plugin that this agent has supervised, by allocation.
type Tasks = BTreeMap<PluginId, BTreeMap<AllocId, ServingTask>>;

/// The tasks that run plugins.
#[derive(Debug, Default)]
pub(crate) struct ServingTasks(watch::Sender<Tasks>);

impl ServingTasks {
    /// Notes that a task of the allocation has to run the plugin.
    pub(crate) fn note_begin(&self, plugin: &PluginId, alloc: &AllocId) {
        self.change(plugin, alloc, |_| {});
    }

    /// Notes which run of the task is supervised, and returns its process: the same one for the same run, also if the
    /// runner of the task panicked and is another one now. The process of an earlier run is gone.
    pub(super) async fn begin_run(
        &self,
        (plugin, alloc): (&PluginId, &AllocId),
        directory: &TaskDirectory,
        number: u32,
    ) -> ProcessRun {
        let mut earlier = None;
        let mut process = ProcessRun::default();
        self.change(plugin, alloc, |task| match &task.run {
            Some(run) if run.number == number => process = run.process.clone(),
            _ => {
                earlier = task.run.replace(PluginRun {
                    directory: directory.clone(),
                    number,
                    process: process.clone(),
                });
            }
        });
        if let Some(earlier) = earlier {
            earlier.process.end().await;
        }
        process
    }

    /// Notes where the task is.
    pub(super) fn note_stage(&self, plugin: &PluginId, alloc: &AllocId, stage: ServingStage) {
        self.change(plugin, alloc, |task| task.stage = stage);
    }

    /// Notes that the task of the allocation has ended.
    pub(crate) fn note_end(&self, plugin: &PluginId, alloc: &AllocId) {
        self.0.send_modify(|tasks| {
            if let Some(tasks) = tasks.get_mut(plugin) {
                tasks.remove(alloc);
            }
        });
    }

    /// Waits until the plugin has another task that serves, or none that could, at most for `limit`.
    pub(super) async fn wait_for_successor(
        &self,
        plugin: &PluginId,
        alloc: &AllocId,
        limit: Duration,
    ) {
        self.note_stage(plugin, alloc, ServingStage::Leaving);
        let mut changes = self.0.subscribe();
        let is_settled = |tasks: &Tasks| {
            let others = || tasks.get(plugin).into_iter().flatten();
            let is_any = |stage| others().any(|(id, task)| id != alloc && task.stage == stage);
            is_any(ServingStage::Serving) || !is_any(ServingStage::Coming)
        };
        let settled = timeout(limit, changes.wait_for(is_settled));
        if settled.await.is_err() {
            tracing::warn!(plugin.id = %plugin, alloc.id = %alloc,
                "the allocation that replaces this one is not healthy in time; the plugin is stopped");
        }
    }

    /// Returns the supervised runs.
    pub(super) fn runs(&self) -> Vec<(PluginId, AllocId, PluginRun)> {
        let tasks = self.0.borrow();
        let each = tasks.iter().flat_map(|(plugin, tasks)| {
            let runs = tasks.iter();
            runs.filter_map(|(alloc, task)| {
                Some((plugin.clone(), alloc.clone(), task.run.clone()?))
            })
        });
        each.collect()
    }

    /// Returns the plugins whose tasks have all ended.
    pub(super) fn plugins_without_task(&self) -> Vec<PluginId> {
        let tasks = self.0.borrow();
        let unused = tasks.iter().filter(|(_, tasks)| tasks.is_empty());
        unused.map(|(plugin, _)| plugin.clone()).collect()
    }

    fn change(&self, plugin: &PluginId, alloc: &AllocId, change: impl FnOnce(&mut ServingTask)) {
        self.0.send_modify(|tasks| {
            let tasks = tasks.entry(plugin.clone()).or_default();
            change(tasks.entry(alloc.clone()).or_default());
        });
    }
}
