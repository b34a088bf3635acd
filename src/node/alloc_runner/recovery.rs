//! Finds what earlier agents started and left without files.
//!
//! That the files of a task are missing does not say that nothing of it runs. So the drivers are asked before anything starts,
//! and until they know, nothing does.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::deps::AllocRunnerDeps;
use crate::task_run::RunError;

/// Finds the runs of earlier agents that go on although their files are missing or damaged. Returns those that cannot go on.
///
/// # Errors
/// If a driver cannot know.
pub(super) async fn recover_runs(deps: &AllocRunnerDeps) -> Result<BTreeSet<PathBuf>, RunError> {
    let mut without_files = BTreeSet::new();
    for driver in deps.drivers.values() {
        let found = driver.recover(&deps.data_directory).await?;
        without_files.extend(found);
    }
    Ok(without_files)
}
