//! A plan as text.
//!
//! Counts come first, then what cannot be done, then what is risky, the worst first, then the rest;
//! what stays is only counted. Signs and words say all that colours do. Sizes are shown both exactly
//! and in bytes, secrets and mount flags never.

use std::collections::BTreeMap;

use anstyle::{AnsiColor, Style};

use super::printer::one_line;
use super::time::ago;
use crate::diagnostic::Diagnostic;
use crate::model::{Bytes, WantedRequest};
use crate::plan::{
    Action, Change, Counts, Expansion, LastSnapshot, Plan, Planned, Replace, ReplaceSteps, Risk,
    SecretsChange, Shown, Stakes, Update,
};

/// The plan for people.
pub(crate) fn plan_text(plan: &Plan, server: &str, now: i64) -> String {
    let mut text = format!("Plan for {}: {}\n", one_line(server), counts(plan.counts()));
    text.push_str(&danger(plan));
    for planned in by_urgency(plan) {
        if let Some((style, sign, verb)) = heading(&planned.action) {
            let key = one_line(&planned.key.to_string());
            text.push_str(&line(style, sign, verb, &key, &details(planned, Some(now))));
        }
    }
    text
}

/// What cannot be done, then what is risky, the worst first, then the rest.
pub(super) fn by_urgency(plan: &Plan) -> Vec<&Planned> {
    let urgency = |planned: &&Planned| match &planned.action {
        Action::Blocked(_) => 0,
        Action::Waits(_) => 1,
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData => match planned.stakes.as_ref().map(|stakes| stakes.risk) {
            Some(Risk::DestroysData) => 2,
            Some(Risk::NeedsDowntime) => 3,
            Some(Risk::Reversible) | None => 4,
        },
    };
    let mut volumes: Vec<_> = plan.volumes.iter().collect();
    volumes.sort_by_key(urgency);
    volumes
}

/// A line on what is worse than reversible; nothing if nothing is.
fn danger(plan: &Plan) -> String {
    let of = |risk: Risk| {
        let stakes = plan.volumes.iter().filter_map(|one| one.stakes.as_ref());
        stakes.filter(|stakes| stakes.risk == risk).count()
    };
    let (data, downtime) = (of(Risk::DestroysData), of(Risk::NeedsDowntime));
    let parts: Vec<_> = [(data, "destroys data"), (downtime, "needs downtime")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("{RED}Risk: {}.{RED:#}\n", parts.join(", "))
}

/// How an entry is announced; what stays as it is, is only counted.
pub(super) fn heading(action: &Action) -> Option<(Style, &'static str, &'static str)> {
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

/// What there is to say of an entry, a line each. With `now`, ages are said too: whoever keeps a report
/// reads it at another time.
pub(super) fn details(planned: &Planned, now: Option<i64>) -> Vec<String> {
    let messages = |reasons: &[Diagnostic]| {
        reasons
            .iter()
            .map(|reason| reason.message.clone())
            .collect()
    };
    let mut details = match &planned.action {
        Action::Unchanged | Action::Deregister | Action::DeleteData => vec![],
        Action::Create(request) | Action::Register(request) => wanted(request),
        Action::Update(update) | Action::Expand(update) => updated(update),
        Action::Replace(replace) => replaced(replace),
        Action::Waits(wait) => {
            let mut details: Vec<String> = messages(&wait.reasons);
            details.extend(wait.holders.iter().map(ToString::to_string));
            details
        }
        Action::Blocked(reasons) => messages(reasons),
    };
    let risky = |stakes: &&Stakes| stakes.risk > Risk::Reversible;
    let stakes = planned.stakes.iter().filter(risky);
    details.extend(stakes.flat_map(|stakes| at_stake(stakes, now)));
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

fn at_stake(stakes: &Stakes, now: Option<i64>) -> Vec<String> {
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
        details.extend(lost.data.then(|| last_snapshot(&lost.last_snapshot, now)));
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
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(super) const RED: Style = AnsiColor::Red.on_default();

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

fn last_snapshot(snapshot: &LastSnapshot, now: Option<i64>) -> String {
    match snapshot {
        LastSnapshot::Unknown => "last snapshot: not known".to_owned(),
        LastSnapshot::None => "last snapshot: there is none".to_owned(),
        LastSnapshot::Taken { id, at: 0 } => format!("last snapshot: {id}, taken nobody says when"),
        LastSnapshot::Taken { id, at } => {
            let age = now.map(|now| format!(", {}", ago(*at, now)));
            let at = jiff::Timestamp::from_nanosecond(i128::from(*at));
            let at = at.map_or_else(
                |_| "nobody says when".to_owned(),
                |at| format!("at {at:.0}"),
            );
            format!("last snapshot: {id}, taken {at}{}", age.unwrap_or_default())
        }
    }
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
    for field in &update.sent_again {
        details.push(format!(
            "{field}: sent again as it is, this server would lose it"
        ));
    }
    for field in &update.losses {
        details.push(format!("{field}: lost, as was accepted"));
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

pub(super) fn shown(value: &Shown) -> String {
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
