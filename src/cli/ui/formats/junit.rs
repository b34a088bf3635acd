//! JUnit's XML: one test case per volume, failed if it cannot be brought to where it is wanted.

use super::report::Reported;
use crate::cli::ui::markup::xml;
use crate::diagnostic::Diagnostic;
use crate::plan::Planned;

pub(super) fn junit(reported: Reported<'_>) -> String {
    let volumes = &reported.plan.volumes;
    let failures = reported.plan.counts().stuck();
    let tests = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\"",
        volumes.len()
    );
    let cases: String = volumes.iter().map(case).collect();
    let server = xml(reported.server);
    let lines = [
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>".to_owned(),
        format!("<testsuites name=\"nomad-csi plan\" {tests}>"),
        format!("<testsuite name=\"{server}\" {tests} skipped=\"0\">"),
        format!("{cases}</testsuite>"),
        "</testsuites>".to_owned(),
    ];
    lines.join("\n")
}

fn case(planned: &Planned) -> String {
    let open = format!(
        "<testcase classname=\"{}\" name=\"{}\"",
        xml(planned.key.namespace.as_str()),
        xml(planned.key.id.as_str()),
    );
    let word = planned.action.word();
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
