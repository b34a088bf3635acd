//! Prints drift as text and as JSON.
//!
//! The counts come first, then missing volumes, then volumes without data, then changed ones. Unchanged volumes are only counted.
//! Fields that cannot be compared are listed at the end.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::diagnostic::diagnostic_json;
use super::plan::{RED, YELLOW, value_text};
use super::plan_json::value_json;
use super::printer::one_line;
use super::time::ago;
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_plan::{
    Baseline, DriftState, FieldDrift, FieldValue, FileState, Intent, LastVerified, VolumeDrift,
};

/// The version of the JSON format.
const FORMAT_VERSION: u32 = 1;

/// The result of a drift check, with its context.
#[derive(Clone, Copy)]
pub(crate) struct DriftShown<'a> {
    /// Every checked volume.
    pub volumes: &'a [VolumeDrift],
    /// The name of the server.
    pub server: &'a str,
    /// The set whose ledger is the baseline, if there is one.
    pub set: Option<&'a SetName>,
    /// The sources of the specifications.
    pub sources: &'a SourceMap,
}

/// How many volumes are in each state.
#[derive(Clone, Copy, Default)]
pub(super) struct DriftCounts {
    pub(super) gone: usize,
    pub(super) data_gone: usize,
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    pub(super) not_applied: usize,
    pub(super) unknown: usize,
}

impl DriftCounts {
    pub(super) fn of(volumes: &[VolumeDrift]) -> Self {
        let mut counts = Self::default();
        for volume in volumes {
            let count = match volume.state {
                DriftState::Gone => &mut counts.gone,
                DriftState::DataGone(_) => &mut counts.data_gone,
                DriftState::Changed(_) => &mut counts.changed,
                DriftState::Unchanged => &mut counts.unchanged,
                DriftState::NotApplied => &mut counts.not_applied,
                DriftState::Unknown => &mut counts.unknown,
            };
            *count += 1;
        }
        counts
    }

    fn words(self, has_set: bool) -> String {
        let parts: Vec<_> = [
            (self.gone, if has_set { "gone" } else { "missing" }),
            (self.data_gone, "without data"),
            (self.changed, if has_set { "changed" } else { "different" }),
            (self.unknown, "unknown"),
            (self.not_applied, "not applied yet"),
            (self.unchanged, if has_set { "unchanged" } else { "equal to the files" }),
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

/// Returns the drift as text.
pub(crate) fn drift_text(found: DriftShown<'_>, now: i64) -> String {
    let mut text = drift_summary(found) + "\n";
    for section in [0, 1, 2, 3] {
        for volume in found.volumes {
            match (&volume.state, section) {
                (DriftState::Gone, 0) => text += &gone(volume, now),
                (DriftState::DataGone(fields), 1) => text += &data_gone(volume, fields, now),
                (DriftState::Changed(fields), 2) => text += &changed(volume, fields, now),
                (DriftState::Unknown, 3) => text += &unknown(volume),
                (
                    DriftState::Gone
                    | DriftState::DataGone(_)
                    | DriftState::Changed(_)
                    | DriftState::Unknown
                    | DriftState::Unchanged
                    | DriftState::NotApplied,
                    _,
                ) => {}
            }
        }
    }
    let notes = notes(found.volumes, now);
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&notes);
    }
    text
}

/// Returns the first line of the text: the counts.
pub(super) fn drift_summary(found: DriftShown<'_>) -> String {
    let counts = DriftCounts::of(found.volumes).words(found.set.is_some());
    let set = found.set.map_or_else(String::new, |set| format!("set {set} at "));
    format!("Drift of {set}{}: {counts}.", one_line(found.server))
}

/// Returns the problem of a volume that has drifted, for reports; `None` if it has not.
pub(super) fn drift_problem(volume: &VolumeDrift) -> Option<Diagnostic> {
    let (what, fields) = match &volume.state {
        DriftState::Gone => ("no longer exists", &[][..]),
        DriftState::DataGone(fields) => {
            ("has no data: its provider no longer lists it", &fields[..])
        }
        DriftState::Changed(fields) => ("changed on the server", &fields[..]),
        DriftState::Unchanged | DriftState::NotApplied | DriftState::Unknown => return None,
    };
    let message = format!("volume {} {what}", volume.key.quoted());
    let problem = Diagnostic::warning(Code::DriftFound, message);
    let lines = fields.iter().map(|field| one_line(&field_text(field)));
    let problem = lines.fold(problem, Diagnostic::note);
    Some(match volume.span {
        Some(span) => problem.label(span, ""),
        None => problem,
    })
}

fn gone(volume: &VolumeDrift, now: i64) -> String {
    let key = one_line(&volume.key.to_string());
    let what = match volume.baseline {
        Baseline::Applied => "it no longer exists",
        Baseline::File => "it does not exist: never created, or removed",
    };
    let verified = last_verified(volume.last_verified, now);
    format!("\n{RED}- gone {key}{RED:#}\n    {what}\n{verified}")
}

fn data_gone(volume: &VolumeDrift, fields: &[FieldDrift], now: i64) -> String {
    let key = one_line(&volume.key.to_string());
    let first = format!("\n{RED}- data gone {key}{RED:#}\n");
    let what = "    it is registered, but its provider no longer lists its data\n".to_owned();
    let fields = fields.iter().map(|field| format!("    {}\n", one_line(&field_text(field))));
    [first, what]
        .into_iter()
        .chain(fields)
        .chain([last_verified(volume.last_verified, now)])
        .collect()
}

fn unknown(volume: &VolumeDrift) -> String {
    let key = one_line(&volume.key.to_string());
    format!(
        "\n{YELLOW}? unknown {key}{YELLOW:#}\n    the set owns it, but neither the ledger nor a file has values to compare\n"
    )
}

fn changed(volume: &VolumeDrift, fields: &[FieldDrift], now: i64) -> String {
    let key = one_line(&volume.key.to_string());
    let index = volume.spec_index.unwrap_or_default();
    let first = format!("\n{YELLOW}~ changed {key}{YELLOW:#}\n");
    let fields = fields.iter().map(|field| format!("    {}\n", one_line(&field_text(field))));
    let is_unnamed = volume.span.is_none();
    let unnamed = is_unnamed.then(|| "    no file declares it\n".to_owned());
    let last = format!("    last changed at index {index}\n");
    std::iter::once(first)
        .chain(fields)
        .chain(unnamed)
        .chain([last, last_verified(volume.last_verified, now)])
        .collect()
}

fn field_text(drift: &FieldDrift) -> String {
    let field = drift.field;
    let now = value_text(&drift.now);
    let before = match (&drift.before, &drift.now) {
        (Some(FieldValue::Hidden), FieldValue::Hidden) => {
            return format!("{field}: changed, not shown");
        }
        (Some(before), _) => value_text(before),
        (None, _) => "(another value)".to_owned(),
    };
    let file = match drift.file {
        FileState::MatchesBefore => "",
        FileState::MatchesNow => "; the file already has this value",
        FileState::Differs => "; the file has another value",
        FileState::Omitted => "; the file omits the field",
    };
    format!("{field}: {before} -> {now}{file}")
}

fn last_verified(verified: Option<LastVerified>, now: i64) -> String {
    verified.map_or_else(String::new, |verified| {
        let ago = ago(verified.at, now);
        format!("    last verified {ago}, at index {}\n", verified.spec_index)
    })
}

/// Returns the notes that are not drift: interrupted steps, and pending, ignored and hidden fields.
fn notes(volumes: &[VolumeDrift], now: i64) -> String {
    let interrupted = volumes.iter().filter_map(|volume| {
        let intent = volume.interrupted_step.as_ref()?;
        Some(one_line(&interrupted_step(volume, intent, now)) + "\n")
    });
    let lists = [
        fields(
            "Changed in the files since the last apply (run `plan` for details)",
            volumes,
            |one| &one.pending,
        ),
        fields("Changed on the server, but ignored", volumes, |one| &one.ignored),
        fields("Not compared, because the server does not show it", volumes, |one| {
            &one.not_comparable
        }),
    ];
    interrupted.chain(lists.into_iter().flatten()).collect()
}

/// Returns a line with the fields of a kind and their numbers of volumes; `None` if there are none.
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
        .map(|(field, count)| {
            let noun = if count == 1 { "volume" } else { "volumes" };
            format!("{field} of {count} {noun}")
        })
        .collect();
    Some(format!("{what}: {}.\n", counts.join(", ")))
}

