//! The ledger changes that follow from a plan without a change on the server.
//!
//! An apply records them before its first call. The set owns every volume that is as its file wants
//! it. The set releases a removed volume that no longer exists. Protection follows the file, or stays
//! if the file does not specify it. The step of an interrupted run is closed by the current state of
//! the volume; its hidden values count as unknown until they are written again. The data of a volume
//! is recorded when it is first read, and recorded data stays. Recording twice has the same result, and
//! recording the same again within a day changes nothing.

use std::collections::{BTreeMap, HashSet};

use super::action::{Action, Plan, PlannedVolume};
use super::inputs::ObservedState;
use super::ledger::{DataIdentity, IntentStep, LastVerified, LedgerSet, RecordedData, StoredValue};
use super::unread::{CachedMergeRules, inputs_of_unchanged};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, Secrets};

/// Up to this number, the volumes of a warning are named.
const NAMED_VOLUMES: usize = 10;

/// A change of what a set owns or protects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnershipChange {
    /// The set newly owns the volume, which is as its file wants it.
    Adopted,
    /// The set releases the volume: no file names it and it no longer exists.
    Gone,
    /// The volume is newly protected.
    Protected,
    /// The volume is no longer protected.
    Unprotected,
}

/// Returns the ownership changes of a plan, in the plan's order.
pub fn ownership_changes(plan: &Plan, set: &LedgerSet) -> Vec<(NamespacedId, OwnershipChange)> {
    let unchanged = plan.volumes.iter().filter(is_unchanged);
    unchanged
        .flat_map(|planned| {
            let key = &planned.key;
            changes_of(planned, set).map(move |change| (key.clone(), change))
        })
        .collect()
}

fn changes_of(planned: &PlannedVolume, set: &LedgerSet) -> impl Iterator<Item = OwnershipChange> {
    let owned = set.ownership(&planned.key);
    let was_protected = owned.is_some_and(|owned| owned.protect);
    let membership = match (&planned.spec, owned) {
        (Some(_), None) => Some(OwnershipChange::Adopted),
        (None, Some(_)) => Some(OwnershipChange::Gone),
        (Some(_), Some(_)) | (None, None) => None,
    };
    let desired = planned.spec.as_ref().and_then(|spec| spec.protect);
    let protection = match desired {
        Some(true) if !was_protected => Some(OwnershipChange::Protected),
        Some(false) if was_protected => Some(OwnershipChange::Unprotected),
        Some(_) | None => None,
    };
    membership.into_iter().chain(protection)
}

fn is_unchanged(planned: &&PlannedVolume) -> bool {
    planned.action == Action::Unchanged
}

/// Returns whether a set takes the secrets of a planned volume as they are in its file. No server shows secrets, so
/// those of a volume that others made cannot be compared. Their hash is recorded, and a later change in the
/// file is sent. Not after an interrupted step, which may have written other secrets.
pub fn takes_secrets(planned: &PlannedVolume, set: &LedgerSet) -> bool {
    let secrets = planned.spec.as_ref();
    let secrets = secrets.and_then(|spec| spec.request.secrets.as_ref());
    planned.action == Action::Unchanged
        && secrets.is_some_and(|secrets| !secrets.is_empty())
        && !knows_secrets(set, &planned.key)
        && set.intent(&planned.key).is_none()
}

/// Returns whether a set records the secrets that a volume was last given.
fn knows_secrets(set: &LedgerSet, volume: &NamespacedId) -> bool {
    let owned = set.ownership(volume);
    owned.is_some_and(|owned| set.applied_values(volume, owned).secrets() != StoredValue::Unknown)
}

/// Records in the ledger what a plan observed. `assumed_secrets` are those of the volumes for which
/// [`takes_secrets`]. `cached_rules` are the rules of the server if the set notes
/// which volumes a plan left unchanged.
pub fn record_observations(
    set: &mut LedgerSet,
    plan: &Plan,
    observed: &ObservedState,
    assumed_secrets: &BTreeMap<NamespacedId, Secrets>,
    at: i64,
    cached_rules: Option<&CachedMergeRules>,
) {
    let created = interrupted_creates(set);
    for planned in plan.volumes.iter().filter(is_unchanged) {
        let key = &planned.key;
        let found = observed.volumes.get(key);
        match (&planned.spec, found) {
            (Some(spec), Some(volume)) => {
                close_intent(set, key);
                set.record_found(&spec.request, volume);
                if let Some(secrets) = assumed_secrets.get(key) {
                    set.record_secrets(key, secrets);
                }
                let verified = LastVerified {
                    spec_index: volume.spec_index,
                    at,
                    plan_inputs: cached_rules
                        .and_then(|rules| inputs_of_unchanged(set, spec, volume, rules)),
                };
                if let Some(owned) = set.ownership_mut(key) {
                    owned.protect = spec.protect.unwrap_or(owned.protect);
                    owned.last_verified = Some(verified.after(owned.last_verified));
                }
            }
            (Some(spec), None) => {
                if let (Some(protect), Some(owned)) = (spec.protect, set.ownership_mut(key))
                    && observed.unread.contains_key(key)
                {
                    owned.protect = protect;
                }
            }
            (None, None) => {
                set.forget(key);
                set.clear_intent(key);
            }
            (None, Some(_)) => {}
        }
    }
    let planned: HashSet<&NamespacedId> = plan.volumes.iter().map(|planned| &planned.key).collect();
    let unplanned: Vec<NamespacedId> = set
        .intents()
        .filter(|(key, _)| !planned.contains(key))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &unplanned {
        close_intent(set, key);
    }
    record_data(set, &created, observed);
}

