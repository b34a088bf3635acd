//! The report of a run, in the form that every format is made from.

use crate::cli::ui::diagnostic::trail_text;
use crate::cli::ui::markup;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Severity, SourceMap, Span};

/// The report of one run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunReport {
    /// The command: `plan`.
    pub command: &'static str,
    /// Display name of the server; `None` if no server was read.
    pub server: Option<String>,
    /// The most important result, for Markdown.
    pub headline: Option<String>,
    /// The result in one line; empty if the run failed before it had one.
    pub summary: String,
    /// The problems, in the order in which the run printed them.
    pub findings: Vec<Finding>,
    /// One entry per volume, or per file if no server is read.
    pub cases: Vec<Case>,
    /// The place of a problem that has none: the first specification.
    pub first_place: Option<Place>,
    /// When the run was; `None` until it ends.
    pub time: Option<RunTime>,
    /// True if the run failed, or refused to do its work.
    pub has_failed: bool,
    /// The parts of the runs that have ended, of a command with several.
    pub ended: Vec<EndedRun>,
    /// The number of findings that are of ended runs.
    pub ended_findings: usize,
}

/// When a run was, in nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunTime {
    /// Its start.
    pub started: i64,
    /// Its end.
    pub ended: i64,
}

/// What one run of several adds to the report.
#[derive(Clone, Debug)]
pub(crate) struct EndedRun {
    name: String,
    headline: Option<String>,
    summary: String,
    cases: Vec<Case>,
}

impl RunReport {
    /// Ends one run of several. One that failed for another reason than one of its cases has a case of its own.
    pub(crate) fn end_run(&mut self, name: &str, has_failed: bool) {
        let mut cases = std::mem::take(&mut self.cases);
        let is_failed = |case: &Case| matches!(case.result, CaseResult::Failed { .. });
        if has_failed && !cases.iter().any(is_failed) {
            let of_run = self.findings.iter().skip(self.ended_findings);
            let errors: Vec<&Finding> =
                of_run.filter(|finding| finding.severity == Severity::Error).collect();
            let message = errors.first().map_or("the run failed", |first| first.message());
            let lines = errors.iter().map(|one| format!("{}: {}", one.code, one.text));
            cases.push(Case {
                group: String::new(),
                name: name.to_owned(),
                word: "failed",
                result: CaseResult::Failed {
                    message: message.to_owned(),
                    text: lines.collect::<Vec<_>>().join("\n"),
                },
                diff: vec![],
                details: errors.iter().map(|one| one.message().to_owned()).collect(),
            });
        }
        self.ended_findings = self.findings.len();
        self.ended.push(EndedRun {
            name: name.to_owned(),
            headline: self.headline.take(),
            summary: std::mem::take(&mut self.summary),
            cases,
        });
    }

    /// Returns the report with the parts of all ended runs.
    pub(crate) fn with_ended_runs(mut self) -> Self {
        if self.ended.is_empty() {
            return self;
        }
        let ended = std::mem::take(&mut self.ended);
        let headlines = ended.iter().filter_map(|run| {
            let headline = run.headline.as_deref()?;
            Some(format!("{}: {headline}", markup::code(&run.name)))
        });
        let headlines: Vec<String> = headlines.collect();
        self.headline = (!headlines.is_empty()).then(|| headlines.join("\n"));
        let summaries = ended.iter().filter(|run| !run.summary.is_empty());
        let summaries = summaries.map(|run| format!("{}: {}", run.name, run.summary));
        self.summary = summaries.collect::<Vec<_>>().join("\n");
        self.cases = ended.into_iter().flat_map(|run| run.cases).collect();
        self
    }

    /// Returns the errors of a run that failed for another reason than one of its cases.
    pub(super) fn run_errors(&self) -> Vec<&Finding> {
        let is_case = |case: &Case| matches!(case.result, CaseResult::Failed { .. });
        if !self.has_failed || self.cases.iter().any(is_case) {
            return vec![];
        }
        let errors = self.findings.iter();
        errors.filter(|finding| finding.severity == Severity::Error).collect()
    }
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub code: Code,
    pub severity: Severity,
    /// The message, the text beside its place, its notes and its help, one line each.
    pub text: String,
    pub place: Option<Place>,
}

impl Finding {
    /// Returns the finding of a diagnostic. Its places refer to `sources`.
    pub(crate) fn of(diagnostic: &Diagnostic, sources: &SourceMap) -> Self {
        let label = diagnostic.labels.first();
        let beside = label.map(|label| &label.text);
        let beside = beside.filter(|text| !text.is_empty());
        let trail: Vec<String> =
            diagnostic.trail.iter().map(|step| trail_text(step, sources)).collect();
        let more = trail.iter().chain(&diagnostic.notes).chain(&diagnostic.help);
        let more = more.chain(&diagnostic.block);
        let lines = std::iter::once(&diagnostic.message).chain(beside).chain(more);
        Self {
            code: diagnostic.code,
            severity: diagnostic.severity,
            text: lines.map(String::as_str).collect::<Vec<_>>().join("\n"),
            place: label.map(|label| Place::of(label.span, sources)),
        }
    }

    /// Returns whether it is an error in this file.
    pub(crate) fn is_error_in(&self, file: &str) -> bool {
        let is_there = self.place.as_ref().is_some_and(|place| place.file == file);
        is_there && self.severity == Severity::Error
    }

    /// Returns its message.
    pub(crate) fn message(&self) -> &str {
        self.text.lines().next().unwrap_or_default()
    }
}

/// A place in a file. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
}

impl Place {
    /// Returns the place of a span.
    pub(crate) fn of(span: Span, sources: &SourceMap) -> Self {
        let start = sources.location(span);
        let end = sources.location(Span { start: span.end, ..span });
        Self {
            file: sources.name(span.source).to_owned(),
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
        }
    }

    /// Returns the path with `/` separators, and without `./`.
    pub(super) fn path(&self) -> String {
        let path = self.file.replace('\\', "/");
        path.strip_prefix("./").unwrap_or(&path).to_owned()
    }
}

/// A volume, or a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// The namespace of the volume.
    pub group: String,
    pub name: String,
    /// The change or the state: `create`, `unchanged`.
    pub word: &'static str,
    pub result: CaseResult,
    /// The lines of values that the change removes and adds, each with its sign: `- capacity_min: 1GiB`.
    pub diff: Vec<String>,
    /// The other details, one line each.
    pub details: Vec<String>,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CaseResult {
    /// As it should be.
    Passed,
    /// Not as it should be: why, with the codes of the problems.
    Failed { message: String, text: String },
    /// Not begun.
    Skipped,
}

impl CaseResult {
    /// Returns the failure of these problems.
    pub(crate) fn failed(problems: &[Diagnostic]) -> Self {
        let message = problems.first().map_or("", |problem| &problem.message);
        let mut lines = vec![];
        for problem in problems {
            lines.push(format!("{}: {}", problem.code, problem.message));
            let more = problem.notes.iter().chain(&problem.help);
            lines.extend(more.chain(&problem.block).cloned());
        }
        Self::Failed { message: message.to_owned(), text: lines.join("\n") }
    }
}
