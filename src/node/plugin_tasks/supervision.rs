//! Supervises the plugin of one task: prepares its directories, watches its health, and reports its end.
//!
//! A plugin that is not healthy within `health_timeout` after the start of its task has failed (B63). Later it stays
//! registered whatever its health is, and only changes are reported (B64). The caller starts and stops the process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::plugin_host::PluginHost;
use super::plugin_paths::PluginPaths;
use super::serving_tasks::ServingStage;
use crate::alloc_directory::TaskDirectory;
use crate::fingerprint::{FingerprintRecorder, FingerprintResult, PluginFacts, fingerprint_plugin};
use crate::process_run::ProcessRun;
use crate::registry::RunningInstance;
use nomad_csi_model::private::{create_directory, create_subdirectory};
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, CsiPluginConfig};
use nomad_csi_ports::{PluginConnection, run_blocking};

/// The time between two fingerprints of a healthy plugin.
const PERIOD: Duration = Duration::from_secs(30);
/// The pauses between fingerprints of an unhealthy plugin.
const RECHECK: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(10), max: Duration::from_secs(2) };

/// A change of a plugin's health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthChange<'a> {
    /// It became healthy.
    Healthy,
    /// It became unhealthy, for this reason.
    Unhealthy(&'a str),
}

/// The supervision of the plugin that one task runs.
pub(crate) struct PluginSupervision {
    host: Arc<PluginHost>,
    alloc: AllocId,
    config: CsiPluginConfig,
    paths: PluginPaths,
    fingerprint: FingerprintRecorder,
}

impl PluginSupervision {
    /// Begins the supervision of the plugin that a task of `alloc` runs.
    pub(crate) fn begin(
        host: &Arc<PluginHost>,
        alloc: &AllocId,
        config: &CsiPluginConfig,
        has_own_root: bool,
    ) -> Self {
        host.tasks.note_begin(&config.id, alloc);
        let paths = host.directories().paths(alloc, config, has_own_root);
        let fingerprint = FingerprintRecorder {
            plugin: config.id.clone(),
            node: host.deps.node.clone(),
            task: alloc.clone(),
            clock: host.deps.clock.clone(),
            observer: host.deps.observer.clone(),
            process: None,
            recorded: None,
        };
        Self {
            host: host.clone(),
            alloc: alloc.clone(),
            config: config.clone(),
            paths,
            fingerprint,
        }
    }

    /// Returns the plugin.
    pub(crate) fn config(&self) -> &CsiPluginConfig {
        &self.config
    }

    /// Creates what the next run of the task needs. No process of the plugin may run.
    ///
    /// # Errors
    /// If a directory cannot be created or shared.
    pub(crate) async fn prepare(&self) -> io::Result<()> {
        let paths = self.paths.clone();
        let base = self.host.deps.volumes.clone();
        run_blocking(move || {
            create_subdirectory(paths.socket_directory())?;
            create_directory(&base)?;
            create_subdirectory(paths.volumes())?;
            match std::fs::remove_file(paths.socket()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            }
        })
        .await?;
        if self.paths.volumes_in_task().is_none() {
            return Ok(());
        }
        let shared = self.host.deps.mounter.share(self.paths.volumes()).await;
        shared.map_err(|error| {
            io::Error::new(error.source.kind(), format!("{error}: {}", error.source))
        })
    }

    /// Returns the process of a run of the task, which is watched from now on. The process of an earlier run is gone.
    pub(crate) async fn begin_run(&mut self, directory: &TaskDirectory, number: u32) -> ProcessRun {
        let task = directory.path().file_name().unwrap_or_default().to_string_lossy();
        self.fingerprint.process = Some(format!("run {number} of task {task}"));
        let tasks = &self.host.tasks;
        let key = (&self.config.id, &self.alloc);
        tasks.begin_run(key, directory, number).await
    }

