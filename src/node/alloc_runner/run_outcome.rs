//! How a run of a task went.

use crate::ports::RunEnd;

/// How a run of a task went.
pub(super) enum RunOutcome {
    /// It ended by itself.
    Ended(RunEnd),
    /// It ended after it was stopped.
    Stopped(RunEnd),
    /// It was stopped before it started.
    NeverStarted,
    /// The driver can never run it.
    Refused(String),
}
