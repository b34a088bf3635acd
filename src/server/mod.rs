//! The control-plane half of the agent.

mod cell;
mod forward;
mod lanes;

pub use cell::{CellOptions, CommitError, Expected, StateCell};
pub use forward::{
    Candidates, Forward, ForwardError, ForwardLimits, NoController, Outcome, candidates,
};
pub use lanes::{Lane, LaneFull, Lanes};
