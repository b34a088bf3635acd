//! Reports the broken rules of a decoded job at their places in the file.

use super::file::ParsedJob;
use super::problem::JobProblem;
use super::validate::validate;
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, Severity};

/// Checks the rules of a decoded job. A rule about a value that could not be decoded adds nothing.
pub fn check(parsed: &ParsedJob, diagnostics: &mut Diagnostics) {
    let problems = validate(&parsed.job);
    let readable =
        problems.into_iter().filter(|problem| !parsed.places.is_unreadable(&problem.place));
    for problem in readable {
        diagnostics.push(diagnostic(parsed, problem));
    }
}

fn diagnostic(parsed: &ParsedJob, problem: JobProblem) -> Diagnostic {
    let message = problem.message(&parsed.job);
    let diagnostic = match problem.severity {
        Severity::Error => Diagnostic::error(problem.code, message),
        Severity::Warning => Diagnostic::warning(problem.code, message),
    };
    let diagnostic = diagnostic.label(parsed.places.span(&problem.place), problem.label);
    match problem.first {
        Some(first) => diagnostic.label(parsed.places.span(&first), "first here"),
        None => diagnostic,
    }
}
