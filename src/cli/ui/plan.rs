//! A plan as text and as JSON.
//!
//! Counts come first, then what changes, old to new; what stays is only counted. Sizes are shown
//! both exactly and in bytes, secrets and mount flags never.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::diagnostic::to_json;
use super::printer::one_line;
use crate::diagnostic::{Diagnostic, SourceMap};
use crate::model::{Bytes, Topology, WantedRequest};
use crate::plan::{
    Action, Change, Counts, Expansion, Plan, Planned, Replace, ReplaceSteps, SecretsChange, Shown,
    Stakes, Update,
};

/// The version of [`plan_json`]'s shape; it changes only when a reader could break.
const FORMAT_VERSION: u32 = 1;

/// The plan for people.
pub(crate) fn plan_text(plan: &Plan, server: &str) -> String {
    let mut text = format!("Plan for {}: {}\n", one_line(server), counts(plan.counts()));
    for planned in &plan.volumes {
        if let Some((style, sign, verb)) = heading(&planned.action) {
            let key = one_line(&planned.key.to_string());
            text.push_str(&line(style, sign, verb, &key, &details(planned)));
        }
    }
    text
}

/// How an entry is announced; what stays as it is, is only counted.
fn heading(action: &Action) -> Option<(Style, &'static str, &'static str)> {
    Some(match action {
        Action::Unchanged => return None,
        Action::Create(_) => (GREEN, "+", "create"),
        Action::Register(_) => (GREEN, "+", "register"),
        Action::Update(_) => (YELLOW, "~", "update"),
        Action::Expand(_) => (YELLOW, "~", "expand"),
        Action::Replace(_) => (RED, "-+", "replace"),
        Action::Deregister => (YELLOW, "-", "deregister"),
        Action::DeleteData => (RED, "-", "delete data of"),
        Action::Waits(_) => (YELLOW, ">", "waits"),
        Action::Blocked(_) => (RED, "!", "blocked"),
    })
}

fn details(planned: &Planned) -> Vec<String> {
    let messages = |reasons: &[Diagnostic]| {
        reasons
            .iter()
            .map(|reason| reason.message.clone())
            .collect()
    };
    let mut details = match &planned.action {
        Action::Unchanged | Action::Deregister | Action::DeleteData => vec![],
        Action::Create(request) | Action::Register(request) => return wanted(request),
        Action::Update(update) | Action::Expand(update) => return updated(update),
        Action::Replace(replace) => replaced(replace),
        Action::Waits(wait) => {
            let mut details: Vec<String> = messages(&wait.reasons);
            details.extend(wait.holders.iter().map(ToString::to_string));
            details
        }
        Action::Blocked(reasons) => messages(reasons),
    };
    details.extend(planned.stakes.iter().flat_map(at_stake));
    details
}

fn replaced(replace: &Replace) -> Vec<String> {
    let (first, second) = match replace.steps {
        ReplaceSteps::DeleteThenCreate => ("delete the data", "create the volume, empty"),
        ReplaceSteps::DeregisterThenRegister => ("remove the registration", "register"),
    };
    let snapshot = replace.snapshot_first.then_some("take a snapshot");
    let steps = snapshot.into_iter().chain([first, second]).enumerate();
    steps
        .map(|(at, step)| format!("step {}: {step}", at + 1))
        .chain(wanted(&replace.request))
        .collect()
}

fn at_stake(stakes: &Stakes) -> Vec<String> {
    let mut details = vec![format!("risk: {}", stakes.risk)];
    if let Some(lost) = &stakes.lost {
        let what = if lost.data { "data" } else { "registration" };
        let size = if lost.capacity.is_zero() {
            "size not known".to_owned()
        } else {
            size(lost.capacity)
        };
        details.push(format!(
            "lost: the {what}, {size}, external ID {} at plugin {}",
            lost.external_id, lost.plugin_id
        ));
    }
    details.push(format!("to undo: {}", stakes.undo));
    details
}

/// `1 to create, 2 unchanged.`
pub(super) fn counts(counts: Counts) -> String {
    let parts: Vec<_> = [
        (counts.create, "to create"),
        (counts.register, "to register"),
        (counts.update, "to update"),
        (counts.expand, "to expand"),
        (counts.replace, "to replace"),
        (counts.deregister, "to deregister"),
        (counts.delete_data, "to delete with their data"),
        (counts.waits, "waiting"),
        (counts.blocked, "blocked"),
        (counts.unchanged, "unchanged"),
    ]
    .into_iter()
    .filter(|(count, _)| *count > 0)
    .map(|(count, what)| format!("{count} {what}"))
    .collect();
    if parts.is_empty() {
        return "no volumes.".to_owned();
    }
    format!("{}.", parts.join(", "))
}

const GREEN: Style = AnsiColor::Green.on_default();
const YELLOW: Style = AnsiColor::Yellow.on_default();
const RED: Style = AnsiColor::Red.on_default();

fn line(style: Style, sign: &str, verb: &str, key: &str, details: &[String]) -> String {
    let first = format!("\n{style}{sign} {verb} {key}{style:#}\n");
    let others = details
        .iter()
        .map(|detail| format!("    {}\n", one_line(detail)));
    std::iter::once(first).chain(others).collect()
}

