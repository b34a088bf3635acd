//! The time since the machine started, which goes on while it sleeps: a lease ends then, too.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine started.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
