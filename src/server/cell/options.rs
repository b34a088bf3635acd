//! Sizes of the cell.

use super::state_limits::StateLimits;

/// Sizes of the cell. The defaults are for production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellOptions {
    /// How many commits the queue holds.
    pub queue: usize,
    /// A durable write takes further commits until it has this many events.
    pub batch: usize,
    /// The number of events after which a snapshot is written.
    pub snapshot_every: u64,
    /// Limits of the objects that clients can put into the state.
    pub limits: StateLimits,
}

impl Default for CellOptions {
    fn default() -> Self {
        Self { queue: 1024, batch: 256, snapshot_every: 4096, limits: StateLimits::default() }
    }
}
