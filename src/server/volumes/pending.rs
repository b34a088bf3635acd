//! Creations that did not end, with the agent's attempts to continue them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use nomad_csi_claims::state::{State, VolumeRecord, provider_name};
use nomad_csi_model::{AllocId, NamespacedId};

/// The failed attempts of the agent to continue a creation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CreationAttempts {
    /// How many failed since the agent started.
    pub failed: u32,
    /// When the next one is made, in nanoseconds since the epoch; `None` if only a change of the plugin starts it.
    pub next_at: Option<i64>,
    /// Why the last one failed; `None` before the first one.
    pub problem: Option<String>,
}

/// A creation that did not end.
#[derive(Clone, Debug)]
pub struct PendingCreation {
    /// The volume's record.
    pub record: Arc<VolumeRecord>,
    /// The name of the volume at the provider, if it was created.
    pub provider_name: String,
    /// The attempts to continue it.
    pub attempts: CreationAttempts,
}

/// The pauses of all creations. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(super) struct CreationPauses(Arc<Mutex<BTreeMap<NamespacedId, Pause>>>);

/// The usable controllers of a plugin; `None` if there is none.
pub(super) type Controllers = Option<Vec<AllocId>>;

/// A pause before the next attempt.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    pub(super) attempts: CreationAttempts,
    /// When it ends; `None` if only other controllers end it.
    pub(super) until: Option<Instant>,
    /// The usable controllers when the attempt began.
    pub(super) controllers: Controllers,
}

impl Pause {
    pub(super) fn is_over(&self, now: Instant, controllers: &Controllers) -> bool {
        let is_changed = controllers.is_some() && *controllers != self.controllers;
        is_changed || self.until.is_some_and(|until| until <= now)
    }
}

impl CreationPauses {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<NamespacedId, Pause>> {
        self.0.lock()
    }

    /// Returns the pending creations of the state that are selected.
    pub(super) fn pending(
        &self,
        state: &State,
        is_selected: impl Fn(&NamespacedId) -> bool,
    ) -> Vec<PendingCreation> {
        let pauses = self.lock();
        let selected = state.creating().filter(|record| is_selected(record.key()));
        let pending = selected.map(|record| PendingCreation {
            record: record.clone(),
            provider_name: provider_name(state, record),
            attempts: pauses
                .get(record.key())
                .map(|pause| pause.attempts.clone())
                .unwrap_or_default(),
        });
        pending.collect()
    }
}
