//! JUnit's XML: one test case per volume, failed if it cannot be brought to where it is wanted.

use super::report::Reported;
use crate::diagnostic::Diagnostic;
use crate::plan::{Action, Planned};

pub(super) fn junit(reported: Reported<'_>) -> String {
    let volumes = &reported.plan.volumes;
    let failures = reported.plan.counts().stuck();
    let tests = format!(
        "tests=\"{}\" failures=\"{failures}\" errors=\"0\"",
        volumes.len()
    );
    let cases: String = volumes.iter().map(case).collect();
    let server = escaped(reported.server);
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
        escaped(planned.key.namespace.as_str()),
        escaped(planned.key.id.as_str()),
    );
    match &planned.action {
        Action::Blocked(reasons) => failure(&open, "blocked", reasons),
        Action::Waits(wait) => failure(&open, "waits", &wait.reasons),
        Action::Unchanged
        | Action::Create(_)
        | Action::Register(_)
        | Action::Update(_)
        | Action::Expand(_)
        | Action::Replace(_)
        | Action::Deregister
        | Action::DeleteData => {
            let word = planned.action.word();
            format!("{open}><system-out>{word}</system-out></testcase>\n")
        }
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
        escaped(message),
        escaped(&lines.join("\n")),
    )
}

/// XML has no way to write most control characters, so they are left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_xml_is_escaped() {
        assert_eq!(
            escaped("<a b=\"c\">&\u{7}"),
            "&lt;a b=&quot;c&quot;&gt;&amp;"
        );
    }
}
