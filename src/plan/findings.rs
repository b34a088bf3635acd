//! What a plan finds out for the ledger, beside what it is about to change.
//!
//! An apply writes it down before its first call: volumes that are as a file wants them belong to the
//! set from then on; those that were to go and are gone no longer do; protection is as the files say
//! it, and as it was where they say nothing. A step that an earlier run began and never ended is
//! closed by what was read: of a volume that is about to be changed the change itself does that, of
//! any other only its hidden values stay doubtful. What is written says what shall hold, so that it
//! can be written again.

use std::collections::HashSet;

use super::action::{Action, Plan, Planned};
use super::inputs::Observed;
use super::ledger::{LedgerSet, SeenEqual};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::NamespacedId;

/// A sentence's worth of news for the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The volume is as a file wants it, and was not the set's before.
    TakenIn,
    /// The volume was the set's, no file names it, and it is gone.
    Gone,
    /// From now on it may not be removed.
    Protected,
    /// From now on it may be removed.
    Unprotected,
}

/// What is new to the ledger, by volume, in the plan's order.
pub fn findings(plan: &Plan, set: &LedgerSet) -> Vec<(NamespacedId, Finding)> {
    let unchanged = plan.volumes.iter().filter(is_unchanged);
    unchanged
        .flat_map(|planned| {
            let key = &planned.key;
            news(planned, set).map(move |finding| (key.clone(), finding))
        })
        .collect()
}

fn news(planned: &Planned, set: &LedgerSet) -> impl Iterator<Item = Finding> {
    let owned = set.ownership(&planned.key);
    let was_protected = owned.is_some_and(|owned| owned.protect);
    let membership = match (&planned.spec, owned) {
        (Some(_), None) => Some(Finding::TakenIn),
        (None, Some(_)) => Some(Finding::Gone),
        (Some(_), Some(_)) | (None, None) => None,
    };
    let wanted = planned.spec.as_ref().and_then(|spec| spec.protect);
    let protection = match wanted {
        Some(true) if !was_protected => Some(Finding::Protected),
        Some(false) if was_protected => Some(Finding::Unprotected),
        Some(_) | None => None,
    };
    membership.into_iter().chain(protection)
}

fn is_unchanged(planned: &&Planned) -> bool {
    planned.action == Action::Unchanged
}

/// Writes down what a plan found.
pub fn note_findings(set: &mut LedgerSet, plan: &Plan, observed: &Observed, at: i64) {
    for planned in plan.volumes.iter().filter(is_unchanged) {
        let key = &planned.key;
        let found = observed.volumes.get(key);
        match (&planned.spec, found) {
            (Some(spec), Some(volume)) => {
                close(set, key);
                set.record_found(&spec.request, volume);
                if let Some(owned) = set.ownership_mut(key) {
                    owned.protect = spec.protect.unwrap_or(owned.protect);
                    owned.seen_equal = Some(SeenEqual {
                        modify_index: volume.modify_index,
                        at,
                    });
                }
            }
            (None, None) => {
                set.forget(key);
                set.settle(key);
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
    }
    let planned: HashSet<&NamespacedId> = plan.volumes.iter().map(|planned| &planned.key).collect();
    let strangers: Vec<NamespacedId> = set
        .intents()
        .filter(|(key, _)| !planned.contains(key))
        .map(|(key, _)| key.clone())
        .collect();
    for key in &strangers {
        close(set, key);
    }
}

/// A step that nobody ended counts as ended; what it may have written and nobody can see is not
/// known any more.
fn close(set: &mut LedgerSet, key: &NamespacedId) {
    if set
        .intent(key)
        .is_some_and(|open| open.step.writes_values())
    {
        set.doubt_hidden(key);
    }
    set.settle(key);
}

/// What earlier runs began and did not end, with what is there now.
pub fn unfinished(set: &LedgerSet, observed: &Observed) -> Vec<Diagnostic> {
    let told = set.intents().map(|(key, intent)| {
        let message = format!(
            "volume {key}: an earlier run began to {} it, and did not record how that ended",
            intent.step.as_str()
        );
        let there = match observed.volumes.get(key) {
            Some(volume) => format!("the volume is there, at index {}", volume.modify_index),
            None => "there is no such volume".to_owned(),
        };
        Diagnostic::warning(Code::LedgerUnfinished, message)
            .note(format!("it was begun by {}", intent.by))
            .note(there)
            .help(Code::LedgerUnfinished.remedy())
    });
    told.collect()
}

#[cfg(test)]
mod tests;
