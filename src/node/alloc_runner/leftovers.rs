//! Stops the tasks of allocations that the server does not assign to this node any more.
//!
//! That the files of a task are missing does not say that it has ended. Then the drivers say whether something runs without
//! them, and until they do, nothing is known to have ended.
//!
//! An agent that was away may have missed that the server gave an allocation up. Its tasks are stopped when the first
//! list has arrived, and before its directory is removed. Nothing of them is reported.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::sleep;

use super::super::alloc_directory::{AllocDirectory, TaskDirectory};
use super::super::task_record::TaskRecord;
use super::deps::AllocRunnerDeps;
use super::recovery::recover_runs;
use super::runner::note_cut_off;
use crate::task_run::{RunDriver, RunError, RunStatus};
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, AllocReport, ClientStatus, PluginId};
use nomad_csi_ports::{UnreadableAlloc, run_blocking};

/// A task that may still run.
pub(super) struct Leftover {
    /// Its directory.
    pub(super) directory: TaskDirectory,
    /// Without one, any driver may run the task.
    pub(super) record: Option<TaskRecord>,
    /// The number of its newest run.
    pub(super) run: u32,
}

/// How a task ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// With its kill timeout.
    Stop,
    /// At once.
    Kill,
}

/// The pauses between attempts that fail.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

/// Stops every task that an earlier agent started for these allocations.
pub(super) async fn stop_leftovers(deps: Arc<AllocRunnerDeps>, allocs: Vec<AllocDirectory>) {
    join_all(allocs.iter().map(|alloc| has_ended(&deps, alloc))).await;
}

/// Stops what runs of an ended allocation that is an instance of a plugin on record, and reports when it is gone.
pub(super) async fn end_left_plugin(deps: Arc<AllocRunnerDeps>, alloc: AllocId, plugin: PluginId) {
    let directory = AllocDirectory::new(&deps.data_directory, &alloc);
    let mut attempt = 0;
    while !(has_ended(&deps, &directory).await
        && has_nothing_without_files(&deps, &directory).await)
    {
        sleep(RETRY.delay(attempt, deps.ids.jitter())).await;
        attempt = attempt.saturating_add(1);
    }
    deps.plugins.report_gone(&plugin, &alloc).await;
}

/// Stops what runs of allocations that the server does not know, and returns when nothing of them does.
pub(super) async fn end_unknown(deps: &AllocRunnerDeps, mut allocs: Vec<AllocDirectory>) {
    let mut attempt = 0;
    loop {
        let ended = join_all(allocs.iter().map(|alloc| has_ended(deps, alloc))).await;
        let mut ended = ended.into_iter();
        allocs.retain(|_| !ended.next().unwrap_or(false));
        if allocs.is_empty() {
            return;
        }
        tracing::warn!(
            allocations = allocs.len(),
            "tasks that the server does not know may still run; until they have ended, nothing starts"
        );
        sleep(RETRY.delay(attempt, deps.ids.jitter())).await;
        attempt = attempt.saturating_add(1);
    }
}

/// Ends what runs of an allocation whose job cannot be opened, and tells the server. A cut-off kills every task, because
/// it is not known which of them use the volume.
pub(super) async fn end_unreadable(deps: Arc<AllocRunnerDeps>, alloc: UnreadableAlloc) {
    let directory = AllocDirectory::new(&deps.data_directory, &alloc.id);
    let how = match alloc.cut_off.is_empty() {
        true => Ending::Stop,
        false => Ending::Kill,
    };
    let mut attempt = 0;
    while !end_all(&deps, &directory, how).await {
        sleep(RETRY.delay(attempt, deps.ids.jitter())).await;
        attempt = attempt.saturating_add(1);
    }
    for alias in &alloc.cut_off {
        note_cut_off(&deps, &alloc.id, alias).await;
    }
    // Nothing supervises them. What their plugin was asked for binds volumes until it is known that they are gone.
    for plugin in &alloc.plugins {
        deps.plugins.report_gone(plugin, &alloc.id).await;
    }
    let report = AllocReport {
        status: ClientStatus::Failed,
        description: format!("its job cannot be opened: {}", alloc.reason),
        tasks: BTreeMap::new(),
    };
    let mut attempt = 0;
    while let Err(error) = deps.control.report(&alloc.id, report.clone()).await {
        tracing::warn!(alloc.id = %alloc.id, %error, "cannot report the end of an allocation");
        sleep(RETRY.delay(attempt, deps.ids.jitter())).await;
        attempt = attempt.saturating_add(1);
    }
}

/// Stops what still runs of an allocation without a runner. Returns whether it is known that nothing runs.
pub(super) async fn has_ended(deps: &AllocRunnerDeps, alloc: &AllocDirectory) -> bool {
    end_all(deps, alloc, Ending::Stop).await
}

