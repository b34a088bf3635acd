//! Keeps one plugin's task running (`csi-orchestration` 6.6, with W42 and W43 put right).
//!
//! ```text
//!           ┌──────── pause, longer each time ────────┐
//!           ▼                                         │
//!  start ─► examined until well ─► registered ─► examined every 30 s
//!           │ unwell for the health timeout,          │ process ends, or unwell
//!           │ or the process ends                     │ for the health timeout
//!           └────────────► recorded as unwell, stopped ◄
//! ```
//!
//! A plugin is registered before it is recorded as healthy, so whoever reads that it is finds its
//! connection. When the process ends, that is recorded at once with the reason. Its registration
//! stays while it is being restarted: a call then fails as unavailable and is tried again, which is
//! what its caller does anyway. When supervision ends the plugin is deregistered, recorded as gone
//! (B70) and stopped.
//!
//! After a crash of the agent no process is left (`ports::TaskDriver`); what was recorded is left,
//! and counts as unwell from the agent's start on (`state::EventKind::AgentStarted`).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::fingerprint::{Finding, Fingerprint, examine};
use super::registry::Registry;
use crate::model::{AllocId, NodeId, PluginId, PluginInstance};
use crate::ports::{
    Clock, Connector, IdSource, PluginConnection, PluginObserver, Task, TaskCommand, TaskDriver,
};
use crate::retry::RetryPolicy;

/// Between two examinations of a plugin that is well.
const PERIOD: Duration = Duration::from_secs(30);
/// Between two examinations of one that is not: it is starting, or should soon be well again.
const RECHECK: RetryPolicy = RetryPolicy {
    first: Duration::from_millis(10),
    longest: Duration::from_secs(2),
};
/// Between the end of a process and the start of the next.
const RESTART: RetryPolicy = RetryPolicy {
    first: Duration::from_millis(100),
    longest: Duration::from_secs(30),
};
/// What a task gets to stop by itself.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Failed starts in a row after which nobody waits for a plugin any more.
const HOPELESS: u32 = 3;

/// What is supervised.
#[derive(Clone, Debug)]
pub struct PluginTask {
    /// The plugin that it serves.
    pub plugin: PluginId,
    /// The node it runs on: this one.
    pub node: NodeId,
    /// The task's own ID.
    pub task: AllocId,
    /// How it is started.
    pub command: TaskCommand,
    /// Where it listens.
    pub socket: std::path::PathBuf,
    /// How long it may be unwell before it is restarted.
    pub health_timeout: Duration,
    /// What an earlier run of the agent recorded of it.
    pub recorded: Option<PluginInstance>,
}

impl PluginTask {
    /// The `health_timeout` of a `csi_plugin` block that has none.
    pub const HEALTH_TIMEOUT: Duration = Duration::from_secs(30);
}

/// How the task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// Started, and not yet well; the reason is the last thing found.
    Starting {
        /// Why it is not well yet.
        reason: String,
    },
    /// Well at the last examination.
    Healthy,
    /// Runs, was well, and is not.
    Unhealthy {
        /// In the plugin's words, or the connection's.
        reason: String,
    },
    /// Ended or given up; will be started again.
    Restarting {
        /// How it ended, with the last line it wrote.
        reason: String,
        /// How often in a row it did not get far.
        failures: u32,
    },
    /// No longer supervised.
    Stopped,
}

/// Waits until the task is well. Returns early, with the reason, when it has failed three times in a
/// row; at the latest after `limit`.
///
/// # Errors
/// Why it is not well.
pub async fn wait_until_healthy(
    mut status: watch::Receiver<TaskStatus>,
    limit: Duration,
) -> Result<(), String> {
    let settled = |status: &TaskStatus| match status {
        TaskStatus::Healthy | TaskStatus::Stopped => true,
        TaskStatus::Restarting { failures, .. } => *failures >= HOPELESS,
        TaskStatus::Starting { .. } | TaskStatus::Unhealthy { .. } => false,
    };
    let _settled = timeout(limit, status.wait_for(settled)).await.is_ok();
    let status = status.borrow().clone();
    match status {
        TaskStatus::Healthy => Ok(()),
        TaskStatus::Starting { reason }
        | TaskStatus::Unhealthy { reason }
        | TaskStatus::Restarting { reason, .. } => Err(reason),
        TaskStatus::Stopped => Err("it was stopped".to_owned()),
    }
}

/// What a supervisor works with.
#[derive(Clone)]
pub struct Surroundings {
    /// Starts the process.
    pub driver: Arc<dyn TaskDriver>,
    /// Connects to its socket.
    pub connector: Arc<dyn Connector>,
    /// Where its connection is found.
    pub registry: Arc<Registry>,
    /// Who records how it is.
    pub observer: Arc<dyn PluginObserver>,
    /// The time of a finding.
    pub clock: Arc<dyn Clock>,
    /// Jitter of the pauses.
    pub ids: Arc<dyn IdSource>,
}

/// Supervises one task.
pub struct Supervisor {
    task: PluginTask,
    around: Surroundings,
    fingerprint: Fingerprint,
    status: watch::Sender<TaskStatus>,
}

