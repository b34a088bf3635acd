//! Plans the removal and the replacement of volumes.
//!
//! Each operation has its own option: `--prune` deregisters volumes that the set owns and no file names, and never
//! deletes data; `--delete-data ID` deletes the data of one volume; `--replace ID` removes and
//! recreates one volume. Protected volumes, and volumes whose data another registration shares, are
//! blocked. Claimed volumes wait.

use std::collections::BTreeSet;

use super::action::{Action, ClaimWait, PlannedVolume, Replace, ReplaceSteps};
use super::claiming_alloc::ClaimingAlloc;
use super::inputs::PlanInputs;
use super::preconditions::{
    PluginOperation, missing_maximum, plugin_problem, present_plugin_problem,
};
use super::removal_checks::{Removal, claimed_error, shared_data_error};
use super::selector::selector;
use super::volume_version::VolumeVersion;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{NamespacedId, UnresolvedRequest, Volume, one_line, shell_quoted};
use nomad_csi_spec::VolumeSpec;

/// Returns entries for the volumes to remove that no file names, by name.
pub(super) fn planned_removals(
    named: &BTreeSet<NamespacedId>,
    inputs: &PlanInputs<'_>,
) -> Vec<PlannedVolume> {
    let owned = inputs.owned.filter(|_| inputs.options.prune);
    let pruned = owned.into_iter().flat_map(|owned| owned.volumes.keys());
    let removals: BTreeSet<&NamespacedId> =
        pruned.chain(&inputs.options.delete_data).filter(|key| !named.contains(key)).collect();
    removals.into_iter().map(|key| planned_removal(key, inputs)).collect()
}

fn planned_removal(key: &NamespacedId, inputs: &PlanInputs<'_>) -> PlannedVolume {
    let existing = inputs.observed.volumes.get(key);
    let removal = if inputs.options.delete_data.contains(key) {
        Removal::Delete
    } else {
        Removal::Deregister { force: false }
    };
    let action = match (existing, inputs.options.declared_elsewhere.get(key)) {
        (Some(_), Some(directory)) => {
            Action::Blocked(vec![declared_in_another_set(key, directory, inputs)])
        }
        (Some(volume), None) => remove(volume, removal, inputs),
        (None, _) => Action::Unchanged,
    };
    let is_missing = existing.is_none() && removal == Removal::Delete;
    PlannedVolume {
        key: key.clone(),
        spec: None,
        action,
        expected_version: VolumeVersion::of(existing),
        impact: None,
        protection: None,
        depends_on: vec![],
        warnings: is_missing.then(|| missing_volume_warning(key, inputs)).into_iter().collect(),
    }
}

/// Returns why a volume that moved to another set is not removed.
fn declared_in_another_set(
    key: &NamespacedId,
    directory: &str,
    inputs: &PlanInputs<'_>,
) -> Diagnostic {
    let set = inputs.owned.map_or("", |owned| &owned.set);
    let directory = one_line(directory);
    let message = format!("cannot remove volume {}: `{directory}` declares it", key.quoted());
    Diagnostic::error(Code::PlanDeclaredElsewhere, message)
        .note(format!(
            "set `{set}` owns the volume, and it would be removed and created again, empty"
        ))
        .help(format!(
            "to move it to the other set with its data, run `nomad-csi forget {} --set {}` first",
            shell_quoted(selector(key)),
            shell_quoted(set)
        ))
        .help("to keep it in this set, declare it in the directory of this set")
}

/// Warns that a volume to delete does not exist, and suggests similar names.
fn missing_volume_warning(key: &NamespacedId, inputs: &PlanInputs<'_>) -> Diagnostic {
    let message = format!("nothing to delete: the server has no volume {}", key.quoted());
    let warning = Diagnostic::warning(Code::VolumeNotFound, message);
    let registered = &inputs.observed.registered;
    let elsewhere = registered.iter().find(|volume| volume.id == key.id);
    if let Some(elsewhere) = elsewhere {
        let place = &elsewhere.namespace;
        return warning.help(format!(
            "namespace `{place}` has a volume of this ID; use `--delete-data {}` to delete it",
            shell_quoted(format_args!("{place}/{}", key.id))
        ));
    }
    let ids = registered
        .iter()
        .filter(|volume| volume.namespace == key.namespace)
        .map(|volume| volume.id.as_str());
    match closest_match(key.id.as_str(), ids) {
        Some(similar) => warning.help(format!("did you mean volume `{similar}`?")),
        None => warning.help("ignore this warning if the volume was deleted before"),
    }
}

