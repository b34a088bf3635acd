//! JUnit XML: one test case per volume or file, and one for a run that failed for another reason. The times are those of the
//! run: its volumes have none of their own, because they are read and changed side by side.

use super::run_report::{Case, CaseResult, Finding, RunReport};
use crate::cli::ui::markup::xml;

pub(super) fn junit(report: &RunReport) -> String {
    let count = |is: fn(&CaseResult) -> bool| {
        let cases = report.cases.iter();
        cases.filter(|case| is(&case.result)).count()
    };
    let failures = count(|result| matches!(result, CaseResult::Failed { .. }));
    let skipped = count(|result| *result == CaseResult::Skipped);
    let run_errors = report.run_errors();
    let errors = usize::from(!run_errors.is_empty());
    let tests = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\"",
        report.cases.len() + errors
    );
    let name = format!("nomad-csi {}", report.command);
    let mut cases: String = report.cases.iter().map(case).collect();
    if errors > 0 {
        cases += &run_error(&name, &run_errors);
    }
    let elapsed = report.time.map_or_else(String::new, |time| {
        let milliseconds = time.ended.saturating_sub(time.started).max(0) / 1_000_000;
        format!(" time=\"{}.{:03}\"", milliseconds / 1000, milliseconds % 1000)
    });
    let started = report.time.and_then(|time| {
        let started = jiff::Timestamp::from_nanosecond(i128::from(time.started)).ok()?;
        Some(format!(" timestamp=\"{started:.0}\""))
    });
    let started = started.unwrap_or_default();
    let suite = xml(report.server.as_deref().unwrap_or("specifications"));
    let lines = [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
        format!("<testsuites name=\"{name}\" {tests}{elapsed}>"),
        format!("<testsuite name=\"{suite}\" {tests} skipped=\"{skipped}\"{elapsed}{started}>"),
        format!("{cases}</testsuite>"),
        "</testsuites>".to_owned(),
    ];
    lines.join("\n")
}

fn case(case: &Case) -> String {
    let open =
        format!("<testcase classname=\"{}\" name=\"{}\">", xml(&case.group), xml(&case.name),);
    let word = case.word;
    let inner = match &case.result {
        CaseResult::Passed => format!("<system-out>{word}</system-out>"),
        CaseResult::Skipped => format!("<skipped/><system-out>{word}</system-out>"),
        CaseResult::Failed { message, text } => {
            format!("<failure type=\"{word}\" message=\"{}\">{}</failure>", xml(message), xml(text))
        }
    };
    format!("{open}{inner}</testcase>\n")
}

fn run_error(name: &str, errors: &[&Finding]) -> String {
    let message = errors.first().map_or("", |finding| finding.message());
    let lines = errors.iter().map(|finding| format!("{}: {}", finding.code, finding.text));
    let lines: Vec<String> = lines.collect();
    format!(
        "<testcase classname=\"nomad-csi\" name=\"{name}\"><error type=\"failed\" message=\"{}\">{}</error></testcase>\n",
        xml(message),
        xml(&lines.join("\n")),
    )
}
