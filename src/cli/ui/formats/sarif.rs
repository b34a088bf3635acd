//! SARIF 2.1.0: one run, one result per problem.
//!
//! Consumers require the version, a location and its region. A problem without a place gets that of the
//! first specification. Without a specification, it has no location. GitHub shows at most 5,000 results
//! of a run. The last one says how many are left out.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::run_report::{Finding, Place, RunReport};
use crate::cli::ui::output::json_text;
use nomad_csi_model::diagnostic::{Code, Severity};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// The number of results that GitHub shows.
const MOST: usize = 5000;

pub(super) fn sarif(report: &RunReport) -> String {
    let shown = match report.findings.len() {
        count if count > MOST => MOST - 1,
        count => count,
    };
    let findings = &report.findings[..shown];
    let codes: BTreeSet<Code> = findings.iter().map(|finding| finding.code).collect();
    let results = findings.iter().map(|finding| result(finding, report));
    let left = report.findings.len() - shown;
    let rest = (left > 0).then(|| {
        json!({
            "level": "note",
            "message": {"text": format!("{left} more problems are in the log")},
            "locations": locations(None, report),
        })
    });
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
            "results": results.chain(rest).collect::<Vec<_>>(),
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

fn result(finding: &Finding, report: &RunReport) -> Value {
    let level = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    json!({
        "ruleId": finding.code.as_str(),
        "level": level,
        "message": {"text": finding.text},
        "locations": locations(finding.place.as_ref(), report),
    })
}

fn locations(place: Option<&Place>, report: &RunReport) -> Vec<Value> {
    let place = place.or(report.first_place.as_ref());
    place.map(location).into_iter().collect()
}

fn location(place: &Place) -> Value {
    json!({"physicalLocation": {
        "artifactLocation": {"uri": uri(&place.path())},
        "region": {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        },
    }})
}

/// Returns a relative URI reference with escaped characters.
fn uri(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./~".contains(&byte);
    path.bytes()
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
        let place = Place {
            file: ".\\a b\\ä.hcl".to_owned(),
            line: 1,
            column: 1,
            end_line: 1,
            end_column: 2,
        };
        assert_eq!(uri(&place.path()), "a%20b/%C3%A4.hcl");
    }

    #[test]
    fn results_beyond_the_limit_are_summed() {
        let finding = Finding {
            code: Code::PlanStale,
            severity: Severity::Error,
            text: "stale".to_owned(),
            place: None,
        };
        let report = RunReport { findings: vec![finding; MOST + 1], ..RunReport::default() };
        let document: Value = serde_json::from_str(&sarif(&report)).unwrap();
        let results = document["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results.len(), MOST);
        let last = results[MOST - 1]["message"]["text"].as_str().unwrap();
        assert!(last.starts_with("2 more"), "{last}");
    }
}
