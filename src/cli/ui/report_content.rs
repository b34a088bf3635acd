//! The entries that `plan`, `apply`, `drift` and `validate` add to the report of their run.

use std::collections::BTreeSet;

use super::drift::{DriftShown, drift_problem, drift_summary};
use super::formats::{Case, CaseResult, Finding, RunReport};
use super::plan::{by_urgency, counts, details};
use super::plan_diff::diff_of;
use super::plan_text::undeclared_summary;
use super::printer::one_line;
use nomad_csi_client::reconcile::{Outcome, Status};
use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_plan::{Plan, PlannedVolume, Risk, VolumeDrift};

/// Adds a plan to a report, before it is carried out.
pub(crate) fn report_plan(report: &mut RunReport, plan: &Plan, server: &str) {
    let server = one_line(server);
    report.headline = Some(headline(plan));
    report.summary = format!("Plan for {server}: {}", counts(plan.counts()));
    if let Some(undeclared) = undeclared_summary(plan) {
        report.summary.extend([" ", undeclared.as_str()]);
    }
    report.server = Some(server);
    let planned = by_urgency(plan).into_iter();
    report.cases = planned.map(|planned| case(planned, planned_result(planned))).collect();
}

/// Adds a plan that is about to be carried out: its changes are not begun yet.
pub(crate) fn report_pending_plan(report: &mut RunReport, plan: &Plan, server: &str) {
    report_plan(report, plan, server);
    let pending = report.cases.iter_mut().zip(by_urgency(plan));
    for (case, planned) in pending {
        if case.result == CaseResult::Passed && !planned.is_unchanged() {
            case.result = CaseResult::Skipped;
        }
    }
}

/// Adds the outcomes of a plan to a report, in the plan's order.
pub(crate) fn report_outcomes<'o>(
    report: &mut RunReport,
    outcomes: impl Iterator<Item = (&'o PlannedVolume, &'o Outcome)>,
) {
    report.cases = outcomes
        .map(|(planned, outcome)| case(planned, outcome_result(planned, outcome)))
        .collect();
    let count = |is: fn(&CaseResult) -> bool| {
        let cases = report.cases.iter();
        cases.filter(|case| is(&case.result)).count()
    };
    let failed = count(|result| matches!(result, CaseResult::Failed { .. }));
    let skipped = count(|result| *result == CaseResult::Skipped);
    let passed = report.cases.len() - failed - skipped;
    let server = report.server.as_deref().unwrap_or_default();
    report.summary = format!(
        "Apply at {server}: {passed} as planned, {failed} failed or blocked, {skipped} not started."
    );
}

/// Adds drift to a report: one problem per volume that has drifted.
pub(crate) fn report_drift(report: &mut RunReport, found: DriftShown<'_>) {
    report.summary = drift_summary(found);
    report.server = Some(one_line(found.server));
    for volume in found.volumes {
        let problems: Vec<Diagnostic> = drift_problem(volume).into_iter().collect();
        let findings = problems.iter();
        let findings = findings.map(|problem| Finding::of(problem, found.sources));
        report.findings.extend(findings);
        report.cases.push(drift_case(volume, &problems));
    }
}

/// Adds the files of a validation to a report: those that declare volumes, and those with problems. A file
/// fails if it has an error.
pub(crate) fn report_files(
    report: &mut RunReport,
    declaring: impl Iterator<Item = String>,
    summary: String,
) {
    report.summary = summary;
    let places = report.findings.iter().filter_map(|one| one.place.as_ref());
    let files: BTreeSet<String> = declaring.chain(places.map(|place| place.file.clone())).collect();
    report.cases = files
        .into_iter()
        .map(|file| {
            let findings = report.findings.iter();
            let errors: Vec<&Finding> = findings.filter(|one| one.is_error_in(&file)).collect();
            let result = match errors.first() {
                None => CaseResult::Passed,
                Some(first) => CaseResult::Failed {
                    message: first.message().to_owned(),
                    text: joined(&errors),
                },
            };
            Case {
                group: "specifications".to_owned(),
                name: file,
                word: match result {
                    CaseResult::Passed => "valid",
                    CaseResult::Failed { .. } | CaseResult::Skipped => "invalid",
                },
                diff: vec![],
                details: errors.iter().map(|one| one.message().to_owned()).collect(),
                result,
            }
        })
        .collect();
}

fn joined(errors: &[&Finding]) -> String {
    let lines = errors.iter().map(|one| format!("{}: {}", one.code, one.text));
    lines.collect::<Vec<_>>().join("\n")
}

fn case(planned: &PlannedVolume, result: CaseResult) -> Case {
    let diff = diff_of(planned);
    Case {
        group: planned.key.namespace.to_string(),
        name: planned.key.id.to_string(),
        word: planned.change_name(),
        result,
        details: match planned.is_unchanged() {
            true => vec![],
            false => {
                details(planned, None).into_iter().filter(|line| !diff.replaces(line)).collect()
            }
        },
        diff: diff.lines,
    }
}

fn planned_result(planned: &PlannedVolume) -> CaseResult {
    match planned.action.reasons() {
        [] => CaseResult::Passed,
        reasons => CaseResult::failed(reasons),
    }
}

fn outcome_result(planned: &PlannedVolume, outcome: &Outcome) -> CaseResult {
    match &outcome.status {
        Status::Unchanged | Status::Done(_) | Status::Removed => CaseResult::Passed,
        Status::Blocked => planned_result(planned),
        Status::Stale(why) | Status::DependencyFailed(why) | Status::Failed(why) => {
            CaseResult::failed(std::slice::from_ref(why))
        }
        Status::ServerUnreachable(_) | Status::NotStarted => CaseResult::Skipped,
    }
}

fn drift_case(volume: &VolumeDrift, problems: &[Diagnostic]) -> Case {
    Case {
        group: volume.key.namespace.to_string(),
        name: volume.key.id.to_string(),
        word: volume.state.as_str(),
        diff: vec![],
        result: match problems {
            [] => CaseResult::Passed,
            problems => CaseResult::failed(problems),
        },
        details: problems.iter().flat_map(|problem| problem.notes.iter().cloned()).collect(),
    }
}

fn headline(plan: &Plan) -> String {
    let of = |risk: Risk| {
        let impacts = plan.volumes.iter();
        let impacts = impacts.filter_map(|planned| planned.impact.as_ref());
        impacts.filter(|impact| impact.risk == risk).count()
    };
    let risk = match (of(Risk::DestroysData), of(Risk::NeedsDowntime)) {
        (0, 0) => "Nothing destroys data or needs downtime.".to_owned(),
        (0, downtime) => format!("Nothing destroys data; {downtime} need downtime."),
        (data, 0) => format!("{data} DESTROY DATA."),
        (data, downtime) => format!("{data} DESTROY DATA; {downtime} need downtime."),
    };
    let risk = match of(Risk::LosesAccess) {
        0 => risk,
        access => format!("{risk} {access} MAKE DATA UNREACHABLE."),
    };
    let counts = plan.counts();
    match (counts.blocked_or_waiting(), counts.changes()) {
        (0, _) => format!("**{risk}**"),
        (stopped, 0) => format!("**{stopped} blocked or waiting.**"),
        (stopped, _) => format!("**{stopped} blocked or waiting. {risk}**"),
    }
}
