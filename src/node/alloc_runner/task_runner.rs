//! Runs one task: one run after the other, until it is done, has failed, or is stopped.
//!
//! A run that an earlier agent started is found by its directory, and waited for. A second run never starts beside
//! one whose end is not known: when the driver cannot say how a run ends, it is asked again. What was decided about
//! the end of a run is recorded before the next one starts. Before each start the mounts of its volumes are compared
//! with what was recorded, and the driver compares once more; a mount that vanished is no failure of the task. The agent
//! mounts a CSI volume again, and the operator a host volume.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::super::alloc_directory::TaskDirectory;
use super::super::host_mounts::is_host_volume;
use super::super::host_volume_mounts::check_host_volume;
use super::super::plugin_tasks::PluginSupervision;
use super::super::published_source::check_source;
use super::super::task_mounts::{MountSources, MountTargets, MountedVolumes};
use super::super::task_record::TaskRecord;
use super::super::task_restarts::RestartableTask;
use super::progress::{AllocProgress, Setup, TaskProgress};
use super::restart::{EndFacts, NextRun, next_run};
use super::run_outcome::RunOutcome;
use super::task_events::Occurrence;
use super::task_plan::TaskPlan;
use crate::task_run::{RunDriver, RunEnd, RunRequest};
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{RestartPolicy, Task, TaskGroup, VolumeAlias};
use nomad_csi_ports::{Clock, IdSource, Mounter, run_blocking};

/// The pauses between starts that find a mount gone again.
const LOST_RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(2), max: Duration::from_secs(60) };

/// The runner of one task.
pub(super) struct TaskRunner {
    /// The position of the task in its group.
    pub(super) position: usize,
    /// Its group.
    pub(super) group: Arc<TaskGroup>,
    /// True if it is done when it exits with status 0.
    pub(super) ends_by_itself: bool,
    /// The plan of its start, or why it cannot start.
    pub(super) plan: Result<TaskPlan, String>,
    /// Its directory.
    pub(super) directory: TaskDirectory,
    /// The agent's data, which the task must not see.
    pub(super) data: PathBuf,
    /// Other directories that the task does not see.
    pub(super) hidden_directories: Vec<PathBuf>,
    /// The mounts of this node.
    pub(super) mounter: Arc<dyn Mounter>,
    /// Its driver.
    pub(super) driver: Arc<dyn RunDriver>,
    /// The supervision of the plugin that it runs, if it runs one.
    pub(super) plugin: Option<PluginSupervision>,
    /// Where its progress is shown.
    pub(super) progress: Arc<watch::Sender<AllocProgress>>,
    /// The requests to restart it.
    pub(super) restart: RestartableTask,
    /// Cancelled when it must stop.
    pub(super) stop: CancellationToken,
    /// The time of events.
    pub(super) clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub(super) ids: Arc<dyn IdSource>,
}

/// The state that the runner carries from one run to the next.
pub(super) struct RunnerState {
    /// The record of the task.
    pub(super) record: TaskRecord,
    /// The plugin that it runs.
    pub(super) plugin: Option<PluginSupervision>,
    /// The run of an idle plugin that an earlier agent started.
    pub(super) adopted_run: Option<u32>,
    /// How many runs in a row did not start because a mount vanished.
    lost_starts: u32,
}

/// The run that comes next.
pub(super) enum ComingRun {
    /// This one exists, and its end was not dealt with.
    Existing(u32),
    /// This one has to start.
    New(u32),
    /// An earlier agent was about to start this one, and it is not known how far it came.
    Begun(u32),
}

impl TaskRunner {
    /// Runs the task to its end.
    pub(super) async fn run(mut self) {
        let mut state = RunnerState {
            plugin: self.plugin.take(),
            record: self.record().await,
            adopted_run: None,
            lost_starts: 0,
        };
        self.end_survivor(&mut state).await;
        loop {
            let (number, outcome) = match self.coming_run(&state.record).await {
                ComingRun::Existing(number) => {
                    let outcome = self.observe(number, None, &mut state.plugin).await;
                    (number, outcome)
                }
                ComingRun::New(number) => (number, self.start(number, &mut state).await),
                ComingRun::Begun(number) => (number, self.start_begun(number, &mut state).await),
            };
            state.record.decided_run = number;
            // It ended with the machine or between two agents, which is no failure of the plugin.
            if state.adopted_run == Some(number)
                && let RunOutcome::Ended(end @ RunEnd::Lost { .. }) = &outcome
            {
                self.update(|task, now| task.push(&Occurrence::Ended(end), now));
                self.write(&state.record).await;
                continue;
            }
            let pause = match outcome {
                RunOutcome::Ended(end @ RunEnd::SourceLost { .. }) => {
                    self.note_lost_start(&end, &mut state).await
                }
                outcome => {
                    state.lost_starts = 0;
                    let Some(pause) = self.decide(outcome, &mut state).await else {
                        return;
                    };
                    pause
                }
            };
            if timeout(pause, self.stop.cancelled()).await.is_ok() {
                self.update(|task, now| task.push(&Occurrence::Killed, now));
                return self.end(false, &mut state).await;
            }
        }
    }

