//! What volume operations need from outside, and their limits.

use std::sync::Arc;
use std::time::Duration;

use crate::ports::{Clock, IdSource, PluginDirectory, Sealer};
use crate::server::cell::StateCell;
use crate::server::forward::ForwardLimits;

/// The ports of volume operations.
#[derive(Clone)]
pub struct VolumePorts {
    /// The agent's state.
    pub cell: StateCell,
    /// Finds connections to plugins.
    pub directory: Arc<dyn PluginDirectory>,
    /// Seals secrets.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events.
    pub clock: Arc<dyn Clock>,
    /// Jitter for pauses.
    pub ids: Arc<dyn IdSource>,
}

/// The limits of concurrency, waiting and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Limits of controller calls.
    pub forward: ForwardLimits,
    /// The longest time that an operation waits to be admitted.
    pub queue_timeout: Duration,
    /// How many operations may wait for one volume, and for one plugin.
    pub max_waiting: usize,
    /// Concurrent deletes, expansions and snapshots per plugin. Drivers rely on 1.
    pub concurrent_deletes: usize,
    /// Concurrent creates and validations per plugin.
    pub concurrent_creates: usize,
    /// Concurrent lists per plugin.
    pub concurrent_lists: usize,
    /// How often an operation is decided again after its volume changed meanwhile.
    pub conflict_retries: u32,
}

impl Default for VolumeLimits {
    fn default() -> Self {
        Self {
            forward: ForwardLimits::default(),
            queue_timeout: Duration::from_secs(120),
            max_waiting: 1024,
            concurrent_deletes: 1,
            concurrent_creates: 16,
            concurrent_lists: 4,
            conflict_retries: 8,
        }
    }
}
