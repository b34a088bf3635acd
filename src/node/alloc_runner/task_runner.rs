//! Runs one task: one run after the other, until it is done, has failed, or is stopped.
//!
//! A run that an earlier agent started is found by its directory, and waited for. A second run never starts beside
//! one whose end is not known: when the driver cannot say how a run ends, it is asked again. What was decided about
//! the end of a run is recorded before the next one starts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::alloc_directory::{TaskDirectory, blocking};
use super::super::task_record::TaskRecord;
use super::progress::{AllocProgress, Setup, TaskProgress};
use super::restart::{EndFacts, NextRun, next_run};
use super::run_outcome::RunOutcome;
use super::task_events::Occurrence;
use super::task_plan::TaskPlan;
use crate::model::{RestartPolicy, TaskGroup};
use crate::ports::{Clock, IdSource, RunDriver, RunEnd, RunRequest};

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
    /// An earlier agent was about to start this one, and it is not known how far it came.
    Begun(u32),
}

impl TaskRunner {
    /// Runs the task to its end.
    pub(super) async fn run(self) {
        let mut record = self.record().await;
        loop {
            let (number, outcome) = match self.coming_run(&record).await {
                ComingRun::Existing(number) => (number, self.observe(number, None).await),
                ComingRun::New(number) => (number, self.start(number, &mut record).await),
                ComingRun::Begun(number) => (number, self.start_begun(number, &mut record).await),
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
            None => ComingRun::Begun(newest),
        }
    }

    /// Starts a run as soon as the volumes are mounted, and waits for its end.
    async fn start(&self, number: u32, record: &mut TaskRecord) -> RunOutcome {
        match self.prepare(number, record).await {
            Ok(request) => self.observe(number, Some(request)).await,
            Err(outcome) => outcome,
        }
    }

    /// Like [`Self::start`]. If the run cannot start now, what an earlier agent may have begun ends first.
    async fn start_begun(&self, number: u32, record: &mut TaskRecord) -> RunOutcome {
        let outcome = match self.prepare(number, record).await {
            Ok(request) => return self.observe(number, Some(request)).await,
            Err(outcome) => outcome,
        };
        let run = self.directory.run(number);
        self.repeat("stop", async || self.driver.stop(&run).await)
            .await;
        self.repeat_wait(&run).await;
        outcome
    }

    /// Returns the request of a run as soon as the volumes are mounted.
    async fn prepare(
        &self,
        number: u32,
        record: &mut TaskRecord,
    ) -> Result<RunRequest, RunOutcome> {
        let mut progress = self.progress.subscribe();
        let ready = progress.wait_for(|progress| matches!(progress.setup, Setup::Ready(_)));
        let targets = tokio::select! {
            biased;
            () = self.stop.cancelled() => return Err(RunOutcome::NeverStarted),
            ready = ready => match ready.as_deref() {
                Ok(AllocProgress { setup: Setup::Ready(targets), .. }) => targets.clone(),
                Ok(_) | Err(_) => return Err(RunOutcome::NeverStarted),
            },
        };
        let plan = self.plan.as_ref().ok_or(RunOutcome::NeverStarted)?;
        let request = plan.request(&self.group, &targets, self.hidden.clone());
        let request = request.map_err(RunOutcome::Refused)?;
        if record.window.started_at == 0 {
            record.window.started_at = self.clock.now();
        }
        let created = self.create_directories(number, plan, record).await;
        created.map_err(|error| {
            let reason = format!("cannot create the directories of the task: {error}");
            RunOutcome::Ended(RunEnd::Failed { reason })
        })?;
        Ok(request)
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

    /// Shows that the task runs.
    pub(super) fn show_start(&self, is_new: bool) {
        self.update(|task, now| {
            if is_new || task.state.started_at.is_none() {
                task.push(&Occurrence::Started, now);
            }
            task.start(now);
        });
    }

    /// Changes what is shown of the task.
    pub(super) fn update(&self, change: impl FnOnce(&mut TaskProgress, i64)) {
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

    /// Returns the time between the kill signal and SIGKILL.
    pub(super) fn kill_timeout(&self) -> Duration {
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
            let directory = self.directory.path().display();
            tracing::warn!(%directory, %error, "cannot write the record of the task");
        }
    }
}
