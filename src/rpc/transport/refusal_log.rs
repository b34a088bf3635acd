//! [`RefusalLog`]: how often refused connections are reported.
//!
//! Anyone can open connections, so the log has one of them in [`INTERVAL`] at most, with the number of those before it that
//! it has not.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time between two reports.
const INTERVAL: Duration = Duration::from_secs(10);

/// Which refused connections are reported.
#[derive(Default)]
pub(super) struct RefusalLog(Mutex<State>);

#[derive(Default)]
struct State {
    reported: Option<Instant>,
    unreported: u64,
}

impl RefusalLog {
    /// Counts a refused connection. Returns how many were not reported since the last report; `None` if this one is not to be
    /// reported either.
    pub(super) fn note(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let reported = state.reported;
        if reported.is_some_and(|reported| now.duration_since(reported) < INTERVAL) {
            state.unreported = state.unreported.saturating_add(1);
            return None;
        }
        state.reported = Some(now);
        Some(std::mem::take(&mut state.unreported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_in_ten_seconds_is_reported_with_the_number_of_the_others() {
        let (log, start) = (RefusalLog::default(), Instant::now());
        let after = |seconds| log.note(start + Duration::from_secs(seconds));
        let noted: Vec<_> = [0, 0, 5, 9, 10, 10, 20, 40].map(after).into();
        assert_eq!(noted, [Some(0), None, None, None, Some(3), None, Some(1), Some(0)]);
    }
}