    /// Watches the plugin of a task that has started. Returns the last error if the plugin is not healthy in time, and
    /// does not return after it was healthy.
    pub(crate) async fn watch(
        &mut self,
        run: &ProcessRun,
        note: impl Fn(HealthChange<'_>),
    ) -> String {
        let deps = &self.host.deps;
        let sent = deps.sent.sent(Some(&self.config.id)).await;
        let connection = deps.connector.connect(&self.paths.socket(), None, &sent);
        let reason = self.wait_until_healthy(&connection, run).await;
        if let Err(reason) = reason {
            return reason;
        }
        note(HealthChange::Healthy);
        self.follow_health(&connection, run, note).await
    }

    /// Waits for the first healthy fingerprint.
    async fn wait_until_healthy(
        &mut self,
        connection: &PluginConnection,
        run: &ProcessRun,
    ) -> Result<(), String> {
        let deadline = Instant::now() + self.config.health_timeout;
        let mut last = "the plugin did not answer".to_owned();
        let mut rounds = 0;
        loop {
            let found = fingerprint_plugin(connection, self.config.plugin_type);
            match timeout_at(deadline, found).await {
                Ok(FingerprintResult::Healthy(facts)) => {
                    self.accept(connection, run, facts).await;
                    return Ok(());
                }
                Ok(FingerprintResult::Unhealthy(reason)) => last = reason,
                Err(_) => return Err(last),
            }
            let pause = sleep(RECHECK.delay(rounds, self.host.deps.ids.jitter()));
            if timeout_at(deadline, pause).await.is_err() {
                return Err(last);
            }
            rounds += 1;
        }
    }

    /// Fingerprints a plugin that was healthy, for as long as its task runs.
    async fn follow_health(
        &mut self,
        connection: &PluginConnection,
        run: &ProcessRun,
        note: impl Fn(HealthChange<'_>),
    ) -> ! {
        let mut failed_rounds = 0;
        let mut pause = PERIOD;
        loop {
            sleep(pause).await;
            match fingerprint_plugin(connection, self.config.plugin_type).await {
                FingerprintResult::Healthy(facts) => {
                    self.accept(connection, run, facts).await;
                    if failed_rounds > 0 {
                        note(HealthChange::Healthy);
                    }
                    failed_rounds = 0;
                    pause = PERIOD;
                }
                FingerprintResult::Unhealthy(reason) => {
                    if failed_rounds == 0 {
                        note(HealthChange::Unhealthy(&reason));
                    }
                    self.fingerprint.record(&FingerprintResult::Unhealthy(reason)).await;
                    pause = RECHECK.delay(failed_rounds, self.host.deps.ids.jitter());
                    failed_rounds = failed_rounds.saturating_add(1);
                }
            }
        }
    }

    /// Registers the plugin, and then reports it: a reader of the report finds the connection.
    async fn accept(
        &mut self,
        connection: &PluginConnection,
        run: &ProcessRun,
        facts: Box<PluginFacts>,
    ) {
        let instance = RunningInstance {
            connection: connection.clone(),
            controller: facts.controller(),
            node: facts.node(),
            run: run.clone(),
            volumes_in_plugin: self.paths.volumes_in_task().map(ToOwned::to_owned),
        };
        let registry = &self.host.deps.registry;
        registry.register(&self.config.id, &self.alloc, instance);
        self.fingerprint.record(&FingerprintResult::Healthy(facts)).await;
        // The one that it replaces may stop now.
        self.note_stage(ServingStage::Serving);
    }

    fn note_stage(&self, stage: ServingStage) {
        let tasks = &self.host.tasks;
        tasks.note_stage(&self.config.id, &self.alloc, stage);
    }

    /// Waits until the plugin of another allocation serves, if one is about to.
    pub(crate) async fn wait_for_successor(&self) {
        let limit = self.config.health_timeout;
        let tasks = &self.host.tasks;
        tasks.wait_for_successor(&self.config.id, &self.alloc, limit).await;
    }

    /// Reports that the process has ended, and that the task is started again.
    pub(crate) async fn report_restart(&mut self, reason: String) {
        self.note_stage(ServingStage::Leaving);
        self.fingerprint.record(&FingerprintResult::Unhealthy(reason)).await;
    }

    /// Refuses new calls of the plugin, and waits for those that run, at most for `limit`.
    pub(crate) async fn finish_calls(&self, run: &ProcessRun, limit: Duration) {
        self.deregister();
        if timeout(limit, run.drain()).await.is_err() {
            tracing::warn!(plugin.id = %self.config.id, "the plugin has not answered all calls; it is stopped");
        }
    }

    fn deregister(&self) {
        let registry = &self.host.deps.registry;
        registry.deregister(&self.config.id, &self.alloc);
    }

    /// Ends the supervision: the task has ended for good, and its process is gone. Returns when the server knows.
    pub(crate) async fn end(&mut self) {
        self.deregister();
        // Also without a report of this agent: an earlier one may have made it.
        self.host.report_gone(&self.config.id, &self.alloc).await;
        self.host.tasks.note_end(&self.config.id, &self.alloc);
        self.host.remove_socket(&self.alloc).await;
    }
}
