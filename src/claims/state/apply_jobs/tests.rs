//! Jobs, their evaluations, and their allocations from placement to the end.

use crate::state::invariant::violations;
use crate::state::job_record::{
    AllocEvent, Evaluation, EvaluationTrigger, JobEvent, JobRecord, Placement,
};
use crate::state::samples::jobs::{alloc_placed, alloc_reported, job_key, job_registered};
use crate::state::samples::{node_registered, started, state_of};
use crate::state::{Event, EventKind, State, check};
use nomad_csi_model::{AllocId, ClientStatus, EvaluationId, JobKey};

fn of_job(key: &JobKey, event: JobEvent) -> EventKind {
    EventKind::Job { job: key.clone(), event: Box::new(event) }
}

fn with_alloc(more: impl IntoIterator<Item = EventKind>) -> State {
    let key = job_key("web");
    let first =
        [started(), node_registered(0), job_registered(&key), alloc_placed(&key, "a", "node-0")];
    let state = state_of(first.into_iter().chain(more));
    assert_eq!(violations(&state), Vec::<String>::new());
    state
}

fn placement(state: &State) -> &Placement {
    let record = state.alloc(&AllocId::new("a")).unwrap();
    record.placement.as_deref().unwrap()
}

fn is_valid(state: &State, kind: EventKind) -> bool {
    check(state, &Event::new(9, kind)).is_ok()
}

#[test]
fn an_allocation_keeps_the_job_that_it_was_placed_for() {
    let state = with_alloc([job_registered(&job_key("web"))]);
    let job = state.job(&job_key("web")).unwrap();
    assert_eq!((job.current.version, placement(&state).job.version), (1, 0));
    assert_eq!(placement(&state).name(), "web.g[0]");
}

#[test]
fn a_terminal_report_ends_the_allocation() {
    for (status, has_ended) in [
        (ClientStatus::Pending, false),
        (ClientStatus::Running, false),
        (ClientStatus::Complete, true),
        (ClientStatus::Failed, true),
    ] {
        let state = with_alloc([alloc_reported("a", status.clone())]);
        let record = state.alloc(&AllocId::new("a")).unwrap();
        assert_eq!(record.has_ended, has_ended, "{status:?}");
        let again = alloc_reported("a", ClientStatus::Running);
        assert_eq!(is_valid(&state, again), !has_ended, "{status:?}");
    }
}

#[test]
fn the_first_reason_to_stop_stays() {
    let stop = |reason: &str| EventKind::PlacedAlloc {
        alloc: AllocId::new("a"),
        event: Box::new(AllocEvent::StopRequested { reason: reason.to_owned() }),
    };
    let state = with_alloc([stop("first"), stop("second")]);
    assert_eq!(placement(&state).stop_reason.as_deref(), Some("first"));
}

#[test]
fn nothing_is_placed_for_a_stopped_job_or_on_an_unknown_node() {
    let key = job_key("web");
    let state = with_alloc([]);
    assert!(is_valid(&state, alloc_placed(&key, "b", "node-0")));
    assert!(!is_valid(&state, alloc_placed(&key, "a", "node-0")));
    assert!(!is_valid(&state, alloc_placed(&key, "b", "node-1")));
    assert!(!is_valid(&state, alloc_placed(&job_key("other"), "b", "node-0")));
    let stopped = with_alloc([of_job(&key, JobEvent::Stopped { purges: false })]);
    assert!(!is_valid(&stopped, alloc_placed(&key, "b", "node-0")));
}

/// The volumes of its allocations are given back first.
#[test]
fn a_purged_job_is_forgotten_after_its_allocations() {
    let key = job_key("web");
    let forgotten = || of_job(&key, JobEvent::Forgotten);
    let purged = || of_job(&key, JobEvent::Stopped { purges: true });
    let ended = || alloc_reported("a", ClientStatus::Complete);
    let alloc_forgotten = || EventKind::AllocForgotten { alloc: AllocId::new("a") };
    let state = with_alloc([purged()]);
    assert!(!is_valid(&state, forgotten()));
    assert!(!is_valid(&state, alloc_forgotten()));
    let state = with_alloc([purged(), ended(), alloc_forgotten(), forgotten()]);
    assert!(state.job(&key).is_none());
    let revived = with_alloc([purged(), job_registered(&key)]);
    assert!(!is_valid(&revived, forgotten()));
    assert!(!revived.job(&key).unwrap().is_stopped);
}

#[test]
fn the_oldest_evaluations_are_forgotten() {
    let key = job_key("web");
    let evaluated = |number: usize| {
        let id = EvaluationId::new(format!("e{number}"));
        let evaluation = Evaluation::pending(id, EvaluationTrigger::Registered);
        of_job(&key, JobEvent::Evaluated { evaluation: Box::new(evaluation) })
    };
    let state = with_alloc((0..12).chain([11]).map(evaluated));
    let job = state.job(&key).unwrap();
    assert_eq!(job.evaluations.len(), JobRecord::MAX_EVALUATIONS);
    let last = job.latest().unwrap();
    assert_eq!(last.modify_index, last.create_index + 1);
    let found = |id: &str| state.evaluation(&EvaluationId::new(id)).is_some();
    assert!(!found("e1") && found("e2") && found("e11"));
}

#[test]
fn a_registration_keeps_as_many_earlier_versions_as_it_says() {
    let key = job_key("web");
    let registered = |earlier: usize| {
        let EventKind::Job { event, .. } = job_registered(&key) else {
            panic!("it is the event of a job");
        };
        let JobEvent::Registered { job, settings, .. } = *event else {
            panic!("it is a registration");
        };
        of_job(&key, JobEvent::Registered { job, settings, earlier })
    };
    let kept = |state: &State| {
        let record = state.job(&key).unwrap();
        let versions = record.versions();
        versions.map(|one| (one.version.version, one.job_modify_index)).collect::<Vec<_>>()
    };
    let purged = of_job(&key, JobEvent::Stopped { purges: true });
    for (more, expected) in [
        (vec![registered(6)], vec![1, 0]),
        (vec![registered(6), registered(0)], vec![2]),
        (vec![registered(6), registered(2), registered(2)], vec![3, 2, 1]),
        (vec![registered(9); 9], (3..=9).rev().collect()),
        (vec![registered(6), purged, registered(6)], vec![2]),
    ] {
        let versions = kept(&with_alloc(more));
        assert_eq!(versions.iter().map(|(version, _)| *version).collect::<Vec<_>>(), expected);
        assert!(versions.is_sorted_by(|(_, newer), (_, older)| newer > older), "{versions:?}");
    }
}

/// A journal of an earlier version has no count.
#[test]
fn a_registration_without_a_count_keeps_nothing() {
    let EventKind::Job { event, .. } = job_registered(&job_key("web")) else {
        panic!("it is the event of a job");
    };
    let mut stored = serde_json::to_value(&event).unwrap();
    stored["registered"].as_object_mut().unwrap().remove("earlier").unwrap();
    let read: JobEvent = serde_json::from_value(stored).unwrap();
    assert!(matches!(read, JobEvent::Registered { earlier: 0, .. }));
}
