//! Records steps in a set of the ledger, many per write ([`super::ledger_queue`]).
//!
//! A step starts only after its record is written. Its result is written before the next step of the same
//! worker starts. A record states what must hold, so it can be repeated on what another command wrote.
//!
//! A write costs as much as the shards that it changes. So the volumes of one shard are worked on together
//! if there are many.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;

use super::ledger::SetLedger;
use super::ledger_queue::{Burst, Change, LedgerQueue, QueuedUpdates, ledger_queue};
use super::lock_renewal::{LockState, is_held};
use super::record::{Record, Recorded};
use super::resolve::Resolved;
use crate::ports::LedgerError;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, Volume, VolumeRequest};
use nomad_csi_plan::{
    Action, Actor, CachedMergeRules, DataIdentity, HiddenField, Intent, IntentStep, LastVerified,
    LedgerSet, MergeRules, ObservedState, OmittedMap, Ownership, Plan, PlannedVolume, RecordedData,
    VolumeVersion, inputs_of_unchanged, record_observations, shard_order,
};
use nomad_csi_ports::Clock;
use nomad_csi_spec::VolumeSpec;

/// A plan of more volumes is carried out in the order of the shards.
const LARGEST_IN_PLAN_ORDER: usize = 100;

/// Queues updates of a set.
pub(super) struct LedgerWriter {
    queue: LedgerQueue,
    by: Actor,
    clock: Arc<dyn Clock>,
    rules: MergeRules,
    /// The rules of the server, if the set notes which volumes a plan leaves unchanged.
    cached_rules: Option<CachedMergeRules>,
    scope: RecordedScope,
    desired: HashMap<NamespacedId, Arc<Desired>>,
    /// The lock of the set; `None` if it has none.
    lock: Option<watch::Receiver<LockState>>,
}

/// The request of a plan for a volume's entry in the set.
#[derive(Debug, Default)]
struct Desired {
    /// The specification of a volume that is changed.
    spec: Option<VolumeSpec>,
    protect: Option<bool>,
    /// The record of the set when the volume is removed.
    removal: RecordedRemoval,
    /// No hidden values exist from before.
    is_new: bool,
    /// Hidden values whose loss is accepted.
    cleared_fields: Vec<HiddenField>,
    /// Fields that the request has and the file omits. They are not applied values.
    filled_in: Vec<&'static str>,
}

/// The record of a set when a plan removes a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RecordedRemoval {
    /// The set no longer owns it.
    #[default]
    Released,
    /// The set owns the volume that is made in its place.
    Replaced,
    /// The set owns it: only a registration of other data was removed.
    Kept,
}

impl RecordedRemoval {
    fn of(action: &Action) -> Self {
        match action {
            Action::Replace(_) => Self::Replaced,
            Action::RegisterAgain(_) => Self::Kept,
            Action::Unchanged
            | Action::Create(_)
            | Action::Register(_)
            | Action::Recreate(_)
            | Action::Update(_)
            | Action::Expand(_)
            | Action::Deregister
            | Action::DeleteData
            | Action::WaitingForClaims(_)
            | Action::Blocked(_) => Self::Released,
        }
    }
}

impl LedgerWriter {
    /// Returns a writer for a plan's steps, of which `parallelism` are taken at the same time, and what it
    /// queues for [`super::ledger_queue::write_updates`].
    pub(super) fn new(
        plan: &Plan,
        parallelism: usize,
        rules: MergeRules,
        scope: RecordedScope,
        by: Actor,
        clock: Arc<dyn Clock>,
    ) -> (Self, QueuedUpdates) {
        let burst = if plan.volumes.len() > LARGEST_IN_PLAN_ORDER {
            Burst::Many(parallelism)
        } else {
            Burst::Few
        };
        let (queue, queued) = ledger_queue(burst);
        let desired = plan.volumes.iter().map(|planned| {
            let removal = RecordedRemoval::of(&planned.action);
            let is_removed = removal != RecordedRemoval::Released;
            let changed = planned.spec.as_ref().filter(|_| !planned.is_unchanged());
            let desired = Desired {
                spec: changed.cloned(),
                protect: planned.spec.as_ref().and_then(|spec| spec.protect),
                removal,
                is_new: is_removed || planned.expected_version == VolumeVersion::Absent,
                cleared_fields: planned
                    .action
                    .update()
                    .map(|update| update.cleared_fields.clone())
                    .unwrap_or_default(),
                filled_in: filled_in(planned),
            };
            (planned.key.clone(), Arc::new(desired))
        });
        let writer = Self {
            queue,
            by,
            clock,
            rules,
            cached_rules: None,
            scope,
            desired: desired.collect(),
            lock: None,
        };
        (writer, queued)
    }

