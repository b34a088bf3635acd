//! Stops the tasks of allocations that the server does not assign to this node any more.
//!
//! An agent that was away may have missed that the server gave an allocation up. Its tasks are stopped when the first
//! list has arrived, and before its directory is removed. Nothing of them is reported.

use std::sync::Arc;

use futures_util::future::join_all;

use super::super::alloc_directory::{AllocDirectory, TaskDirectory, blocking};
use super::super::task_record::TaskRecord;
use super::deps::AllocRunnerDeps;
use crate::ports::{RunDriver, RunError, RunStatus};

/// A task that may still run.
pub(super) struct Leftover {
    /// Its directory.
    pub(super) directory: TaskDirectory,
    /// Without one, any driver may run the task.
    pub(super) record: Option<TaskRecord>,
    /// The number of its newest run.
    pub(super) run: u32,
}

/// Stops every task that an earlier agent started for these allocations.
pub(super) async fn stop_leftovers(deps: Arc<AllocRunnerDeps>, allocs: Vec<AllocDirectory>) {
    join_all(allocs.iter().map(|alloc| has_ended(&deps, alloc))).await;
}

/// Stops what still runs of an allocation without a runner. Returns whether it is known that nothing runs.
pub(super) async fn has_ended(deps: &AllocRunnerDeps, alloc: &AllocDirectory) -> bool {
    let directory = alloc.clone();
    let found = blocking(move || {
        let tasks = directory.tasks()?.into_iter();
        tasks.map(leftover).collect::<std::io::Result<Vec<_>>>()
    });
    match found.await {
        Ok(leftovers) => {
            let leftovers = leftovers.into_iter().flatten();
            let ended = join_all(leftovers.map(|leftover| stop_one(deps, leftover))).await;
            ended.into_iter().all(|has_ended| has_ended)
        }
        Err(error) => {
            let directory = alloc.path().display();
            tracing::warn!(%directory, %error, "cannot look for tasks of an earlier allocation");
            false
        }
    }
}

/// Stops a task, and logs that it did. Returns whether it has ended.
async fn stop_one(deps: &AllocRunnerDeps, mut leftover: Leftover) -> bool {
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
        match stop(&**driver, &leftover).await {
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
    Ok(run.filter(|_| !has_ended).map(|run| Leftover {
        directory,
        record,
        run,
    }))
}

/// Stops a task. Returns whether it was running.
async fn stop(driver: &dyn RunDriver, leftover: &Leftover) -> Result<bool, RunError> {
    let run = leftover.directory.run(leftover.run);
    match driver.status(&run).await? {
        Some(RunStatus::Starting | RunStatus::Running { .. }) => {
            driver.stop(&run).await?;
            driver.wait(&run).await?;
            Ok(true)
        }
        Some(RunStatus::Ended(_)) | None => Ok(false),
    }
}

/// Records that the task has ended, so that it is not examined again.
async fn record_end(leftover: &mut Leftover) {
    let Some(record) = &mut leftover.record else {
        return;
    };
    record.has_failed = Some(false);
    let (directory, record) = (leftover.directory.clone(), record.clone());
    if let Err(error) = blocking(move || directory.write_record(&record)).await {
        let directory = leftover.directory.path().display();
        tracing::warn!(%directory, %error, "cannot record the end of a task");
    }
}
