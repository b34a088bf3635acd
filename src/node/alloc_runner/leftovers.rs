//! Stops the tasks of allocations that the server does not assign to this node any more.
//!
//! An agent that was away may have missed that the server gave an allocation up. Its tasks are stopped once, when
//! the first list has arrived. Nothing of them is reported, and their directories stay.

use std::sync::Arc;

use futures_util::future::join_all;

use super::super::alloc_directory::{AllocDirectory, TaskDirectory, blocking};
use super::super::task_record::TaskRecord;
use super::deps::AllocRunnerDeps;
use crate::model::AllocId;
use crate::ports::{RunDriver, RunError, RunStatus};

/// A task that may still run.
struct Leftover {
    directory: TaskDirectory,
    record: TaskRecord,
    /// The number of its newest run.
    run: u32,
}

/// Stops every task that an earlier agent started for an allocation that is not assigned.
pub(super) async fn stop_leftovers(deps: Arc<AllocRunnerDeps>, assigned: Vec<AllocId>) {
    let data = deps.data_directory.clone();
    let found = blocking(move || {
        let assigned: Vec<_> = assigned
            .iter()
            .map(|id| AllocDirectory::new(&data, id))
            .collect();
        let mut found = vec![];
        for alloc in AllocDirectory::list(&data)? {
            if !assigned.contains(&alloc) {
                found.extend(alloc.tasks()?);
            }
        }
        found.into_iter().map(leftover).collect()
    });
    let leftovers: Vec<Option<Leftover>> = match found.await {
        Ok(leftovers) => leftovers,
        Err(error) => {
            tracing::warn!(%error, "cannot look for tasks of earlier allocations");
            return;
        }
    };
    let leftovers = leftovers.into_iter().flatten();
    join_all(leftovers.map(|leftover| stop_one(&deps, leftover))).await;
}

/// Stops a task, and logs that it did.
async fn stop_one(deps: &AllocRunnerDeps, mut leftover: Leftover) {
    let Some(driver) = deps.drivers.get(&leftover.record.driver) else {
        return;
    };
    let stopped = stop(&**driver, &mut leftover).await;
    let directory = leftover.directory.path().display();
    match stopped {
        Ok(true) => tracing::warn!(%directory, "stopped a task that the server does not know"),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(%directory, %error, "cannot stop a task that the server does not know");
        }
    }
}

/// Returns the task in a directory, unless it has ended for good.
fn leftover(directory: TaskDirectory) -> std::io::Result<Option<Leftover>> {
    let record = directory.read_record()?;
    let run = directory.runs()?.last().copied();
    Ok(record.zip(run).and_then(|(record, run)| {
        record.has_failed.is_none().then_some(Leftover {
            directory,
            record,
            run,
        })
    }))
}

/// Stops a task, and records its end. Returns whether it was running.
async fn stop(driver: &dyn RunDriver, leftover: &mut Leftover) -> Result<bool, RunError> {
    let run = leftover.directory.run(leftover.run);
    let was_running = match driver.status(&run).await? {
        Some(RunStatus::Starting | RunStatus::Running { .. }) => {
            driver.stop(&run).await?;
            driver.wait(&run).await?;
            true
        }
        Some(RunStatus::Ended(_)) | None => false,
    };
    leftover.record.has_failed = Some(false);
    let (directory, record) = (leftover.directory.clone(), leftover.record.clone());
    let written = blocking(move || directory.write_record(&record)).await;
    if let Err(error) = written {
        let directory = leftover.directory.path().display();
        tracing::warn!(%directory, %error, "cannot record the end of a task");
    }
    Ok(was_running)
}
