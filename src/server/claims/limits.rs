//! The limits of claims.

use std::time::Duration;

use crate::retry::RetryPolicy;

/// The limits of steps and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimLimits {
    /// Pauses between attempts of a step.
    pub policy: RetryPolicy,
    /// How long a call without an answer keeps its place in the plugin's line. The call goes on.
    pub patience: Duration,
    /// How many calls of claims run on nodes at the same time.
    pub node_calls: usize,
    /// How long a request is decided again whenever the claims changed meanwhile.
    pub conflict_patience: Duration,
}

impl Default for ClaimLimits {
    fn default() -> Self {
        Self {
            policy: RetryPolicy {
                initial: Duration::from_millis(200),
                max: Duration::from_secs(60),
            },
            patience: Duration::from_secs(120),
            node_calls: 32,
            conflict_patience: Duration::from_secs(30),
        }
    }
}
