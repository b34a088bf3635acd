//! How one volume of a plan ended.

use crate::diagnostic::Diagnostic;
use crate::model::Volume;
use crate::ports::Reading;

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// There was nothing to do.
    Unchanged,
    /// It was not tried: the plan says why.
    Blocked,
    /// It was done. What was read back, if it could be.
    Done(Option<Box<Reading<Volume>>>),
    /// It is gone, as it should be.
    Removed,
    /// It was not done, because what the plan relied on has changed.
    Stale(Diagnostic),
    /// It was not begun, because something that it needs did not succeed.
    Held(Diagnostic),
    /// It failed, or nobody knows.
    Failed(Diagnostic),
    /// It was not begun, because somebody interrupted.
    NotBegun,
}

impl Ending {
    /// Whether the volume is now as the plan wants it.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Unchanged | Self::Done(_) | Self::Removed => true,
            Self::Blocked | Self::Stale(_) | Self::Held(_) | Self::Failed(_) | Self::NotBegun => {
                false
            }
        }
    }
}

/// The end of one volume of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// What people should know besides: the server's warnings, and what was found afterwards.
    pub warnings: Vec<Diagnostic>,
}

impl Outcome {
    /// An end with nothing to be said besides.
    pub fn plain(ending: Ending) -> Self {
        Self {
            ending,
            warnings: vec![],
        }
    }
}
