//! Runs one allocation: checks, volumes, tasks in their order, and the end.
//!
//! [`super::progress`] holds everything that is known, [`super::lifecycle`] decides what is due, and this loop does
//! it: it wakes up when something changes, and carries out what is due. Dropping it leaves the tasks running, and
//! another one takes over from the directories.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::super::alloc_directory::AllocDirectory;
use super::super::host_mounts::{host_mounts, is_host_volume};
use super::super::plugin_tasks::PluginSupervision;
use super::super::published_source::check_source;
use super::super::task_mounts::MountTargets;
use super::super::task_record::TaskRecord;
use super::deps::AllocRunnerDeps;
use super::desired::Desired;
use super::driver_check::driver_problems;
use super::lifecycle::{DueSteps, EndCause, Stage};
use super::mount_watch::Losses;
use super::mounting::Mounting;
use super::progress::{AllocProgress, Setup, TaskProgress};
use super::recovery::recover_runs;
use super::reporter::report_progress;
use super::task_events::Occurrence;
use super::task_plan::{PlanContext, TaskPlan, conflict, has_own_root, user_name};
use super::task_runner::TaskRunner;
use crate::task_run::RunDriver;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, TaskGroup, TaskPhase, VolumeAlias};
use nomad_csi_ports::{AssignedAlloc, run_blocking};

/// The pauses between requests of the server that fail.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };
/// Where users are found.
const PASSWD: &str = "/etc/passwd";

/// Runs an allocation until its end is reported. `without_files` are its runs that go on, and whose files are missing.
pub(super) async fn run_alloc(
    alloc: AssignedAlloc,
    deps: Arc<AllocRunnerDeps>,
    without_files: BTreeSet<PathBuf>,
    desired: watch::Receiver<Desired>,
    cut_offs: watch::Receiver<BTreeSet<VolumeAlias>>,
    losses: watch::Receiver<Losses>,
) {
    let now = deps.clock.now();
    let plugins: Vec<_> = alloc.plugins().cloned().collect();
    let group = alloc.task_group().cloned().map(Arc::new);
    let has_group = group.is_some();
    let group = group.unwrap_or_else(|| Arc::new(TaskGroup::new(&alloc.group, alloc.job.job_type)));
    let mut progress = AllocProgress::new(&group, alloc.report.as_ref(), now);
    if !has_group {
        let (group, job) = (&alloc.group, &alloc.job.id);
        progress.fail_setup(&format!("job `{job}` has no group `{group}`"), now);
    }
    let mut runner = AllocRunner {
        directory: AllocDirectory::new(&deps.data_directory, &alloc.id),
        stops: group.tasks.iter().map(|_| CancellationToken::new()).collect(),
        plans: Ok(vec![]),
        progress: Arc::new(watch::Sender::new(progress)),
        alloc,
        group,
        deps,
    };
    let (control, id) = (runner.deps.control.clone(), runner.alloc.id.clone());
    let reports = report_progress(
        &*control,
        &id,
        runner.alloc.report.clone(),
        runner.progress.subscribe(),
        desired.clone(),
    );
    let tasks = runner.take_over(without_files).await;
    let host = runner.deps.plugins.clone();
    tokio::join!(reports, runner.run(tasks, desired, cut_offs, losses));
    // Also of a task that never started.
    for plugin in plugins {
        host.tasks().note_end(&plugin, &id);
    }
}

/// The runner of one allocation.
struct AllocRunner {
    alloc: AssignedAlloc,
    group: Arc<TaskGroup>,
    deps: Arc<AllocRunnerDeps>,
    directory: AllocDirectory,
    /// One for each task, cancelled when it must stop.
    stops: Vec<CancellationToken>,
    /// One for each task, or why none can start.
    plans: Result<Vec<TaskPlan>, String>,
    progress: Arc<watch::Sender<AllocProgress>>,
}

type Tasks = FuturesUnordered<BoxFuture<'static, ()>>;
/// The record of a task by an earlier agent, and whether its runs have directories.
type FoundTask = (Option<TaskRecord>, bool);

