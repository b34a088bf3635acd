//! The ports of jobs.

use std::sync::Arc;

use crate::cell::StateCell;
use crate::sealer::Sealer;
use nomad_csi_ports::{Clock, IdSource};

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
