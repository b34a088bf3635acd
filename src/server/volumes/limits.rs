//! The limits of volume operations.

use std::time::Duration;

use crate::claims::ClaimLimits;
use crate::repeated_call::ForwardLimits;
use nomad_csi_model::retry::RetryPolicy;

/// The limits of concurrency, waiting and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeLimits {
    /// Limits of controller calls.
    pub forward: ForwardLimits,
    /// The longest time that an operation waits to be admitted; longer than the patience with a call
    /// before it.
    pub queue_timeout: Duration,
    /// How many operations may wait for one volume.
    pub max_waiting: usize,
    /// Limits of claims.
    pub claims: ClaimLimits,
    /// True if a creation that did not end is continued without a request.
    pub continues_creations: bool,
    /// Pauses between attempts to continue a creation.
    pub creations: RetryPolicy,
    /// How often an operation is decided again after its volume changed in the meantime.
    pub conflict_retries: u32,
}

impl VolumeLimits {
    /// How many operations may wait for one volume, and calls of a class for one plugin.
    pub const MAX_WAITING: usize = 1024;
}

impl Default for VolumeLimits {
    fn default() -> Self {
        Self {
            forward: ForwardLimits::default(),
            queue_timeout: Duration::from_secs(180),
            max_waiting: Self::MAX_WAITING,
            claims: ClaimLimits::default(),
            continues_creations: true,
            creations: RetryPolicy {
                initial: Duration::from_secs(2),
                max: Duration::from_secs(60),
            },
            conflict_retries: 8,
        }
    }
}
