//! Keeps the task of one plugin running, or uses one that runs already.
//!
//! ```text
//!           ┌─────── pause, longer each time ───────┐
//!           ▼                                       │
//!  start ─► wait until healthy ─► registered ─► checked every 30 s
//!           │ unhealthy for the health timeout,     │ process ended, or unhealthy
//!           │ or the process ended                  │ for the health timeout
//!           └──────► reported as unhealthy, stopped ◄
//! ```
//!
//! A plugin is registered before it is reported as healthy, so a reader of that state finds its
//! connection. The end of the process is reported immediately with the reason. The registration stays
//! during a restart: calls fail as unavailable, and callers retry. When supervision ends, the plugin is
//! deregistered, reported as gone and stopped.
//!
//! A plugin that the agent did not start is never stopped. While it does not run or does not answer, it is
//! unhealthy, and the agent looks for it every two seconds.
//!
//! A process that survives a crash of the agent is ended before the next one starts
//! (`ports::TaskDriver`). The recorded instance stays, and is unhealthy from the next start of the agent (`state::EventKind::AgentStarted`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::fingerprint::{FingerprintRecorder, FingerprintResult, PluginFacts, fingerprint_plugin};
use super::process_run::ProcessRun;
use super::registry::{Registry, RunningInstance};
use crate::task_driver::{DriverError, StoppedProcess, Task, TaskDriver};
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, CsiPluginType, NodeId, PluginId, PluginInstance};
use nomad_csi_ports::{
    Clock, Connector, IdSource, PeerProcess, PluginConnection, PluginObserver, SentSecretsReader,
};

/// The time between two fingerprints of a healthy plugin.
const PERIOD: Duration = Duration::from_secs(30);
/// The pauses between fingerprints of an unhealthy plugin, which is starting or may recover soon.
const RECHECK: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(10), max: Duration::from_secs(2) };
/// The pauses between the end of a process and the start of the next.
const RESTART: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };
/// Failed starts in a row after which [`wait_until_healthy`] stops waiting.
const MAX_FAILED_STARTS: u32 = 3;

/// The task of a plugin.
#[derive(Clone, Debug)]
pub struct PluginTask {
    /// The plugin that it serves.
    pub plugin: PluginId,
    /// This node.
    pub node: NodeId,
    /// The task's own ID.
    pub task: AllocId,
    /// The socket that it listens on.
    pub socket: std::path::PathBuf,
    /// How long it may be unhealthy before a restart; `None` if the agent does not start it.
    pub health_timeout: Option<Duration>,
    /// The instance that an earlier run of the agent recorded.
    pub recorded: Option<PluginInstance>,
}

impl PluginTask {
    /// The `health_timeout` of a `csi_plugin` block that has none.
    pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(30);
    /// The `kill_timeout` of a task that has none.
    pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);
}

/// The status of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Started, and not healthy yet.
    Starting {
        /// The reason of the last fingerprint.
        reason: String,
    },
    /// Healthy at the last fingerprint.
    Healthy,
    /// Running, was healthy before, and is not healthy.
    Unhealthy {
        /// The error of the plugin or of the connection.
        reason: String,
    },
    /// Ended, or unhealthy for too long; will be started again.
    Restarting {
        /// How it ended, with the last line of its output.
        reason: String,
        /// Failures in a row.
        failures: u32,
    },
    /// No longer supervised.
    Stopped,
}

/// Waits until the task is healthy, at most for `limit`. Returns early if it has failed three times in
/// a row.
///
/// # Errors
/// The reason why it is not healthy.
pub async fn wait_until_healthy(
    mut status: watch::Receiver<TaskStatus>,
    limit: Duration,
) -> Result<(), String> {
    let is_final = |status: &TaskStatus| match status {
        TaskStatus::Healthy | TaskStatus::Stopped => true,
        TaskStatus::Restarting { failures, .. } => *failures >= MAX_FAILED_STARTS,
        TaskStatus::Starting { .. } | TaskStatus::Unhealthy { .. } => false,
    };
    let _is_final = timeout(limit, status.wait_for(is_final)).await.is_ok();
    let status = status.borrow().clone();
    match status {
        TaskStatus::Healthy => Ok(()),
        TaskStatus::Starting { reason }
        | TaskStatus::Unhealthy { reason }
        | TaskStatus::Restarting { reason, .. } => Err(reason),
        TaskStatus::Stopped => Err("the plugin was stopped".to_owned()),
    }
}

