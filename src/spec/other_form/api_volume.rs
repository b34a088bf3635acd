//! Volumes in the form of Nomad's HTTP API: the body of a request, or what `nomad volume status -json` prints.
//!
//! Their keys are in CamelCase. Such a file gets one error, because each of its keys would be another one. A file with
//! a key of a specification is a specification with mistakes.

use std::ops::Range;

use super::translation::{example, key_span, written};
use crate::schema::{self, Field};
use crate::syntax::Syntax;
use crate::tree::{Object, Value};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span};

/// The keys of a volume that only the API writes so. Nomad accepts other ones in a file too, in any case.
const API_KEYS: [&str; 11] = [
    "PluginID",
    "ExternalID",
    "SnapshotID",
    "CloneID",
    "RequestedCapacityMin",
    "RequestedCapacityMax",
    "RequestedCapabilities",
    "RequestedTopologies",
    "MountOptions",
    "ControllerRequired",
    "CurrentReaders",
];

/// The keys that only a server sets.
const RETURNED: [&str; 6] =
    ["CreateIndex", "ModifyIndex", "Schedulable", "ControllerRequired", "Allocations", "Capacity"];

/// Reports that the documents of a text are volumes of the API. Returns whether they are.
pub(crate) fn refuse_api_volumes(
    documents: &[Object<'_>],
    syntax: Syntax,
    diagnostics: &mut Diagnostics,
) -> bool {
    let mut place = None;
    let mut volumes = vec![];
    for document in documents {
        place = place.or(add_api_volumes(document, &mut volumes));
    }
    let Some(place) = place else {
        return false;
    };
    let is_returned =
        volumes.iter().any(|volume| key_span(volume, |key| RETURNED.contains(&key)).is_some());
    let problem = problem(place, is_returned, &written(&volumes, syntax, key_of));
    diagnostics.push(problem);
    true
}

/// Reports a text whose top level is a list, if the list is one of volumes of the API.
pub(crate) fn refuse_api_text(text: &str, source: SourceId, syntax: Syntax) -> Option<Diagnostic> {
    const BLANKS: [char; 5] = ['\u{feff}', ' ', '\t', '\r', '\n'];
    let trimmed = text.trim_start_matches(BLANKS);
    // In YAML, `---` starts a document.
    let trimmed = trimmed.strip_prefix("---").unwrap_or(trimmed).trim_start_matches(BLANKS);
    let is_json = trimmed.starts_with('[');
    if !is_json && !trimmed.strip_prefix('-')?.starts_with([' ', '\t', '\r', '\n']) {
        return None;
    }
    let mut start = 0;
    let place = text.split_inclusive('\n').find_map(|line| {
        let content = if is_json { line } else { without_comment(line) };
        let found = api_key(content).map(|key| start + key.start..start + key.end);
        start += line.len();
        found
    })?;
    let place = SourceMap::span(source, place);
    let is_returned = RETURNED.iter().any(|key| text.contains(key));
    let syntax = if is_json { Syntax::Json } else { syntax };
    Some(problem(place, is_returned, example(syntax).trim_end()))
}

/// Returns a line of YAML up to its comment.
fn without_comment(line: &str) -> &str {
    let is_comment = |at: &usize| {
        let before = line.get(..*at).and_then(|text| text.chars().next_back());
        before.is_none_or(char::is_whitespace)
    };
    let end = line.match_indices('#').map(|(at, _)| at).find(is_comment);
    line.get(..end.unwrap_or(line.len())).unwrap_or_default()
}

/// Returns the place of the first key of the API in a line.
fn api_key(line: &str) -> Option<Range<usize>> {
    let first = API_KEYS.iter().filter_map(|key| {
        let is_key = |at: &usize| {
            let before = line.get(..*at).and_then(|text| text.chars().next_back());
            let after = line.get(at + key.len()..).unwrap_or_default();
            after.trim_start_matches(['"', '\'', ' ']).starts_with(':')
                && before.is_none_or(|c| !c.is_alphanumeric())
        };
        let at = line.match_indices(key).map(|(at, _)| at).find(is_key)?;
        Some(at..at + key.len())
    });
    first.min_by_key(|key| key.start)
}

fn problem(place: Span, is_returned: bool, specification: &str) -> Diagnostic {
    let message = match is_returned {
        true => "this is a volume as Nomad's HTTP API returns it, not a specification",
        false => "this is the body of a request to Nomad's HTTP API, not a specification",
    };
    Diagnostic::error(Code::SpecOtherForm, message)
        .label(place, "a key of the HTTP API")
        .help("for a volume that exists, write its specification with `nomad-csi import ID`")
        .block(format!("for a new volume, write these keys:\n{specification}"))
}

/// Adds the volumes of a document that has the form of the API. Returns the position of a key that shows it.
fn add_api_volumes<'t, 'a>(
    document: &'t Object<'a>,
    volumes: &mut Vec<&'t Object<'a>>,
) -> Option<Span> {
    if let Some(place) = api_place(document, &API_KEYS) {
        volumes.push(document);
        return Some(place);
    }
    let mut found = None;
    for entry in &document.entries {
        let key = &*entry.key.text;
        if !matches!(key, "Volumes" | "Volume" | "volumes" | "volume") || !entry.labels.is_empty() {
            continue;
        }
        match &entry.value.value {
            Value::Object(volume)
                if api_place(volume, &API_KEYS).is_some()
                    || key.starts_with('V') && api_place(volume, &["ID"]).is_some() =>
            {
                volumes.push(volume);
                found = found.or(Some(entry.key.span));
            }
            Value::List(items) if key == "Volumes" && items.is_empty() => {
                found = found.or(Some(entry.key.span));
            }
            Value::Null
            | Value::Invalid
            | Value::Scalar(_)
            | Value::Reference(_)
            | Value::Unknown
            | Value::Expression(_)
            | Value::List(_)
            | Value::Object(_) => {}
        }
    }
    found
}

/// Returns the position of the first of some keys, which shows that an object is a volume of the API.
fn api_place(object: &Object<'_>, keys: &[&str]) -> Option<Span> {
    let is_of_specification = |key: &str| {
        !key.starts_with(|c: char| c.is_uppercase())
            && (schema::volume_field(key).is_some() || key.eq_ignore_ascii_case("volume"))
    };
    let place = key_span(object, |key| keys.contains(&key))?;
    key_span(object, is_of_specification).is_none().then_some(place)
}

/// Returns the key of a specification for a key of the API.
fn key_of(table: &'static [Field], key: &str) -> Option<&'static str> {
    let field = table.iter().find(|field| !field.api.is_empty() && field.api == key);
    // A block has two keys for the ID.
    field.map(|field| if field.key == "source" { "id" } else { field.key })
}
