//! Volumes that shall go, or go and come again.
//!
//! There are three ways, and each needs its word: `--prune` deregisters what the set owns and no
//! file names, and never takes data; `--delete-data ID` takes the data of that one volume;
//! `--replace ID` removes that one and makes it anew. What is protected stays. Somebody who uses the
//! volume is waited for; one whose data is also another registration's is left alone (`users` 4).

use std::collections::BTreeSet;

use super::action::{Action, Planned, Replace, ReplaceSteps, Wait};
use super::inputs::{Inputs, OwnedVolume};
use super::pin::Pin;
use super::precondition::{Needs, plugin_problem};
use super::removal::{Removal, claimed, holders_in_the_way, shared};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{NamespacedId, Volume, WantedRequest};
use crate::spec::VolumeSpec;

/// Entries for the volumes that shall go although no file names them, by name.
pub(super) fn removed(named: &BTreeSet<NamespacedId>, inputs: &Inputs<'_>) -> Vec<Planned> {
    let owned = inputs.owned.filter(|_| inputs.requests.prune);
    let pruned = owned.into_iter().flat_map(|owned| owned.volumes.keys());
    let going: BTreeSet<&NamespacedId> = pruned
        .chain(&inputs.requests.delete_data)
        .filter(|key| !named.contains(key))
        .collect();
    going.into_iter().map(|key| gone(key, inputs)).collect()
}

fn gone(key: &NamespacedId, inputs: &Inputs<'_>) -> Planned {
    let existing = inputs.observed.volumes.get(key);
    let removal = if inputs.requests.delete_data.contains(key) {
        Removal::Delete
    } else {
        Removal::Deregister { force: false }
    };
    let action = existing.map_or(Action::Unchanged, |volume| remove(volume, removal, inputs));
    Planned {
        key: key.clone(),
        spec: None,
        action,
        pin: Pin::of(existing),
        stakes: None,
        depends_on: vec![],
        warnings: vec![],
    }
}

fn remove(volume: &Volume, removal: Removal, inputs: &Inputs<'_>) -> Action {
    match obstacle(volume, removal, inputs) {
        Some(obstacle) => obstacle,
        None => match removal {
            Removal::Delete => Action::DeleteData,
            Removal::Deregister { .. } => Action::Deregister,
        },
    }
}

/// What stands against a removal: what would do harm first, then who has to stop.
fn obstacle(volume: &Volume, removal: Removal, inputs: &Inputs<'_>) -> Option<Action> {
    let mut problems: Vec<_> = protected(volume, inputs).into_iter().collect();
    let holders = holders_in_the_way(volume, removal);
    if removal == Removal::Delete {
        problems.extend(shared(volume, &inputs.observed.registered));
    }
    let in_use = (!holders.is_empty()).then(|| claimed(volume, &holders, removal));
    if !problems.is_empty() {
        problems.extend(in_use);
        return Some(Action::Blocked(problems));
    }
    in_use.map(|reason| {
        Action::Waits(Wait {
            reasons: vec![reason],
            holders,
        })
    })
}

fn protected(volume: &Volume, inputs: &Inputs<'_>) -> Option<Diagnostic> {
    let owned = inputs.owned?;
    let key = volume.key();
    let is_protected = |entry: &OwnedVolume| entry.protect;
    owned
        .volumes
        .get(&key)
        .filter(|entry| is_protected(entry))?;
    let message = format!("volume {key} is not removed: set {} protects it", owned.set);
    Some(
        Diagnostic::error(Code::PlanProtected, message)
            .note("the protection stands in the ledger, where the last apply wrote it")
            .help(
                "apply it once with `protect = false`, or give it up with `forget`; then remove it",
            ),
    )
}

/// Removes a volume and makes it anew: the data goes if the provider makes the new one, and stays if
/// another of the provider's volumes is registered in its place.
pub(super) fn replaced(spec: &VolumeSpec, existing: &Volume, inputs: &Inputs<'_>) -> Action {
    let creates = inputs.purpose.creates(spec);
    let (steps, removal, needs) = if creates {
        let steps = ReplaceSteps::DeleteThenCreate;
        (steps, Removal::Delete, Needs::Create)
    } else {
        let steps = ReplaceSteps::DeregisterThenRegister;
        let removal = Removal::Deregister { force: false };
        (steps, removal, Needs::Registration)
    };
    if let Some(problem) = plugin_problem(spec, inputs.observed, needs) {
        return Action::Blocked(vec![problem]);
    }
    if let Some(obstacle) = obstacle(existing, removal, inputs) {
        return obstacle;
    }
    let request: WantedRequest = spec.request.clone();
    Action::Replace(Box::new(Replace {
        snapshot_first: inputs.requests.snapshot_first,
        steps,
        request,
    }))
}

#[cfg(test)]
mod tests;
