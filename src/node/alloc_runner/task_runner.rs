//! Runs one task: one run after the other, until it is done, has failed, or is stopped.
//!
//! A run that an earlier agent started is found by its directory, and waited for. A second run never starts beside
//! one whose end is not known: when the driver cannot say how a run ends, it is asked again. What was decided about
//! the end of a run is recorded before the next one starts.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::alloc_directory::{TaskDirectory, blocking};
use super::super::task_record::TaskRecord;
use super::progress::{AllocProgress, Setup, TaskProgress};
use super::restart::{EndFacts, NextRun, next_run};
use super::task_events::Occurrence;
use super::task_plan::TaskPlan;
use crate::model::{RestartPolicy, TaskGroup};
use crate::ports::{Clock, IdSource, RunDriver, RunEnd, RunError, RunRequest, RunStart};
use crate::retry::RetryPolicy;

/// The pauses between calls of the driver that fail.
const RETRY: RetryPolicy = RetryPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// How often a start is tried before it counts as a failed run.
const START_ATTEMPTS: u32 = 3;

/// The runner of one task.
pub(super) struct TaskRunner {
    /// The position of the task in its group.
    pub(super) position: usize,
    /// Its group.
    pub(super) group: Arc<TaskGroup>,
    /// Whether it is done when it exits with status 0.
    pub(super) ends_by_itself: bool,
    /// What it runs with; `None` if the allocation cannot run.
    pub(super) plan: Option<TaskPlan>,
    /// Its directory.
    pub(super) directory: TaskDirectory,
    /// The agent's data, which the task must not see.
    pub(super) hidden: PathBuf,
    /// Its driver.
    pub(super) driver: Arc<dyn RunDriver>,
    /// Where its progress is shown.
    pub(super) progress: Arc<watch::Sender<AllocProgress>>,
    /// Cancelled when it must stop.
    pub(super) stop: CancellationToken,
    /// The time of events.
    pub(super) clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub(super) ids: Arc<dyn IdSource>,
}

/// The run that comes next.
enum ComingRun {
    /// This one exists, and its end was not dealt with.
    Existing(u32),
    /// This one has to start.
    New(u32),
}

/// How a run went.
enum RunOutcome {
    /// It ended by itself.
    Ended(RunEnd),
    /// It ended after it was stopped.
    Stopped(RunEnd),
    /// It was stopped before it started.
    NeverStarted,
    /// The driver can never run it.
    Refused(String),
}

impl TaskRunner {
    /// Runs the task to its end.
    pub(super) async fn run(self) {
        let mut record = self.record().await;
        loop {
            let (number, outcome) = match self.coming_run(&record).await {
                ComingRun::Existing(number) => (number, self.observe(number, None).await),
                ComingRun::New(number) => (number, self.start(number, &mut record).await),
            };
            record.decided_run = number;
            let Some(pause) = self.decide(outcome, &mut record).await else {
                return;
            };
            if timeout(pause, self.stop.cancelled()).await.is_ok() {
                self.update(|task, now| task.push(&Occurrence::Killed, now));
                return self.end(false, &mut record).await;
            }
        }
    }

    /// Deals with the end of a run. Returns the pause before the next one; `None` if the task has ended.
    async fn decide(&self, outcome: RunOutcome, record: &mut TaskRecord) -> Option<Duration> {
        match outcome {
            RunOutcome::Ended(end) => return self.decide_next(&end, record).await,
            RunOutcome::Stopped(end) => {
                self.update(|task, now| {
                    task.push(&Occurrence::Ended(&end), now);
                    task.push(&Occurrence::Killed, now);
                });
                self.end(false, record).await;
            }
            RunOutcome::NeverStarted => self.end(false, record).await,
            RunOutcome::Refused(reason) => {
                let end = RunEnd::Failed { reason };
                self.fail(&end, "Error was unrecoverable", record).await;
            }
        }
        None
    }

