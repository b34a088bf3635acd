//! GitLab's code quality report: a list with one entry per problem.
//!
//! GitLab compares the reports of two branches by the fingerprints, so a fingerprint has no line: a problem
//! that moves is the same problem. The order distinguishes equal problems of a file.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::run_report::{Finding, Place, RunReport};
use crate::cli::ui::output::json_text;
use nomad_csi_model::diagnostic::Severity;
use nomad_csi_model::hex;

pub(super) fn gitlab(report: &RunReport) -> String {
    let mut seen: BTreeMap<(String, &str, &str), usize> = BTreeMap::new();
    let findings = report.findings.iter();
    let entries: Vec<Value> = findings
        .map(|finding| {
            let place = finding.place.as_ref().or(report.first_place.as_ref());
            let path = place.map_or_else(|| "nomad-csi".to_owned(), Place::path);
            let line = place.map_or(1, |place| place.line);
            let key = (path.clone(), finding.code.as_str(), finding.message());
            let order = seen.entry(key).or_default();
            *order += 1;
            json!({
                "description": finding.text,
                "check_name": finding.code.as_str(),
                "fingerprint": fingerprint(&path, finding, *order),
                "severity": match finding.severity {
                    Severity::Error => "major",
                    Severity::Warning => "minor",
                },
                "location": {"path": path, "lines": {"begin": line}},
            })
        })
        .collect();
    json_text(&Value::from(entries))
}

fn fingerprint(path: &str, finding: &Finding, order: usize) -> String {
    let (code, message) = (finding.code.as_str(), finding.message());
    let digest = Sha256::digest(format!("{path}\0{code}\0{message}\0{order}"));
    hex(&digest[..16]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::diagnostic::Code;

    #[test]
    fn a_problem_that_moves_keeps_its_fingerprint() {
        let finding = |line| Finding {
            code: Code::PlanStale,
            severity: Severity::Error,
            text: "stale\nwhy".to_owned(),
            place: Some(Place {
                file: "a.hcl".to_owned(),
                line,
                column: 1,
                end_line: line,
                end_column: 2,
            }),
        };
        let fingerprints = |lines: &[usize]| -> Vec<String> {
            let report = RunReport {
                findings: lines.iter().map(|line| finding(*line)).collect(),
                ..RunReport::default()
            };
            let entries: Vec<Value> = serde_json::from_str(&gitlab(&report)).unwrap();
            let text = |entry: &Value| entry["fingerprint"].as_str().unwrap().to_owned();
            entries.iter().map(text).collect()
        };
        let two = fingerprints(&[1, 9]);
        assert_eq!(fingerprints(&[4, 5]), two);
        assert_ne!(two[0], two[1]);
    }
}
