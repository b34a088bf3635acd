//! When attempts that made no progress are made again.
//!
//! The delay grows per volume and attempt, and is forgotten when the attempt succeeds or is no longer due.
//! A pause belongs to its cause: it ends early only if what would carry out the step is available and is
//! not what it was when the attempt began, and no change of another plugin or node ends it (W33). It is
//! not durable: a restart tries everything at once, and the call queues of the plugins bound how many.
//! The driver alone changes it; requests read it, and may ask for the next attempt now.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::step_choice::StepHost;
use nomad_csi_claims::claim::Step;
use nomad_csi_model::RemoteVolume;

/// An attempt of the driver for a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Attempt {
    /// A step.
    Step(Step),
    /// The release of claims that are not used any more.
    Reap,
}

/// The failed attempts of one step that waits for its next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepAttempts {
    /// How many attempts failed since the step was due.
    pub failed: u32,
    /// When it is tried again, in nanoseconds since the epoch; 0 if only a change of the plugin or an operator
    /// starts it.
    pub next_at: i64,
}

/// Why an attempt made no progress, as far as it decides when the next one is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PauseCause {
    /// The host that was to carry out the step; `None` if there was none.
    Host(Option<StepHost>),
    /// Something that only another attempt can find gone.
    Unknown,
}

#[derive(Clone, Debug)]
struct Pause {
    attempts: StepAttempts,
    /// When it ends; `None` if only its cause or an operator ends it.
    until: Option<Instant>,
    cause: PauseCause,
    /// True if its end was reported by [`Backoff::take_due`].
    is_reported: bool,
}

type Pauses = HashMap<RemoteVolume, HashMap<Attempt, Pause>>;

/// The pauses of all attempts. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Backoff {
    pauses: Arc<Mutex<Pauses>>,
    shortened: Arc<Notify>,
}

impl Backoff {
    fn lock(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock()
    }

    /// Returns the failed attempts of the volume's steps.
    pub(super) fn waiting(&self, volume: &RemoteVolume) -> Vec<(Step, StepAttempts)> {
        let pauses = self.lock();
        let attempts = pauses.get(volume).into_iter().flatten();
        let waiting = attempts.filter_map(|(attempt, pause)| match attempt {
            Attempt::Step(step) => Some((step.clone(), pause.attempts)),
            Attempt::Reap => None,
        });
        waiting.collect()
    }

    /// Returns whether the attempt can be made now: it does not pause, its pause has ended, or the cause of its
    /// pause is gone. `host` is what would carry out the step now, asked for only in a pause.
    pub(super) fn is_ready(
        &self,
        volume: &RemoteVolume,
        attempt: &Attempt,
        now: Instant,
        host: impl FnOnce() -> Option<StepHost>,
    ) -> bool {
        let mut pauses = self.lock();
        let Some(attempts) = pauses.get_mut(volume) else {
            return true;
        };
        let Some(pause) = attempts.get(attempt) else {
            return true;
        };
        if pause.until.is_some_and(|until| until <= now) {
            return true;
        }
        let is_over = match (&pause.cause, host()) {
            (PauseCause::Host(before), Some(host)) => before.as_ref() != Some(&host),
            (PauseCause::Host(_), None) | (PauseCause::Unknown, _) => false,
        };
        if is_over {
            attempts.remove(attempt);
        }
        is_over
    }

    /// Returns how often the attempt has failed.
    pub(super) fn failed_attempts(&self, volume: &RemoteVolume, attempt: &Attempt) -> u32 {
        let pauses = self.lock();
        let pause = pauses.get(volume).and_then(|steps| steps.get(attempt));
        pause.map_or(0, |pause| pause.attempts.failed)
    }