    /// Decides what follows the end of a run that ended by itself.
    async fn decide_next(&self, end: &RunEnd, record: &mut TaskRecord) -> Option<Duration> {
        let facts = EndFacts {
            end,
            ends_by_itself: self.ends_by_itself,
            window: record.window,
            now: self.clock.now(),
            jitter: self.ids.jitter(),
        };
        let (delay, reason, window) = match next_run(self.policy(), &facts) {
            NextRun::Complete => {
                self.update(|task, now| task.push(&Occurrence::Ended(end), now));
                self.end(false, record).await;
                return None;
            }
            NextRun::Fail { reason } => {
                self.fail(end, &reason, record).await;
                return None;
            }
            NextRun::Restart {
                delay,
                reason,
                window,
            } => (delay, reason, window),
        };
        record.window = window;
        record.restarts = record.restarts.saturating_add(1);
        self.write(record).await;
        let restarts = record.restarts;
        self.update(|task, now| {
            task.push(&Occurrence::Ended(end), now);
            task.push(&Occurrence::Restarting { reason, delay }, now);
            task.state.restarts = restarts;
            task.state.last_restart = Some(now);
        });
        Some(delay)
    }

    async fn fail(&self, end: &RunEnd, reason: &str, record: &mut TaskRecord) {
        self.update(|task, now| {
            task.push(&Occurrence::Ended(end), now);
            task.push(&Occurrence::NotRestarting { reason }, now);
        });
        self.end(true, record).await;
    }

    /// Records that the task has ended for good.
    async fn end(&self, has_failed: bool, record: &mut TaskRecord) {
        record.has_failed = Some(has_failed);
        self.write(record).await;
        self.update(|task, now| task.end(has_failed, now));
    }

    /// Returns the run that comes next. The newest directory counts.
    async fn coming_run(&self, record: &TaskRecord) -> ComingRun {
        let directory = self.directory.clone();
        let newest = self.repeat("find the runs of", async || {
            let directory = directory.clone();
            blocking(move || directory.runs()).await
        });
        let Some(newest) = newest.await.last().copied() else {
            return ComingRun::New(record.decided_run + 1);
        };
        if newest <= record.decided_run {
            return ComingRun::New(record.decided_run + 1);
        }
        let run = self.directory.run(newest);
        let status = self.repeat("examine", async || self.driver.status(&run).await);
        match status.await {
            Some(_) => ComingRun::Existing(newest),
            None => ComingRun::New(newest),
        }
    }

    /// Starts a run as soon as the volumes are mounted, and waits for its end.
    async fn start(&self, number: u32, record: &mut TaskRecord) -> RunOutcome {
        let mut progress = self.progress.subscribe();
        let ready = progress.wait_for(|progress| matches!(progress.setup, Setup::Ready(_)));
        let targets = tokio::select! {
            biased;
            () = self.stop.cancelled() => return RunOutcome::NeverStarted,
            ready = ready => match ready.as_deref() {
                Ok(AllocProgress { setup: Setup::Ready(targets), .. }) => targets.clone(),
                Ok(_) | Err(_) => return RunOutcome::NeverStarted,
            },
        };
        let Some(plan) = &self.plan else {
            return RunOutcome::NeverStarted;
        };
        let request = match plan.request(&self.group, &targets, self.hidden.clone()) {
            Ok(request) => request,
            Err(reason) => return RunOutcome::Refused(reason),
        };
        if record.window.started_at == 0 {
            record.window.started_at = self.clock.now();
        }
        match self.create_directories(number, plan, record).await {
            Ok(()) => self.observe(number, Some(request)).await,
            Err(error) => RunOutcome::Ended(RunEnd::Failed {
                reason: format!("cannot create the directories of the task: {error}"),
            }),
        }
    }

    async fn create_directories(
        &self,
        number: u32,
        plan: &TaskPlan,
        record: &TaskRecord,
    ) -> std::io::Result<()> {
        if record.decided_run == 0 {
            self.update(|task, now| task.push(&Occurrence::Preparing, now));
        }
        let (directory, user, record) = (self.directory.clone(), plan.user(), record.clone());
        let created = blocking(move || {
            directory.create(number, user)?;
            directory.write_record(&record)
        });
        created.await
    }