/// How one life of the process ended.
enum End {
    /// Supervision is over.
    Stopped,
    /// It is to be started again, for this reason.
    Failed(String),
}

impl Supervisor {
    /// A supervisor that does nothing before [`Supervisor::run`].
    pub fn new(task: PluginTask, around: Surroundings) -> Self {
        let fingerprint = Fingerprint {
            plugin: task.plugin.clone(),
            node: task.node.clone(),
            task: task.task.clone(),
            clock: around.clock.clone(),
            observer: around.observer.clone(),
            recorded: task.recorded.clone(),
        };
        let (status, _) = watch::channel(TaskStatus::Starting {
            reason: "it is being started".to_owned(),
        });
        Self {
            task,
            around,
            fingerprint,
            status,
        }
    }

    /// How the task is, from now on.
    pub fn status(&self) -> watch::Receiver<TaskStatus> {
        self.status.subscribe()
    }

    /// Runs until `stop`; then nothing of the task is left.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let End::Failed(reason) = self.live(&stop).await else {
                break;
            };
            // One that was never well lives for the health timeout at most.
            if begun.elapsed() > self.task.health_timeout * 2 {
                failures = 0;
            }
            let pause = RESTART.pause(failures, self.around.ids.jitter());
            failures = failures.saturating_add(1);
            self.fingerprint
                .record(&Finding::Unwell(reason.clone()))
                .await;
            tracing::warn!(plugin.id = %self.task.plugin, reason, ?pause, "plugin is restarted");
            self.status
                .send_replace(TaskStatus::Restarting { reason, failures });
            if timeout(pause, stop.cancelled()).await.is_ok() {
                break;
            }
        }
        self.around
            .registry
            .deregister(&self.task.plugin, &self.task.task);
        self.fingerprint.record_gone().await;
        self.status.send_replace(TaskStatus::Stopped);
    }

    /// One life of the process: started, watched, and gone at the end.
    async fn live(&mut self, stop: &CancellationToken) -> End {
        let process = match self.around.driver.start(self.task.command.clone()).await {
            Ok(process) => process,
            Err(error) => return End::Failed(format!("{error}: {}", error.source)),
        };
        let connection = self.around.connector.connect(&self.task.socket);
        let end = tokio::select! {
            biased;
            () = stop.cancelled() => End::Stopped,
            how = process.wait() => End::Failed(format!("the plugin's process {how}")),
            reason = self.watch_health(&connection) => End::Failed(reason),
        };
        self.retire(&*process, &end).await;
        match end {
            End::Stopped => End::Stopped,
            End::Failed(reason) => End::Failed(with_last_line(reason, &process.last_lines())),
        }
    }

    /// Examines it for as long as it is well, or may become so; says why it is given up.
    async fn watch_health(&mut self, connection: &PluginConnection) -> String {
        let mut unwell_since = Some(Instant::now());
        let mut unwell_rounds = 0;
        let mut registered = false;
        loop {
            let pause = match examine(connection).await {
                finding @ Finding::Well(_) => {
                    let (plugin, task) = (&self.task.plugin, &self.task.task);
                    self.around
                        .registry
                        .register(plugin, task, connection.clone());
                    self.fingerprint.record(&finding).await;
                    self.status
                        .send_if_modified(|status| replace_if_other(status, TaskStatus::Healthy));
                    (unwell_since, unwell_rounds, registered) = (None, 0, true);
                    PERIOD
                }
                Finding::Unwell(reason) => {
                    let since = *unwell_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= self.task.health_timeout {
                        return format!(
                            "the plugin was not healthy within {} s: {reason}",
                            self.task.health_timeout.as_secs()
                        );
                    }
                    self.unwell(reason, registered).await;
                    unwell_rounds += 1;
                    RECHECK.pause(unwell_rounds - 1, self.around.ids.jitter())
                }
            };
            sleep(pause).await;
        }
    }

    /// A plugin that has not been well since it was started is starting; that is not news.
    async fn unwell(&mut self, reason: String, registered: bool) {
        let status = if registered {
            self.fingerprint
                .record(&Finding::Unwell(reason.clone()))
                .await;
            TaskStatus::Unhealthy { reason }
        } else {
            TaskStatus::Starting { reason }
        };
        self.status
            .send_if_modified(|current| replace_if_other(current, status));
    }

    /// Ends the process, whatever it does.
    async fn retire(&self, process: &dyn Task, end: &End) {
        if matches!(end, End::Stopped) {
            self.around
                .registry
                .deregister(&self.task.plugin, &self.task.task);
        }
        if let Err(error) = process.stop(STOP_GRACE).await {
            tracing::warn!(plugin.id = %self.task.plugin, %error, "plugin's process did not stop");
        }
    }
}

fn replace_if_other(current: &mut TaskStatus, next: TaskStatus) -> bool {
    let other = *current != next;
    if other {
        *current = next;
    }
    other
}

fn with_last_line(reason: String, lines: &[String]) -> String {
    match lines.iter().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{reason}; it last wrote: {line}"),
        None => reason,
    }
}

#[cfg(test)]
mod tests;
