//! The agent's state with the only way to change it.

mod commit;
mod followed_state;
mod options;
mod snapshots;
mod state_cell;
mod state_limits;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

pub use commit::{CommitError, Expected};
pub use followed_state::{FollowedState, NotCurrent};
pub use options::CellOptions;
pub use state_cell::StateCell;
pub use state_limits::{STATE_LIMITS, StateLimits};
pub use watch::{CellStopped, Watch};
