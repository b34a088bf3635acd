//! The drivers with which this node runs tasks.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::blocking;
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_node::RunDriver;
use nomad_csi_node::driver::{MockDriver, NotEnforced, ShimDriver, TaskLimits};

/// The drivers of a node by their names in jobs.
pub(super) type TaskDrivers = BTreeMap<String, Arc<dyn RunDriver>>;

/// Finds out what this agent can limit of tasks, and says what it cannot.
///
/// # Errors
/// If the blocking call cannot run.
pub(super) async fn prepare_limits() -> Result<Arc<TaskLimits>, Diagnostics> {
    let limits = blocking::run_blocking(TaskLimits::prepare).await?;
    if let Some(directory) = limits.directory() {
        tracing::info!(control_groups = %directory.display(), "tasks of `exec` are limited to their `resources`");
    }
    for NotEnforced { what, reason } in limits.not_enforced() {
        tracing::info!(
            reason,
            "not limited for tasks: {what}; limit all tasks together in the unit of the agent"
        );
    }
    tracing::info!(
        "not limited for tasks: the space of their directories; give the data directory a file system of its own"
    );
    Ok(Arc::new(limits))
}

/// Returns the drivers that this program has, for tasks with these limits.
pub(super) fn task_drivers(limits: Arc<TaskLimits>) -> TaskDrivers {
    let drivers: [(&str, Arc<dyn RunDriver>); 3] = [
        ("exec", Arc::new(ShimDriver::exec().with_limits(limits))),
        ("raw_exec", Arc::new(ShimDriver::raw_exec())),
        ("mock_driver", Arc::new(MockDriver::default())),
    ];
    let named = drivers.map(|(name, driver)| (name.to_owned(), driver));
    named.into()
}