    /// Deals with a run that did not start because a mount vanished, which is no failure of the task: its volume is
    /// mounted again. Returns the pause before the next run, which grows while this goes on.
    async fn note_lost_start(&self, end: &RunEnd, state: &mut RunnerState) -> Duration {
        self.write(&state.record).await;
        self.update(|task, now| task.push(&Occurrence::Ended(end), now));
        if let RunEnd::SourceLost { source, reason } = end {
            let now = self.clock.now();
            self.progress.send_modify(|progress| progress.lose_source(source, reason, now));
        }
        let before = state.lost_starts;
        state.lost_starts = before.saturating_add(1);
        match before.checked_sub(1) {
            None => Duration::ZERO,
            Some(repeated) => LOST_RETRY.delay(repeated, 1.0),
        }
    }

    /// Deals with the end of a run. Returns the pause before the next one; `None` if the task has ended.
    async fn decide(&self, outcome: RunOutcome, state: &mut RunnerState) -> Option<Duration> {
        match outcome {
            RunOutcome::Ended(end) => {
                return self.decide_next(&end, self.ends_by_itself, state).await;
            }
            RunOutcome::GivenUp(end) => return self.decide_next(&end, false, state).await,
            // It is no failure, so it does not count as one.
            RunOutcome::Restarted(end) => {
                let reason = "Restart requested";
                self.note_restart(&end, (reason, Duration::ZERO), state).await;
                return Some(Duration::ZERO);
            }
            RunOutcome::Stopped(end) => {
                self.update(|task, now| {
                    task.push(&Occurrence::Ended(&end), now);
                    task.push(&Occurrence::Killed, now);
                });
                self.end(false, state).await;
            }
            RunOutcome::NeverStarted => self.end(false, state).await,
            RunOutcome::Refused(reason) => {
                let end = RunEnd::Failed { reason };
                self.fail(&end, "Error was unrecoverable", state).await;
            }
        }
        None
    }

    /// Decides what follows the end of a run that the server did not stop.
    async fn decide_next(
        &self,
        end: &RunEnd,
        ends_by_itself: bool,
        state: &mut RunnerState,
    ) -> Option<Duration> {
        let facts = EndFacts {
            end,
            ends_by_itself,
            window: state.record.window,
            now: self.clock.now(),
            jitter: self.ids.jitter(),
        };
        let (delay, reason, window) = match next_run(self.policy(), &facts) {
            NextRun::Complete => {
                self.update(|task, now| task.push(&Occurrence::Ended(end), now));
                self.end(false, state).await;
                return None;
            }
            NextRun::Fail { reason } => {
                self.fail(end, &reason, state).await;
                return None;
            }
            NextRun::Restart { delay, reason, window } => (delay, reason, window),
        };
        state.record.window = window;
        self.note_restart(end, (reason, delay), state).await;
        Some(delay)
    }

    /// Records that the task runs again after this pause.
    async fn note_restart(
        &self,
        end: &RunEnd,
        (reason, delay): (&str, Duration),
        state: &mut RunnerState,
    ) {
        state.record.restarts = state.record.restarts.saturating_add(1);
        self.write(&state.record).await;
        if let Some(plugin) = &mut state.plugin {
            let reason = format!("the task of the plugin {end}");
            plugin.report_restart(reason).await;
        }
        let restarts = state.record.restarts;
        self.update(|task, now| {
            task.push(&Occurrence::Ended(end), now);
            task.push(&Occurrence::Restarting { reason, delay }, now);
            task.state.restarts = restarts;
            task.state.last_restart = Some(now);
        });
    }

