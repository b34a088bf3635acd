//! Namespaces exist before what is in them, and until it is gone.

use std::collections::BTreeMap;

use super::*;
use crate::state::invariant::violations;
use crate::state::job_record::JobEvent;
use crate::state::replay::replay_changes;
use crate::state::samples::jobs::job_registered;
use crate::state::samples::{key, registered, started, state_of};
use crate::state::snapshot::StateSnapshot;
use crate::state::stored_record::StoredRecord;
use crate::state::variable::VariableEvent;
use crate::state::{Event, Subject, check};

fn written(name: &str, description: &str) -> EventKind {
    EventKind::Namespace {
        name: Namespace::new(name),
        event: NamespaceEvent::Written {
            description: description.to_owned(),
            meta: BTreeMap::new(),
        },
    }
}

fn is_deletable(state: &State, name: &str) -> bool {
    let kind = EventKind::Namespace { name: Namespace::new(name), event: NamespaceEvent::Deleted };
    check(state, &Event::new(9, kind)).is_ok()
}

fn names(state: &State) -> Vec<String> {
    let all = state.namespaces().into_iter();
    all.map(|record| record.name.to_string()).collect()
}

#[test]
fn the_default_namespace_exists_and_is_never_deleted() {
    let state = state_of([started()]);
    assert_eq!(names(&state), ["default"]);
    assert!(!is_deletable(&state, "default"));
    let state = state_of([started(), written("default", "for everything"), written("ops", "")]);
    assert_eq!(names(&state), ["default", "ops"]);
    let default = state.namespace(&Namespace::default()).unwrap();
    assert_eq!(default.description, "for everything");
    assert_eq!(default.create_index, State::FIRST_INDEX);
    assert!(!is_deletable(&state, "default"));
}

/// A volume, a job, also a stopped one, or a variable keeps its namespace.
#[test]
fn a_namespace_in_use_is_not_deleted() {
    let ops = Namespace::new("ops");
    let job = JobKey::new(ops.clone(), JobId::new("web"));
    let stopped =
        EventKind::Job { job: job.clone(), event: Box::new(JobEvent::Stopped { purges: false }) };
    let variable = EventKind::Variable {
        key: VariableKey::new(ops.clone(), VariablePath::new("a/b")),
        event: VariableEvent::Written { items: Default::default() },
    };
    assert!(is_deletable(&state_of([started(), written("ops", "")]), "ops"));
    for used in [
        vec![registered(&key("ops", "db"), "ext-1")],
        vec![job_registered(&job)],
        vec![job_registered(&job), stopped],
        vec![variable],
    ] {
        let events = [started(), written("ops", "")].into_iter();
        let state = state_of(events.chain(used));
        assert_eq!(violations(&state), Vec::<String>::new());
        assert!(!state.namespace_contents(&ops).is_empty());
        assert!(!is_deletable(&state, "ops"));
    }
    assert!(!is_deletable(&state_of([started()]), "unknown"));
}

#[test]
fn a_change_keeps_the_index_of_the_creation() {
    let state = state_of([started(), written("ops", "a"), written("ops", "b")]);
    let record = state.namespace(&Namespace::new("ops")).unwrap();
    assert_eq!(record.description, "b");
    assert_eq!((record.create_index, record.modify_index), (3, 4));
    assert_eq!(state.namespaces_index(), 4);
}

#[test]
fn namespaces_of_earlier_versions_become_objects() {
    let from_events = state_of([started(), registered(&key("prod", "db"), "ext-1")]);
    assert_eq!(names(&from_events), ["default", "prod"]);
    let mut snapshot = StateSnapshot::from(&from_events);
    let is_other = |record: &StoredRecord| !matches!(record, StoredRecord::Namespace(_));
    snapshot.records.retain(is_other);
    let (from_snapshot, changed) = replay_changes(Some(snapshot), []).unwrap();
    assert_eq!(names(&from_snapshot), ["default", "prod"]);
    assert_eq!(violations(&from_snapshot), Vec::<String>::new());
    let prod = Subject::Namespace(Namespace::new("prod"));
    assert!(changed.contains(&prod), "the next snapshot has its row");
}
