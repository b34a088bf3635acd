//! Prints a plan as JSON, in the format of `docs/schemas/plan.v1.json`.
//!
//! The format version changes only if a change could break a reader; a new key does not change it.
//! Secrets and mount flags never appear.

use serde_json::{Value, json};

use super::desired_volume::desired_json;
use super::diagnostic::diagnostic_json;
use nomad_csi_model::diagnostic::{Diagnostic, SourceMap};
use nomad_csi_model::{ExternalId, NamespacedId, Topology};
use nomad_csi_plan::{
    Action, Change, ClaimingAlloc, DataLoss, Expansion, FieldValue, HiddenField, Impact,
    LastSnapshot, Plan, PlannedVolume, ProtectionChange, ReplaceSteps, SecretsChange,
    VolumeVersion,
};
use nomad_csi_spec::{InstanceKey, Origin};

/// The version of the format.
const FORMAT_VERSION: u32 = 1;

/// Returns the plan as JSON. `null` means no value, and `{"hidden": true}` a value that is never shown.
pub(crate) fn plan_json(plan: &Plan, server: &str, sources: &SourceMap) -> Value {
    let counts = plan.counts();
    let entry = |planned: &PlannedVolume| planned_json(plan, planned, sources);
    json!({
        "format_version": FORMAT_VERSION,
        "server": server,
        "counts": {
            "create": counts.create,
            "register": counts.register,
            "register_again": counts.register_again,
            "recreate": counts.recreate,
            "update": counts.update,
            "expand": counts.expand,
            "replace": counts.replace,
            "deregister": counts.deregister,
            "delete_data": counts.delete_data,
            "waiting": counts.waiting,
            "blocked": counts.blocked,
            "protection": counts.protection,
            "without_data": counts.without_data,
            "unchanged": counts.unchanged,
        },
        "remarks": diagnostics(&plan.remarks, sources),
        "volumes": plan.volumes.iter().map(entry).collect::<Vec<_>>(),
        "undeclared": plan.undeclared.iter().map(name_json).collect::<Vec<_>>(),
    })
}

fn name_json(key: &NamespacedId) -> Value {
    json!({ "namespace": key.namespace.as_str(), "id": key.id.as_str() })
}

fn diagnostics(list: &[Diagnostic], sources: &SourceMap) -> Vec<Value> {
    list.iter().map(|one| diagnostic_json(one, sources)).collect()
}

fn name(key: &NamespacedId) -> Value {
    json!({"namespace": key.namespace.as_str(), "id": key.id.as_str()})
}

fn planned_json(plan: &Plan, planned: &PlannedVolume, sources: &SourceMap) -> Value {
    let span = planned.span();
    let depends_on = planned.depends_on.iter().filter_map(|at| plan.volumes.get(*at));
    json!({
        "namespace": planned.key.namespace.as_str(),
        "id": planned.key.id.as_str(),
        "file": span.map(|span| sources.name(span.source)),
        "line": span.map(|span| sources.location(span).line),
        "instance": planned.spec.as_ref().and_then(|spec| instance(spec.origin.as_deref()?)),
        "action": planned.action.as_str(),
        "modify_index": match planned.expected_version {
            VolumeVersion::Absent => None,
            VolumeVersion::At(index) => Some(index),
        },
        "impact": planned.impact.as_ref().map(impact),
        "depends_on": depends_on.map(|one| name(&one.key)).collect::<Vec<_>>(),
        "changes": planned.action.update().map_or_else(Vec::new, |update| update.changes.iter().map(change_json).collect()),
        "expands": planned.action.update().is_some_and(|update| matches!(update.expansion, Expansion::Needed { .. })),
        "secrets": secrets(planned),
        "resent_fields": planned.action.update().map_or(&[][..], |update| &update.resent_fields),
        "cleared_fields": cleared_fields(planned),
        "steps": steps(planned),
        "wanted": planned.request().map(desired_json),
        "external_id": registered_again(planned),
        "protection": planned.protection.map(ProtectionChange::as_str),
        "claims": claims(planned).iter().map(claim).collect::<Vec<_>>(),
        "reasons": diagnostics(planned.action.reasons(), sources),
        "warnings": diagnostics(&planned.warnings, sources),
    })
}

