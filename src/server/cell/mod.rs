//! The agent's state with the only way to change it.

mod commit;
mod options;
mod snapshots;
mod state_cell;
mod state_limits;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

pub use commit::{CommitError, Expected};
pub use options::CellOptions;
pub use state_cell::StateCell;
pub use state_limits::{STATE_LIMITS, StateLimits};
pub use watch::{CellStopped, Watch};
