//! The runners that panicked, and when each of them is started again. Pure but for the time of tokio.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use nomad_csi_model::AllocId;
use nomad_csi_model::retry::RetryPolicy;

/// The pauses before a runner is started again.
const RESTART: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(60) };

/// The runners that panicked, by allocation.
#[derive(Default)]
pub(super) struct Crashes(BTreeMap<AllocId, Crash>);

struct Crash {
    /// How often the runner panicked.
    count: u32,
    /// When it is started again; `None` if it was.
    starts_at: Option<Instant>,
}

impl Crashes {
    /// Notes that a runner panicked. Returns the pause before its next start.
    pub(super) fn note(&mut self, alloc: &AllocId) -> Duration {
        let crash = self.0.entry(alloc.clone()).or_insert(Crash { count: 0, starts_at: None });
        let pause = RESTART.delay(crash.count, 1.0);
        crash.count = crash.count.saturating_add(1);
        crash.starts_at = Some(Instant::now() + pause);
        pause
    }

    /// Returns when the next pause ends.
    pub(super) fn next_start(&self) -> Option<Instant> {
        self.0.values().filter_map(|crash| crash.starts_at).min()
    }

    /// Ends the pauses that are over.
    pub(super) fn end_pauses(&mut self) {
        let now = Instant::now();
        for crash in self.0.values_mut() {
            crash.starts_at = crash.starts_at.filter(|at| *at > now);
        }
    }

    /// Returns whether the runner of an allocation waits for its next start.
    pub(super) fn pauses(&self, alloc: &AllocId) -> bool {
        let crash = self.0.get(alloc);
        crash.is_some_and(|crash| crash.starts_at.is_some())
    }

    /// Forgets the runners of allocations that are not assigned.
    pub(super) fn retain(&mut self, is_assigned: impl Fn(&AllocId) -> bool) {
        self.0.retain(|alloc, _| is_assigned(alloc));
    }
}
