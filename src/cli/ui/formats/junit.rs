//! JUnit XML: one test case per volume, failed if the volume cannot reach its specified state.

use super::report_input::ReportInput;
use crate::cli::ui::markup::xml;
use crate::diagnostic::Diagnostic;
use crate::plan::PlannedVolume;

pub(super) fn junit(input: ReportInput<'_>) -> String {
    let volumes = &input.plan.volumes;
    let failures = input.plan.counts().blocked_or_waiting();
    let tests = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\"",
        volumes.len()
    );
    let cases: String = volumes.iter().map(case).collect();
    let server = xml(input.server);
    let lines = [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
        format!("<testsuites name=\"nomad-csi plan\" {tests}>"),
        format!("<testsuite name=\"{server}\" {tests} skipped=\"0\">"),
        format!("{cases}</testsuite>"),
        "</testsuites>".to_owned(),
    ];
    lines.join("\n")
}

fn case(planned: &PlannedVolume) -> String {
    let open = format!(
        "<testcase classname=\"{}\" name=\"{}\"",
        xml(planned.key.namespace.as_str()),
        xml(planned.key.id.as_str()),
    );
    let word = planned.change_name();
    match planned.action.reasons() {
        [] => format!("{open}><system-out>{word}</system-out></testcase>\n"),
        reasons => failure(&open, word, reasons),
    }
}

fn failure(open: &str, kind: &str, reasons: &[Diagnostic]) -> String {
    let message = reasons.first().map_or("", |reason| &reason.message);
    let mut lines = vec![];
    for reason in reasons {
        lines.push(format!("{}: {}", reason.code, reason.message));
        lines.extend(reason.notes.iter().chain(&reason.help).cloned());
    }
    format!(
        "{open}><failure type=\"{kind}\" message=\"{}\">{}</failure></testcase>\n",
        xml(message),
        xml(&lines.join("\n")),
    )
}
