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
use super::precondition::{Needs, missing_maximum, plugin_problem, present_plugin_problem};
use super::removal::{Removal, claimed, holders_in_the_way, shared};
use crate::diagnostic::{Code, Diagnostic, nearest};
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
    let is_missing = existing.is_none() && removal == Removal::Delete;
    Planned {
        key: key.clone(),
        spec: None,
        action,
        pin: Pin::of(existing),
        stakes: None,
        depends_on: vec![],
        warnings: is_missing
            .then(|| not_there(key, inputs))
            .into_iter()
            .collect(),
    }
}

/// It may have been deleted before, or somebody mistyped.
fn not_there(key: &NamespacedId, inputs: &Inputs<'_>) -> Diagnostic {
    let message =
        format!("there is no data of volume {key} to delete: the server has no such volume");
    let warning = Diagnostic::warning(Code::VolumeNotFound, message);
    let registered = &inputs.observed.registered;
    let elsewhere = registered.iter().find(|volume| volume.id == key.id);
    if let Some(elsewhere) = elsewhere {
        let place = &elsewhere.namespace;
        return warning.help(format!(
            "namespace {place} has one; if it is meant: `--delete-data {place}/{}`",
            key.id
        ));
    }
    let ids = registered
        .iter()
        .filter(|volume| volume.namespace == key.namespace)
        .map(|volume| volume.id.as_str());
    match nearest(key.id.as_str(), ids) {
        Some(similar) => warning.help(format!("there is a volume {similar}; is it meant?")),
        None => warning.help("nothing is to be done if it was deleted before"),
    }
}

fn remove(volume: &Volume, removal: Removal, inputs: &Inputs<'_>) -> Action {
    let unable = match removal {
        Removal::Delete => present_plugin_problem(volume, None, inputs.observed, Needs::Deletion),
        Removal::Deregister { .. } => None,
    };
    if let Some(problem) = unable {
        return Action::Blocked(vec![problem]);
    }
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
    Some(protected_by(&key, &owned.set))
}

/// A set keeps a volume, until somebody says otherwise.
pub fn protected_by(key: &NamespacedId, set: &str) -> Diagnostic {
    let message = format!("volume {key} is not removed: set {set} protects it");
    Diagnostic::error(Code::PlanProtected, message)
        .note("the protection stands in the ledger, where the last apply wrote it")
        .help("apply it once with `protect = false`, or give it up with `forget`; then remove it")
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
    let problems = unable(spec, existing, needs, inputs);
    if !problems.is_empty() {
        return Action::Blocked(problems);
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

/// What the server and the plugins cannot do: that of the file make the new volume, that of the old
/// one let go of it.
fn unable(
    spec: &VolumeSpec,
    existing: &Volume,
    needs: Needs,
    inputs: &Inputs<'_>,
) -> Vec<Diagnostic> {
    let is_create = needs == Needs::Create;
    let size = is_create
        .then(|| missing_maximum(spec, inputs.rules, true))
        .flatten();
    let problem = plugin_problem(spec, inputs.observed, needs).into_iter();
    let mut problems: Vec<_> = problem.chain(size).collect();
    let snapshot = inputs.requests.snapshot_first.then_some(Needs::Snapshot);
    // Who creates volumes deletes them.
    let is_another = existing.plugin_id != spec.request.plugin_id;
    let deletion = (is_create && is_another).then_some(Needs::Deletion);
    for needs in snapshot.into_iter().chain(deletion) {
        let problem = present_plugin_problem(existing, Some(spec), inputs.observed, needs);
        let is_new =
            |problem: &Diagnostic| !problems.iter().any(|told| told.message == problem.message);
        let problem = problem.filter(is_new);
        problems.extend(problem);
    }
    problems
}

#[cfg(test)]
mod tests;
