//! What is reported if the server stopped responding in the middle of an apply and did not come back.
//!
//! One problem says what was done, what is unknown and what was not begun. It takes the place of the
//! problems of single volumes that have the same cause.

use crate::diagnostic::{Code, Diagnostic};
use crate::plan::{Plan, PlannedVolume};
use crate::reconcile::outcome::{Outcome, Status};

/// Up to this number, volumes are named.
const NAMED: usize = 20;

/// Takes the problems of a server that stopped responding out of the outcomes, and returns one for all of
/// them. `None` if the server responded to the end.
pub fn fold_server_away(plan: &Plan, outcomes: &mut [Outcome]) -> Option<Diagnostic> {
    if !outcomes.iter().any(Outcome::met_server_away) {
        return None;
    }
    let volumes = || plan.volumes.iter().zip(outcomes.iter());
    let unknown: Vec<_> = volumes().filter(|(_, one)| is_unknown(one)).collect();
    let not_begun: Vec<_> = volumes().filter(|(_, one)| is_not_begun(one)).collect();
    let is_done = |one: &&Outcome| matches!(one.status, Status::Done(_) | Status::Removed);
    let done = outcomes.iter().filter(is_done).count();
    let message = format!(
        "the server stopped responding before all changes were made: {done} done, {} unknown, {} not begun",
        unknown.len(),
        not_begun.len()
    );
    let code = Code::ApplyServerAway;
    let mut problem = Diagnostic::error(code, message).help(code.advice());
    for (what, volumes) in [
        (
            "the requests were sent, and their outcome is unknown",
            unknown,
        ),
        ("not begun", not_begun),
    ] {
        if !volumes.is_empty() {
            let names = names(&volumes);
            problem = problem.note(format!("{what}: {names}"));
        }
    }
    for outcome in outcomes {
        let is_other = |warning: &Diagnostic| !warning.code.means_server_away();
        outcome.warnings.retain(is_other);
    }
    Some(problem)
}

/// Whether the problem of this outcome is a part of the one for all.
pub fn is_folded(outcome: &Outcome) -> bool {
    is_unknown(outcome) || matches!(outcome.status, Status::ServerAway(_))
}

fn is_unknown(outcome: &Outcome) -> bool {
    matches!(&outcome.status, Status::Failed(why) if why.code == Code::ApiOutcomeUnknown)
}

fn is_not_begun(outcome: &Outcome) -> bool {
    matches!(outcome.status, Status::ServerAway(_) | Status::NotStarted)
}

fn names(volumes: &[(&PlannedVolume, &Outcome)]) -> String {
    let named = volumes.iter().take(NAMED);
    let named: Vec<_> = named.map(|(one, _)| one.key.to_string()).collect();
    match volumes.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}
