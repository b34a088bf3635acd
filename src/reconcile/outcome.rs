//! How one volume of a plan ended.

use crate::diagnostic::Diagnostic;
use crate::model::Volume;
use crate::ports::WithDocument;

/// How one volume ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// Nothing to do.
    Unchanged,
    /// Not tried. The plan holds the reasons.
    Blocked,
    /// Done. Holds the volume as it was read back, if it could be.
    Done(Option<Box<WithDocument<Volume>>>),
    /// Removed.
    Removed,
    /// Not changed: the volume is not as the plan expects it.
    Stale(Diagnostic),
    /// Not started: a volume that it depends on failed.
    DependencyFailed(Diagnostic),
    /// Failed, or the outcome is unknown.
    Failed(Diagnostic),
    /// Not started: the user interrupted, or the set's lock was lost.
    NotStarted,
}

impl Status {
    /// Whether the volume is now as planned.
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

/// The outcome of one volume of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Further warnings: from the server, and from reading the volume back.
    pub warnings: Vec<Diagnostic>,
}

impl Outcome {
    /// An outcome without warnings.
    pub fn plain(status: Status) -> Self {
        Self {
            status,
            warnings: vec![],
        }
    }
}
