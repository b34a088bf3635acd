//! The control-plane half of the agent.

mod cell;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fake;
mod forward;
mod lanes;
mod volumes;

pub use cell::{CellOptions, CommitError, Expected, StateCell};
pub use error::{
    Aftermath, CannotExpand, CopySource, Operation, PluginFailure, RequestError, ServerError,
    UpdateRequest,
};
pub use forward::{
    Candidates, Forward, ForwardError, ForwardLimits, NoController, Outcome, candidates,
};
pub use lanes::{Lane, LaneFull, Lanes};
pub use volumes::{Submitted, VolumeLimits, VolumePorts, Volumes, WriteOutcome};
