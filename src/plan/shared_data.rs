//! Second registrations: no volume registers data that another volume has, unless the user names it.
//!
//! A server checks the access mode of each volume by itself. So two volumes with the same data have two writers, and
//! deleting one destroys the data of both. Some storage is made for that, such as an NFS export.

use std::collections::{BTreeMap, HashMap};

use super::action::{Action, PlannedVolume, ReplaceSteps};
use super::inputs::{PlanInputs, PluginState};
use super::removal_checks::may_be_one_provider;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{ExternalId, NamespacedId, PluginId, UnresolvedRequest, VolumeSummary};

/// Blocks every registration of data that another volume has or gets, and that `--share` does not name.
pub(super) fn block_second_registrations(volumes: &mut [PlannedVolume], inputs: &PlanInputs<'_>) {
    let mut registered: HashMap<&str, Vec<&VolumeSummary>> = HashMap::new();
    for other in &inputs.observed.registered {
        let remote = other.external_id.as_ref().map(ExternalId::as_str);
        let remote = remote.unwrap_or(other.id.as_str());
        registered.entry(remote).or_default().push(other);
    }
    let provider = |plugin: &PluginId| match inputs.observed.plugins.get(plugin) {
        Some(PluginState::Known(plugin)) => plugin.summary.provider.clone(),
        Some(PluginState::Missing | PluginState::Unknown) | None => String::new(),
    };
    let mut planned_before: HashMap<ExternalId, Vec<(PluginId, NamespacedId)>> = HashMap::new();
    for planned in volumes {
        let Some((plugin, external_id)) = registration(&planned.action).and_then(|request| {
            let external_id = request.external_id.as_ref()?;
            Some((request.plugin_id.clone(), external_id.clone()))
        }) else {
            continue;
        };
        let own = provider(&plugin);
        let known = registered.get(external_id.as_str());
        let known = known.into_iter().flatten().filter(|other| {
            let other = (&other.plugin_id, other.provider.as_str());
            may_be_one_provider((&plugin, &own), other)
        });
        let mut others: BTreeMap<NamespacedId, PluginId> = known
            .map(|other| (other.key(), other.plugin_id.clone()))
            .filter(|(key, _)| *key != planned.key)
            .collect();
        let before = planned_before.entry(external_id.clone()).or_default();
        let first = before.iter().find(|(other, key)| {
            let is_same = may_be_one_provider((&plugin, &own), (other, &provider(other)));
            is_same && *key != planned.key
        });
        others.extend(first.map(|(plugin, key)| (key.clone(), plugin.clone())));
        before.push((plugin, planned.key.clone()));
        if !others.is_empty() && !inputs.options.share.contains(&planned.key) {
            let refused = second_registration(planned, &others, &external_id);
            planned.block(vec![refused]);
        }
    }
}

/// Returns the registration that an action makes.
fn registration(action: &Action) -> Option<&UnresolvedRequest> {
    match action {
        Action::Register(request) => Some(request),
        Action::RegisterAgain(again) => Some(&again.request),
        Action::Replace(replace) => match replace.steps {
            ReplaceSteps::DeregisterThenRegister => Some(&replace.request),
            ReplaceSteps::DeleteThenCreate => None,
        },
        Action::Unchanged
        | Action::Create(_)
        | Action::Recreate(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::WaitingForClaims(_)
        | Action::Blocked(_) => None,
    }
}

fn second_registration(
    planned: &PlannedVolume,
    others: &BTreeMap<NamespacedId, PluginId>,
    external_id: &ExternalId,
) -> Diagnostic {
    let message = format!(
        "cannot register volume {}: another volume has the same data",
        planned.key.quoted()
    );
    let mut problem = Diagnostic::error(Code::VolumeShared, message);
    if let Some(spec) = &planned.spec {
        problem = problem.label(spec.field_span("external_id"), "");
    }
    for (other, plugin) in others {
        problem = problem.note(format!(
            "volume `{}` in namespace `{}` has external ID `{external_id}` at plugin `{plugin}`",
            other.id, other.namespace
        ));
    }
    problem
        .note("both could be written at the same time, whatever their capabilities allow")
        .help("use the other volume, or deregister it first; its data stays")
        .help(format!(
            "if the storage is made for that, such as an NFS export, add `--share {}`",
            planned.key.option()
        ))
}

#[cfg(test)]
mod tests;