/// The dependencies of a supervisor.
#[derive(Clone)]
pub struct SupervisorDeps {
    /// Starts or finds the process.
    pub driver: Arc<dyn TaskDriver>,
    /// Connects to its socket.
    pub connector: Arc<dyn Connector>,
    /// The secrets that the plugin got before.
    pub sent: Arc<dyn SentSecretsReader>,
    /// Publishes its connection.
    pub registry: Arc<Registry>,
    /// Records its state.
    pub observer: Arc<dyn PluginObserver>,
    /// The time of fingerprints.
    pub clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub ids: Arc<dyn IdSource>,
}

/// Supervises one task.
pub struct Supervisor {
    task: PluginTask,
    deps: SupervisorDeps,
    fingerprint: FingerprintRecorder,
    status: watch::Sender<TaskStatus>,
    /// The last process. It is gone when it was waited for, or when the driver has started the next one.
    last_run: ProcessRun,
    /// The process that the agent leaves.
    left: LeftProcess,
}

/// The process of a task that is not supervised any more.
#[derive(Clone, Copy)]
enum LeftProcess {
    Exited,
    /// It runs, and has answered every call. What it answered with an error may still take effect.
    Idle,
    /// It may be carrying out calls.
    Busy,
}

impl LeftProcess {
    fn of_error(error: &DriverError) -> Self {
        if error.leaves_process() { Self::Busy } else { Self::Exited }
    }
}

/// How one run of the process ended.
enum ProcessEnd {
    /// Supervision was stopped.
    Stopped,
    /// It failed for this reason, and is started again.
    Failed(String),
}

impl Supervisor {
    /// A supervisor that starts nothing before [`Supervisor::run`].
    pub fn new(task: PluginTask, deps: SupervisorDeps) -> Self {
        let fingerprint = FingerprintRecorder {
            plugin: task.plugin.clone(),
            node: task.node.clone(),
            task: task.task.clone(),
            clock: deps.clock.clone(),
            observer: deps.observer.clone(),
            process: None,
            recorded: task.recorded.clone(),
        };
        let (status, _) =
            watch::channel(TaskStatus::Starting { reason: "the plugin is starting".to_owned() });
        Self {
            task,
            deps,
            fingerprint,
            status,
            last_run: ProcessRun::default(),
            left: LeftProcess::Exited,
        }
    }

    /// The plugin that the task serves.
    pub fn plugin(&self) -> &PluginId {
        &self.task.plugin
    }

    /// The status of the task and its changes.
    pub fn status(&self) -> watch::Receiver<TaskStatus> {
        self.status.subscribe()
    }