impl AllocRunner {
    /// Runs the allocation until nothing of it is left.
    async fn run(
        self,
        mut tasks: Tasks,
        mut desired: watch::Receiver<Desired>,
        mut cut_offs: watch::Receiver<BTreeSet<VolumeAlias>>,
        mut losses: watch::Receiver<Losses>,
    ) {
        let mut giving_back = FuturesUnordered::new();
        let mut changes = self.progress.subscribe();
        let mut mounting = std::pin::pin!(self.mount_volumes());
        let mut is_mounting = true;
        let mut has_losses = true;
        loop {
            let targets = self.progress.borrow().targets();
            if let Some(targets) = targets.filter(|_| has_losses) {
                has_losses = false;
                let lost = losses.borrow_and_update().clone();
                self.note_losses(&targets, &lost).await;
            }
            let cut_off = cut_offs.borrow_and_update().clone();
            for alias in cut_off.into_iter().filter(|alias| self.note_cut_off(alias)) {
                giving_back.push(self.give_back(alias));
                // What is mounted now comes too late.
                mounting.set(self.mount_volumes());
            }
            if !is_mounting && self.progress.borrow().is_mounting() {
                mounting.set(self.mount_volumes());
                is_mounting = true;
            }
            self.note_stop(*desired.borrow_and_update() != Desired::Run);
            let due = changes.borrow_and_update().due_steps();
            if due.is_over {
                let now = self.deps.clock.now();
                return self.progress.send_modify(|progress| progress.finish(now));
            }
            self.carry_out(&due, &mut tasks);
            tokio::select! {
                _ = changes.changed() => {}
                () = changed(&mut desired) => {}
                () = changed(&mut cut_offs) => {}
                Some(()) = giving_back.next(), if !giving_back.is_empty() => {}
                () = changed(&mut losses) => has_losses = true,
                () = &mut mounting, if is_mounting => is_mounting = false,
                Some(()) = tasks.next(), if !tasks.is_empty() => {}
            }
        }
    }

    /// Checks everything that can be checked before a volume is claimed (B78). Returns the plans of the tasks.
    async fn prepare(&self) -> Result<Vec<TaskPlan>, String> {
        let drivers = self.deps.drivers.iter();
        let drivers = drivers.map(|(name, driver)| (name.clone(), driver.mount_config()));
        let mut problems = driver_problems(&self.group, &drivers.collect());
        let mut plans = vec![];
        if problems.is_empty() {
            let may_switch_users = rustix::process::geteuid().is_root();
            let mut tasks = self.group.tasks.iter();
            let needs_users = tasks.any(|task| user_name(task, may_switch_users).is_some());
            let passwd = if needs_users { read_users().await? } else { String::new() };
            let context = PlanContext {
                alloc: &self.alloc,
                group: &self.group,
                node: &self.deps.node,
                plugins: &self.deps.plugins.directories(),
                passwd: &passwd,
                may_switch_users,
                allows_root_tasks: self.deps.allows_root_tasks,
            };
            for task in &self.group.tasks {
                match TaskPlan::new(task, self.directory.task(&task.name), &context) {
                    Ok(plan) => plans.push(plan),
                    Err(problem) => problems.push(problem),
                }
            }
            problems.extend(conflict(&plans));
        }
        if problems.is_empty() { Ok(plans) } else { Err(problems.join("; ")) }
    }

