//! The agent's state with the only way to change it.

mod commit;
mod options;
mod snapshots;
mod state_cell;
#[cfg(test)]
mod tests;
mod watch;
mod writer;

pub use commit::{CommitError, Expected};
pub use options::CellOptions;
pub use state_cell::StateCell;
pub use watch::{CellStopped, Watch};
