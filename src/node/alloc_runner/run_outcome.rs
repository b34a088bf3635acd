//! How a run of a task went.

use crate::task_run::RunEnd;

/// How a run of a task went.
pub(super) enum RunOutcome {
    /// It ended by itself.
    Ended(RunEnd),
    /// It was stopped because the plugin that it runs has failed, or because a volume is lost.
    GivenUp(RunEnd),
    /// It ended after it was stopped.
    Stopped(RunEnd),
    /// It was stopped because an operator restarts the task.
    Restarted(RunEnd),
    /// It was stopped before it started.
    NeverStarted,
    /// The driver can never run it.
    Refused(String),
}