    /// Mounts the volumes, unless the allocation cannot run anyway. A host volume that is not there fails an
    /// allocation before any volume is claimed, but no task that an earlier agent has started with it.
    fn mount_volumes(&self) -> impl Future<Output = ()> + use<> {
        let (progress, deps) = (self.progress.clone(), self.deps.clone());
        let (alloc, group) = (self.alloc.id.clone(), self.group.clone());
        let hosted = host_mounts(&group, self.alloc.index, &deps.host_volumes);
        async move {
            if !matches!(progress.borrow().setup, Setup::Mounting(_)) {
                return;
            }
            let mounting = Mounting {
                control: &*deps.control,
                alloc: &alloc,
                mounter: &*deps.mounter,
                progress: &progress,
                clock: &*deps.clock,
            };
            let of_csi = group.volumes.iter();
            let of_csi = of_csi.filter(|(_, volume)| !is_host_volume(volume));
            let missing = hosted.values().find_map(|found| found.clone().err());
            let mounted = match missing.filter(|_| !progress.borrow().may_run_tasks()) {
                Some(reason) => Err(reason),
                None => {
                    let mounted = mounting.mount_all(of_csi.map(|(alias, _)| alias)).await;
                    mounted.map(|mounted| {
                        let mounted = mounted.into_iter().map(|(alias, path)| (alias, Ok(path)));
                        mounted.chain(hosted).collect()
                    })
                }
            };
            let now = deps.clock.now();
            progress.send_modify(|progress| match mounted {
                Ok(targets) => progress.finish_setup(targets),
                Err(reason) => progress.fail_setup(&reason, now),
            });
        }
    }

    /// Notes the volumes of the allocation that were lost.
    async fn note_losses(&self, targets: &MountTargets, losses: &Losses) {
        for (alias, target) in targets {
            let Some(path) = target.as_ref().ok().filter(|path| losses.contains_key(*path)) else {
                continue;
            };
            if let Err(reason) = check_source(&*self.deps.mounter, path).await {
                tracing::warn!(alloc.id = %self.alloc.id, volume.alias = %alias, reason, "a volume is lost");
                let now = self.deps.clock.now();
                self.progress.send_modify(|progress| progress.lose_volume(alias, &reason, now));
            }
        }
    }

    /// Plans the tasks, and takes over what an earlier agent left: tasks that have ended, and runs whose end was not dealt
    /// with. What prevents a start ends no task that runs.
    async fn take_over(&mut self, mut without_files: BTreeSet<PathBuf>) -> Tasks {
        self.plans = self.prepare().await;
        let mut tasks = Tasks::new();
        let mut found = self.read_tasks().await;
        if self.has_missing_files(&found) {
            without_files.extend(self.recover().await);
            found = self.read_tasks().await;
        }
        let damaged = self.without_files(&found, &without_files);
        let now = self.deps.clock.now();
        for (position, (record, has_runs)) in found.into_iter().enumerate() {
            let reported = self.reported_end(position);
            match record.and_then(|record| record.has_failed).or(reported) {
                Some(has_failed) => self.update(position, |task| task.end(has_failed, now)),
                None if has_runs && self.driver(position).is_some() => {
                    self.update(position, TaskProgress::resume);
                    self.start_task(position, &mut tasks);
                }
                // The runs of a driver that the agent lost cannot be controlled.
                None => {}
            }
        }
        if let Some(task) = damaged {
            self.fail_setup(&format!(
                "the files of task `{task}` were removed after it had started; what still runs of the allocation is \
                 stopped, and its tasks do not start again"
            ));
        } else if let Err(problem) = &self.plans
            && !self.progress.borrow().may_run_tasks()
        {
            self.fail_setup(problem);
        }
        tasks
    }

    /// Reads what earlier agents recorded of the tasks, and whether their runs have directories.
    async fn read_tasks(&self) -> Vec<FoundTask> {
        let tasks = self.group.tasks.iter();
        let names: Vec<_> = tasks.map(|task| task.name.clone()).collect();
        let mut attempt = 0;
        loop {
            let (directory, names) = (self.directory.clone(), names.clone());
            let found = run_blocking(move || {
                let read = |name: &String| {
                    let task = directory.task(name);
                    Ok((task.read_record()?, !task.runs()?.is_empty()))
                };
                names.iter().map(read).collect::<std::io::Result<Vec<_>>>()
            });
            match found.await {
                Ok(found) => return found,
                // A task that has ended would run again, and one that waits for another would not wait.
                Err(error) => {
                    tracing::warn!(alloc.id = %self.alloc.id, %error, "cannot read the directory of the allocation");
                }
            }
            sleep(RETRY.delay(attempt, self.deps.ids.jitter())).await;
            attempt = attempt.saturating_add(1);
        }
    }