    /// Supervises the task until `stop`, then stops it.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let ProcessEnd::Failed(reason) = self.run_process(&stop).await else {
                break;
            };
            // A task that was never healthy runs for the health timeout at most.
            let policy = match self.task.health_timeout {
                Some(limit) if begun.elapsed() > limit * 2 => {
                    failures = 0;
                    RESTART
                }
                Some(_) => RESTART,
                None => RECHECK,
            };
            let pause = policy.delay(failures, self.deps.ids.jitter());
            failures = failures.saturating_add(1);
            self.fingerprint.record(&FingerprintResult::Unhealthy(reason.clone())).await;
            if self.task.health_timeout.is_some() {
                let plugin = &self.task.plugin;
                tracing::warn!(plugin.id = %plugin, reason, ?pause, "restarting the plugin");
            }
            self.status.send_replace(TaskStatus::Restarting { reason, failures });
            if timeout(pause, stop.cancelled()).await.is_ok() {
                break;
            }
        }
        self.deps.registry.deregister(&self.task.plugin, &self.task.task);
        // The server asks no other instance while a call may take effect in this one.
        match self.left {
            LeftProcess::Exited => self.fingerprint.record_gone().await,
            LeftProcess::Idle => {
                let reason = "the agent has stopped using the plugin, whose process still runs";
                self.fingerprint.record(&FingerprintResult::Unhealthy(reason.to_owned())).await;
            }
            LeftProcess::Busy => {}
        }
        self.status.send_replace(TaskStatus::Stopped);
    }

    /// Runs the process once: starts it, watches its health, stops it.
    async fn run_process(&mut self, stop: &CancellationToken) -> ProcessEnd {
        let started = self.deps.driver.start().await;
        let error = started.as_ref().err();
        self.left = error.map_or(LeftProcess::Exited, LeftProcess::of_error);
        let process = match started {
            Ok(process) => process,
            Err(error) => return ProcessEnd::Failed(format!("{error}: {}", error.source)),
        };
        // The driver has confirmed that its predecessor is gone.
        self.last_run.end().await;
        let run = ProcessRun::default();
        self.last_run = run.clone();
        // One that the agent started is another one with each start.
        let name = process.required_peer().map(|PeerProcess { pid, start_time }| {
            format!("process {pid}, started at {start_time}")
        });
        self.fingerprint.process = Some(name.unwrap_or_else(|| self.deps.ids.uuid()));
        let socket = &self.task.socket;
        let connector = &self.deps.connector;
        let sent = self.deps.sent.sent(Some(&self.task.plugin)).await;
        let connection = connector.connect(socket, process.required_peer(), &sent);
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => ProcessEnd::Stopped,
            how = process.wait() => ProcessEnd::Failed(format!("the plugin's process {how}")),
            reason = self.watch_health(&connection, &run) => ProcessEnd::Failed(reason),
        };
        if self.stop_process(&*process, &run, &end).await {
            run.end().await;
        }
        match end {
            ProcessEnd::Stopped => ProcessEnd::Stopped,
            ProcessEnd::Failed(reason) => {
                ProcessEnd::Failed(with_last_line(reason, &process.last_lines()))
            }
        }
    }

    /// Fingerprints the plugin until it is unhealthy for too long. Returns the reason.
    async fn watch_health(&mut self, connection: &PluginConnection, run: &ProcessRun) -> String {
        let mut unhealthy_since = Some(Instant::now());
        let mut failed_rounds = 0;
        let mut registered = false;
        loop {
            let pause = match fingerprint_plugin(connection, CsiPluginType::Monolith).await {
                FingerprintResult::Healthy(facts) => {
                    self.register(connection, run, &facts);
                    let finding = FingerprintResult::Healthy(facts);
                    self.fingerprint.record(&finding).await;
                    self.status
                        .send_if_modified(|status| replace_if_changed(status, TaskStatus::Healthy));
                    (unhealthy_since, failed_rounds, registered) = (None, 0, true);
                    PERIOD
                }
                FingerprintResult::Unhealthy(reason) => {
                    let since = *unhealthy_since.get_or_insert_with(Instant::now);
                    let limit = self.task.health_timeout;
                    if let Some(limit) = limit.filter(|limit| since.elapsed() >= *limit) {
                        return format!(
                            "the plugin was not healthy within {} s: {reason}",
                            limit.as_secs()
                        );
                    }
                    self.report_unhealthy(reason, registered).await;
                    failed_rounds += 1;
                    RECHECK.delay(failed_rounds - 1, self.deps.ids.jitter())
                }
            };
            sleep(pause).await;
        }
    }

    fn register(&self, connection: &PluginConnection, run: &ProcessRun, facts: &PluginFacts) {
        let instance = RunningInstance {
            connection: connection.clone(),
            controller: facts.controller(),
            node: facts.node(),
            run: run.clone(),
            volumes_in_plugin: None,
        };
        let (plugin, task) = (&self.task.plugin, &self.task.task);
        self.deps.registry.register(plugin, task, instance);
    }

    /// Reports an unhealthy plugin. One that was not healthy since its start is still starting, which is
    /// not reported.
    async fn report_unhealthy(&mut self, reason: String, registered: bool) {
        let status = if registered {
            self.fingerprint.record(&FingerprintResult::Unhealthy(reason.clone())).await;
            TaskStatus::Unhealthy { reason }
        } else {
            TaskStatus::Starting { reason }
        };
        self.status.send_if_modified(|current| replace_if_changed(current, status));
    }

    /// Stops the process, if the agent started it. Returns whether it is gone.
    async fn stop_process(
        &mut self,
        process: &dyn Task,
        run: &ProcessRun,
        end: &ProcessEnd,
    ) -> bool {
        if matches!(end, ProcessEnd::Stopped) {
            self.deps.registry.deregister(&self.task.plugin, &self.task.task);
        }
        match process.stop(run.pending_calls() == 0).await {
            Ok(StoppedProcess::Exited) => true,
            Ok(StoppedProcess::LeftIdle) => {
                self.left = LeftProcess::Idle;
                false
            }
            Ok(StoppedProcess::LeftBusy) => {
                self.left = LeftProcess::Busy;
                tracing::warn!(plugin.id = %self.task.plugin, "the plugin has not answered all calls; the next agent waits for them");
                false
            }
            Err(error) => {
                self.left = LeftProcess::of_error(&error);
                tracing::warn!(plugin.id = %self.task.plugin, %error, "the process of the plugin did not stop");
                false
            }
        }
    }
}

fn replace_if_changed(current: &mut TaskStatus, next: TaskStatus) -> bool {
    let is_changed = *current != next;
    if is_changed {
        *current = next;
    }
    is_changed
}

fn with_last_line(reason: String, lines: &[String]) -> String {
    match lines.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{reason}; it last wrote: {line}"),
        None => reason,
    }
}

#[cfg(test)]
mod tests;
