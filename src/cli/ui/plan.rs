//! The entries of a plan as text: their order, headings and details.
//!
//! Colours carry no information of their own. Sizes appear with their exact bytes; secrets and mount flags
//! never appear.

use anstyle::{AnsiColor, Style};

use super::desired_volume::{desired, pairs, size};
use super::time::ago;
use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_plan::{
    Action, ActionCounts, Change, Expansion, FieldValue, Impact, LastSnapshot, Plan, PlannedVolume,
    ProtectionChange, Recreate, RegisterAgain, Replace, ReplaceSteps, Risk, SecretsChange, Update,
};

/// Returns the entries: blocked, waiting, then by descending risk.
pub(super) fn by_urgency(plan: &Plan) -> Vec<&PlannedVolume> {
    let urgency = |planned: &&PlannedVolume| match &planned.action {
        Action::Blocked(_) => 0,
        Action::WaitingForClaims(_) => 1,
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData => match planned.impact.as_ref().map(|impact| impact.risk) {
            Some(Risk::DestroysData) => 2,
            Some(Risk::LosesAccess) => 3,
            Some(Risk::NeedsDowntime) => 4,
            Some(Risk::Reversible) | None => 5,
        },
    };
    let mut volumes: Vec<_> = plan.volumes.iter().collect();
    volumes.sort_by_key(urgency);
    volumes
}

/// Returns the style, sign and verb of an entry; `None` for an unchanged volume.
pub(super) fn heading(planned: &PlannedVolume) -> Option<(Style, &'static str, &'static str)> {
    Some(match &planned.action {
        Action::Unchanged => (YELLOW, "~", planned.protection?.as_str()),
        Action::Create(_) => (GREEN, "+", "create"),
        Action::Register(_) => (GREEN, "+", "register"),
        Action::RegisterAgain(again) => match again.replaces {
            None => (GREEN, "+", "register again"),
            Some(_) => (YELLOW, "-+", "register again"),
        },
        Action::Recreate(_) => (RED, "!+", "recreate, empty:"),
        Action::Update(_) => (YELLOW, "~", "update"),
        Action::Expand(_) => (YELLOW, "~", "expand"),
        Action::Replace(_) => (RED, "-+", "replace"),
        Action::Deregister => (YELLOW, "-", "deregister"),
        Action::DeleteData => (RED, "-", "delete data of"),
        Action::WaitingForClaims(_) => (YELLOW, ">", "waiting"),
        Action::Blocked(_) => (RED, "!", "blocked"),
    })
}

/// Returns the details of an entry, one per line. `now` adds ages; a stored report has none, because
/// it is read later.
pub(super) fn details(planned: &PlannedVolume, now: Option<i64>) -> Vec<String> {
    let messages =
        |reasons: &[Diagnostic]| reasons.iter().map(|reason| reason.message.clone()).collect();
    let mut details = match &planned.action {
        Action::Unchanged | Action::Deregister | Action::DeleteData => vec![],
        Action::Create(request) | Action::Register(request) => desired(request),
        Action::RegisterAgain(again) => registered_again(again),
        Action::Recreate(recreate) => recreated(recreate),
        Action::Update(update) | Action::Expand(update) => updated(update),
        Action::Replace(replace) => replaced(replace),
        Action::WaitingForClaims(wait) => {
            let mut details: Vec<String> = messages(&wait.reasons);
            details.extend(wait.claims.iter().map(ToString::to_string));
            details
        }
        Action::Blocked(reasons) => messages(reasons),
    };
    details.extend(planned.protection.map(|change| {
        match change {
            ProtectionChange::Protect => "the set protects it from removal from now on",
            ProtectionChange::Unprotect => "the set no longer protects it from removal",
        }
        .to_owned()
    }));
    let is_risky = |impact: &&Impact| impact.risk > Risk::Reversible;
    let impact = planned.impact.iter().filter(is_risky);
    details.extend(impact.flat_map(|impact| impact_details(impact, now)));
    details
}

fn registered_again(again: &RegisterAgain) -> Vec<String> {
    let steps = again.replaces.iter().flat_map(|other| {
        [
            format!("step 1: remove the registration of {other}"),
            "step 2: register the recorded data".to_owned(),
        ]
    });
    steps.chain(desired(&again.request)).collect()
}

fn recreated(recreate: &Recreate) -> Vec<String> {
    let gone = "its registration is gone from the server".to_owned();
    let mut details = vec![gone, recreate.why.to_string()];
    details.extend(desired(&recreate.request));
    details
}

