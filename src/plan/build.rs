//! Wanted and observed, to a plan.
//!
//! What a server would refuse is found here, before anything is sent: Nomad's merge rules are
//! predicted by [`super::merge::merge`], the same code that our agent runs; whether the plugin is
//! there and able is read from its record. What cannot be known is not guessed: a plugin that may
//! not be read blocks nothing, and secrets, which no server shows, are no difference by themselves.
//!
//! A plan is level-triggered: it depends on what is wanted and what is there, never on an earlier
//! run. The ledger only guards removal. Nothing is removed or replaced by inference: both need their
//! words, and a removal because of a file's absence never takes the data.

use std::collections::BTreeSet;

use super::action::{Action, Plan, Planned};
use super::deny::deny;
use super::depend::order;
use super::inputs::Inputs;
use super::pin::Pin;
use super::precondition::{Needs, missing_maximum, plugin_problem, unknown_namespace};
use super::remove::{removed, replaced};
use super::stakes::stakes;
use super::update::update;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{HiddenField, NamespacedId};
use crate::spec::VolumeSpec;

/// Makes the plan.
///
/// A volume that exists and is as wanted is left alone, unless somebody said `create` or `register`
/// ([`crate::spec::Purpose::Create`], [`crate::spec::Purpose::Register`]): then it is sent again,
/// perhaps to give it new secrets.
pub fn build(mut inputs: Inputs<'_>) -> Plan {
    let wanted = std::mem::take(&mut inputs.wanted);
    let named: BTreeSet<NamespacedId> = wanted.iter().map(VolumeSpec::key).collect();
    let mut volumes: Vec<Planned> = wanted
        .into_iter()
        .map(|spec| planned(spec, &inputs))
        .collect();
    volumes.extend(removed(&named, &inputs));
    for planned in &mut volumes {
        planned.stakes = stakes(planned, inputs.observed);
        deny(planned, inputs.requests.deny.iter().copied());
    }
    order(&mut volumes, inputs.observed);
    Plan {
        volumes,
        remarks: vec![],
    }
}

fn planned(spec: VolumeSpec, inputs: &Inputs<'_>) -> Planned {
    let key = spec.key();
    let existing = inputs.observed.volumes.get(&key);
    let (action, warnings) = match existing {
        _ if inputs.requests.delete_data.contains(&key) => {
            (Action::Blocked(vec![still_wanted(&spec)]), vec![])
        }
        None if !spec.unknown.is_empty() => (Action::Blocked(unknown_values(&spec)), vec![]),
        Some(_) if inputs.requests.replace.contains(&key) && !spec.unknown.is_empty() => {
            (Action::Blocked(unknown_values(&spec)), vec![])
        }
        None => (new_volume(&spec, inputs), vec![]),
        Some(existing) if inputs.requests.replace.contains(&key) => {
            (replaced(&spec, existing, inputs), vec![])
        }
        Some(existing) => update(&spec, existing, inputs),
    };
    Planned {
        key,
        pin: Pin::of(existing),
        spec: Some(spec),
        action,
        stakes: None,
        depends_on: vec![],
        warnings,
    }
}

fn new_volume(spec: &VolumeSpec, inputs: &Inputs<'_>) -> Action {
    let is_create = inputs.purpose.creates(spec);
    let needs = if is_create {
        Needs::Create
    } else {
        Needs::Registration
    };
    let request = Box::new(spec.request.clone());
    if let Some(problem) = unknown_namespace(spec, inputs.observed) {
        return Action::Blocked(vec![problem]);
    }
    let problem = plugin_problem(spec, inputs.observed, needs);
    let size = is_create
        .then(|| missing_maximum(spec, inputs.rules, false))
        .flatten();
    match problem.or(size) {
        Some(problem) => Action::Blocked(vec![problem]),
        None if is_create => Action::Create(request),
        None => Action::Register(request),
    }
}

/// A volume that is made has the values that it is made with: none of them can be unknown.
fn unknown_values(spec: &VolumeSpec) -> Vec<Diagnostic> {
    let refused = |field: &HiddenField| {
        let (what, at) = match field {
            HiddenField::Secrets => ("secrets are", "secrets"),
            HiddenField::MountFlags => ("mount flags are", "mount_options"),
        };
        let message = format!("volume {} cannot be made: its {what} unknown", spec.key());
        Diagnostic::error(Code::PlanHiddenValue, message)
            .label(spec.field_span(at), "")
            .note("`unknown` stands for a value that a server has; this volume is yet to be made")
            .help(format!(
                "give `{field}` a value, or leave it out if there is none"
            ))
    };
    spec.unknown.iter().map(refused).collect()
}

fn still_wanted(spec: &VolumeSpec) -> Diagnostic {
    let message = format!(
        "the data of volume {} is not deleted: a file still wants the volume",
        spec.key()
    );
    Diagnostic::error(Code::PlanStillWanted, message)
        .label(spec.span, "it is wanted here")
        .help("remove it from the files, or leave out `--delete-data`; to make it anew there is `--replace`")
}

#[cfg(test)]
mod tests;
