//! The ports of jobs.

use std::sync::Arc;

use crate::ports::{Clock, IdSource, Sealer};
use crate::server::cell::StateCell;

/// The ports of jobs.
#[derive(Clone)]
pub struct JobPorts {
    /// The state.
    pub cell: StateCell,
    /// Seals environments and driver configurations.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events and pauses.
    pub clock: Arc<dyn Clock>,
    /// Creates IDs of allocations and evaluations.
    pub ids: Arc<dyn IdSource>,
}
