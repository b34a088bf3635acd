//! Wall time. Waiting is tokio's, so that tests can pause it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Says what time it is.
pub trait Clock: Send + Sync {
    /// Nanoseconds since the epoch.
    fn now(&self) -> i64;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> i64 {
        let since_epoch = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
    }
}