async fn end_all(deps: &AllocRunnerDeps, alloc: &AllocDirectory, how: Ending) -> bool {
    // A driver that finds a run writes the state that is missing.
    if is_without_tasks(alloc).await && !has_nothing_without_files(deps, alloc).await {
        return false;
    }
    let directory = alloc.clone();
    let found = run_blocking(move || {
        let tasks = directory.tasks()?.into_iter();
        tasks.map(leftover).collect::<std::io::Result<Vec<_>>>()
    });
    match found.await {
        Ok(leftovers) => {
            let leftovers = leftovers.into_iter().flatten();
            let ended = join_all(leftovers.map(|leftover| stop_one(deps, leftover, how))).await;
            ended.into_iter().all(|has_ended| has_ended)
        }
        Err(error) => {
            let directory = alloc.path().display();
            tracing::warn!(%directory, %error, "cannot look for tasks of an earlier allocation");
            false
        }
    }
}

/// Returns whether an allocation has no directories of tasks, or they cannot be read.
async fn is_without_tasks(alloc: &AllocDirectory) -> bool {
    let directory = alloc.clone();
    let tasks = run_blocking(move || directory.tasks()).await;
    tasks.map_or(true, |tasks| tasks.is_empty())
}

/// Returns whether it is known that no task of an allocation runs without its files.
async fn has_nothing_without_files(deps: &AllocRunnerDeps, alloc: &AllocDirectory) -> bool {
    let directory = alloc.path().display();
    match recover_runs(deps).await {
        Ok(without_files) => {
            let mut without_files = without_files.iter();
            let run = without_files.find(|run| run.starts_with(alloc.path()));
            if let Some(run) = run {
                let run = run.display();
                tracing::warn!(%directory, %run, "a task of an ended allocation runs without its files; end the processes that name the run");
            }
            run.is_none()
        }
        Err(error) => {
            tracing::warn!(%directory, %error, "it is not known whether a task runs without its files");
            false
        }
    }
}

/// Stops a task, and logs that it did. Returns whether it has ended.
async fn stop_one(deps: &AllocRunnerDeps, mut leftover: Leftover, how: Ending) -> bool {
    let name = leftover.record.as_ref().map(|record| &record.driver);
    let drivers: Vec<_> = match name {
        Some(name) => deps.drivers.get(name).into_iter().collect(),
        None => deps.drivers.values().collect(),
    };
    let directory = leftover.directory.path().to_owned();
    let directory = directory.display();
    if drivers.is_empty() {
        tracing::warn!(%directory, driver = name, "cannot control a task that the server does not know: its driver is missing");
        return false;
    }
    for driver in drivers {
        match stop(&**driver, &leftover, how).await {
            Ok(true) => tracing::warn!(%directory, "stopped a task that the server does not know"),
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%directory, %error, "cannot stop a task that the server does not know");
                return false;
            }
        }
    }
    record_end(&mut leftover).await;
    true
}

/// Returns the task in a directory, unless it has ended for good or never ran.
pub(super) fn leftover(directory: TaskDirectory) -> std::io::Result<Option<Leftover>> {
    let record = directory.read_record()?;
    let has_ended = record.as_ref().is_some_and(|it| it.has_failed.is_some());
    let run = directory.runs()?.last().copied();
    Ok(run.filter(|_| !has_ended).map(|run| Leftover { directory, record, run }))
}

/// Stops a task. Returns whether it was running.
async fn stop(driver: &dyn RunDriver, leftover: &Leftover, how: Ending) -> Result<bool, RunError> {
    let run = leftover.directory.run(leftover.run);
    match driver.status(&run).await? {
        Some(RunStatus::Starting | RunStatus::Running { .. }) => {
            match how {
                Ending::Stop => driver.stop(&run).await?,
                Ending::Kill => driver.kill(&run).await?,
            }
            driver.wait(&run).await?;
            Ok(true)
        }
        Some(RunStatus::Ended(_)) => Ok(false),
        None => {
            // An earlier agent may have been about to start it.
            driver.stop(&run).await?;
            match driver.wait(&run).await {
                Ok(_) | Err(RunError::NotStarted { .. }) => Ok(false),
                Err(error) => Err(error),
            }
        }
    }
}

/// Records that the task has ended, so that it is not examined again.
async fn record_end(leftover: &mut Leftover) {
    let Some(record) = &mut leftover.record else {
        return;
    };
    record.has_failed = Some(false);
    let (directory, record) = (leftover.directory.clone(), record.clone());
    if let Err(error) = run_blocking(move || directory.write_record(&record)).await {
        let directory = leftover.directory.path().display();
        tracing::warn!(%directory, %error, "cannot record the end of a task");
    }
}
