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
    /// It was not done, because what the plan relied on has changed.
    Stale(Diagnostic),
    /// It failed, or nobody knows.
    Failed(Diagnostic),
    /// It was not begun, because somebody interrupted.
    NotBegun,
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