/// Returns which volume of its block it is; `None` if the block declares one.
fn instance(origin: &Origin) -> Option<Value> {
    let instance = origin.instance.as_ref()?;
    Some(match &instance.key {
        InstanceKey::Index(index) => json!({"block": origin.block, "index": index}),
        InstanceKey::Key(key) => json!({"block": origin.block, "key": key}),
    })
}

fn cleared_fields(planned: &PlannedVolume) -> Vec<&'static str> {
    let update = planned.action.update();
    let fields = update.map_or(&[][..], |update| &update.cleared_fields);
    fields.iter().copied().map(HiddenField::as_str).collect()
}

/// Returns the external ID of the data that is registered again.
fn registered_again(planned: &PlannedVolume) -> Option<&str> {
    match &planned.action {
        Action::RegisterAgain(again) => again.request.external_id.as_ref().map(ExternalId::as_str),
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Recreate(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::WaitingForClaims(_)
        | Action::Blocked(_) => None,
    }
}

fn claims(planned: &PlannedVolume) -> &[ClaimingAlloc] {
    match &planned.action {
        Action::WaitingForClaims(wait) => &wait.claims,
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::Blocked(_) => &[],
    }
}

fn claim(claim: &ClaimingAlloc) -> Value {
    let alloc = claim.alloc.as_ref();
    json!({
        "alloc_id": claim.id.as_str(),
        "job_id": alloc.map(|alloc| &alloc.job_id),
        "task_group": alloc.map(|alloc| &alloc.task_group),
        "node_id": alloc.map(|alloc| alloc.node_id.as_str()),
    })
}

/// Returns the steps of a change that has several; empty for every other action.
fn steps(planned: &PlannedVolume) -> Vec<&'static str> {
    let replace = match &planned.action {
        Action::Replace(replace) => replace,
        Action::RegisterAgain(again) if again.replaces.is_some() => {
            return vec!["deregister", "register"];
        }
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::WaitingForClaims(_)
        | Action::Blocked(_) => return vec![],
    };
    let snapshot = replace.snapshot_first.then_some("snapshot");
    let two = match replace.steps {
        ReplaceSteps::DeleteThenCreate => ["delete-data", "create"],
        ReplaceSteps::DeregisterThenRegister => ["deregister", "register"],
    };
    snapshot.into_iter().chain(two).collect()
}

fn impact(impact: &Impact) -> Value {
    json!({
        "risk": impact.risk.as_str(),
        "loss": impact.loss.as_ref().map(loss),
        "recovery": impact.recovery.to_string(),
    })
}

fn loss(loss: &DataLoss) -> Value {
    let snapshot = match &loss.last_snapshot {
        LastSnapshot::Unknown => json!({"known": false}),
        LastSnapshot::None => json!({"known": true, "id": null, "taken_at": null}),
        LastSnapshot::Taken { id, at } => json!({"known": true, "id": id, "taken_at": at}),
    };
    json!({
        "destroys_data": loss.destroys_data,
        "capacity": loss.capacity.get(),
        "plugin_id": loss.plugin_id.as_str(),
        "external_id": loss.external_id.as_ref().map(ExternalId::as_str),
        "last_snapshot": snapshot,
    })
}

fn secrets(planned: &PlannedVolume) -> &'static str {
    if let Some(update) = planned.action.update() {
        return secrets_word(update.secrets);
    }
    let Some(request) = planned.request() else {
        return "kept";
    };
    let secrets = request.secrets.as_ref();
    if secrets.is_some_and(|secrets| !secrets.is_empty()) { "sent" } else { "none" }
}

fn secrets_word(secrets: SecretsChange) -> &'static str {
    match secrets {
        SecretsChange::Keep => "kept",
        SecretsChange::Replace => "sent",
        SecretsChange::Clear => "cleared",
    }
}

fn change_json(change: &Change) -> Value {
    json!({
        "field": change.field,
        "old": value_json(&change.old),
        "new": value_json(&change.new),
    })
}

pub(super) fn value_json(value: &FieldValue) -> Value {
    let segments = |place: &Topology| json!(place.segments);
    match value {
        FieldValue::Absent => Value::Null,
        FieldValue::Hidden => json!({"hidden": true}),
        FieldValue::Text(text) => json!(text),
        FieldValue::Size(bytes) => json!(bytes.get()),
        FieldValue::Map(map) => json!(map),
        FieldValue::Capabilities(list) => json!(list),
        FieldValue::Topologies(list) => list.iter().map(segments).collect(),
    }
}
