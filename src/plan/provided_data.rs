//! Compares a plan with what providers list: data that is gone, and sources that do not exist.
//!
//! A change of a volume without data cannot succeed, so it is blocked. An unchanged volume is reported.
//! A list that could not be read, or was not asked for, blocks and reports nothing.

use std::collections::BTreeSet;

use super::action::{Action, PlannedVolume};
use super::inputs::ObservedState;
use super::ledger::DataIdentity;
use super::provider_list::{Evidence, evidence};
use super::selector::selector;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Bytes, ExternalId, PluginId, shell_quoted};

/// A name of a volume at a plugin, as a `clone_id` may have it.
type SourceName = (PluginId, String);

/// Blocks the changes that cannot succeed, and reports the volumes whose data is gone.
pub(super) fn compare_with_providers(volumes: &mut [PlannedVolume], observed: &ObservedState) {
    if observed.provided.is_empty() && observed.provided_snapshots.is_empty() {
        return;
    }
    let sources = declared_sources(volumes);
    for planned in volumes {
        let data = observed.data_of(&planned.key);
        if let Some(gone) = data.filter(|data| is_gone(data, observed)) {
            report_gone(planned, &gone);
        }
        if let Some(warning) = unlisted_data(planned, observed) {
            planned.warnings.push(warning);
        }
        let unusable = missing_source(planned, &sources, observed)
            .or_else(|| source_too_large(planned, observed));
        if let Some(problem) = unusable {
            planned.block(vec![problem]);
        }
    }
}

/// Returns whether the provider no longer lists the data of a registered volume.
fn is_gone(data: &DataIdentity, observed: &ObservedState) -> bool {
    matches!(evidence(&observed.provided, data), Evidence::NotListed)
}

fn report_gone(planned: &mut PlannedVolume, data: &DataIdentity) {
    match planned.action {
        Action::Update(_) | Action::Expand(_) => {
            let refused = data_gone(planned, data, true);
            planned.block(vec![refused]);
            // They are about the change that is not made.
            planned.warnings.clear();
        }
        Action::Unchanged
        | Action::WaitingForClaims(_)
        | Action::Blocked(_)
        | Action::Create(_)
        | Action::Register(_)
        | Action::Recreate(_) => {
            let warning = data_gone(planned, data, false);
            planned.warnings.push(warning);
        }
        // These remove the registration of the data that is gone.
        Action::RegisterAgain(_) | Action::Replace(_) | Action::Deregister | Action::DeleteData => {
        }
    }
}

fn data_gone(planned: &PlannedVolume, data: &DataIdentity, is_refused: bool) -> Diagnostic {
    let key = &planned.key;
    let gone = "its provider no longer has its data";
    let problem = if is_refused {
        let message = format!("cannot update volume {}: {gone}", key.quoted());
        Diagnostic::error(Code::PlanDataGone, message)
    } else {
        let message = format!("volume {}: {gone}", key.quoted());
        Diagnostic::warning(Code::PlanDataGone, message)
    };
    let problem = problem
        .note(format!("the server has {data}, which the provider does not list"))
        .help(format!(
            "restore the data at the provider, or recreate the volume, empty, with `--replace {}`",
            shell_quoted(selector(key))
        ))
        .help("if the provider's list is not complete, add `--no-provider`");
    match planned.span() {
        Some(span) => problem.label(span, ""),
        None => problem,
    }
}

/// Returns the warning of a registration of data that the provider does not list.
fn unlisted_data(planned: &PlannedVolume, observed: &ObservedState) -> Option<Diagnostic> {
    let Action::Register(request) = &planned.action else {
        return None;
    };
    let external_id = request.external_id.as_ref()?;
    let data =
        DataIdentity { plugin_id: request.plugin_id.clone(), external_id: external_id.clone() };
    if !matches!(evidence(&observed.provided, &data), Evidence::NotListed) {
        return None;
    }
    let message = format!(
        "volume {}: its provider does not list external ID `{external_id}`",
        planned.key.quoted()
    );
    let warning = Diagnostic::warning(Code::PlanDataNotListed, message);
    let warning = match &planned.spec {
        Some(spec) => warning.label(spec.field_span("external_id"), ""),
        None => warning,
    };
    Some(
        warning
            .note("the plugin may refuse the registration, or a task that mounts the volume")
            .help(
                "correct the `external_id`: `nomad-csi orphans --plugin ID` lists the data that no volume has",
            )
            .help("if the provider's list is not complete, add `--no-provider`"),
    )
}

