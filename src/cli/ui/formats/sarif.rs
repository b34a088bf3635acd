//! SARIF 2.1.0: one run, one result per diagnostic.
//!
//! Consumers require the version, a location and its region. A diagnostic without a position gets the
//! position of the first specification. Without a specification, it has no location.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::report_input::ReportInput;
use crate::cli::ui::output::json_text;
use crate::diagnostic::{Code, Diagnostic, Severity, Span};
use crate::plan::PlannedVolume;

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

pub(super) fn sarif(input: ReportInput<'_>) -> String {
    let codes: BTreeSet<Code> = input
        .diagnostics
        .iter()
        .map(|diagnostic| diagnostic.code)
        .collect();
    let results: Vec<Value> = input
        .diagnostics
        .iter()
        .map(|one| result(one, input))
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

fn result(diagnostic: &Diagnostic, input: ReportInput<'_>) -> Value {
    let level = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let more = diagnostic.notes.iter().chain(&diagnostic.help);
    let text = std::iter::once(&diagnostic.message).chain(more);
    let text = text.map(String::as_str).collect::<Vec<_>>().join("\n");
    let first = || input.plan.volumes.iter().find_map(PlannedVolume::span);
    let place = diagnostic
        .labels
        .first()
        .map(|label| label.span)
        .or_else(first);
    json!({
        "ruleId": diagnostic.code.as_str(),
        "level": level,
        "message": {"text": text},
        "locations": place.map(|place| location(place, input)).into_iter().collect::<Vec<_>>(),
    })
}

fn location(span: Span, input: ReportInput<'_>) -> Value {
    let start = input.sources.location(span);
    let end = input.sources.location(Span {
        start: span.end,
        ..span
    });
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(input.sources.name(span.source))},
        "region": {
            "startLine": start.line,
            "startColumn": start.column,
            "endLine": end.line,
            "endColumn": end.column,
        },
    }})
}

/// Returns a relative URI reference with `/` separators and escaped characters.
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
    fn a_path_becomes_a_uri_reference() {
        assert_eq!(uri("a b\\ä.hcl"), "a%20b/%C3%A4.hcl");
    }
}
