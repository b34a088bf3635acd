//! When a failed allocation is replaced.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keywords::{DelayFunction, JobType};

/// When a failed allocation is replaced by another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReschedulePolicy {
    /// The number of replacements within the interval, unless they are unlimited.
    pub attempts: u32,
    /// The interval, which ends with the failure.
    pub interval: Duration,
    /// The pause before the first replacement.
    pub delay: Duration,
    /// How the pause grows.
    pub delay_function: DelayFunction,
    /// The longest pause, if it grows.
    pub max_delay: Duration,
    /// True if there is no limit of replacements.
    pub unlimited: bool,
}

impl ReschedulePolicy {
    /// Returns Nomad's default for jobs of this type. Allocations of system jobs are never replaced.
    pub const fn of_type(job_type: JobType) -> Self {
        const HOUR: u64 = 3600;
        match job_type {
            JobType::Service => Self {
                attempts: 0,
                interval: Duration::ZERO,
                delay: Duration::from_secs(30),
                delay_function: DelayFunction::Exponential,
                max_delay: Duration::from_secs(HOUR),
                unlimited: true,
            },
            JobType::Batch => Self {
                attempts: 1,
                interval: Duration::from_secs(24 * HOUR),
                delay: Duration::from_secs(5),
                delay_function: DelayFunction::Constant,
                max_delay: Duration::ZERO,
                unlimited: false,
            },
            JobType::System | JobType::Sysbatch => Self {
                attempts: 0,
                interval: Duration::ZERO,
                delay: Duration::ZERO,
                delay_function: DelayFunction::Constant,
                max_delay: Duration::ZERO,
                unlimited: false,
            },
        }
    }

    /// Returns the policy unless it is the default of this type.
    pub fn unless_default(self, job_type: JobType) -> Option<Self> {
        (self != Self::of_type(job_type)).then_some(self)
    }

    /// Returns the pause between a failure and the next replacement, given when the earlier ones were
    /// made; `None` if there is none. Times are in nanoseconds since the epoch.
    pub fn next_pause(&self, replaced: &[i64], failed: i64) -> Option<Duration> {
        if !self.unlimited {
            let interval = i64::try_from(self.interval.as_nanos()).unwrap_or(i64::MAX);
            let since = failed.saturating_sub(interval);
            let recent = replaced.iter().filter(|at| **at >= since).count();
            if u32::try_from(recent).is_ok_and(|recent| recent >= self.attempts) {
                return None;
            }
        }
        let earlier = u32::try_from(replaced.len()).unwrap_or(u32::MAX);
        let factor = match self.delay_function {
            DelayFunction::Constant => return Some(self.delay),
            DelayFunction::Exponential => 1_u32.checked_shl(earlier).unwrap_or(u32::MAX),
            DelayFunction::Fibonacci => fibonacci(earlier),
        };
        let pause = self.delay.saturating_mul(factor.max(1));
        Some(pause.min(self.max_delay.max(self.delay)))
    }
}

/// Returns the number at this position of 1, 1, 2, 3, 5, ….
fn fibonacci(position: u32) -> u32 {
    let (mut one, mut next) = (1_u32, 1_u32);
    // The largest one of 32 bits is at position 46.
    for _ in 0..position.min(60) {
        (one, next) = (next, one.saturating_add(next));
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn pauses(policy: &ReschedulePolicy, count: i64, apart: i64) -> Vec<Option<u64>> {
        let replaced: Vec<i64> = (0..count).map(|at| at * apart * SECOND).collect();
        (0..=replaced.len())
            .map(|made| {
                let failed = i64::try_from(made).unwrap() * apart * SECOND;
                let pause = policy.next_pause(&replaced[..made], failed);
                pause.map(|pause| pause.as_secs())
            })
            .collect()
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let service = ReschedulePolicy::of_type(JobType::Service);
        let expected = [30, 60, 120, 240, 480, 960, 1920, 3600, 3600];
        assert_eq!(pauses(&service, 8, 1), expected.map(Some));
        assert_eq!(pauses(&service, 80, 1).pop(), Some(Some(3600)));
        let fibonacci = ReschedulePolicy {
            delay_function: DelayFunction::Fibonacci,
            delay: Duration::from_secs(10),
            max_delay: Duration::from_secs(75),
            ..service.clone()
        };
        let expected = [10, 10, 20, 30, 50, 75, 75];
        assert_eq!(pauses(&fibonacci, 6, 1), expected.map(Some));
        assert_eq!(pauses(&fibonacci, 90, 1).pop(), Some(Some(75)));
        let constant = ReschedulePolicy { delay_function: DelayFunction::Constant, ..service };
        assert_eq!(pauses(&constant, 2, 1), [30, 30, 30].map(Some));
    }

    #[test]
    fn attempts_count_within_the_interval() {
        let batch = ReschedulePolicy::of_type(JobType::Batch);
        assert_eq!(pauses(&batch, 1, 60), [Some(5), None]);
        let none = ReschedulePolicy { attempts: 0, ..batch.clone() };
        assert_eq!(pauses(&none, 0, 1), [None]);
        let two_per_minute =
            ReschedulePolicy { attempts: 2, interval: Duration::from_secs(60), ..batch };
        assert_eq!(pauses(&two_per_minute, 3, 10), [Some(5), Some(5), None, None]);
        assert_eq!(pauses(&two_per_minute, 3, 40), [Some(5); 4]);
    }
}
