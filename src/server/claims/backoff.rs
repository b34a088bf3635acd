//! When steps that failed are tried again.
//!
//! The delay grows per volume and step, and is forgotten when the step succeeds or is no longer due. It
//! is not durable: a restart tries everything at once, and the lines of the plugins bound how many.
//! The driver alone changes it; requests read it, and may ask for the next attempt now.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::claim::Step;
use crate::model::RemoteVolume;

/// The failed attempts of one step that waits for its next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAttempts {
    /// How many attempts failed since the step was due.
    pub failed: u32,
    /// When it is tried again, in nanoseconds since the epoch.
    pub next_at: i64,
}

#[derive(Clone, Copy, Debug)]
struct Pause {
    attempts: StepAttempts,
    until: Instant,
    /// Whether its end was reported by [`Backoff::take_due`].
    is_reported: bool,
}

type Pauses = HashMap<RemoteVolume, HashMap<Step, Pause>>;

/// The pauses of all steps. A clone is the same pauses.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    pauses: Arc<Mutex<Pauses>>,
    shortened: Arc<Notify>,
}

impl Backoff {
    fn lock(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the failed attempts of the volume's steps.
    pub(super) fn waiting(&self, volume: &RemoteVolume) -> Vec<(Step, StepAttempts)> {
        let pauses = self.lock();
        let steps = pauses.get(volume).into_iter().flatten();
        let waiting = steps.map(|(step, pause)| (step.clone(), pause.attempts));
        waiting.collect()
    }

    /// Returns when the step is tried again; `None` if it can be tried now.
    pub(super) fn next_attempt(&self, volume: &RemoteVolume, step: &Step) -> Option<Instant> {
        Some(self.lock().get(volume)?.get(step)?.until)
    }

    /// Returns how often the step has failed.
    pub(super) fn failed_attempts(&self, volume: &RemoteVolume, step: &Step) -> u32 {
        let pauses = self.lock();
        let pause = pauses.get(volume).and_then(|steps| steps.get(step));
        pause.map_or(0, |pause| pause.attempts.failed)
    }

    /// Records a failure at the time `now`, in nanoseconds since the epoch. The next attempt is after
    /// `delay`.
    pub(super) fn failed(&self, volume: &RemoteVolume, step: &Step, delay: Duration, now: i64) {
        let failed = self.failed_attempts(volume, step).saturating_add(1);
        let nanoseconds = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let pause = Pause {
            attempts: StepAttempts {
                failed,
                next_at: now.saturating_add(nanoseconds),
            },
            until: Instant::now() + delay,
            is_reported: false,
        };
        let mut pauses = self.lock();
        let steps = pauses.entry(volume.clone()).or_default();
        steps.insert(step.clone(), pause);
    }

    /// Forgets a step that succeeded.
    pub(super) fn succeeded(&self, volume: &RemoteVolume, step: &Step) {
        self.retain_steps(volume, |other| other != step);
    }

    /// Forgets the steps of a volume that are no longer due.
    pub(super) fn retain(&self, volume: &RemoteVolume, due: &BTreeSet<Step>) {
        self.retain_steps(volume, |step| due.contains(step));
    }

    fn retain_steps(&self, volume: &RemoteVolume, is_kept: impl Fn(&Step) -> bool) {
        let mut pauses = self.lock();
        if let Some(steps) = pauses.get_mut(volume) {
            steps.retain(|step, _| is_kept(step));
            if steps.is_empty() {
                pauses.remove(volume);
            }
        }
    }

    /// Forgets all pauses and attempts.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Ends the pauses of a volume, and wakes the driver. The delays go on growing.
    pub(super) fn retry_now(&self, volume: &RemoteVolume) {
        let now = Instant::now();
        let mut pauses = self.lock();
        if let Some(steps) = pauses.get_mut(volume) {
            for pause in steps.values_mut() {
                pause.until = pause.until.min(now);
            }
            self.shortened.notify_one();
        }
    }

    /// Waits until a pause is ended by [`Self::retry_now`].
    pub(super) async fn shortened(&self) {
        self.shortened.notified().await;
    }

    /// Returns the earliest attempt after `now`.
    pub(super) fn earliest_after(&self, now: Instant) -> Option<Instant> {
        let pauses = self.lock();
        let ends = pauses.values().flat_map(HashMap::values);
        ends.map(|pause| pause.until)
            .filter(|until| *until > now)
            .min()
    }

    /// Returns the volumes with a step whose pause has ended since the last call. Each end is reported
    /// once: a step that cannot start then waits for its lane, whose end wakes the driver.
    pub(super) fn take_due(&self, now: Instant) -> Vec<RemoteVolume> {
        let mut pauses = self.lock();
        let mut due = vec![];
        for (volume, steps) in &mut *pauses {
            let ended = steps.values_mut().filter(|pause| pause.until <= now);
            let reported = ended.map(|pause| std::mem::replace(&mut pause.is_reported, true));
            if reported.filter(|was_reported| !was_reported).count() > 0 {
                due.push(volume.clone());
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ExternalId, NodeId, PluginId};

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_until_the_step_succeeds() {
        let volume = RemoteVolume {
            plugin_id: PluginId::new("p"),
            external_id: ExternalId::new("v"),
        };
        let step = Step::NodeStage(NodeId::new("n1"));
        let backoff = Backoff::default();
        let reader = backoff.clone();
        backoff.failed(&volume, &step, Duration::from_secs(1), 100);
        backoff.failed(&volume, &step, Duration::from_secs(2), 100);
        let expected = StepAttempts {
            failed: 2,
            next_at: 2_000_000_100,
        };
        assert_eq!(reader.waiting(&volume), [(step.clone(), expected)]);
        let now = Instant::now();
        assert!(backoff.take_due(now).is_empty());
        reader.retry_now(&volume);
        backoff.shortened().await;
        assert_eq!(backoff.take_due(now), std::slice::from_ref(&volume));
        assert!(backoff.take_due(now).is_empty(), "it was reported");
        assert_eq!(backoff.failed_attempts(&volume, &step), 2);
        backoff.succeeded(&volume, &step);
        assert!(reader.waiting(&volume).is_empty());
    }
}
