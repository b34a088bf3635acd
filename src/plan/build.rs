//! Builds a plan from the specifications and the observed state.
//!
//! A plan is level-triggered: it depends on the desired and the observed state, never on an earlier
//! run. It predicts what the server would refuse with [`super::merge::merge`], the code that the
//! agent runs. Unknown facts block nothing: not a plugin that the token cannot read, and not secrets,
//! which no server shows.
//!
//! The ledger guards removals, and the data of owned volumes ([`super::owned_data`]). Every removal and replacement needs its flag, and `--prune`
//! never deletes data.

use std::collections::BTreeSet;

use super::action::{Action, Plan, PlannedVolume, ProtectionChange};
use super::denials::deny;
use super::depend::set_dependencies;
use super::impact::impact_of;
use super::inputs::PlanInputs;
use super::ledger::RecordedData;
use super::offline_expansions::block_offline_expansions;
use super::owned_data::{changed_volume, lost_volume, missing_volume, replaced_data};
use super::preconditions::{PluginOperation, missing_maximum, plugin_problem, unknown_namespace};
use super::provided_data::compare_with_providers;
use super::removals::{planned_removals, planned_replacement};
use super::renamed::warn_of_renamed_volumes;
use super::shared_data::block_second_registrations;
use super::update::planned_update;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{HiddenField, NamespacedId, Volume};
use nomad_csi_spec::VolumeSpec;

/// Builds the plan.
///
/// A volume that exists as the file wants it does not change. `volume create` and `volume register`
/// ([`nomad_csi_spec::Purpose::Create`], [`nomad_csi_spec::Purpose::Register`]) send it again, for example
/// to replace its secrets.
pub fn build_plan(mut inputs: PlanInputs<'_>) -> Plan {
    let desired = std::mem::take(&mut inputs.desired);
    let named: BTreeSet<NamespacedId> = desired.iter().map(VolumeSpec::key).collect();
    let mut volumes: Vec<PlannedVolume> = desired
        .into_iter()
        .map(|mut spec| {
            spec.request.share = inputs.options.share.contains(&spec.key());
            planned(spec, &inputs)
        })
        .collect();
    volumes.extend(planned_removals(&named, &inputs));
    compare_with_providers(&mut volumes, inputs.observed);
    block_offline_expansions(&mut volumes, inputs.observed);
    block_second_registrations(&mut volumes, &inputs);
    warn_of_renamed_volumes(&mut volumes, inputs.owned);
    for planned in &mut volumes {
        planned.impact = impact_of(planned, inputs.observed);
        planned.protection = protection_change(planned, &inputs);
        deny(planned, inputs.options);
    }
    set_dependencies(&mut volumes, inputs.observed);
    let undeclared = left_alone(&volumes, &inputs);
    Plan { volumes, remarks: vec![], undeclared }
}

/// Returns the owned volumes that no file of the command declares and that the plan does not remove.
fn left_alone(volumes: &[PlannedVolume], inputs: &PlanInputs<'_>) -> Vec<NamespacedId> {
    let planned: BTreeSet<&NamespacedId> = volumes.iter().map(|planned| &planned.key).collect();
    let owned = inputs.owned.into_iter().flat_map(|owned| &owned.volumes);
    let left = owned.filter(|(key, volume)| {
        let is_removed = volume.data == RecordedData::Removed;
        let is_declared = inputs.options.declared_elsewhere.contains_key(*key);
        !planned.contains(key) && !is_removed && !is_declared
    });
    left.map(|(key, _)| key.clone()).collect()
}