fn replaced(replace: &Replace) -> Vec<String> {
    let (first, second) = match replace.steps {
        ReplaceSteps::DeleteThenCreate => ("delete the data", "create an empty volume"),
        ReplaceSteps::DeregisterThenRegister => {
            ("remove the registration", "register the other volume")
        }
    };
    let snapshot = replace.snapshot_first.then_some("take a snapshot");
    let steps = snapshot.into_iter().chain([first, second]).enumerate();
    steps
        .map(|(at, step)| format!("step {}: {step}", at + 1))
        .chain(desired(&replace.request))
        .collect()
}

fn impact_details(impact: &Impact, now: Option<i64>) -> Vec<String> {
    let mut details = vec![format!("risk: {}", impact.risk)];
    if let Some(loss) = &impact.loss {
        let what = if loss.destroys_data { "data" } else { "registration" };
        let size =
            if loss.capacity.is_zero() { "size unknown".to_owned() } else { size(loss.capacity) };
        let external_id = loss.external_id.as_ref();
        let external_id = external_id.map_or("never recorded", |id| id.as_str());
        details.push(format!(
            "lost: the {what}, {size}, external ID {external_id} at plugin {}",
            loss.plugin_id
        ));
        details.extend(loss.destroys_data.then(|| last_snapshot(&loss.last_snapshot, now)));
    }
    details.push(format!("to undo: {}", impact.recovery));
    details
}

/// `1 to create, 2 unchanged.`
pub(super) fn counts(counts: ActionCounts) -> String {
    let parts: Vec<_> = [
        (counts.create, "to create"),
        (counts.register, "to register"),
        (counts.register_again, "to register again"),
        (counts.recreate, "to recreate empty"),
        (counts.update, "to update"),
        (counts.expand, "to expand"),
        (counts.replace, "to replace"),
        (counts.protection, "to change protection"),
        (counts.deregister, "to deregister"),
        (counts.delete_data, "to delete with data"),
        (counts.waiting, "waiting"),
        (counts.blocked, "blocked"),
        (counts.without_data, "without data"),
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

fn last_snapshot(snapshot: &LastSnapshot, now: Option<i64>) -> String {
    match snapshot {
        LastSnapshot::Unknown => "last snapshot: unknown".to_owned(),
        LastSnapshot::None => "last snapshot: none".to_owned(),
        LastSnapshot::Taken { id, at: 0 } => format!("last snapshot: {id}, time unknown"),
        LastSnapshot::Taken { id, at } => {
            let age = now.map(|now| format!(", {}", ago(*at, now)));
            let at = jiff::Timestamp::from_nanosecond(i128::from(*at));
            let at =
                at.map_or_else(|_| "time unknown".to_owned(), |at| format!("taken at {at:.0}"));
            format!("last snapshot: {id}, {at}{}", age.unwrap_or_default())
        }
    }
}

fn updated(update: &Update) -> Vec<String> {
    let mut details: Vec<String> = update.changes.iter().map(change).collect();
    if details.is_empty() {
        details.push("no difference; the volume is sent again as requested".to_owned());
    }
    match update.expansion {
        Expansion::Needed { .. } => {
            details.push("the provider expands the volume".to_owned());
        }
        Expansion::None | Expansion::Record => {}
    }
    for field in &update.resent_fields {
        details.push(format!(
            "{field}: sent with its stored value; otherwise this server would clear it"
        ));
    }
    for field in &update.cleared_fields {
        details.push(format!("{field}: cleared, as accepted"));
    }
    match update.secrets {
        SecretsChange::Replace => details.push("secrets: sent again".to_owned()),
        SecretsChange::Clear => details.push("secrets: cleared".to_owned()),
        SecretsChange::Keep => {}
    }
    details
}

/// Returns a change of a field in one line.
pub(super) fn change(change: &Change) -> String {
    if change.old == FieldValue::Hidden && change.new == FieldValue::Hidden {
        return format!("{}: changed, not shown", change.field);
    }
    format!("{}: {} -> {}", change.field, value_text(&change.old), value_text(&change.new))
}

pub(super) fn value_text(value: &FieldValue) -> String {
    match value {
        FieldValue::Absent => "none".to_owned(),
        FieldValue::Hidden => "(not shown)".to_owned(),
        FieldValue::Text(text) => format!("{text:?}"),
        FieldValue::Size(bytes) => size(*bytes),
        FieldValue::Map(map) => format!("{{{}}}", pairs(map)),
        FieldValue::Capabilities(list) => {
            let list: Vec<_> = list.iter().map(|capability| format!("({capability})")).collect();
            list.join(" ")
        }
        FieldValue::Topologies(list) => {
            let list: Vec<_> = list.iter().map(|place| format!("({place})")).collect();
            list.join(" ")
        }
    }
}