    /// Starts a run if it has a request, and waits for its end. A stop is passed on to it.
    async fn observe(&self, number: u32, request: Option<RunRequest>) -> RunOutcome {
        let run = self.directory.run(number);
        let mut running = std::pin::pin!(self.start_and_wait(&run, request));
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            outcome = &mut running => return outcome,
        }
        let timeout = self.kill_timeout();
        self.update(|task, now| task.push(&Occurrence::Killing { timeout }, now));
        let stopped = self.repeat("stop", async || self.driver.stop(&run).await);
        tokio::select! {
            outcome = &mut running => return as_stopped(outcome),
            () = stopped => {}
        }
        as_stopped(running.await)
    }

    async fn start_and_wait(&self, run: &Path, request: Option<RunRequest>) -> RunOutcome {
        match request {
            Some(request) => {
                if let Some(outcome) = self.start_run(run, request).await {
                    return outcome;
                }
            }
            None => self.show_start(false),
        }
        match self.repeat_wait(run).await {
            Some(end) => RunOutcome::Ended(end),
            None => RunOutcome::NeverStarted,
        }
    }

    /// Starts a run. Returns its outcome if it has no end that can be waited for.
    async fn start_run(&self, run: &Path, request: RunRequest) -> Option<RunOutcome> {
        let mut attempt = 0;
        let error = loop {
            match self.driver.start(run, request.clone()).await {
                Ok(RunStart::Started) => {
                    self.show_start(true);
                    return None;
                }
                Ok(RunStart::Attached) => {
                    self.show_start(false);
                    return None;
                }
                Ok(RunStart::Cancelled | RunStart::Failed) => return None,
                Err(RunError::Refused { reason, .. }) => return Some(RunOutcome::Refused(reason)),
                Err(error) if self.stop.is_cancelled() || attempt + 1 >= START_ATTEMPTS => {
                    break error;
                }
                Err(error) => self.warn("start", &error),
            }
            let pause = RETRY.delay(attempt, 1.0);
            let _is_stopped = timeout(pause, self.stop.cancelled()).await.is_ok();
            attempt += 1;
        };
        // Otherwise a part of the failed start could still become the task, beside the next run.
        self.repeat("stop", async || self.driver.stop(run).await)
            .await;
        let end = self.repeat_wait(run).await;
        let reason = error.to_string();
        Some(RunOutcome::Ended(end.unwrap_or(RunEnd::Failed { reason })))
    }

    /// Waits for the end of a run; `None` if it was never started.
    async fn repeat_wait(&self, run: &Path) -> Option<RunEnd> {
        let end = self.repeat("wait for", async || match self.driver.wait(run).await {
            Err(RunError::NotStarted { .. }) => Ok(None),
            Ok(end) => Ok(Some(end)),
            Err(error) => Err(error),
        });
        end.await
    }

    /// Repeats a call until it succeeds.
    async fn repeat<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
        &self,
        action: &str,
        mut call: impl FnMut() -> F,
    ) -> T {
        let mut attempt = 0;
        loop {
            match call().await {
                Ok(value) => return value,
                Err(error) => self.warn(action, &error),
            }
            sleep(RETRY.delay(attempt, 1.0)).await;
            attempt += 1;
        }
    }

    fn warn(&self, action: &str, error: &dyn std::fmt::Display) {
        let directory = self.directory.path().display();
        tracing::warn!(%directory, %error, "cannot {action} the task; trying again");
    }

    fn show_start(&self, is_new: bool) {
        self.update(|task, now| {
            if is_new || task.state.started_at.is_none() {
                task.push(&Occurrence::Started, now);
            }
            task.start(now);
        });
    }

    fn update(&self, change: impl FnOnce(&mut TaskProgress, i64)) {
        let now = self.clock.now();
        self.progress.send_modify(|progress| {
            if let Some(task) = progress.tasks.get_mut(self.position) {
                change(task, now);
            }
        });
    }

    fn policy(&self) -> &RestartPolicy {
        let task = self.group.tasks.get(self.position);
        task.map_or(&self.group.restart, |task| &task.restart)
    }

    fn kill_timeout(&self) -> Duration {
        let task = self.group.tasks.get(self.position);
        task.map_or(Duration::ZERO, |task| task.kill_timeout)
    }

    async fn record(&self) -> TaskRecord {
        let record = self.repeat("read the record of", async || {
            let directory = self.directory.clone();
            blocking(move || directory.read_record()).await
        });
        let task = self.group.tasks.get(self.position);
        let driver = task.map_or("", |task| task.driver.as_str());
        record.await.unwrap_or_else(|| TaskRecord::new(driver))
    }

    /// Writes the record. Without it, a later agent decides about the newest run once more.
    async fn write(&self, record: &TaskRecord) {
        let (directory, record) = (self.directory.clone(), record.clone());
        let written = blocking(move || directory.write_record(&record)).await;
        if let Err(error) = written {
            self.warn("write the record of", &error);
        }
    }
}

/// Returns the outcome of a run that was stopped.
fn as_stopped(outcome: RunOutcome) -> RunOutcome {
    match outcome {
        RunOutcome::Ended(end) => RunOutcome::Stopped(end),
        RunOutcome::Stopped(_) | RunOutcome::NeverStarted | RunOutcome::Refused(_) => outcome,
    }
}