fn planned(spec: VolumeSpec, inputs: &PlanInputs<'_>) -> PlannedVolume {
    let key = spec.key();
    let expected_version = inputs.observed.version_of(&key);
    let existing = inputs.observed.volumes.get(&key);
    let (action, warnings) = match existing {
        _ if inputs.observed.unread.contains_key(&key) => (Action::Unchanged, vec![]),
        _ if inputs.options.delete_data.contains(&key) => {
            (Action::Blocked(vec![still_desired(&spec)]), vec![])
        }
        None if !spec.unknown.is_empty() => (Action::Blocked(unknown_values(&spec)), vec![]),
        Some(_) if inputs.options.replace.contains(&key) && !spec.unknown.is_empty() => {
            (Action::Blocked(unknown_values(&spec)), vec![])
        }
        None => match lost_volume(&spec, inputs) {
            Some(owned) => missing_volume(&spec, owned, inputs),
            None => (new_volume(&spec, inputs), vec![]),
        },
        Some(existing) => existing_volume(&spec, existing, inputs),
    };
    PlannedVolume {
        expected_version,
        key,
        spec: Some(spec),
        action,
        impact: None,
        protection: None,
        depends_on: vec![],
        warnings,
    }
}

/// Returns how the set's protection of an owned volume changes with a change that is made.
fn protection_change(planned: &PlannedVolume, inputs: &PlanInputs<'_>) -> Option<ProtectionChange> {
    if !planned.action.reasons().is_empty() {
        return None;
    }
    let is_desired = planned.spec.as_ref()?.protect?;
    let owned = inputs.owned?.volumes.get(&planned.key)?;
    match is_desired {
        true if !owned.protect => Some(ProtectionChange::Protect),
        false if owned.protect => Some(ProtectionChange::Unprotect),
        true | false => None,
    }
}

fn existing_volume(
    spec: &VolumeSpec,
    existing: &Volume,
    inputs: &PlanInputs<'_>,
) -> (Action, Vec<Diagnostic>) {
    if let Some(recorded) = replaced_data(spec, existing, inputs) {
        let action = changed_volume(spec, existing, recorded, inputs);
        return (action, vec![]);
    }
    if inputs.options.replace.contains(&spec.key()) {
        return (planned_replacement(spec, existing, inputs), vec![]);
    }
    planned_update(spec, existing, inputs)
}

fn new_volume(spec: &VolumeSpec, inputs: &PlanInputs<'_>) -> Action {
    let is_create = inputs.purpose.creates(spec);
    let needs = if is_create { PluginOperation::Create } else { PluginOperation::Register };
    let request = Box::new(spec.request.clone());
    if let Some(problem) = unknown_namespace(spec, inputs.observed) {
        return Action::Blocked(vec![problem]);
    }
    let problem = plugin_problem(spec, inputs.observed, needs);
    let size = is_create.then(|| missing_maximum(spec, inputs.rules, false)).flatten();
    match problem.or(size) {
        Some(problem) => Action::Blocked(vec![problem]),
        None if is_create => Action::Create(request),
        None => Action::Register(request),
    }
}

/// Refuses unknown values: a new volume needs the value of every field.
fn unknown_values(spec: &VolumeSpec) -> Vec<Diagnostic> {
    let refused = |field: &HiddenField| {
        let (what, at) = match field {
            HiddenField::Secrets => ("secrets", "secrets"),
            HiddenField::MountFlags => ("mount flags", "mount_options"),
        };
        let message = format!(
            "cannot create volume {}: the file marks its {what} as unknown",
            spec.key().quoted()
        );
        Diagnostic::error(Code::PlanHiddenValue, message)
            .label(spec.field_span(at), "")
            .note("`unknown` means a value that the server already stores; this volume does not exist yet")
            .help(format!(
                "set a value for `{field}`, or remove the field if there is none"
            ))
    };
    spec.unknown.iter().map(refused).collect()
}

fn still_desired(spec: &VolumeSpec) -> Diagnostic {
    let message = format!(
        "cannot delete the data of volume {}: a file still declares the volume",
        spec.key().quoted()
    );
    Diagnostic::error(Code::PlanStillWanted, message)
        .label(spec.span, "declared here")
        .help("remove the volume from the files to delete it, or use `--replace` to recreate it")
}

#[cfg(test)]
mod tests;