    /// Finds runs of the allocation that go on without files, and tries again until that is known.
    async fn recover(&self) -> BTreeSet<PathBuf> {
        let mut attempt = 0;
        loop {
            match recover_runs(&self.deps).await {
                Ok(found) => return found,
                Err(error) => {
                    tracing::warn!(alloc.id = %self.alloc.id, %error, "cannot look for tasks of an earlier agent");
                }
            }
            sleep(RETRY.delay(attempt, self.deps.ids.jitter())).await;
            attempt = attempt.saturating_add(1);
        }
    }

    fn has_missing_files(&self, found: &[FoundTask]) -> bool {
        let mut found = found.iter().enumerate();
        found.any(|(position, (_, has_runs))| !has_runs && self.has_started(position))
    }

    /// Returns a task that has started and has no files any more, whether it still runs or not. A plugin starts again
    /// when nothing of it runs: it has no files that count.
    fn without_files(&self, found: &[FoundTask], runs: &BTreeSet<PathBuf>) -> Option<String> {
        let tasks = self.group.tasks.iter().zip(found).enumerate();
        let mut damaged = tasks.filter(|(position, (task, (_, has_runs)))| {
            let directory = self.directory.task(&task.name);
            let goes_on = runs.iter().any(|run| run.starts_with(directory.path()));
            task.csi_plugin.is_none() && (goes_on || (!has_runs && self.has_started(*position)))
        });
        damaged.next().map(|(_, (task, _))| task.name.clone())
    }

    /// Returns whether it was reported that the task started and has not ended.
    fn has_started(&self, position: usize) -> bool {
        let report = self.alloc.report.as_ref();
        let name = self.group.tasks.get(position).map(|task| &task.name);
        let task = report.zip(name).and_then(|(report, name)| report.tasks.get(name));
        task.is_some_and(|task| task.phase == TaskPhase::Running)
    }

    /// Returns whether a task failed whose end was reported. It never starts again.
    fn reported_end(&self, position: usize) -> Option<bool> {
        let report = self.alloc.report.as_ref()?;
        let task = report.tasks.get(&self.group.tasks.get(position)?.name)?;
        (task.phase == TaskPhase::Dead).then_some(task.has_failed)
    }

    fn carry_out(&self, due: &DueSteps, tasks: &mut Tasks) {
        for position in &due.start {
            self.start_task(*position, tasks);
        }
        for (position, cause) in &due.stop {
            self.stop_task(*position, *cause);
        }
    }

    fn driver(&self, position: usize) -> Option<&Arc<dyn RunDriver>> {
        let task = self.group.tasks.get(position)?;
        self.deps.drivers.get(&task.driver)
    }

    /// Returns what a task starts with, or why it cannot start.
    fn plan(&self, position: usize) -> Result<TaskPlan, String> {
        let plans = self.plans.as_ref().map_err(String::clone)?;
        let plan = plans.get(position).cloned();
        plan.ok_or_else(|| "the task is not in its group".to_owned())
    }

    fn start_task(&self, position: usize, tasks: &mut Tasks) {
        let found = self.group.tasks.get(position).zip(self.stops.get(position));
        let Some(((task, stop), driver)) = found.zip(self.driver(position)) else {
            return;
        };
        self.update(position, |task| {
            task.stage = task.stage.max(Stage::Starting);
        });
        let is_sidecar = task.lifecycle.as_ref().map(|lifecycle| lifecycle.is_sidecar);
        let runner = TaskRunner {
            position,
            group: self.group.clone(),
            ends_by_itself: match is_sidecar {
                Some(is_sidecar) => !is_sidecar,
                None => self.alloc.job.job_type.ends(),
            },
            plan: self.plan(position),
            directory: self.directory.task(&task.name),
            data: self.deps.data_directory.clone(),
            hidden_directories: self.deps.hidden_directories.clone(),
            mounter: self.deps.mounter.clone(),
            driver: driver.clone(),
            plugin: task.csi_plugin.as_ref().map(|config| {
                let plugins = &self.deps.plugins;
                PluginSupervision::begin(plugins, &self.alloc.id, config, has_own_root(task))
            }),
            progress: self.progress.clone(),
            restart: self.deps.restarts.register(&self.alloc.id, &task.name),
            stop: stop.clone(),
            clock: self.deps.clock.clone(),
            ids: self.deps.ids.clone(),
        };
        tasks.push(Box::pin(runner.run()));
    }