fn remove(volume: &Volume, removal: Removal, inputs: &PlanInputs<'_>) -> Action {
    let problem = match removal {
        Removal::Delete => {
            present_plugin_problem(volume, None, inputs.observed, PluginOperation::Delete)
        }
        Removal::Deregister { .. } => None,
    };
    if let Some(problem) = problem {
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

/// Returns what prevents a removal: the harm that it would do first, then the claims.
fn obstacle(volume: &Volume, removal: Removal, inputs: &PlanInputs<'_>) -> Option<Action> {
    let mut problems: Vec<_> = protected(volume, inputs).into_iter().collect();
    let claims = ClaimingAlloc::of(volume);
    if removal == Removal::Delete {
        problems.extend(shared_data_error(volume, &inputs.observed.registered));
    }
    let in_use = (!claims.is_empty()).then(|| claimed_error(volume, &claims, removal));
    if !problems.is_empty() {
        problems.extend(in_use);
        return Some(Action::Blocked(problems));
    }
    in_use.map(|reason| Action::WaitingForClaims(ClaimWait { reasons: vec![reason], claims }))
}

/// Waits if a volume cannot be deregistered while it is claimed.
pub(super) fn claims_before_deregistration(volume: &Volume) -> Option<Action> {
    let removal = Removal::Deregister { force: false };
    let claims = ClaimingAlloc::of(volume);
    (!claims.is_empty()).then(|| {
        let reasons = vec![claimed_error(volume, &claims, removal)];
        Action::WaitingForClaims(ClaimWait { reasons, claims })
    })
}

fn protected(volume: &Volume, inputs: &PlanInputs<'_>) -> Option<Diagnostic> {
    let owned = inputs.owned?;
    let key = volume.key();
    let entry = owned.volumes.get(&key)?;
    entry.protect.then(|| protected_by_set(&key, &owned.set))
}

/// The error for a volume that its set protects from removal.
pub fn protected_by_set(key: &NamespacedId, set: &str) -> Diagnostic {
    let message = format!("cannot remove volume {}: set `{set}` protects it", key.quoted());
    Diagnostic::error(Code::PlanProtected, message)
        .note("the last apply recorded the protection in the ledger")
        .help("apply the volume with `protect = false`, or run `forget`, then remove it")
}

/// Plans a replacement. The data is deleted if the provider creates the new volume, and stays if
/// another volume of the provider is registered instead.
pub(super) fn planned_replacement(
    spec: &VolumeSpec,
    existing: &Volume,
    inputs: &PlanInputs<'_>,
) -> Action {
    let creates = inputs.purpose.creates(spec);
    let (steps, removal, operation) = if creates {
        let steps = ReplaceSteps::DeleteThenCreate;
        (steps, Removal::Delete, PluginOperation::Create)
    } else {
        let steps = ReplaceSteps::DeregisterThenRegister;
        let removal = Removal::Deregister { force: false };
        (steps, removal, PluginOperation::Register)
    };
    let problems = replacement_problems(spec, existing, operation, inputs);
    if !problems.is_empty() {
        return Action::Blocked(problems);
    }
    if let Some(obstacle) = obstacle(existing, removal, inputs) {
        return obstacle;
    }
    let request: UnresolvedRequest = spec.request.clone();
    Action::Replace(Box::new(Replace {
        snapshot_first: inputs.options.snapshot_first,
        steps,
        request,
    }))
}

/// Returns why the replacement is not possible: the file's plugin creates the new volume, and the
/// plugin of the existing volume deletes the old one.
fn replacement_problems(
    spec: &VolumeSpec,
    existing: &Volume,
    operation: PluginOperation,
    inputs: &PlanInputs<'_>,
) -> Vec<Diagnostic> {
    let is_create = operation == PluginOperation::Create;
    let size = is_create.then(|| missing_maximum(spec, inputs.rules, true)).flatten();
    let protected = (spec.protect == Some(true)).then(|| protected_by_file(spec));
    let problem = plugin_problem(spec, inputs.observed, operation).into_iter();
    let mut problems: Vec<_> = protected.into_iter().chain(problem).chain(size).collect();
    let snapshot = inputs.options.snapshot_first.then_some(PluginOperation::CreateSnapshot);
    // A plugin that creates volumes also deletes them.
    let is_another = existing.plugin_id != spec.request.plugin_id;
    let deletion = (is_create && is_another).then_some(PluginOperation::Delete);
    for operation in snapshot.into_iter().chain(deletion) {
        let problem = present_plugin_problem(existing, Some(spec), inputs.observed, operation);
        let is_new =
            |problem: &Diagnostic| !problems.iter().any(|one| one.message == problem.message);
        let problem = problem.filter(is_new);
        problems.extend(problem);
    }
    problems
}

/// The error for a volume whose file protects it, also before an apply recorded the protection.
fn protected_by_file(spec: &VolumeSpec) -> Diagnostic {
    let key = spec.key();
    let message = format!("cannot replace volume {}: its file protects it", key.quoted());
    Diagnostic::error(Code::PlanProtected, message)
        .label(spec.field_span("protect"), "")
        .help("apply it with `protect = false`, then replace it")
}

#[cfg(test)]
mod tests;
