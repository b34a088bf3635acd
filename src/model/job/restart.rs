//! When a failed task is restarted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::keywords::{JobType, RestartMode};

/// When a failed task is restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartPolicy {
    /// The number of restarts within the interval.
    pub attempts: u32,
    /// The interval, which starts with the first start of the task.
    pub interval: Duration,
    /// The pause before a restart.
    pub delay: Duration,
    /// The action after the last attempt.
    pub mode: RestartMode,
}

impl RestartPolicy {
    /// Returns Nomad's default for jobs of this type.
    pub const fn of_type(job_type: JobType) -> Self {
        const MINUTE: u64 = 60;
        let (attempts, minutes) = if job_type.ends() { (3, 24 * 60) } else { (2, 30) };
        Self {
            attempts,
            interval: Duration::from_secs(minutes * MINUTE),
            delay: Duration::from_secs(15),
            mode: RestartMode::Fail,
        }
    }
}
