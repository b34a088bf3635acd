//! Problems as an editor shows them: with exact ranges, other places, and everything that the command line would say.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use super::analysis::Analysis;
use super::positions::{Lines, Range};
use super::protocol::Location;
use super::uri::uri_of;
use super::workspace::Workspace;
use nomad_csi_model::diagnostic::{Diagnostic, Severity, Span};

/// A problem of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedDiagnostic {
    /// Where it is.
    pub range: Range,
    /// 1 for an error, 2 for a warning.
    pub severity: u8,
    /// The code, which `explain` explains.
    pub code: &'static str,
    /// The program that found it.
    pub source: &'static str,
    /// What happened, why, and what to do.
    pub message: String,
    /// Other places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_information: Vec<RelatedPlace>,
}

/// A place that explains a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RelatedPlace {
    location: Location,
    message: String,
}

/// Returns the problems of each file that has some.
pub fn published(
    workspace: &Workspace,
    analysis: &Analysis,
) -> BTreeMap<PathBuf, Vec<PublishedDiagnostic>> {
    let mut found = BTreeMap::new();
    for (source, problems) in analysis.problems_of_texts() {
        let Some(text) = analysis.text_of(source) else {
            continue;
        };
        let lines = Lines::new(&text.text, workspace.encoding);
        let of_text =
            problems.into_iter().map(|one| diagnostic(workspace, analysis, &lines, one)).collect();
        found.insert(text.path.clone(), of_text);
    }
    found
}

/// Returns a problem whose first place is in these lines.
pub(crate) fn diagnostic(
    workspace: &Workspace,
    analysis: &Analysis,
    lines: &Lines<'_>,
    problem: &Diagnostic,
) -> PublishedDiagnostic {
    let range = problem.labels.first().map(|label| lines.range(&label.span.range()));
    let severity = match problem.severity {
        Severity::Error => 1,
        Severity::Warning => 2,
    };
    let place = |span: Span, message: String| {
        let text = analysis.text_of(span.source)?;
        let range = Lines::new(&text.text, workspace.encoding).range(&span.range());
        Some(RelatedPlace { location: Location { uri: uri_of(&text.path), range }, message })
    };
    let others = problem.labels.iter().skip(1);
    let others = others.filter_map(|label| place(label.span, label.text.clone()));
    let steps = problem.trail.iter();
    let steps = steps.filter_map(|step| place(step.span?, step.text.clone()));
    PublishedDiagnostic {
        range: range.unwrap_or_default(),
        severity,
        code: problem.code.as_str(),
        source: "nomad-csi",
        message: message(problem),
        related_information: others.chain(steps).collect(),
    }
}

/// Returns everything that is said of a problem, one sentence per line.
fn message(problem: &Diagnostic) -> String {
    let mut lines = vec![problem.message.clone()];
    let label = problem.labels.first().map(|label| label.text.clone());
    lines.extend(label.filter(|label| !label.is_empty()));
    let steps = problem.trail.iter().map(|step| match step.span {
        Some(_) => step.text.trim_end_matches(" at").to_owned(),
        None => step.text.clone(),
    });
    lines.extend(steps.map(|step| format!("note: {step}")));
    lines.extend(problem.notes.iter().map(|note| format!("note: {note}")));
    lines.extend(problem.help.iter().map(|help| format!("help: {help}")));
    lines.extend(problem.block.clone());
    lines.join("\n")
}
