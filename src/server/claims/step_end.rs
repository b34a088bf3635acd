//! [`StepEnd`]: how an attempt of the driver ended.
//!
//! Only a committed change is progress (rule 15 of the claims machine). So "decide again at once" needs
//! the result of a commit that succeeded, and whatever else an attempt comes to pauses: a conflict, an
//! event that does not fit, a journal that refuses.

use crate::cell::CommitError;

/// A change that was committed. Only [`StepEnd::after`] makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Progress(u64);

/// The end of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// Something changed: decide again.
    Decide(Progress),
    /// Nothing changed: try again after a pause.
    Pause,
    /// The plugin refuses the step for good: try again a few times only.
    Refused,
}

impl StepEnd {
    /// The end of an attempt whose last commit had this result.
    pub(super) fn after(committed: &Result<u64, CommitError>) -> Self {
        match committed {
            Ok(index) => Self::Decide(Progress(*index)),
            Err(
                CommitError::Conflict { .. }
                | CommitError::VariableConflict { .. }
                | CommitError::ClaimsConflict { .. }
                | CommitError::JobConflict { .. }
                | CommitError::NodeConflict { .. }
                | CommitError::NoNamespace { .. }
                | CommitError::Shared { .. }
                | CommitError::InvalidEvent(_)
                | CommitError::LimitReached(_)
                | CommitError::Journal(_)
                | CommitError::Stopping,
            ) => Self::Pause,
        }
    }

    /// Returns whether something changed.
    pub(super) fn is_progress(self) -> bool {
        match self {
            Self::Decide(Progress(_)) => true,
            Self::Pause | Self::Refused => false,
        }
    }
}
