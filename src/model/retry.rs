//! The meaning of a failed call, and the delay before the next attempt. Nothing here sleeps.
//!
//! A [`Verdict`] classifies one failure. A [`RetryPolicy`] computes the delay from a jitter that the
//! caller passes in. `ports::verdict_of` maps (RPC, code) to a verdict; `server::repeated_call` runs
//! the loop.

use std::time::Duration;

/// The consequence of a failed call for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The requested state already exists, such as `NOT_FOUND` on a delete.
    AlreadyDone,
    /// The call had no effect. Retry it.
    Retry,
    /// The call had no effect, because the plugin has no room for it. Retry it a few times: a limit of rate passes,
    /// and a full pool is reported.
    RetryBriefly,
    /// The call may have taken effect. Retry the identical call, or undo it.
    RetryUnknownOutcome,
    /// The call had no effect and needs an external change first: a quota, a volume in use.
    RetryLater,
    /// The plugin reports an internal failure, possibly after a part of the work. An immediate retry
    /// would hide the failure from the user. A later call sends the identical request, or undoes it.
    FailedUnknownOutcome,
    /// The request can never succeed unchanged.
    Permanent,
}

impl Verdict {
    /// Returns whether the caller retries the call before its deadline.
    pub fn is_retried(self) -> bool {
        match self {
            Self::Retry | Self::RetryBriefly | Self::RetryUnknownOutcome => true,
            Self::AlreadyDone | Self::RetryLater | Self::FailedUnknownOutcome | Self::Permanent => {
                false
            }
        }
    }

    /// Returns whether the call may have taken effect although it failed.
    pub fn may_have_taken_effect(self) -> bool {
        match self {
            Self::RetryUnknownOutcome | Self::FailedUnknownOutcome | Self::AlreadyDone => true,
            Self::Retry | Self::RetryBriefly | Self::RetryLater | Self::Permanent => false,
        }
    }
}

/// Exponential back-off between bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The delay before the second attempt.
    pub initial: Duration,
    /// The maximum delay.
    pub max: Duration,
}

impl RetryPolicy {
    /// For controller calls: from 100 ms, doubling up to 5 s.
    pub const CONTROLLER: Self =
        Self { initial: Duration::from_millis(100), max: Duration::from_secs(5) };

    /// For requests to Nomad's HTTP API: from 200–400 ms, doubling up to 5–10 s.
    pub const CLIENT: Self =
        Self { initial: Duration::from_millis(400), max: Duration::from_secs(10) };

    /// Returns the delay after an attempt; the first attempt is 0. The delay doubles per attempt up
    /// to the maximum. `jitter` in 0..=1 scales it to between one half and the whole.
    pub fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let doubled = self.initial.saturating_mul(2_u32.saturating_pow(attempt.min(30)));
        doubled.min(self.max).mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_maximum() {
        let delays = [0, 1, 2, 10, 1000].map(|n| RetryPolicy::CONTROLLER.delay(n, 1.0).as_millis());
        assert_eq!(delays, [100, 200, 400, 5000, 5000]);
    }

    #[test]
    fn jitter_shortens_a_delay_by_at_most_half() {
        assert_eq!(RetryPolicy::CONTROLLER.delay(0, 0.0), Duration::from_millis(50));
    }
}
