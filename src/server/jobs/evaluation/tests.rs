//! The effect of a decision on the evaluations of a job.

use super::*;
use nomad_csi_claims::place::Placed;
use nomad_csi_claims::state::samples::jobs::{job_key, job_registered};
use nomad_csi_claims::state::samples::{node_registered, started, state_of};
use nomad_csi_claims::state::{Event, GroupFailure, State, apply};
use nomad_csi_model::NodeId;
use nomad_csi_testing::CountingIds;

fn with(evaluations: Vec<Evaluation>) -> State {
    let key = job_key("web");
    let first = [started(), node_registered(0), job_registered(&key)];
    let more = evaluations.into_iter().map(|one| evaluated(&key, one));
    state_of(first.into_iter().chain(more))
}

/// Applies the decision, and returns the evaluations with their statuses.
fn after(state: &mut State, decision: &Decision) -> Vec<(String, EvaluationStatus)> {
    let key = job_key("web");
    let ids = CountingIds::from(state.index());
    let record = state.job(&key).unwrap().clone();
    for kind in events_of(&record, decision, &ids) {
        let event = Event::new(9, kind);
        nomad_csi_claims::state::check(state, &event).unwrap();
        apply(state, &event);
    }
    let evaluations = &state.job(&key).unwrap().evaluations;
    let pairs = evaluations.iter().map(|one| (one.result.id.to_string(), one.result.status));
    pairs.collect()
}

fn failing(reason: &str) -> Decision {
    let failure = GroupFailure {
        queued: 1,
        nodes: [(NodeId::new("node-0"), vec![reason.to_owned()])].into(),
    };
    Decision { failures: [("g".to_owned(), failure)].into(), ..Decision::default() }
}

fn placing() -> Decision {
    Decision {
        place: vec![Placed { group: "g".to_owned(), index: 0, node: NodeId::new("node-0") }],
        ..Decision::default()
    }
}

fn asked() -> Evaluation {
    Evaluation::pending(EvaluationId::new("asked"), EvaluationTrigger::Registered)
}

#[test]
fn a_placed_evaluation_is_complete_and_names_its_allocations() {
    let mut state = with(vec![asked()]);
    let found = after(&mut state, &placing());
    assert_eq!(found, [("asked".to_owned(), EvaluationStatus::Complete)]);
    let key = job_key("web");
    let (_, _, placement) = state.allocs_of_job(&key).next().unwrap();
    assert_eq!(placement.evaluation.as_str(), "asked");
}

#[test]
fn what_was_not_placed_waits_in_a_blocked_evaluation() {
    let mut state = with(vec![asked()]);
    let found = after(&mut state, &failing("full"));
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].1, EvaluationStatus::Complete);
    assert_eq!(found[1].1, EvaluationStatus::Blocked);
    let record = state.job(&job_key("web")).unwrap();
    let [first, waiting] = &record.evaluations[..] else {
        panic!("{record:?}");
    };
    assert_eq!(first.result.blocked.as_ref(), Some(&waiting.result.id));
    assert_eq!(waiting.result.previous.as_ref(), Some(&first.result.id));
    assert_eq!(waiting.result.failures, failing("full").failures);
}

#[test]
fn a_blocked_evaluation_changes_only_with_its_reasons() {
    let mut state = with(vec![asked()]);
    after(&mut state, &failing("full"));
    let index = state.index();
    after(&mut state, &failing("full"));
    assert_eq!(state.index(), index, "nothing is recorded again");
    let found = after(&mut state, &failing("unhealthy"));
    assert_eq!((state.index(), found.len()), (index + 1, 2));
    let done = after(&mut state, &placing());
    assert!(done.iter().all(|(_, status)| *status == EvaluationStatus::Complete), "{done:?}");
}

#[test]
fn a_new_submission_replaces_the_blocked_evaluation() {
    let mut state = with(vec![asked()]);
    after(&mut state, &failing("full"));
    let again = Evaluation::pending(EvaluationId::new("again"), EvaluationTrigger::Registered);
    apply(&mut state, &Event::new(8, evaluated(&job_key("web"), again)));
    let found = after(&mut state, &failing("full"));
    let statuses: Vec<_> = found.iter().map(|(_, status)| *status).collect();
    use EvaluationStatus::{Blocked, Cancelled, Complete};
    assert_eq!(statuses, [Complete, Cancelled, Complete, Blocked]);
}

#[test]
fn a_replacement_after_a_failure_has_an_evaluation_too() {
    let mut state = with(vec![]);
    let found = after(&mut state, &placing());
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, EvaluationStatus::Complete);
}