    /// Begins to record the plan in the set, whose lock the caller holds: records what the plan observed, and starts
    /// steps only while the lock is held. `saved_plan` is the ID of the plan if it was saved.
    ///
    /// # Errors
    /// If the ledger cannot be written.
    pub(super) async fn begin(
        mut self,
        set: &mut SetLedger,
        plan: &Plan,
        observed: &ObservedState,
        resolved: &Resolved,
        saved_plan: Option<&str>,
    ) -> Result<Self, LedgerError> {
        let now = self.clock.now();
        self.cached_rules = set.is_on_server().then(|| CachedMergeRules::of(self.rules));
        set.update(|set| {
            let rules = self.cached_rules.as_ref();
            record_observations(set, plan, observed, resolved.assumed_secrets(), now, rules);
            if let Some(id) = saved_plan {
                set.record_plan(id, now);
            }
        })
        .await?;
        self.lock = set.lock_state();
        Ok(self)
    }

    /// Waits until it is certain that the lock is held.
    async fn require_lock(&self, volume: &NamespacedId) -> Result<(), Diagnostic> {
        match &self.lock {
            Some(lock) if !is_held(lock).await => {
                let message = format!(
                    "volume {} was not changed: the lock of its set was lost",
                    volume.quoted()
                );
                Err(Diagnostic::error(Code::LedgerLockLost, message))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn desired(&self, volume: &NamespacedId) -> Arc<Desired> {
        self.desired.get(volume).cloned().unwrap_or_default()
    }

    fn applied(&self, request: VolumeRequest, now: Option<&Volume>) -> Change {
        let volume = request.key();
        let desired = self.desired(&volume);
        let is_new = desired.is_new;
        let mut none = none_left(&request, now, is_new, self.rules);
        none.extend(&desired.cleared_fields);
        let scope = self.scope;
        let data = applied_data(&request, now, is_new);
        let at = self.clock.now();
        let now = now.cloned();
        let cached_rules = self.cached_rules.clone();
        Box::new(move |set| {
            match scope {
                RecordedScope::WholeRequest => set.record_applied(&request),
                RecordedScope::SizeOnly => set.record_size(&request),
            }
            for field in &none {
                set.record_cleared(&volume, *field);
            }
            match (data.clone(), is_new) {
                (data, true) => set.replace_data(&volume, data),
                (RecordedData::Stored(data), false) => set.fill_in_data(&volume, data),
                (RecordedData::Unrecorded | RecordedData::Removed, false) => {}
            }
            if let Some(owned) = set.ownership_mut(&volume) {
                for field in &desired.filled_in {
                    owned.applied.remove(*field);
                }
                owned.protect = desired.protect.unwrap_or(owned.protect);
            }
            set.clear_intent(&volume);
            let verified = now.as_ref().map(|now| LastVerified {
                spec_index: now.spec_index,
                at,
                plan_inputs: cached_rules
                    .as_ref()
                    .zip(desired.spec.as_ref())
                    .and_then(|(rules, spec)| inputs_of_unchanged(set, spec, now, rules)),
            });
            match (scope, set.ownership_mut(&volume)) {
                (RecordedScope::WholeRequest, Some(owned)) => owned.last_verified = verified,
                (RecordedScope::SizeOnly, _) | (_, None) => {}
            }
        })
    }

    fn removed(&self, volume: NamespacedId) -> Change {
        let removal = self.desired(&volume).removal;
        Box::new(move |set| {
            let generation = set.ownership(&volume).map(|owned| owned.generation);
            match (removal, generation) {
                (RecordedRemoval::Replaced, Some(generation)) => set.own(
                    volume.clone(),
                    Ownership {
                        generation: generation.saturating_add(1),
                        data: RecordedData::Removed,
                        ..Ownership::default()
                    },
                ),
                (RecordedRemoval::Kept, _) => {}
                (RecordedRemoval::Replaced, None) | (RecordedRemoval::Released, _) => {
                    set.forget(&volume);
                }
            }
            set.clear_intent(&volume);
        })
    }
}

/// Returns the fields of data that is registered again and that the file omits.
fn filled_in(planned: &PlannedVolume) -> Vec<&'static str> {
    let (Action::RegisterAgain(_), Some(spec)) = (&planned.action, &planned.spec) else {
        return vec![];
    };
    let fields = [
        (spec.request.external_id.is_none(), "external_id"),
        (spec.request.context.is_none(), "context"),
    ];
    let omitted = fields.into_iter().filter(|(is_omitted, _)| *is_omitted);
    omitted.map(|(_, field)| field).collect()
}

/// Returns the data that a volume has after a request. A new volume that could not be read back has the
/// data that its request names, or unrecorded data.
fn applied_data(request: &VolumeRequest, now: Option<&Volume>, is_new: bool) -> RecordedData {
    if let Some(volume) = now {
        return RecordedData::Stored(DataIdentity::of(volume));
    }
    let named = DataIdentity::of_registration(request).filter(|_| is_new);
    named.map_or(RecordedData::Unrecorded, RecordedData::Stored)
}

/// Returns the hidden values that a volume no longer has, because the request does not give them.
fn none_left(
    request: &VolumeRequest,
    now: Option<&Volume>,
    is_new: bool,
    rules: MergeRules,
) -> Vec<HiddenField> {
    let wiped = rules.omitted_secrets == OmittedMap::Clear;
    let secrets = request.secrets.is_none() && (is_new || wiped);
    // A server that hides mount flags shows whether any exist.
    let has_flags = |volume: &Volume| {
        let options = volume.mount_options.as_ref();
        options.is_some_and(|options| !options.mount_flags.is_empty())
    };
    let flags = request.mount_options.is_none() && now.is_some_and(|volume| !has_flags(volume));
    let fields = [(secrets, HiddenField::Secrets), (flags, HiddenField::MountFlags)];
    let none = fields.into_iter().filter(|(is_none, _)| *is_none);
    none.map(|(_, field)| field).collect()
}

#[async_trait]
impl Record for LedgerWriter {
    fn order(&self, volume: &NamespacedId) -> u64 {
        if self.desired.len() > LARGEST_IN_PLAN_ORDER { shard_order(volume) } else { 0 }
    }

    async fn begin(&self, volume: &NamespacedId, step: IntentStep) -> Result<(), Diagnostic> {
        let intent = Intent { step, since: self.clock.now(), by: self.by.clone() };
        let key = volume.clone();
        let change =
            Box::new(move |set: &mut LedgerSet| set.record_intent(key.clone(), intent.clone()));
        self.require_lock(volume).await?;
        self.queue.write(change).await.map_err(|error| {
            error.diagnostic().note(format!(
                "volume {volume} was not changed: each step must be recorded in the ledger first",
                volume = volume.quoted()
            ))
        })?;
        // The write may have waited for the server.
        self.require_lock(volume).await
    }

    async fn end(&self, volume: &NamespacedId, what: Recorded<'_>) -> Result<(), Diagnostic> {
        let key = volume.clone();
        let change = match what {
            Recorded::Applied { request, now } => self.applied(request.clone(), now),
            Recorded::Removed => self.removed(key),
            Recorded::Nothing => Box::new(move |set: &mut LedgerSet| {
                set.clear_intent(&key);
            }),
        };
        let queued = self.queue.write_later(volume.clone(), change).await;
        queued.map_err(|error| unwritten_result(volume, error))
    }
}

/// Returns the warning about a result that is not in the ledger.
pub(super) fn unwritten_result(volume: &NamespacedId, error: LedgerError) -> Diagnostic {
    let message =
        format!("the result for volume {} is not recorded in the ledger", volume.quoted());
    Diagnostic::warning(error.code, message)
        .note(error.message)
        .help("run the command again; it records the current state")
}

/// The part of a request that a set records as applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordedScope {
    /// All of it: a file declares it.
    WholeRequest,
    /// Its size. The rest is what the server had, so drift of other fields stays visible.
    SizeOnly,
}