fn wanted(request: &WantedRequest) -> Vec<String> {
    let mut details = vec![format!("plugin {}", request.plugin_id)];
    if let Some(external_id) = &request.external_id {
        details.push(format!("external ID {external_id}"));
    }
    let (min, max) = (request.capacity.min, request.capacity.max);
    match (min.is_zero(), max.is_zero()) {
        (true, true) => {}
        (false, true) => details.push(format!("at least {}", size(min))),
        (true, false) => details.push(format!("at most {}", size(max))),
        (false, false) => details.push(format!("from {} to {}", size(min), size(max))),
    }
    for (source, what) in [
        (&request.snapshot_id, "snapshot"),
        (&request.clone_id, "volume"),
    ] {
        if let Some(source) = source {
            details.push(format!("filled from {what} {source}"));
        }
    }
    details.extend(request.capabilities.iter().map(ToString::to_string));
    details
}

fn updated(update: &Update) -> Vec<String> {
    let mut details: Vec<String> = update.changes.iter().map(change).collect();
    if details.is_empty() {
        details.push("nothing differs; it is sent again as asked".to_owned());
    }
    match update.expansion {
        Expansion::Needed { .. } => {
            details.push("the storage provider is asked to expand it".to_owned());
        }
        Expansion::None | Expansion::Record => {}
    }
    match update.secrets {
        SecretsChange::Replace => details.push("secrets are sent again".to_owned()),
        SecretsChange::Clear => details.push("secrets: none afterwards".to_owned()),
        SecretsChange::Keep => {}
    }
    details
}

fn change(change: &Change) -> String {
    if change.old == Shown::Hidden && change.new == Shown::Hidden {
        return format!("{}: changes, not shown", change.field);
    }
    format!(
        "{}: {} -> {}",
        change.field,
        shown(&change.old),
        shown(&change.new)
    )
}

fn shown(value: &Shown) -> String {
    match value {
        Shown::Absent => "none".to_owned(),
        Shown::Hidden => "(not shown)".to_owned(),
        Shown::Text(text) => format!("{text:?}"),
        Shown::Size(bytes) => size(*bytes),
        Shown::Map(map) => format!("{{{}}}", pairs(map)),
        Shown::Capabilities(list) => {
            let list: Vec<_> = list
                .iter()
                .map(|capability| format!("({capability})"))
                .collect();
            list.join(" ")
        }
        Shown::Topologies(list) => {
            let list: Vec<_> = list.iter().map(|place| format!("({place})")).collect();
            list.join(" ")
        }
    }
}

fn size(bytes: Bytes) -> String {
    format!("{bytes} ({} bytes)", bytes.get())
}

fn pairs(map: &BTreeMap<String, String>) -> String {
    let pairs: Vec<_> = map
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    pairs.join(", ")
}

/// The plan for machines. `null` stands for "none", `{"hidden": true}` for what is never shown.
pub(crate) fn plan_json(plan: &Plan, server: &str, sources: &SourceMap) -> Value {
    let counts = plan.counts();
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
        "volumes": plan.volumes.iter().map(|planned| planned_json(planned, sources)).collect::<Vec<_>>(),
    })
}

fn planned_json(planned: &Planned, sources: &SourceMap) -> Value {
    let span = planned.span();
    let mut object = json!({
        "namespace": planned.key.namespace.as_str(),
        "id": planned.key.id.as_str(),
        "file": span.map(|span| sources.name(span.source)),
        "line": span.map(|span| sources.location(span).line),
        "action": action_word(&planned.action),
        "changes": [],
        "expands": false,
        "secrets": "kept",
        "reasons": [],
        "warnings": planned.warnings.iter().map(|one| to_json(one, sources)).collect::<Vec<_>>(),
    });
    match &planned.action {
        Action::Update(update) | Action::Expand(update) => {
            object["changes"] = update.changes.iter().map(change_json).collect();
            object["expands"] = matches!(update.expansion, Expansion::Needed { .. }).into();
            object["secrets"] = secrets_word(update.secrets).into();
        }
        Action::Blocked(reasons) => {
            object["reasons"] = reasons.iter().map(|one| to_json(one, sources)).collect();
        }
        Action::Waits(wait) => {
            object["reasons"] = wait
                .reasons
                .iter()
                .map(|one| to_json(one, sources))
                .collect();
        }
        Action::Create(_) | Action::Register(_) | Action::Replace(_) => {
            let secrets = planned
                .request()
                .and_then(|request| request.secrets.as_ref());
            let sent = secrets.is_some_and(|secrets| !secrets.is_empty());
            object["secrets"] = if sent { "sent" } else { "none" }.into();
        }
        Action::Unchanged | Action::Deregister | Action::DeleteData => {}
    }
    object
}

fn action_word(action: &Action) -> &'static str {
    match action {
        Action::Create(_) => "create",
        Action::Register(_) => "register",
        Action::Update(_) => "update",
        Action::Expand(_) => "expand",
        Action::Replace(_) => "replace",
        Action::Deregister => "deregister",
        Action::DeleteData => "delete-data",
        Action::Waits(_) => "waits",
        Action::Unchanged => "unchanged",
        Action::Blocked(_) => "blocked",
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

fn shown_json(value: &Shown) -> Value {
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