/// Returns the volumes whose create was interrupted, so that the volume on the server is its result.
fn interrupted_creates(set: &LedgerSet) -> HashSet<NamespacedId> {
    let open = set.intents();
    let creates = open.filter(|(_, intent)| intent.step == IntentStep::Create);
    creates.map(|(key, _)| key.clone()).collect()
}

/// Records the data of every owned volume that was read and whose data is not recorded. Recorded data
/// stays, unless a create of the set was interrupted.
fn record_data(set: &mut LedgerSet, created: &HashSet<NamespacedId>, observed: &ObservedState) {
    for (key, volume) in &observed.volumes {
        let data = DataIdentity::of(volume);
        if created.contains(key) {
            set.replace_data(key, RecordedData::Stored(data));
        } else {
            set.fill_in_data(key, data);
        }
    }
}

/// Returns whether the set owns a volume that was read and whose data is not recorded.
pub fn has_unrecorded_data(set: &LedgerSet, observed: &ObservedState) -> bool {
    observed.volumes.keys().any(|key| {
        let owned = set.ownership(key);
        owned.is_some_and(|owned| owned.data.identity().is_none())
    })
}

/// Closes an interrupted step. Hidden values that it may have written become unknown.
fn close_intent(set: &mut LedgerSet, key: &NamespacedId) {
    if set.intent(key).is_some_and(|open| open.step.writes_values()) {
        set.mark_hidden_unknown(key);
    }
    set.clear_intent(key);
}

/// Warns about the steps that earlier runs did not complete, once per run and kind of step.
pub fn interrupted_step_warnings(set: &LedgerSet, observed: &ObservedState) -> Vec<Diagnostic> {
    let mut runs: BTreeMap<(IntentStep, String), Vec<&NamespacedId>> = BTreeMap::new();
    for (key, intent) in set.intents() {
        let run = (intent.step, intent.by.to_string());
        runs.entry(run).or_default().push(key);
    }
    let warnings = runs.iter().map(|((step, by), volumes)| match volumes[..] {
        [volume] => interrupted_step(*step, by, volume, observed),
        _ => interrupted_steps(*step, by, volumes, observed),
    });
    warnings.collect()
}

fn interrupted_step(
    step: IntentStep,
    by: &str,
    volume: &NamespacedId,
    observed: &ObservedState,
) -> Diagnostic {
    let message = format!(
        "an earlier run did not complete the {} of volume {}",
        step.noun(),
        volume.quoted()
    );
    let state = match observed.volumes.get(volume) {
        Some(volume) => format!("the volume exists, at index {}", volume.spec_index),
        None => "the volume does not exist".to_owned(),
    };
    Diagnostic::warning(Code::LedgerInterrupted, message)
        .note(format!("{by} started it"))
        .note(state)
        .help(Code::LedgerInterrupted.advice())
}

fn interrupted_steps(
    step: IntentStep,
    by: &str,
    volumes: &[&NamespacedId],
    observed: &ObservedState,
) -> Diagnostic {
    let message =
        format!("an earlier run did not complete the {} of {} volumes", step.noun(), volumes.len());
    let warning = Diagnostic::warning(Code::LedgerInterrupted, message);
    let (exist, gone): (Vec<_>, Vec<_>) =
        volumes.iter().partition(|volume| observed.volumes.contains_key(**volume));
    let states = [("exist", exist), ("do not exist", gone)];
    let states = states.iter().filter(|(_, volumes)| !volumes.is_empty());
    states
        .fold(warning.note(format!("{by} started them")), |warning, (state, volumes)| {
            warning.note(format!("these {state}: {}", names(volumes)))
        })
        .help(Code::LedgerInterrupted.advice())
}

/// Names volumes, the first of many.
fn names(volumes: &[&NamespacedId]) -> String {
    let named = volumes.iter().take(NAMED_VOLUMES);
    let named: Vec<String> = named.map(ToString::to_string).collect();
    match volumes.len().saturating_sub(NAMED_VOLUMES) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests;
