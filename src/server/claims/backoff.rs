//! When steps that failed are tried again.
//!
//! The delay grows per volume and step, and is forgotten when the step succeeds or is no longer due. It
//! is not durable: a restart tries everything at once, and the lines of the plugins bound how many.

use std::collections::{BTreeSet, HashMap};

use tokio::time::Instant;

use crate::claim::Step;
use crate::model::RemoteVolume;
use crate::retry::RetryPolicy;

/// The failed attempts of one step.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    failed: u32,
    next: Instant,
}

/// The pauses of all steps.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    steps: HashMap<RemoteVolume, HashMap<Step, Attempts>>,
}

impl Backoff {
    /// Returns when the step is tried again; `None` if it can be tried now.
    pub(super) fn next_attempt(&self, volume: &RemoteVolume, step: &Step) -> Option<Instant> {
        Some(self.steps.get(volume)?.get(step)?.next)
    }

    /// Records a failure.
    pub(super) fn failed(
        &mut self,
        volume: &RemoteVolume,
        step: &Step,
        policy: RetryPolicy,
        jitter: f64,
    ) {
        let steps = self.steps.entry(volume.clone()).or_default();
        let failed = steps.get(step).map_or(0, |attempts| attempts.failed);
        let next = Instant::now() + policy.delay(failed, jitter);
        let failed = failed.saturating_add(1);
        steps.insert(step.clone(), Attempts { failed, next });
    }

    /// Forgets a step that succeeded.
    pub(super) fn succeeded(&mut self, volume: &RemoteVolume, step: &Step) {
        if let Some(steps) = self.steps.get_mut(volume) {
            steps.remove(step);
            if steps.is_empty() {
                self.steps.remove(volume);
            }
        }
    }

    /// Forgets the steps of a volume that are no longer due.
    pub(super) fn retain(&mut self, volume: &RemoteVolume, due: &BTreeSet<Step>) {
        if let Some(steps) = self.steps.get_mut(volume) {
            steps.retain(|step, _| due.contains(step));
            if steps.is_empty() {
                self.steps.remove(volume);
            }
        }
    }

    /// Returns the earliest attempt after `now`.
    pub(super) fn earliest_after(&self, now: Instant) -> Option<Instant> {
        let steps = self.steps.values().flat_map(HashMap::values);
        let attempts = steps.map(|attempts| attempts.next);
        attempts.filter(|next| *next > now).min()
    }

    /// Returns the volumes with a step whose pause has ended.
    pub(super) fn due(&self, now: Instant) -> Vec<RemoteVolume> {
        let volumes = self.steps.iter();
        let due = volumes.filter(|(_, steps)| steps.values().any(|attempts| attempts.next <= now));
        due.map(|(volume, _)| volume.clone()).collect()
    }
}
