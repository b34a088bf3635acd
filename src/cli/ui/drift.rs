//! Drift as text and as JSON.
//!
//! Counts come first, then what is gone, then what is otherwise; what stayed is only counted. What
//! cannot be compared is named at the end, so that nobody takes silence for sameness.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::diagnostic::to_json;
use super::plan::{RED, YELLOW, shown};
use super::plan_json::shown_json;
use super::printer::one_line;
use super::time::ago;
use crate::diagnostic::{Diagnostics, SourceMap};
use crate::model::SetName;
use crate::plan::{Basis, DriftState, FieldDrift, FileSays, Intent, SeenEqual, Shown, VolumeDrift};

/// The version of the JSON's shape.
const FORMAT_VERSION: u32 = 1;

/// Drift with what is said beside it.
#[derive(Clone, Copy)]
pub(crate) struct DriftShown<'a> {
    /// Every volume that was looked at.
    pub volumes: &'a [VolumeDrift],
    /// What people call the server.
    pub server: &'a str,
    /// The set whose record it was held against, if there is one.
    pub set: Option<&'a SetName>,
    /// The texts that name the volumes.
    pub sources: &'a SourceMap,
}

/// How many volumes are in each state.
#[derive(Clone, Copy, Default)]
pub(super) struct DriftCounts {
    pub(super) gone: usize,
    pub(super) changed: usize,
    pub(super) same: usize,
    pub(super) not_yet: usize,
    pub(super) not_known: usize,
}

impl DriftCounts {
    pub(super) fn of(volumes: &[VolumeDrift]) -> Self {
        let mut counts = Self::default();
        for volume in volumes {
            let count = match volume.state {
                DriftState::Gone => &mut counts.gone,
                DriftState::Changed(_) => &mut counts.changed,
                DriftState::Same => &mut counts.same,
                DriftState::NotYet => &mut counts.not_yet,
                DriftState::NotKnown => &mut counts.not_known,
            };
            *count += 1;
        }
        counts
    }

    fn words(self, has_set: bool) -> String {
        let same = if has_set {
            "as applied"
        } else {
            "as the files say"
        };
        let parts: Vec<_> = [
            (self.gone, if has_set { "gone" } else { "not there" }),
            (self.changed, if has_set { "changed" } else { "otherwise" }),
            (self.not_known, "not known"),
            (self.not_yet, "not applied yet"),
            (self.same, same),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
        if parts.is_empty() {
            return "no volumes".to_owned();
        }
        parts.join(", ")
    }
}

/// Drift for people.
pub(crate) fn drift_text(found: DriftShown<'_>, now: i64) -> String {
    let counts = DriftCounts::of(found.volumes).words(found.set.is_some());
    let set = found
        .set
        .map_or_else(String::new, |set| format!("set {set} at "));
    let mut text = format!("Drift of {set}{}: {counts}.\n", one_line(found.server));
    for wanted in [0, 1, 2] {
        for volume in found.volumes {
            match (&volume.state, wanted) {
                (DriftState::Gone, 0) => text += &gone(volume, now),
                (DriftState::Changed(fields), 1) => text += &changed(volume, fields, now),
                (DriftState::NotKnown, 2) => text += &not_known(volume),
                (
                    DriftState::Gone
                    | DriftState::Changed(_)
                    | DriftState::NotKnown
                    | DriftState::Same
                    | DriftState::NotYet,
                    _,
                ) => {}
            }
        }
    }
    let beside = beside(found.volumes, now);
    if !beside.is_empty() {
        text.push('\n');
        text.push_str(&beside);
    }
    text
}

fn gone(volume: &VolumeDrift, now: i64) -> String {
    let key = one_line(&volume.key.to_string());
    let what = match volume.basis {
        Basis::Applied => "it is not there any more",
        Basis::File => "it is not there: never made, or removed",
    };
    let seen = last_seen(volume.seen_equal, now);
    format!("\n{RED}- gone {key}{RED:#}\n    {what}\n{seen}")
}

fn not_known(volume: &VolumeDrift) -> String {
    let key = one_line(&volume.key.to_string());
    format!(
        "\n{YELLOW}? not known {key}{YELLOW:#}\n    the set owns it, and neither the ledger nor a file says what it should be like\n"
    )
}

fn changed(volume: &VolumeDrift, fields: &[FieldDrift], now: i64) -> String {
    let key = one_line(&volume.key.to_string());
    let index = volume.modify_index.unwrap_or_default();
    let first = format!("\n{YELLOW}~ changed {key}{YELLOW:#}\n");
    let fields = fields
        .iter()
        .map(|field| format!("    {}\n", one_line(&of_field(field))));
    let stray = volume.span.is_none();
    let stray = stray.then(|| "    no file names it any more\n".to_owned());
    let last = format!("    last changed at index {index}\n");
    std::iter::once(first)
        .chain(fields)
        .chain(stray)
        .chain([last, last_seen(volume.seen_equal, now)])
        .collect()
}

fn of_field(drift: &FieldDrift) -> String {
    let field = drift.field;
    let now = shown(&drift.now);
    let before = match (&drift.before, &drift.now) {
        (Some(Shown::Hidden), Shown::Hidden) => return format!("{field}: changed, not shown"),
        (Some(before), _) => shown(before),
        (None, _) => "(something else)".to_owned(),
    };
    let file = match drift.file {
        FileSays::AsBefore => "",
        FileSays::AsNow => "; the file says so, too",
        FileSays::Other => "; the file says a third thing",
        FileSays::Nothing => "; the file says nothing of it any more",
    };
    format!("{field}: {before} -> {now}{file}")
}

fn last_seen(seen: Option<SeenEqual>, now: i64) -> String {
    seen.map_or_else(String::new, |seen| {
        let ago = ago(seen.at, now);
        format!(
            "    last seen as applied {ago}, at index {}\n",
            seen.modify_index
        )
    })
}

/// What is no drift, and to be known.
fn beside(volumes: &[VolumeDrift], now: i64) -> String {
    let unfinished = volumes.iter().filter_map(|volume| {
        let intent = volume.unfinished.as_ref()?;
        Some(one_line(&unfinished(volume, intent, now)) + "\n")
    });
    let lists = [
        fields(
            "Changed in the files since (`plan` shows it)",
            volumes,
            |one| &one.pending,
        ),
        fields("Changed on the server and ignored", volumes, |one| {
            &one.ignored
        }),
        fields("Not shown by the server, so not compared", volumes, |one| {
            &one.hidden
        }),
    ];
    unfinished.chain(lists.into_iter().flatten()).collect()
}

/// A line with the fields of a kind, each with the number of its volumes; none if there are none.
fn fields(
    what: &str,
    volumes: &[VolumeDrift],
    of: fn(&VolumeDrift) -> &Vec<&'static str>,
) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for field in volumes.iter().flat_map(of) {
        *counts.entry(field).or_default() += 1;
    }
    if counts.is_empty() {
        return None;
    }
    let counts = counts.into_iter();
    let counts: Vec<String> = counts
        .map(|(field, count)| format!("{field} of {count}"))
        .collect();
    Some(format!("{what}: {}.\n", counts.join(", ")))
}

