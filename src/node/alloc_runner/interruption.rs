//! Ends the tasks of an allocation between two agents.
//!
//! The next agent starts them again, and counts neither a failure nor a restart: the end of the run is on record as
//! dealt with.

use std::path::Path;

use super::super::alloc_directory::AllocDirectory;
use super::leftovers::{Leftover, leftover};
use crate::task_run::{RunDriver, RunError};
use nomad_csi_model::AllocId;
use nomad_csi_ports::run_blocking;

/// Ends what runs of an allocation whose tasks all have this driver. No runner may have the allocation. Takes the
/// time that the tasks take.
///
/// # Errors
/// Why it is not known that nothing runs.
pub async fn interrupt_alloc(
    data_directory: &Path,
    alloc: &AllocId,
    driver: &dyn RunDriver,
) -> Result<(), String> {
    let directory = AllocDirectory::new(data_directory, alloc);
    let found = run_blocking(move || {
        let tasks = directory.tasks()?.into_iter();
        tasks.map(leftover).collect::<std::io::Result<Vec<_>>>()
    });
    let found = found.await.map_err(|error| error.to_string())?;
    for task in found.into_iter().flatten() {
        let interrupted = interrupt(task, driver).await;
        interrupted.map_err(|error| error.to_string())?;
    }
    Ok(())
}

async fn interrupt(task: Leftover, driver: &dyn RunDriver) -> Result<(), RunError> {
    let Leftover { directory, record, run: number } = task;
    let decided = record.as_ref().map_or(0, |record| record.decided_run);
    if decided >= number {
        return Ok(());
    }
    let run = directory.run(number);
    // Also of a run that was about to start.
    driver.stop(&run).await?;
    match driver.wait(&run).await {
        Ok(_) | Err(RunError::NotStarted { .. }) => {}
        Err(error) => return Err(error),
    }
    // Without a record, the next agent decides about the run once more.
    let Some(mut record) = record else {
        return Ok(());
    };
    (record.decided_run, record.idle_run) = (number, None);
    let written = run_blocking(move || directory.write_record(&record)).await;
    written.map_err(|error| RunError::Failed {
        action: "record the end of",
        run,
        reason: error.to_string(),
    })
}
