//! The reports of `plugin check --format FORMAT=FILE`.

use super::verdicts::word;
use crate::cli::ui::markup::{code, xml};
use nomad_csi_conformance::{Area, CheckOutcome, Level, Report, Tally, Verdict};

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Junit,
    Markdown,
}

/// A report to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckReportFile {
    format: Format,
    /// The path of the file, or `-`.
    file: String,
}

impl CheckReportFile {
    /// Returns the path of the file, or `None` for standard output.
    pub(crate) fn file(&self) -> Option<&str> {
        (self.file != "-").then_some(self.file.as_str())
    }

    /// Returns the report in this format.
    pub(crate) fn text(&self, report: &Report) -> String {
        match self.format {
            Format::Junit => junit(report),
            Format::Markdown => markdown(report),
        }
    }
}

impl std::str::FromStr for CheckReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (word, file) = text.split_once('=').unwrap_or((text, ""));
        let format = match word {
            "junit" => Format::Junit,
            "markdown" => Format::Markdown,
            _ => return Err("expected junit=FILE or markdown=FILE".to_owned()),
        };
        if file.is_empty() {
            return Err(format!("write `{word}=FILE`, or `{word}=-` for standard output"));
        }
        let file = file.to_owned();
        Ok(Self { format, file })
    }
}

/// Returns JUnit XML: one suite per area, one case per check. A check that could not run is an error.
fn junit(report: &Report) -> String {
    let tally = report.tally();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"nomad-csi plugin check\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\">\n",
        report.outcomes.len(),
        tally.failed,
        tally.not_run,
        report.elapsed.as_secs_f64(),
    );
    for area in Area::ALL {
        let outcomes = report.outcomes.iter();
        let outcomes: Vec<_> = outcomes.filter(|one| one.case.area == *area).collect();
        if !outcomes.is_empty() {
            text += &suite(*area, &outcomes);
        }
    }
    text + "</testsuites>\n"
}

fn suite(area: Area, outcomes: &[&CheckOutcome]) -> String {
    let count = |is: fn(&Verdict) -> bool| {
        let counted = outcomes.iter().filter(|outcome| is(&outcome.verdict));
        counted.count()
    };
    let cases: String = outcomes.iter().map(|outcome| case(outcome)).collect();
    format!(
        "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n{cases}</testsuite>\n",
        area.as_str(),
        outcomes.len(),
        count(|verdict| *verdict == Verdict::Failed),
        count(|verdict| matches!(verdict, Verdict::NotRun(_))),
        count(|verdict| matches!(verdict, Verdict::Skipped(_))),
    )
}

fn case(outcome: &CheckOutcome) -> String {
    let body = match &outcome.verdict {
        Verdict::Passed => String::new(),
        Verdict::Failed => {
            let first = outcome.findings.first().map_or("", |one| &one.expected);
            format!("<failure message=\"{}\">{}</failure>", xml(first), xml(&findings(outcome)))
        }
        Verdict::NotRun(reason) => format!("<error message=\"{}\"/>", xml(reason)),
        Verdict::Skipped(reason) => format!("<skipped message=\"{}\"/>", xml(reason)),
    };
    format!(
        "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">{body}</testcase>\n",
        xml(outcome.case.id),
        xml(outcome.case.title),
        outcome.elapsed.as_secs_f64(),
    )
}

/// Returns all findings of one check as plain text.
fn findings(outcome: &CheckOutcome) -> String {
    let mut lines = vec![format!("CSI, \"{}\"", outcome.case.section)];
    for finding in &outcome.findings {
        let mark = match finding.level {
            Level::Must => "",
            Level::Advice => " (advice)",
        };
        lines.push(format!("expected{mark}: {}", finding.expected));
        if !finding.sent.is_empty() {
            lines.push(format!("sent: {}", finding.sent));
        }
        lines.push(format!("got: {}", finding.got));
    }
    lines.join("\n")
}

/// Returns Markdown: the totals, the findings, then every check.
fn markdown(report: &Report) -> String {
    let Tally { passed, failed, not_run, skipped, advice } = report.tally();
    let info = &report.plugin.info;
    let mut parts = vec![format!(
        "**{passed} passed, {failed} failed, {not_run} not run, {skipped} skipped** ({advice} with advice): plugin {} {}\n",
        code(&info.name),
        code(&info.vendor_version)
    )];
    let wrong = report.outcomes.iter().filter(|one| !one.findings.is_empty());
    parts.extend(wrong.map(|outcome| {
        let title = format!("{}: {}", outcome.case.id, outcome.case.title);
        let fenced = findings(outcome).replace("```", "'''");
        format!("\n### {} {title}\n\n```text\n{fenced}\n```\n", word(&outcome.verdict))
    }));
    for leftover in &report.leftovers {
        let (what, why) = (code(&leftover.what), code(&leftover.why));
        parts.push(format!("\nNot cleaned up: {what}: {why}\n"));
    }
    parts.push("\n| Check | Verdict | Requirement |\n|---|---|---|\n".to_owned());
    parts.extend(report.outcomes.iter().map(|outcome| {
        let (id, title) = (outcome.case.id, outcome.case.title);
        format!("| {id} | {} | {title} |\n", word(&outcome.verdict))
    }));
    parts.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_requires_a_file_or_a_dash() {
        let file =
            |text: &str| text.parse().map(|one: CheckReportFile| one.file().map(str::to_owned));
        assert_eq!(file("junit=a.xml"), Ok(Some("a.xml".to_owned())));
        assert_eq!(file("markdown=-"), Ok(None));
        for text in ["junit", "junit=", "xml=a"] {
            assert!(file(text).is_err(), "{text}");
        }
    }
}