    /// Stops a task, unless it was stopped before.
    fn stop_task(&self, position: usize, cause: EndCause) {
        let Some(stop) = self.stops.get(position).filter(|stop| !stop.is_cancelled()) else {
            return;
        };
        let occurrence = match cause {
            EndCause::Stopped | EndCause::SetupFailed => None,
            EndCause::TaskFailed(failed) => {
                let sibling = self.group.tasks.get(failed);
                sibling.map(|sibling| Occurrence::SiblingFailed(&sibling.name))
            }
            EndCause::LeaderEnded => Some(Occurrence::LeaderEnded),
            EndCause::WorkDone => Some(Occurrence::MainTasksEnded),
        };
        if let Some(occurrence) = occurrence {
            let now = self.deps.clock.now();
            self.update(position, |task| task.push(&occurrence, now));
        }
        stop.cancel();
    }

    fn note_stop(&self, wants_stop: bool) {
        self.progress.send_if_modified(|progress| {
            let is_new = progress.wants_stop != wants_stop;
            progress.wants_stop = wants_stop;
            is_new
        });
    }

    /// Notes that an operator cut the allocation off from a volume. Returns whether that is news.
    fn note_cut_off(&self, alias: &VolumeAlias) -> bool {
        let now = self.deps.clock.now();
        let is_new = self.progress.send_if_modified(|progress| progress.cut_off(alias, now));
        if is_new {
            tracing::warn!(alloc.id = %self.alloc.id, volume.alias = %alias,
                "an operator cut the allocation off from a volume; what uses it is killed");
        }
        is_new
    }

    /// Gives a volume back as soon as no run uses it.
    async fn give_back(&self, alias: VolumeAlias) {
        let mut changes = self.progress.subscribe();
        // The sender is kept here, so it is not gone.
        let _is_free = changes.wait_for(|progress| progress.is_free(&alias)).await.is_ok();
        note_cut_off(&self.deps, &self.alloc.id, &alias).await;
    }

    fn fail_setup(&self, problem: &str) {
        let now = self.deps.clock.now();
        self.progress.send_modify(|progress| progress.fail_setup(problem, now));
    }

    fn update(&self, position: usize, change: impl FnOnce(&mut TaskProgress)) {
        self.progress.send_modify(|progress| {
            if let Some(task) = progress.tasks.get_mut(position) {
                change(task);
            }
        });
    }
}

/// Tells the server that no run uses a volume any more from which the allocation was cut off.
pub(super) async fn note_cut_off(deps: &AllocRunnerDeps, alloc: &AllocId, alias: &VolumeAlias) {
    let mut attempt = 0;
    while let Err(error) = deps.control.note_cut_off(alloc, alias).await {
        tracing::warn!(alloc.id = %alloc, volume.alias = %alias, %error, "cannot give a volume back");
        sleep(RETRY.delay(attempt, deps.ids.jitter())).await;
        attempt = attempt.saturating_add(1);
    }
}

/// Waits until a value changes.
async fn changed<T>(value: &mut watch::Receiver<T>) {
    if value.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn read_users() -> Result<String, String> {
    let users = run_blocking(|| std::fs::read_to_string(PASSWD)).await;
    users.map_err(|error| format!("cannot read `{PASSWD}`: {error}"))
}