fn interrupted_step(volume: &VolumeDrift, intent: &Intent, now: i64) -> String {
    format!(
        "Interrupted: volume {}: {}, started {} by {}.",
        volume.key,
        intent.step.as_str(),
        ago(intent.since, now),
        intent.by
    )
}

/// Returns the drift as JSON, in the format of `docs/schemas/drift.v1.json`.
pub(crate) fn drift_json(found: DriftShown<'_>, remarks: &Diagnostics) -> Value {
    let counts = DriftCounts::of(found.volumes);
    let remarks = remarks.iter().map(|one| diagnostic_json(one, found.sources));
    json!({
        "format_version": FORMAT_VERSION,
        "server": found.server,
        "set": found.set.map(SetName::as_str),
        "counts": {
            "gone": counts.gone,
            "data_gone": counts.data_gone,
            "changed": counts.changed,
            "unknown": counts.unknown,
            "not_applied": counts.not_applied,
            "unchanged": counts.unchanged,
        },
        "remarks": remarks.collect::<Vec<_>>(),
        "volumes": found.volumes.iter().map(|one| volume_json(one, found.sources)).collect::<Vec<_>>(),
    })
}

fn volume_json(volume: &VolumeDrift, sources: &SourceMap) -> Value {
    let fields = match &volume.state {
        DriftState::Changed(fields) | DriftState::DataGone(fields) => &fields[..],
        DriftState::Gone | DriftState::Unknown | DriftState::NotApplied | DriftState::Unchanged => {
            &[]
        }
    };
    let span = volume.span;
    json!({
        "namespace": volume.key.namespace.as_str(),
        "id": volume.key.id.as_str(),
        "file": span.map(|span| sources.name(span.source)),
        "line": span.map(|span| sources.location(span).line),
        "state": volume.state.as_str(),
        "baseline": match volume.baseline {
            Baseline::Applied => "applied",
            Baseline::File => "file",
        },
        "modify_index": volume.spec_index,
        "last_verified": volume.last_verified.map(|verified| json!({
            "modify_index": verified.spec_index,
            "time": verified.at,
        })),
        "fields": fields.iter().map(field_json).collect::<Vec<_>>(),
        "pending": volume.pending,
        "ignored": volume.ignored,
        "not_comparable": volume.not_comparable,
        "interrupted_step": volume.interrupted_step.as_ref().map(|intent| json!({
            "step": intent.step.as_str(),
            "since": intent.since,
            "by": intent.by.to_string(),
        })),
    })
}

fn field_json(drift: &FieldDrift) -> Value {
    json!({
        "field": drift.field,
        "before_known": drift.before.is_some(),
        "before": drift.before.as_ref().map_or(Value::Null, value_json),
        "now": value_json(&drift.now),
        "file_state": match drift.file {
            FileState::MatchesBefore => "matches-before",
            FileState::MatchesNow => "matches-now",
            FileState::Differs => "differs",
            FileState::Omitted => "omitted",
        },
    })
}
