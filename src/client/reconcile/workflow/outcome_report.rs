//! Reports how the volumes of a plan ended.

use super::context::WorkflowContext;
use super::error::{FailureKind, Failures};
use super::server_unreachable::{fold_server_away, is_folded};
use super::specifications::Specifications;
use crate::reconcile::outcome::{Outcome, Status};
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics};
use nomad_csi_plan::{Plan, PlannedVolume};

/// Reports what failed, and counts it in `failures`. Problems of a server that stopped responding are one.
pub(super) fn report_outcomes(
    context: &WorkflowContext<'_>,
    specifications: &Specifications,
    plan: &Plan,
    outcomes: &mut [Outcome],
    failures: &mut Failures,
) {
    let server_unreachable = fold_server_away(plan, outcomes);
    let is_away = server_unreachable.is_some();
    let mut problems = vec![];
    let mut not_started = vec![];
    for (planned, outcome) in plan.volumes.iter().zip(outcomes.iter()) {
        problems.extend(outcome.warnings.iter().cloned());
        if is_away && is_folded(outcome) {
            continue;
        }
        match &outcome.status {
            Status::Unchanged | Status::Done(_) | Status::Removed => {}
            Status::Blocked => failures.add(FailureKind::Blocked),
            Status::Stale(why) | Status::DependencyFailed(why) => {
                problems.push(at_its_place(why, planned));
                failures.add(FailureKind::Blocked);
            }
            Status::Failed(why) => {
                problems.push(at_its_place(why, planned));
                failures.add(FailureKind::Failed);
            }
            Status::ServerUnreachable(_) => {}
            Status::NotStarted => not_started.push(planned.key.to_string()),
        }
    }
    if is_away {
        failures.add(FailureKind::Failed);
    }
    problems.extend(server_unreachable);
    let problems: Diagnostics = problems.into_iter().collect();
    let reporter = context.reporter;
    reporter.diagnostics(&problems, &specifications.sources);
    if let Some(summary) = summary(outcomes) {
        reporter.status(&summary);
    }
    if not_started.is_empty() || is_away && !context.is_interrupted() {
        return;
    }
    let (why, kind) = if context.is_interrupted() {
        ("interrupted", FailureKind::Interrupted)
    } else {
        ("the set's lock was lost", FailureKind::Failed)
    };
    let list = not_started.join(", ");
    reporter.status(&format!("{why}; not started: {list}"));
    failures.add(kind);
}

/// Returns the problem of a volume with the place of its specification, so that reports show it there and like
/// problems of many volumes are folded.
fn at_its_place(problem: &Diagnostic, planned: &PlannedVolume) -> Diagnostic {
    let problem = problem.clone();
    match planned.span() {
        Some(span) if problem.labels.is_empty() => problem.label(span, ""),
        Some(_) | None => problem,
    }
}

/// Counts the outcomes, unless there is only one or nothing was done.
fn summary(outcomes: &[Outcome]) -> Option<String> {
    let count = |is: fn(&Status) -> bool| outcomes.iter().filter(|one| is(&one.status)).count();
    let unknown = count(Status::is_unknown);
    let failed = count(|status| matches!(status, Status::Failed(_))) - unknown;
    let skipped = count(|status| {
        matches!(status, Status::Blocked | Status::Stale(_) | Status::DependencyFailed(_))
    });
    let done = count(|status| matches!(status, Status::Done(_) | Status::Removed));
    if outcomes.len() < 2 || done + failed + unknown + skipped == 0 {
        return None;
    }
    let not_started =
        count(|status| matches!(status, Status::NotStarted | Status::ServerUnreachable(_)));
    let unchanged = count(|status| *status == Status::Unchanged);
    let parts = [
        (done, "done"),
        (failed, "failed"),
        (unknown, "unknown"),
        (skipped, "skipped"),
        (not_started, "not started"),
        (unchanged, "unchanged"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts.map(|(count, what)| format!("{count} {what}")).collect();
    Some(format!("{} volumes: {}", outcomes.len(), parts.join(", ")))
}
