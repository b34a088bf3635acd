//! A plan as text and as JSON.
//!
//! Counts come first, then what changes, old to new; what stays is only counted. Sizes are shown
//! both exactly and in bytes, secrets and mount flags never.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::diagnostic::to_json;
use super::printer::one_line;
use crate::diagnostic::SourceMap;
use crate::model::{Bytes, Topology, VolumeRequest};
use crate::plan::{Action, Change, Counts, Expansion, Plan, Planned, SecretsChange, Shown, Update};

/// The version of [`plan_json`]'s shape; it changes only when a reader could break.
const FORMAT_VERSION: u32 = 1;

/// The plan for people.
pub(crate) fn plan_text(plan: &Plan, server: &str) -> String {
    let mut text = format!("Plan for {}: {}\n", one_line(server), counts(plan.counts()));
    for planned in &plan.volumes {
        let key = one_line(&planned.spec.key().to_string());
        match &planned.action {
            Action::Unchanged => {}
            Action::Create => {
                text.push_str(&line(GREEN, '+', "create", &key, &wanted(&planned.request)));
            }
            Action::Register => {
                text.push_str(&line(
                    GREEN,
                    '+',
                    "register",
                    &key,
                    &wanted(&planned.request),
                ));
            }
            Action::Update(update) => {
                text.push_str(&line(YELLOW, '~', "update", &key, &updated(update)));
            }
            Action::Blocked(reasons) => {
                let reasons: Vec<_> = reasons
                    .iter()
                    .map(|reason| reason.message.clone())
                    .collect();
                text.push_str(&line(RED, '!', "blocked", &key, &reasons));
            }
        }
    }
    text
}

/// `1 to create, 2 unchanged.`
pub(super) fn counts(counts: Counts) -> String {
    let parts: Vec<_> = [
        (counts.create, "to create"),
        (counts.register, "to register"),
        (counts.update, "to update"),
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

fn line(style: Style, sign: char, verb: &str, key: &str, details: &[String]) -> String {
    let first = format!("\n{style}{sign} {verb} {key}{style:#}\n");
    let others = details
        .iter()
        .map(|detail| format!("    {}\n", one_line(detail)));
    std::iter::once(first).chain(others).collect()
}

fn wanted(request: &VolumeRequest) -> Vec<String> {
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
            "blocked": counts.blocked,
            "unchanged": counts.unchanged,
        },
        "volumes": plan.volumes.iter().map(|planned| planned_json(planned, sources)).collect::<Vec<_>>(),
    })
}

fn planned_json(planned: &Planned, sources: &SourceMap) -> Value {
    let place = sources.location(planned.spec.span);
    let mut object = json!({
        "namespace": planned.spec.request.namespace.as_str(),
        "id": planned.spec.request.id.as_str(),
        "file": sources.name(planned.spec.span.source),
        "line": place.line,
        "action": action_word(&planned.action),
        "changes": [],
        "expands": false,
        "secrets": "kept",
        "reasons": [],
        "warnings": planned.warnings.iter().map(|one| to_json(one, sources)).collect::<Vec<_>>(),
    });
    match &planned.action {
        Action::Update(update) => {
            object["changes"] = update.changes.iter().map(change_json).collect();
            object["expands"] = matches!(update.expansion, Expansion::Needed { .. }).into();
            object["secrets"] = secrets_word(update.secrets).into();
        }
        Action::Blocked(reasons) => {
            object["reasons"] = reasons.iter().map(|one| to_json(one, sources)).collect();
        }
        Action::Create | Action::Register => {
            let secrets = planned.request.secrets.as_ref();
            let sent = secrets.is_some_and(|secrets| !secrets.is_empty());
            object["secrets"] = if sent { "sent" } else { "none" }.into();
        }
        Action::Unchanged => {}
    }
    object
}

fn action_word(action: &Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Register => "register",
        Action::Update(_) => "update",
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
