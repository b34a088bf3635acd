//! The limits of claims.

use std::time::Duration;

use crate::repeated_call::ForwardLimits;
use nomad_csi_model::retry::RetryPolicy;

/// The limits of steps and requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimLimits {
    /// Pauses between attempts of a step.
    pub policy: RetryPolicy,
    /// How long a call without an answer keeps its permit. Then it hangs: other volumes' calls go on.
    pub hung_after: Duration,
    /// How long a call has no answer until its claims show that. The call goes on.
    pub patience: Duration,
    /// How often a step that the plugin refuses for good is tried, until only a change of the plugin or an operator
    /// starts it again.
    pub refusals: u32,
    /// How many calls of claims run on one node at the same time.
    pub node_calls: usize,
    /// How many calls of claims run on all nodes at the same time.
    pub all_node_calls: usize,
    /// How long a request is decided again whenever the claims changed in the meantime.
    pub conflict_patience: Duration,
}

impl Default for ClaimLimits {
    fn default() -> Self {
        Self {
            policy: RetryPolicy {
                initial: Duration::from_millis(200),
                max: Duration::from_secs(60),
            },
            hung_after: ForwardLimits::HUNG_AFTER,
            patience: Duration::from_secs(120),
            refusals: 5,
            node_calls: 32,
            all_node_calls: 1024,
            conflict_patience: Duration::from_secs(30),
        }
    }
}
