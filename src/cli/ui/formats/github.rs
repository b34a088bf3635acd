//! GitHub workflow annotations: one per problem at its place, and one for the whole run.
//!
//! A command is `::level file=F,line=L,col=C,title=T::message`. `%` and line ends are escaped, and in
//! properties also `:` and `,`. GitHub shows at most ten errors and ten warnings of one step. The last
//! of ten says how many are left out.

use super::run_report::{Finding, RunReport};
use nomad_csi_model::diagnostic::Severity;

/// The number of annotations of one level that GitHub shows for a step.
const MOST: usize = 10;

pub(super) fn github(report: &RunReport) -> String {
    let mut lines = vec![];
    for severity in [Severity::Error, Severity::Warning] {
        let findings = report.findings.iter();
        let of_level: Vec<&Finding> =
            findings.filter(|finding| finding.severity == severity).collect();
        let shown = match of_level.len() {
            count if count > MOST => MOST - 1,
            count => count,
        };
        lines.extend(of_level[..shown].iter().map(|finding| annotation(finding)));
        if shown < of_level.len() {
            let left = of_level.len() - shown;
            let (level, plural) = level_words(severity);
            lines.push(format!(
                "::{level} title=nomad-csi::{left} more {plural}: see the log of the step"
            ));
        }
    }
    if !report.summary.is_empty() {
        lines.push(format!("::notice title=nomad-csi::{}", data(&report.summary)));
    }
    lines.join("\n")
}

fn level_words(severity: Severity) -> (&'static str, &'static str) {
    match severity {
        Severity::Error => ("error", "errors"),
        Severity::Warning => ("warning", "warnings"),
    }
}

fn annotation(finding: &Finding) -> String {
    let (level, _) = level_words(finding.severity);
    let mut properties = vec![];
    if let Some(place) = &finding.place {
        properties.push(format!(
            "file={},line={},col={}",
            property(&place.path()),
            place.line,
            place.column
        ));
    }
    properties.push(format!("title={}", property(finding.code.as_str())));
    format!("::{level} {}::{}", properties.join(","), data(&finding.text))
}

fn data(text: &str) -> String {
    let text = text.replace('%', "%25").replace('\r', "%0D");
    // The older form of a command works anywhere in a line.
    text.replace('\n', "%0A").replace("##[", "## [")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::diagnostic::Code;

    /// The name of a volume must not end the command or start another.
    #[test]
    fn characters_that_end_a_command_are_escaped() {
        assert_eq!(data("100%\r\n::error::x"), "100%25%0D%0A::error::x");
        assert_eq!(property("a:b,c"), "a%3Ab%2Cc");
        assert_eq!(data("a##[error]b"), "a## [error]b");
    }

    #[test]
    fn at_most_ten_annotations_of_a_level_are_written() {
        let finding = |severity| Finding {
            code: Code::PlanStale,
            severity,
            text: "stale".to_owned(),
            place: None,
        };
        for (errors, warnings, expected) in [(10, 0, 10), (11, 0, 10), (3, 300, 13)] {
            let errors = (0..errors).map(|_| finding(Severity::Error));
            let warnings = (0..warnings).map(|_| finding(Severity::Warning));
            let report =
                RunReport { findings: errors.chain(warnings).collect(), ..RunReport::default() };
            let text = github(&report);
            assert_eq!(text.lines().count(), expected, "{text}");
            let is_summed = text.contains("more");
            assert_eq!(is_summed, report.findings.len() > expected, "{text}");
        }
    }
}
