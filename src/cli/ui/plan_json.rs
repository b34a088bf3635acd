//! A plan as JSON: `docs/schemas/plan.v1.json` says its shape, and a test holds the two together.
//!
//! The shape's version changes only when a reader could break; a new key does not change it. Secrets
//! and mount flags are never in it.

use serde_json::{Value, json};

use super::diagnostic::to_json;
use crate::diagnostic::{Diagnostic, SourceMap};
use crate::model::{NamespacedId, Topology};
use crate::plan::{
    Action, Change, Expansion, HiddenField, Holder, LastSnapshot, Loss, Pin, Plan, Planned,
    ReplaceSteps, SecretsChange, Shown, Stakes,
};

/// The version of the shape.
const FORMAT_VERSION: u32 = 1;

/// The plan for machines. `null` stands for "none", `{"hidden": true}` for what is never shown.
pub(crate) fn plan_json(plan: &Plan, server: &str, sources: &SourceMap) -> Value {
    let counts = plan.counts();
    let entry = |planned: &Planned| planned_json(plan, planned, sources);
    json!({
        "format_version": FORMAT_VERSION,
        "server": server,
        "counts": {
            "create": counts.create,
            "register": counts.register,
            "update": counts.update,
            "expand": counts.expand,
            "replace": counts.replace,
            "deregister": counts.deregister,
            "delete_data": counts.delete_data,
            "waits": counts.waits,
            "blocked": counts.blocked,
            "unchanged": counts.unchanged,
        },
        "remarks": diagnostics(&plan.remarks, sources),
        "volumes": plan.volumes.iter().map(entry).collect::<Vec<_>>(),
    })
}

fn diagnostics(list: &[Diagnostic], sources: &SourceMap) -> Vec<Value> {
    list.iter().map(|one| to_json(one, sources)).collect()
}

fn name(key: &NamespacedId) -> Value {
    json!({"namespace": key.namespace.as_str(), "id": key.id.as_str()})
}

fn planned_json(plan: &Plan, planned: &Planned, sources: &SourceMap) -> Value {
    let span = planned.span();
    let depends_on = planned
        .depends_on
        .iter()
        .filter_map(|at| plan.volumes.get(*at));
    json!({
        "namespace": planned.key.namespace.as_str(),
        "id": planned.key.id.as_str(),
        "file": span.map(|span| sources.name(span.source)),
        "line": span.map(|span| sources.location(span).line),
        "action": planned.action.word(),
        "modify_index": match planned.pin {
            Pin::Absent => None,
            Pin::At(index) => Some(index),
        },
        "stakes": planned.stakes.as_ref().map(stakes),
        "depends_on": depends_on.map(|one| name(&one.key)).collect::<Vec<_>>(),
        "changes": planned.action.update().map_or_else(Vec::new, |update| update.changes.iter().map(change_json).collect()),
        "expands": planned.action.update().is_some_and(|update| matches!(update.expansion, Expansion::Needed { .. })),
        "secrets": secrets(planned),
        "sent_again": planned.action.update().map_or(&[][..], |update| &update.sent_again),
        "losses": losses(planned),
        "steps": steps(planned),
        "holders": holders(planned).iter().map(holder).collect::<Vec<_>>(),
        "reasons": diagnostics(planned.action.reasons(), sources),
        "warnings": diagnostics(&planned.warnings, sources),
    })
}

fn losses(planned: &Planned) -> Vec<&'static str> {
    let losses = planned
        .action
        .update()
        .map_or(&[][..], |update| &update.losses);
    losses.iter().copied().map(HiddenField::as_str).collect()
}

fn holders(planned: &Planned) -> &[Holder] {
    match &planned.action {
        Action::Waits(wait) => &wait.holders,
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData
        | Action::Blocked(_) => &[],
    }
}

fn holder(holder: &Holder) -> Value {
    let alloc = holder.alloc.as_ref();
    json!({
        "allocation": holder.id.as_str(),
        "job": alloc.map(|alloc| &alloc.job_id),
        "group": alloc.map(|alloc| &alloc.task_group),
        "node": alloc.map(|alloc| alloc.node_id.as_str()),
    })
}

/// What is done one after the other, where that is more than one thing.
fn steps(planned: &Planned) -> Vec<&'static str> {
    let Action::Replace(replace) = &planned.action else {
        return vec![];
    };
    let snapshot = replace.snapshot_first.then_some("snapshot");
    let two = match replace.steps {
        ReplaceSteps::DeleteThenCreate => ["delete-data", "create"],
        ReplaceSteps::DeregisterThenRegister => ["deregister", "register"],
    };
    snapshot.into_iter().chain(two).collect()
}

fn stakes(stakes: &Stakes) -> Value {
    json!({
        "risk": stakes.risk.as_str(),
        "lost": stakes.lost.as_ref().map(lost),
        "undo": stakes.undo.to_string(),
    })
}

fn lost(lost: &Loss) -> Value {
    let snapshot = match &lost.last_snapshot {
        LastSnapshot::Unknown => json!({"known": false}),
        LastSnapshot::None => json!({"known": true, "id": null, "taken_at": null}),
        LastSnapshot::Taken { id, at } => json!({"known": true, "id": id, "taken_at": at}),
    };
    json!({
        "data": lost.data,
        "capacity": lost.capacity.get(),
        "plugin_id": lost.plugin_id.as_str(),
        "external_id": lost.external_id.as_str(),
        "last_snapshot": snapshot,
    })
}

fn secrets(planned: &Planned) -> &'static str {
    if let Some(update) = planned.action.update() {
        return secrets_word(update.secrets);
    }
    let Some(request) = planned.request() else {
        return "kept";
    };
    let secrets = request.secrets.as_ref();
    if secrets.is_some_and(|secrets| !secrets.is_empty()) {
        "sent"
    } else {
        "none"
    }
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
        "old": shown_json(&change.old),
        "new": shown_json(&change.new),
    })
}

pub(super) fn shown_json(value: &Shown) -> Value {
    let segments = |place: &Topology| json!(place.segments);
    match value {
        Shown::Absent => Value::Null,
        Shown::Hidden => json!({"hidden": true}),
        Shown::Text(text) => json!(text),
        Shown::Size(bytes) => json!(bytes.get()),
        Shown::Map(map) => json!(map),
        Shown::Capabilities(list) => json!(list),
        Shown::Topologies(list) => list.iter().map(segments).collect(),
    }
}
