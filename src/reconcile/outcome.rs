//! How one volume of a plan ended.

use crate::diagnostic::Diagnostic;
use crate::model::Volume;
use crate::ports::WithDocument;

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// There was nothing to do.
    Unchanged,
    /// It was not tried: the plan says why.
    Blocked,
    /// It was done. What was read back, if it could be.
    Done(Option<Box<WithDocument<Volume>>>),
    /// It is gone, as it should be.
    Removed,
    /// It was not done, because what the plan relied on has changed.
    Stale(Diagnostic),
    /// It was not begun, because something that it needs did not succeed.
    DependencyFailed(Diagnostic),
    /// It failed, or nobody knows.
    Failed(Diagnostic),
    /// It was not begun, because somebody interrupted.
    NotStarted,
}

impl Status {
    /// Whether the volume is now as the plan wants it.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Unchanged | Self::Done(_) | Self::Removed => true,
            Self::Blocked
            | Self::Stale(_)
            | Self::DependencyFailed(_)
            | Self::Failed(_)
            | Self::NotStarted => false,
        }
    }
}

/// The end of one volume of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// What people should know besides: the server's warnings, and what was found afterwards.
    pub warnings: Vec<Diagnostic>,
}

impl Outcome {
    /// An end with nothing to be said besides.
    pub fn plain(ending: Status) -> Self {
        Self {
            status: ending,
            warnings: vec![],
        }
    }
}
