//! Wall time that a test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use nomad_csi_ports::Clock;

/// A clock that moves only when a test advances it. A clone shows the same time.
#[derive(Clone, Debug)]
pub struct FakeClock(Arc<AtomicI64>);

impl FakeClock {
    /// 2026-01-01T00:00:00Z, in nanoseconds since the epoch.
    pub const START: i64 = 1_767_225_600_000_000_000;

    /// Creates a clock at `nanoseconds` since the epoch.
    pub fn at(nanoseconds: i64) -> Self {
        Self(Arc::new(AtomicI64::new(nanoseconds)))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.0.fetch_add(by, Ordering::SeqCst);
    }

    /// Sets the clock back.
    pub fn set_back(&self, by: Duration) {
        let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
        self.0.fetch_sub(by, Ordering::SeqCst);
    }
}

impl Default for FakeClock {
    fn default() -> Self {
        Self::at(Self::START)
    }
}

impl Clock for FakeClock {
    fn now(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fake_clock_moves_only_when_advanced() {
        let clock = FakeClock::default();
        let same = clock.clone();
        assert_eq!(clock.now(), FakeClock::START);
        same.advance(Duration::from_secs(2));
        assert_eq!(clock.now(), FakeClock::START + 2_000_000_000);
    }
}
