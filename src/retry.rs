//! Whether and when to try again: decides, never sleeps.
//!
//! A [`Verdict`] is what one failed call means; a [`RetryPolicy`] says how long to wait before the
//! next attempt. The jitter is passed in, so that nothing here draws random numbers. The table from
//! (RPC, code) to verdict is `ports::verdict_of`; the loop is `server::forward`.

use std::time::Duration;

/// What the failure of one call means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The wanted state is there already: `NOT_FOUND` on a delete.
    AlreadyDone,
    /// Nothing was done; the same call may be sent again.
    Retry,
    /// It may have been done; send the identical call again, or undo it.
    RetryUnknownOutcome,
    /// Nothing was done, and only a change elsewhere helps: a limit reached, a volume in use.
    RetryLater,
    /// The plugin says that it failed, and not how far it came: it may have been done in part.
    /// Repeating at once would hide the failure from whoever waits; who asks again later sends the
    /// identical call, or undoes it.
    FailedUnknownOutcome,
    /// The request will never succeed as it is.
    Permanent,
}

impl Verdict {
    /// Whether the loop sends the same call again before its deadline.
    pub fn is_repeated(self) -> bool {
        match self {
            Self::Retry | Self::RetryUnknownOutcome => true,
            Self::AlreadyDone | Self::RetryLater | Self::FailedUnknownOutcome | Self::Permanent => {
                false
            }
        }
    }

    /// Whether the call may have taken effect although it failed.
    pub fn may_have_happened(self) -> bool {
        match self {
            Self::RetryUnknownOutcome | Self::FailedUnknownOutcome | Self::AlreadyDone => true,
            Self::Retry | Self::RetryLater | Self::Permanent => false,
        }
    }
}

/// Exponential back-off between bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The pause before the second attempt.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
}

impl RetryPolicy {
    /// For controller calls: 100 ms doubling to 5 s (`csi-orchestration` 7.3).
    pub const CONTROLLER: Self = Self {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(5),
    };

    /// The pause after the attempt of that number, the first being 0: doubled each time, capped,
    /// then scaled by `jitter`, which lies in 0..=1, to between one half and the whole.
    pub fn pause(&self, attempt: u32, jitter: f64) -> Duration {
        let doubled = self
            .first
            .saturating_mul(2_u32.saturating_pow(attempt.min(30)));
        doubled
            .min(self.longest)
            .mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = [0, 1, 2, 10, 1000].map(|n| RetryPolicy::CONTROLLER.pause(n, 1.0).as_millis());
        assert_eq!(pauses, [100, 200, 400, 5000, 5000]);
    }

    #[test]
    fn jitter_never_takes_more_than_half() {
        assert_eq!(
            RetryPolicy::CONTROLLER.pause(0, 0.0),
            Duration::from_millis(50)
        );
    }
}
