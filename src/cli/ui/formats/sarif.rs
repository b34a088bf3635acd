//! SARIF 2.1.0: one run, one result per remark.
//!
//! The version, a location and its region are always there (tflint#1657): what is about no place in
//! a file is placed on the first line of the first specification, or left out of the locations if
//! there is none.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::report::Reported;
use crate::cli::ui::output::json_text;
use crate::diagnostic::{Code, Diagnostic, Severity, Span};
use crate::plan::Planned;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

pub(super) fn sarif(reported: Reported<'_>) -> String {
    let codes: BTreeSet<Code> = reported.remarks.iter().map(|remark| remark.code).collect();
    let results: Vec<Value> = reported
        .remarks
        .iter()
        .map(|one| result(one, reported))
        .collect();
    json_text(&json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "nomad-csi",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": codes.into_iter().map(rule).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    }))
}

fn rule(code: Code) -> Value {
    json!({
        "id": code.as_str(),
        "shortDescription": {"text": code.cause()},
        "help": {"text": code.remedy()},
    })
}

fn result(remark: &Diagnostic, reported: Reported<'_>) -> Value {
    let level = match remark.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let more = remark.notes.iter().chain(&remark.help);
    let text = std::iter::once(&remark.message).chain(more);
    let text = text.map(String::as_str).collect::<Vec<_>>().join("\n");
    let first = || reported.plan.volumes.iter().find_map(Planned::span);
    let place = remark.labels.first().map(|label| label.span).or_else(first);
    json!({
        "ruleId": remark.code.as_str(),
        "level": level,
        "message": {"text": text},
        "locations": place.map(|place| location(place, reported)).into_iter().collect::<Vec<_>>(),
    })
}

fn location(span: Span, reported: Reported<'_>) -> Value {
    let start = reported.sources.location(span);
    let end = reported.sources.location(Span {
        start: span.end,
        ..span
    });
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(reported.sources.name(span.source))},
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        },
    }})
}

/// A relative reference: separators are `/`, and what has a meaning in a URI is escaped.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./~".contains(&byte);
    path.replace('\\', "/")
        .bytes()
        .map(|byte| match byte {
            byte if plain(byte) => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_reference() {
        assert_eq!(uri("a b\\ä.hcl"), "a%20b/%C3%A4.hcl");
    }
}