/// Returns the names that the files give to volumes, which may be the sources of copies.
fn declared_sources(volumes: &[PlannedVolume]) -> BTreeSet<SourceName> {
    let requests = volumes.iter().filter_map(|planned| planned.spec.as_ref());
    let names = requests.flat_map(|spec| {
        let source = &spec.request;
        let names = [
            source.external_id.as_ref().map(ExternalId::as_str),
            Some(source.id.as_str()),
            source.name.as_deref(),
        ];
        let names = names.into_iter().flatten();
        names.map(|name| (source.plugin_id.clone(), name.to_owned()))
    });
    names.collect()
}

/// Returns why a new volume cannot be filled: its source is neither listed nor declared.
fn missing_source(
    planned: &PlannedVolume,
    sources: &BTreeSet<SourceName>,
    observed: &ObservedState,
) -> Option<Diagnostic> {
    let request = planned.request().filter(|_| planned.action.creates())?;
    let plugin = &request.plugin_id;
    if let Some(clone) = &request.clone_id {
        let data = DataIdentity {
            plugin_id: plugin.clone(),
            external_id: ExternalId::new(clone.as_str()),
        };
        let is_missing = matches!(evidence(&observed.provided, &data), Evidence::NotListed);
        let is_declared = sources.contains(&(plugin.clone(), clone.clone()));
        return (is_missing && !is_declared)
            .then(|| source_missing(planned, "clone_id", "volume", clone));
    }
    let snapshot = request.snapshot_id.as_ref()?;
    let is_missing = !observed.provided_snapshots.get(plugin)?.contains_key(snapshot);
    is_missing.then(|| source_missing(planned, "snapshot_id", "snapshot", snapshot))
}

/// Returns why a new volume cannot hold its source: the source is larger than the volume may be.
fn source_too_large(planned: &PlannedVolume, observed: &ObservedState) -> Option<Diagnostic> {
    let request = planned.request().filter(|_| planned.action.creates())?;
    let plugin = &request.plugin_id;
    let (field, what, source, size) = match (&request.clone_id, &request.snapshot_id) {
        (Some(clone), _) => {
            let external_id = ExternalId::new(clone.as_str());
            let data = DataIdentity { plugin_id: plugin.clone(), external_id };
            match evidence(&observed.provided, &data) {
                Evidence::Listed(volume) => ("clone_id", "volume", clone, volume.capacity),
                Evidence::NotListed | Evidence::Unknown(_) => return None,
            }
        }
        (None, Some(snapshot)) => {
            let size = observed.provided_snapshots.get(plugin)?.get(snapshot)?;
            ("snapshot_id", "snapshot", snapshot, *size)
        }
        (None, None) => return None,
    };
    let max = request.capacity.max;
    if max == Bytes::ZERO || size <= max {
        return None;
    }
    let message = format!(
        "cannot create volume {}: {what} `{source}` is larger than `capacity_max`",
        planned.key.quoted()
    );
    let problem = Diagnostic::error(Code::PlanSourceTooLarge, message);
    let problem = match &planned.spec {
        Some(spec) => {
            problem.label(spec.field_span("capacity_max"), "").label(spec.field_span(field), "")
        }
        None => problem,
    };
    Some(
        problem
            .note(format!("the {what} has {size}, and the volume may have at most {max}"))
            .help(Code::PlanSourceTooLarge.advice()),
    )
}

fn source_missing(planned: &PlannedVolume, field: &str, what: &str, source: &str) -> Diagnostic {
    let key = planned.key.quoted();
    let message =
        format!("cannot create volume {key}: its provider does not list {what} `{source}`");
    let problem = Diagnostic::error(Code::PlanSourceMissing, message);
    let problem = match &planned.spec {
        Some(spec) => problem.label(spec.field_span(field), ""),
        None => problem,
    };
    problem
        .note(format!("`{field}` is the provider's ID of the {what} that is copied"))
        .help("if the provider's list is not complete, add `--no-provider`")
}

#[cfg(test)]
mod tests;
