//! The wait for a plugin that the server has not found again after it was away.
//!
//! After a restart, Nomad's servers respond before its clients are connected. A request to a plugin is then
//! answered with `No path to node` or `no healthy controllers`, and the plugin has received nothing. So the
//! step is tried again. All steps of an execution share the time of the wait. It begins with the first
//! failure, and again after a success.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The pause before a step is tried again.
pub(super) const PAUSE: Duration = Duration::from_secs(2);

/// The shared wait of an execution.
#[derive(Debug, Default)]
pub(super) struct Reconnect {
    timeout: Duration,
    since: Mutex<Option<Instant>>,
}

/// The next try of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextTry {
    /// It may, and this is the first one that waits.
    First,
    /// It may.
    Later,
    /// The wait is over.
    None,
}

impl Reconnect {
    /// A wait of up to this time.
    pub(super) fn waiting(timeout: Duration) -> Self {
        Self { timeout, since: Mutex::default() }
    }

    /// The longest wait.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Decides about a step whose plugin was not reached.
    pub(super) fn next_try(&self) -> NextTry {
        if self.timeout.is_zero() {
            return NextTry::None;
        }
        let mut since = self.since();
        match *since {
            None => {
                *since = Some(Instant::now());
                NextTry::First
            }
            Some(since) if since.elapsed() < self.timeout => NextTry::Later,
            Some(_) => NextTry::None,
        }
    }

    /// Records that a plugin was reached.
    pub(super) fn reached(&self) {
        *self.since() = None;
    }

    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock()
    }
}
