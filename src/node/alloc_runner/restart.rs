//! Decides what follows the end of a run: the next run, or the end of the task.
//!
//! The rule is Nomad's. A task that exits with status 0 is done if it is meant to end; every other task that ends is
//! restarted, also after status 0. An interval starts with the first run, and allows a number of restarts. After
//! that, the task fails, or waits until the interval is over.

use std::time::Duration;

use super::super::task_record::RestartWindow;
use crate::task_run::RunEnd;
use nomad_csi_model::{GoDuration, RestartMode, RestartPolicy};

/// A restart is delayed by up to this part of the delay more, so that tasks do not restart together.
const JITTER: f64 = 0.25;

/// The decision about a task whose run has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextRun {
    /// The task is done.
    Complete,
    /// The task runs again.
    Restart {
        /// The pause before it.
        delay: Duration,
        /// Why, in Nomad's words.
        reason: &'static str,
        /// The window after this restart.
        window: RestartWindow,
    },
    /// The task has failed.
    Fail {
        /// Why it is not restarted, in Nomad's words.
        reason: String,
    },
}

/// The facts at the end of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndFacts<'a> {
    /// How the run ended.
    pub(super) end: &'a RunEnd,
    /// True if the task is done when it exits with status 0.
    pub(super) ends_by_itself: bool,
    /// The restarts so far.
    pub(super) window: RestartWindow,
    /// The time in nanoseconds since the epoch.
    pub(super) now: i64,
    /// A number in 0..1.
    pub(super) jitter: f64,
}

/// Decides what follows the end of a run.
pub(super) fn next_run(policy: &RestartPolicy, facts: &EndFacts<'_>) -> NextRun {
    if facts.ends_by_itself && is_success(facts.end) {
        return NextRun::Complete;
    }
    let interval = nanoseconds(policy.interval);
    let mut window = facts.window;
    // A window that begins later than now was begun before the clock was set back: its end is not known.
    let has_begun = window.started_at <= facts.now;
    if !has_begun || facts.now > window.started_at.saturating_add(interval) {
        window = RestartWindow { started_at: facts.now, restarts: 0 };
    }
    window.restarts = window.restarts.saturating_add(1);
    if window.restarts <= policy.attempts {
        let delay = policy.delay.mul_f64(1.0 + JITTER * facts.jitter);
        let reason = "Restart within policy";
        return NextRun::Restart { delay, reason, window };
    }
    match policy.mode {
        RestartMode::Delay => {
            let rest = window.started_at.saturating_add(interval) - facts.now;
            NextRun::Restart {
                delay: Duration::from_nanos(u64::try_from(rest).unwrap_or_default()),
                reason: "Exceeded allowed attempts, applying a delay",
                window,
            }
        }
        RestartMode::Fail if policy.attempts == 0 => {
            NextRun::Fail { reason: "Policy allows no restarts".to_owned() }
        }
        RestartMode::Fail => NextRun::Fail {
            reason: format!(
                "Exceeded allowed attempts {} in interval {} and mode is \"fail\"",
                policy.attempts,
                GoDuration(interval)
            ),
        },
    }
}

/// Returns whether the task exited with status 0.
pub(super) fn is_success(end: &RunEnd) -> bool {
    match end {
        RunEnd::Exited { code, .. } => *code == Some(0),
        RunEnd::Failed { .. } | RunEnd::SourceLost { .. } | RunEnd::Lost { .. } => false,
    }
}

/// Returns a duration in nanoseconds.
pub(super) fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task_run::LimitsReached;

    const SECOND: i64 = 1_000_000_000;

    fn policy(attempts: u32, mode: RestartMode) -> RestartPolicy {
        RestartPolicy {
            attempts,
            interval: Duration::from_secs(60),
            delay: Duration::from_secs(10),
            mode,
        }
    }

    fn exit(code: i32) -> RunEnd {
        RunEnd::Exited { code: Some(code), signal: None, limits: LimitsReached::NONE }
    }

    fn decide(policy: &RestartPolicy, end: &RunEnd, restarts: u32, seconds: i64) -> NextRun {
        let window = RestartWindow { started_at: 100 * SECOND, restarts };
        let facts = EndFacts {
            end,
            ends_by_itself: false,
            window,
            now: (100 + seconds) * SECOND,
            jitter: 0.4,
        };
        next_run(policy, &facts)
    }

    fn restart(delay: u64, started_at: i64, restarts: u32) -> NextRun {
        NextRun::Restart {
            delay: Duration::from_secs(delay),
            reason: "Restart within policy",
            window: RestartWindow { started_at: started_at * SECOND, restarts },
        }
    }

    #[test]
    fn restarts_are_counted_within_the_interval() {
        let policy = policy(2, RestartMode::Fail);
        let failed = NextRun::Fail {
            reason: "Exceeded allowed attempts 2 in interval 1m0s and mode is \"fail\"".to_owned(),
        };
        for (restarts, seconds, expected) in [
            (0, 1, restart(11, 100, 1)),
            (1, 60, restart(11, 100, 2)),
            (2, 60, failed),
            (2, 61, restart(11, 161, 1)),
            // The clock was set back.
            (2, -50, restart(11, 50, 1)),
        ] {
            assert_eq!(decide(&policy, &exit(1), restarts, seconds), expected);
        }
    }

    #[test]
    fn no_pause_is_longer_than_the_interval_although_the_clock_was_set_back() {
        let policy = policy(0, RestartMode::Delay);
        for seconds in [-300_000_000, -1, 0, 59, 61] {
            let next = decide(&policy, &exit(1), 0, seconds);
            let NextRun::Restart { delay, .. } = next else {
                panic!("{next:?}");
            };
            assert!(delay <= policy.interval, "{seconds}: {delay:?}");
        }
    }

    #[test]
    fn every_end_of_a_service_is_restarted() {
        let ends = [
            exit(0),
            exit(1),
            RunEnd::Exited { code: None, signal: Some(9), limits: LimitsReached::NONE },
            RunEnd::Failed { reason: String::new() },
            RunEnd::Lost { reason: String::new() },
        ];
        for end in ends {
            let next = decide(&policy(1, RestartMode::Fail), &end, 0, 1);
            assert_eq!(next, restart(11, 100, 1), "{end:?}");
        }
    }

    #[test]
    fn a_task_that_ends_by_itself_is_done_with_status_0() {
        for (code, is_done) in [(0, true), (1, false)] {
            let facts = EndFacts {
                end: &exit(code),
                ends_by_itself: true,
                window: RestartWindow::default(),
                now: 1,
                jitter: 0.0,
            };
            let next = next_run(&policy(0, RestartMode::Fail), &facts);
            assert_eq!(next == NextRun::Complete, is_done);
        }
    }

    #[test]
    fn without_attempts_the_first_failure_counts() {
        let expected = NextRun::Fail { reason: "Policy allows no restarts".to_owned() };
        assert_eq!(decide(&policy(0, RestartMode::Fail), &exit(1), 0, 1), expected);
    }

    #[test]
    fn mode_delay_waits_for_the_end_of_the_interval() {
        let expected = NextRun::Restart {
            delay: Duration::from_secs(40),
            reason: "Exceeded allowed attempts, applying a delay",
            window: RestartWindow { started_at: 100 * SECOND, restarts: 2 },
        };
        assert_eq!(decide(&policy(1, RestartMode::Delay), &exit(1), 1, 20), expected);
    }
}