    /// Records a failure at the time `now`, in nanoseconds since the epoch. The next attempt is after
    /// `delay`; without one, the cause of the pause or an operator starts it.
    pub(super) fn failed(
        &self,
        volume: &RemoteVolume,
        attempt: &Attempt,
        cause: PauseCause,
        delay: Option<Duration>,
        now: i64,
    ) {
        let failed = self.failed_attempts(volume, attempt).saturating_add(1);
        let nanoseconds = |delay: Duration| i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
        let next_at = delay.map(|delay| now.saturating_add(nanoseconds(delay)));
        let pause = Pause {
            attempts: StepAttempts { failed, next_at: next_at.unwrap_or_default() },
            until: delay.map(|delay| Instant::now() + delay),
            cause,
            is_reported: false,
        };
        let mut pauses = self.lock();
        let attempts = pauses.entry(volume.clone()).or_default();
        attempts.insert(attempt.clone(), pause);
    }

    /// Forgets an attempt that succeeded.
    pub(super) fn succeeded(&self, volume: &RemoteVolume, attempt: &Attempt) {
        self.retain_attempts(volume, |other| other != attempt);
    }

    /// Forgets the attempts for a volume that are no longer due.
    pub(super) fn retain(&self, volume: &RemoteVolume, due: &BTreeSet<Step>, is_reaped: bool) {
        self.retain_attempts(volume, |attempt| match attempt {
            Attempt::Step(step) => due.contains(step),
            Attempt::Reap => is_reaped,
        });
    }

    fn retain_attempts(&self, volume: &RemoteVolume, is_kept: impl Fn(&Attempt) -> bool) {
        let mut pauses = self.lock();
        if let Some(attempts) = pauses.get_mut(volume) {
            attempts.retain(|attempt, _| is_kept(attempt));
            if attempts.is_empty() {
                pauses.remove(volume);
            }
        }
    }

    /// Ends the pauses of a volume, and wakes the driver. The delays go on growing.
    pub(super) fn retry_now(&self, volume: &RemoteVolume) {
        let now = Instant::now();
        let mut pauses = self.lock();
        if let Some(attempts) = pauses.get_mut(volume) {
            for pause in attempts.values_mut() {
                pause.until = Some(pause.until.map_or(now, |until| until.min(now)));
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
        ends.filter_map(|pause| pause.until).filter(|until| *until > now).min()
    }

    /// Returns the volumes with an attempt whose pause has ended since the last call. Each end is reported
    /// once: a step that cannot start then waits for its call lock, whose end wakes the driver.
    pub(super) fn take_due(&self, now: Instant) -> Vec<RemoteVolume> {
        let mut pauses = self.lock();
        let mut due = vec![];
        for (volume, attempts) in &mut *pauses {
            let ended =
                attempts.values_mut().filter(|pause| pause.until.is_some_and(|until| until <= now));
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
    use nomad_csi_model::{ExternalId, NodeId, PluginId};

    #[tokio::test(start_paused = true)]
    async fn attempts_are_counted_until_the_step_succeeds() {
        let volume =
            RemoteVolume { plugin_id: PluginId::new("p"), external_id: ExternalId::new("v") };
        let step = Step::NodeStage(NodeId::new("n1"));
        let backoff = Backoff::default();
        let reader = backoff.clone();
        let attempt = Attempt::Step(step.clone());
        let cause = || PauseCause::Unknown;
        backoff.failed(&volume, &attempt, cause(), Some(Duration::from_secs(1)), 100);
        backoff.failed(&volume, &attempt, cause(), Some(Duration::from_secs(2)), 100);
        let expected = StepAttempts { failed: 2, next_at: 2_000_000_100 };
        assert_eq!(reader.waiting(&volume), [(step.clone(), expected)]);
        let now = Instant::now();
        assert!(backoff.take_due(now).is_empty());
        reader.retry_now(&volume);
        backoff.shortened().await;
        assert_eq!(backoff.take_due(now), std::slice::from_ref(&volume));
        assert!(backoff.take_due(now).is_empty(), "it was reported");
        assert_eq!(backoff.failed_attempts(&volume, &attempt), 2);
        backoff.succeeded(&volume, &attempt);
        assert!(reader.waiting(&volume).is_empty());
    }
}
