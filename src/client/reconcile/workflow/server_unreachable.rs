//! The report if the server stopped responding in the middle of an apply and did not come back.
//!
//! One problem says what was done, what is unknown and what was not begun. It takes the place of the
//! problems of single volumes that have the same cause.

use crate::reconcile::outcome::{Outcome, Status};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{Plan, PlannedVolume};

/// Up to this number, volumes are named.
const NAMED: usize = 20;

/// Takes the problems of a server that stopped responding out of the outcomes, and returns one for all of
/// them. `None` if the server responded to the end.
pub fn fold_server_away(plan: &Plan, outcomes: &mut [Outcome]) -> Option<Diagnostic> {
    if !outcomes.iter().any(Outcome::met_server_away) {
        return None;
    }
    let volumes = || plan.volumes.iter().zip(outcomes.iter());
    let unknown: Vec<_> = volumes().filter(|(_, one)| one.status.is_unknown()).collect();
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
        ("the requests were sent, and their outcome is unknown", unknown),
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

/// Returns whether the problem of this outcome is a part of the one for all.
pub fn is_folded(outcome: &Outcome) -> bool {
    outcome.status.is_unknown() || matches!(outcome.status, Status::ServerUnreachable(_))
}

fn is_not_begun(outcome: &Outcome) -> bool {
    matches!(outcome.status, Status::ServerUnreachable(_) | Status::NotStarted)
}

fn names(volumes: &[(&PlannedVolume, &Outcome)]) -> String {
    let named = volumes.iter().take(NAMED);
    let named: Vec<_> = named.map(|(one, _)| one.key.to_string()).collect();
    match volumes.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{}, and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{Namespace, NamespacedId, VolumeId};
    use nomad_csi_plan::{Action, VolumeVersion};

    fn plan(count: usize) -> Plan {
        let entry = |at: usize| PlannedVolume {
            key: NamespacedId::new(Namespace::default(), VolumeId::new(format!("v{at:02}"))),
            spec: None,
            action: Action::Deregister,
            expected_version: VolumeVersion::At(1),
            impact: None,
            protection: None,
            depends_on: vec![],
            warnings: vec![],
        };
        Plan { volumes: (0..count).map(entry).collect(), remarks: vec![], undeclared: vec![] }
    }

    fn away() -> Diagnostic {
        Diagnostic::error(Code::ApiConnectionRefused, "cannot read volume `v02`")
    }

    #[test]
    fn one_problem_counts_and_names_what_is_unknown_and_what_was_not_begun() {
        let unknown = Diagnostic::error(Code::ApiOutcomeUnknown, "the outcome is unknown");
        let refused = Diagnostic::error(Code::PluginRefused, "the plugin refused");
        let other = Diagnostic::warning(Code::ApplyServerWarning, "a warning");
        let mut outcomes = vec![
            Outcome { status: Status::Done(None), warnings: vec![away(), other.clone()] },
            Outcome::plain(Status::Failed(unknown)),
            Outcome::plain(Status::ServerUnreachable(away())),
            Outcome::plain(Status::Failed(refused)),
        ];
        outcomes.resize(30, Outcome::plain(Status::NotStarted));
        let problem = fold_server_away(&plan(30), &mut outcomes).unwrap();
        assert_eq!(problem.code, Code::ApplyServerAway);
        assert!(problem.message.ends_with(": 1 done, 1 unknown, 27 not begun"));
        let [unknown, not_begun] = &problem.notes[..] else { panic!("{:?}", problem.notes) };
        assert!(unknown.ends_with("is unknown: v01"), "{unknown}");
        assert!(not_begun.starts_with("not begun: v02, v04, v05"));
        assert!(not_begun.ends_with("v22, and 7 more"), "{not_begun}");
        assert_eq!(outcomes[0].warnings, [other], "only that of the server");
        let folded: Vec<bool> = outcomes[..5].iter().map(is_folded).collect();
        assert_eq!(folded, [false, true, true, false, false]);
    }

    #[test]
    fn a_server_that_responds_to_the_end_has_no_problem() {
        let mut outcomes = vec![
            Outcome::plain(Status::Failed(Diagnostic::error(Code::PluginRefused, "no"))),
            Outcome::plain(Status::NotStarted),
        ];
        assert_eq!(fold_server_away(&plan(2), &mut outcomes), None);
    }
}