fn unfinished(volume: &VolumeDrift, intent: &Intent, now: i64) -> String {
    format!(
        "Unfinished: volume {}: {}, begun {} by {}.",
        volume.key,
        intent.step.as_str(),
        ago(intent.since, now),
        intent.by
    )
}

/// Drift for machines: `docs/schemas/drift.v1.json` says its shape.
pub(crate) fn drift_json(found: DriftShown<'_>, remarks: &Diagnostics) -> Value {
    let counts = DriftCounts::of(found.volumes);
    let remarks = remarks.iter().map(|one| to_json(one, found.sources));
    json!({
        "format_version": FORMAT_VERSION,
        "server": found.server,
        "set": found.set.map(SetName::as_str),
        "counts": {
            "gone": counts.gone,
            "changed": counts.changed,
            "not_known": counts.not_known,
            "not_applied_yet": counts.not_yet,
            "same": counts.same,
        },
        "remarks": remarks.collect::<Vec<_>>(),
        "volumes": found.volumes.iter().map(|one| volume_json(one, found.sources)).collect::<Vec<_>>(),
    })
}

fn volume_json(volume: &VolumeDrift, sources: &SourceMap) -> Value {
    let fields = match &volume.state {
        DriftState::Changed(fields) => &fields[..],
        DriftState::Gone | DriftState::NotKnown | DriftState::NotYet | DriftState::Same => &[],
    };
    let span = volume.span;
    json!({
        "namespace": volume.key.namespace.as_str(),
        "id": volume.key.id.as_str(),
        "file": span.map(|span| sources.name(span.source)),
        "line": span.map(|span| sources.location(span).line),
        "state": volume.state.word(),
        "held_against": match volume.basis {
            Basis::Applied => "applied",
            Basis::File => "file",
        },
        "modify_index": volume.modify_index,
        "last_seen_as_applied": volume.seen_equal.map(|seen| json!({
            "modify_index": seen.modify_index,
            "time": seen.at,
        })),
        "fields": fields.iter().map(field_json).collect::<Vec<_>>(),
        "pending": volume.pending,
        "ignored": volume.ignored,
        "not_shown": volume.hidden,
        "unfinished": volume.unfinished.as_ref().map(|intent| json!({
            "step": intent.step.as_str(),
            "since": intent.since,
            "by": intent.by.to_string(),
        })),
    })
}

fn field_json(drift: &FieldDrift) -> Value {
    json!({
        "field": drift.field,
        "before_is_known": drift.before.is_some(),
        "before": drift.before.as_ref().map_or(Value::Null, shown_json),
        "now": shown_json(&drift.now),
        "file_says": match drift.file {
            FileSays::AsBefore => "as-before",
            FileSays::AsNow => "as-now",
            FileSays::Other => "other",
            FileSays::Nothing => "nothing",
        },
    })
}
