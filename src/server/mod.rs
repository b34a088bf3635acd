//! The control-plane half of the agent.

mod forward;

pub use forward::{
    Candidates, Forward, ForwardError, ForwardLimits, NoController, Outcome, candidates,
};