    async fn fail(&self, end: &RunEnd, reason: &str, state: &mut RunnerState) {
        self.update(|task, now| {
            task.push(&Occurrence::Ended(end), now);
            task.push(&Occurrence::NotRestarting { reason }, now);
        });
        self.end(true, state).await;
    }

    /// Records that the task has ended for good.
    async fn end(&self, has_failed: bool, state: &mut RunnerState) {
        // First: an agent that finds the task ended does not report its plugin.
        if let Some(plugin) = &mut state.plugin {
            plugin.end().await;
        }
        state.record.has_failed = Some(has_failed);
        self.write(&state.record).await;
        self.update(|task, now| task.end(has_failed, now));
    }

    /// Returns the run that comes next. The newest directory counts.
    pub(super) async fn coming_run(&self, record: &TaskRecord) -> ComingRun {
        let directory = self.directory.clone();
        let newest = self.repeat("find the runs of", async || {
            let directory = directory.clone();
            run_blocking(move || directory.runs()).await
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
    async fn start(&self, number: u32, state: &mut RunnerState) -> RunOutcome {
        match self.prepare(number, state).await {
            Ok(request) => {
                let plugin = &mut state.plugin;
                self.observe(number, Some(request), plugin).await
            }
            Err(outcome) => outcome,
        }
    }

    /// Like [`Self::start`]. If the run cannot start now, what an earlier agent may have begun ends first.
    async fn start_begun(&self, number: u32, state: &mut RunnerState) -> RunOutcome {
        self.update(|task, _| task.has_begun = true);
        let outcome = match self.prepare(number, state).await {
            Ok(request) => {
                let plugin = &mut state.plugin;
                self.observe(number, Some(request), plugin).await
            }
            Err(outcome) => {
                let run = self.directory.run(number);
                self.repeat("stop", async || self.driver.stop(&run).await).await;
                let is_cut_off = async {
                    self.cut_off().await;
                    self.repeat("kill", async || self.driver.kill(&run).await).await;
                    std::future::pending::<()>().await;
                };
                tokio::select! {
                    () = is_cut_off => {}
                    _ = self.repeat_wait(&run) => {}
                }
                outcome
            }
        };
        self.update(|task, _| task.has_begun = false);
        outcome
    }

    /// Returns the request of a run as soon as the volumes are mounted.
    async fn prepare(
        &self,
        number: u32,
        state: &mut RunnerState,
    ) -> Result<RunRequest, RunOutcome> {
        self.update(|task, _| task.has_run = false);
        let (targets, mut sources) = loop {
            let targets = self.ready_targets().await?;
            match self.sources(&targets).await {
                Ok(sources) => break (targets, sources),
                Err((alias, reason)) => {
                    let now = self.clock.now();
                    self.progress
                        .send_modify(|progress| progress.lose_volume(&alias, &reason, now));
                }
            }
        };
        sources.extend(self.host_sources(&targets).await?);
        let refused = |reason: &String| RunOutcome::Refused(reason.clone());
        let plan = self.plan.as_ref().map_err(refused)?;
        let mounted = MountedVolumes { targets: &targets, sources: &sources };
        let hidden = std::iter::once(&self.data).chain(&self.hidden_directories);
        let request = plan.request(&self.group, &mounted, hidden.cloned().collect());
        let mut request = request.map_err(RunOutcome::Refused)?;
        if state.record.window.started_at == 0 {
            state.record.window.started_at = self.clock.now();
        }
        let created = self.create_directories(number, plan, &state.record);
        let created = match (created.await, &state.plugin) {
            (Ok(earlier), Some(plugin)) => plugin.prepare().await.map(|()| earlier),
            (created, _) => created,
        };
        request.earlier_runs = created.map_err(|error| {
            let reason = format!("cannot create the directories of the task: {error}");
            RunOutcome::Ended(RunEnd::Failed { reason })
        })?;
        Ok(request)
    }

    /// Returns where the volumes are, as soon as all are mounted.
    async fn ready_targets(&self) -> Result<Arc<MountTargets>, RunOutcome> {
        let mut progress = self.progress.subscribe();
        let ready = progress.wait_for(|progress| matches!(progress.setup, Setup::Ready(_)));
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(RunOutcome::NeverStarted),
            ready = ready => match ready.as_deref() {
                Ok(AllocProgress { setup: Setup::Ready(targets), .. }) => Ok(targets.clone()),
                Ok(_) | Err(_) => Err(RunOutcome::NeverStarted),
            },
        }
    }

    /// Returns what is mounted for the CSI volumes of the task.
    ///
    /// # Errors
    /// A volume that is lost, and why.
    async fn sources(&self, targets: &MountTargets) -> Result<MountSources, (VolumeAlias, String)> {
        let volumes = {
            let progress = self.progress.borrow();
            let task = progress.tasks.get(self.position);
            task.map(|task| task.volumes.clone()).unwrap_or_default()
        };
        let mut sources = MountSources::new();
        for alias in volumes {
            let Some(Ok(path)) = targets.get(&alias) else {
                continue;
            };
            match check_source(&*self.mounter, path).await {
                Ok(source) => drop(sources.insert(alias, source)),
                Err(reason) => return Err((alias, reason)),
            }
        }
        Ok(sources)
    }

    /// Returns what is mounted at the host volumes of the task that are mount points.
    async fn host_sources(&self, targets: &MountTargets) -> Result<MountSources, RunOutcome> {
        let mut sources = MountSources::new();
        let task = self.group.tasks.get(self.position);
        for mount in task.map_or(&[][..], |task| &task.volume_mounts) {
            let alias = &mount.volume;
            let is_of_host = self.group.volumes.get(alias).is_some_and(is_host_volume);
            let Some(Ok(path)) = targets.get(alias).filter(|_| is_of_host) else {
                continue;
            };
            match check_host_volume(&*self.mounter, &self.data, path).await {
                Ok(None) => {}
                Ok(Some(found)) => drop(sources.insert(alias.clone(), found)),
                Err(reason) => {
                    let source = path.clone();
                    return Err(RunOutcome::Ended(RunEnd::SourceLost { source, reason }));
                }
            }
        }
        Ok(sources)
    }

    /// Waits until a volume of the task is lost.
    pub(super) async fn volume_lost(&self) {
        let mut progress = self.progress.subscribe();
        let lost = progress.wait_for(|progress| progress.has_lost_volume(self.position));
        if lost.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until an operator cuts the task off from a volume.
    pub(super) async fn cut_off(&self) {
        let mut progress = self.progress.subscribe();
        let cut_off = progress.wait_for(|progress| progress.is_cut_off(self.position));
        if cut_off.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Creates what the run needs, and removes what no later one will. Returns the directories of the earlier runs.
    async fn create_directories(
        &self,
        number: u32,
        plan: &TaskPlan,
        record: &TaskRecord,
    ) -> std::io::Result<Vec<PathBuf>> {
        if record.decided_run == 0 {
            self.update(|task, now| task.push(&Occurrence::Preparing, now));
        }
        let (directory, user, record) = (self.directory.clone(), plan.user(), record.clone());
        let (data, user_on_host) = (self.data.clone(), plan.user_on_host());
        // What the task made of its file stays for its later runs.
        let payload = plan.payload().filter(|_| record.decided_run == 0);
        let payload = payload.map(|(file, payload)| (file.to_owned(), payload.clone()));
        let created = run_blocking(move || {
            directory.create(number, user)?;
            if let Some(user) = user_on_host {
                directory.let_in(&data, user)?;
            }
            if let Some((file, payload)) = payload {
                directory.write_payload(&file, payload.expose(), user)?;
            }
            directory.write_record(&record)?;
            if let Err(error) = directory.remove_old_runs(number) {
                let directory = directory.path().display();
                tracing::warn!(%directory, %error, "cannot remove an old run of the task");
            }
            directory.earlier_runs(number)
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
        task.map_or(Duration::ZERO, Task::time_to_end)
    }

    async fn record(&self) -> TaskRecord {
        let record = self.repeat("read the record of", async || {
            let directory = self.directory.clone();
            run_blocking(move || directory.read_record()).await
        });
        let task = self.group.tasks.get(self.position);
        let driver = task.map_or("", |task| task.driver.as_str());
        record.await.unwrap_or_else(|| TaskRecord::new(driver))
    }

    /// Writes the record. Without it, a later agent decides about the newest run once more. Returns whether it is
    /// written.
    pub(super) async fn write(&self, record: &TaskRecord) -> bool {
        let (directory, record) = (self.directory.clone(), record.clone());
        let written = run_blocking(move || directory.write_record(&record)).await;
        if let Err(error) = &written {
            let directory = self.directory.path().display();
            tracing::warn!(%directory, %error, "cannot write the record of the task");
        }
        written.is_ok()
    }
}
