//! Limits the reads that run at the same time, and so the connections of a command.
//!
//! Nomad allows 100 connections per client address, which all programs at that address share. A read
//! waits until another one ends. When the server responds with 429 or closes connections early, half of
//! the reads remain. When as many reads as run at a time have been answered since, one more may run, up
//! to [`MAX_READS`]: a restart of the server does not slow a command down for ever. Writes and blocking queries do not wait here: a write may take minutes, and a lock
//! must be renewed in the meantime.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

/// The largest number of reads at the same time.
pub(super) const MAX_READS: usize = 16;

/// The limit of reads at the same time.
#[derive(Debug)]
pub(super) struct ReadGate {
    permits: Semaphore,
    limit: AtomicUsize,
    /// Permits that end with their read.
    excess: AtomicUsize,
    /// Answered reads since the limit changed.
    answered: AtomicUsize,
}

impl Default for ReadGate {
    fn default() -> Self {
        Self {
            permits: Semaphore::new(MAX_READS),
            limit: AtomicUsize::new(MAX_READS),
            excess: AtomicUsize::new(0),
            answered: AtomicUsize::new(0),
        }
    }
}

/// A read that may run.
pub(super) struct RunningRead<'g> {
    gate: &'g ReadGate,
    permit: Option<SemaphorePermit<'g>>,
}

impl ReadGate {
    /// Waits until another read may run.
    pub(super) async fn enter(&self) -> RunningRead<'_> {
        // The semaphore is never closed.
        let permit = self.permits.acquire().await.ok();
        RunningRead { gate: self, permit }
    }

    /// Halves the limit; one read always may run.
    pub(super) fn shrink(&self) {
        let halve = |limit: usize| (limit > 1).then_some(limit / 2);
        let Ok(before) = self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, halve)
        else {
            return;
        };
        self.answered.store(0, Ordering::Relaxed);
        let surplus = before - before / 2;
        let forgotten = self.permits.forget_permits(surplus);
        self.excess.fetch_add(surplus - forgotten, Ordering::Relaxed);
    }

    /// Counts an answered read, and raises the limit by one after as many as may run at a time.
    pub(super) fn note_answer(&self) {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == MAX_READS || self.answered.fetch_add(1, Ordering::Relaxed) + 1 < limit {
            return;
        }
        let raised =
            self.limit.compare_exchange(limit, limit + 1, Ordering::Relaxed, Ordering::Relaxed);
        if raised.is_err() {
            return;
        }
        self.answered.store(0, Ordering::Relaxed);
        let take = |excess: usize| excess.checked_sub(1);
        let reused = self.excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if reused.is_err() {
            self.permits.add_permits(1);
        }
    }

    /// Returns the present limit.
    #[cfg(test)]
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }
}

impl Drop for RunningRead<'_> {
    fn drop(&mut self) {
        let take = |excess: usize| excess.checked_sub(1);
        let is_excess =
            self.gate.excess.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if is_excess && let Some(permit) = self.permit.take() {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn a_smaller_limit_holds_once_running_reads_end() {
        let gate = ReadGate::default();
        let enter = || gate.enter().now_or_never();
        let mut running: Vec<_> = (0..MAX_READS).filter_map(|_| enter()).collect();
        assert_eq!(running.len(), MAX_READS);
        assert!(enter().is_none());
        gate.shrink();
        gate.shrink();
        assert_eq!(gate.limit(), 4);
        running.truncate(4);
        assert!(enter().is_none(), "four still run");
        running.pop();
        assert!(enter().is_some());
        (0..10).for_each(|_| gate.shrink());
        running.clear();
        let last = enter();
        assert!(last.is_some() && enter().is_none(), "one read always may run");
    }

    /// Whatever failures and answers came before, the limit comes back, and as many reads run.
    #[test]
    fn answers_bring_the_limit_back() {
        for failures in 0..8 {
            for held in [0, 1, 5, MAX_READS] {
                let gate = ReadGate::default();
                let enter = || gate.enter().now_or_never();
                let running: Vec<_> = (0..held).filter_map(|_| enter()).collect();
                (0..failures).for_each(|_| gate.shrink());
                (0..MAX_READS).for_each(|_| gate.note_answer());
                gate.shrink();
                let shrunk = gate.limit();
                let mut answers = 0;
                while gate.limit() < MAX_READS {
                    gate.note_answer();
                    answers += 1;
                }
                let expected = (shrunk..MAX_READS).sum::<usize>();
                assert_eq!(answers, expected, "one more per round");
                gate.note_answer();
                drop(running);
                let all: Vec<_> = std::iter::from_fn(enter).take(MAX_READS + 1).collect();
                assert_eq!(all.len(), MAX_READS, "{failures} failures, {held} running");
            }
        }
    }
}
