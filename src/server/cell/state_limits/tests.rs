//! Growth beyond a limit, and everything else at it.

use std::sync::Arc;

use super::super::{CellOptions, CommitError, Expected, StateCell};
use super::*;
use crate::error::ServerError;
use crate::fake::MemoryJournal;
use nomad_csi_claims::state::samples::jobs::{
    alloc_placed, alloc_reported, job_key, job_registered,
};
use nomad_csi_claims::state::samples::{key, node_registered, registered, started};
use nomad_csi_claims::state::{AllocEvent, EventKind, JobEvent, NamespaceEvent, VariableEvent};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{AllocId, ClientStatus, Namespace, SealedSecrets, VariableKey, VariablePath};

async fn cell_with(limits: StateLimits) -> StateCell {
    let options = CellOptions { limits, ..CellOptions::default() };
    let journal = Arc::new(MemoryJournal::default());
    let cell = StateCell::open(journal, options).await.unwrap();
    commit(&cell, started()).await.unwrap();
    cell
}

async fn commit(cell: &StateCell, kind: EventKind) -> Result<u64, CommitError> {
    cell.commit(Expected::Any, Event::new(1, kind)).await
}

fn written(path: &str, bytes: usize) -> EventKind {
    EventKind::Variable {
        key: VariableKey::new(Namespace::default(), VariablePath::new(path)),
        event: VariableEvent::Written { items: SealedSecrets::new(vec![7; bytes]) },
    }
}

fn deleted(path: &str) -> EventKind {
    EventKind::Variable {
        key: VariableKey::new(Namespace::default(), VariablePath::new(path)),
        event: VariableEvent::Deleted,
    }
}

fn reached<T: std::fmt::Debug>(result: Result<T, CommitError>) -> &'static str {
    match result {
        Err(CommitError::LimitReached(LimitReached { name, .. })) => name,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_limit_refuses_growth_and_nothing_else() {
    let limits = StateLimits {
        variables: 2,
        variable_bytes: 4096,
        namespaces: 2,
        jobs: 1,
        allocations: 1,
        volumes: 1,
        ..StateLimits::default()
    };
    let cell = cell_with(limits).await;
    commit(&cell, written("a", 100)).await.unwrap();
    commit(&cell, written("b", 100)).await.unwrap();
    assert_eq!(reached(commit(&cell, written("c", 1)).await), "variables");
    assert_eq!(reached(commit(&cell, written("b", 2000)).await), "variable-bytes");
    commit(&cell, written("b", 50)).await.unwrap();
    commit(&cell, deleted("a")).await.unwrap();
    commit(&cell, written("c", 1)).await.unwrap();
    commit(&cell, registered(&key("default", "db"), "vol-1")).await.unwrap();
    let other = registered(&key("default", "other"), "vol-2");
    assert_eq!(reached(commit(&cell, other).await), "volumes");
    let web = job_key("web");
    commit(&cell, job_registered(&web)).await.unwrap();
    commit(&cell, job_registered(&web)).await.unwrap();
    assert_eq!(reached(commit(&cell, job_registered(&job_key("api"))).await), "jobs");
    commit(&cell, node_registered(0)).await.unwrap();
    commit(&cell, alloc_placed(&web, "alloc-0", "node-0")).await.unwrap();
    let second = alloc_placed(&web, "alloc-1", "node-0");
    assert_eq!(reached(commit(&cell, second).await), "allocations");
    let stopped =
        EventKind::Job { job: web.clone(), event: Box::new(JobEvent::Stopped { purges: true }) };
    commit(&cell, stopped).await.unwrap();
    let volume = EventKind::VolumeDeregistered { key: key("default", "db") };
    commit(&cell, volume).await.unwrap();
    let namespace = |name: &str| EventKind::Namespace {
        name: Namespace::new(name),
        event: NamespaceEvent::Written { description: String::new(), meta: [].into() },
    };
    let mut refused = 0;
    for name in ["one", "two", "three"] {
        match commit(&cell, namespace(name)).await {
            Ok(_) => {}
            Err(CommitError::LimitReached(LimitReached { name, .. })) => {
                assert_eq!(name, "namespaces");
                refused += 1;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert!(refused > 0);
}

/// A plugin gives volumes back, so it is placed all the same. What is forgotten with a placement makes room for it.
#[tokio::test]
async fn plugins_and_what_replaces_something_are_placed_at_the_limit() {
    let limits = StateLimits { allocations: 1, ..StateLimits::default() };
    let cell = cell_with(limits).await;
    let web = job_key("web");
    commit(&cell, job_registered(&web)).await.unwrap();
    commit(&cell, node_registered(0)).await.unwrap();
    let placed = |alloc: &str| alloc_placed(&web, alloc, "node-0");
    commit(&cell, placed("alloc-0")).await.unwrap();
    let mut plugin = placed("plugin-0");
    if let EventKind::PlacedAlloc { event, .. } = &mut plugin
        && let AllocEvent::Placed { runs_plugin, .. } = &mut **event
    {
        *runs_plugin = true;
    }
    commit(&cell, plugin).await.unwrap();
    assert_eq!(reached(commit(&cell, placed("alloc-1")).await), "allocations");
    for ended in ["alloc-0", "plugin-0"] {
        let kind = alloc_reported(ended, ClientStatus::Complete);
        commit(&cell, kind).await.unwrap();
    }
    let forgotten = |alloc: &str| EventKind::AllocForgotten { alloc: AllocId::new(alloc) };
    let both = |kinds: [EventKind; 3]| {
        let events = kinds.map(|kind| Event::new(1, kind)).into();
        cell.commit_all(vec![Expected::Any], events)
    };
    both([placed("alloc-1"), forgotten("alloc-0"), forgotten("plugin-0")]).await.unwrap();
    assert_eq!(reached(commit(&cell, placed("alloc-2")).await), "allocations");
}

/// What a commit counted is forgotten if it is refused as a whole.
#[tokio::test]
async fn a_refused_commit_takes_no_place() {
    let limits = StateLimits { variables: 2, ..StateLimits::default() };
    let cell = cell_with(limits).await;
    let events = ["a", "b", "c"].map(|path| Event::new(1, written(path, 1)));
    let refused = cell.commit_all(vec![Expected::Any], events.into()).await;
    assert_eq!(reached(refused), "variables");
    commit(&cell, written("d", 1)).await.unwrap();
    commit(&cell, written("e", 1)).await.unwrap();
    assert_eq!(reached(commit(&cell, written("f", 1)).await), "variables");
}

#[test]
fn every_limit_can_be_set_within_its_range() {
    for limit in STATE_LIMITS {
        let mut limits = StateLimits::default();
        let (min, max) = limit.range;
        assert!((min..=max).contains(&limit.get(&limits)), "{}", limit.name);
        let set = limits.set(&format!("{}={min}", limit.name));
        assert_eq!((set, limit.get(&limits)), (Some(Ok(())), min));
        let set = limits.set(&format!("{}={}", limit.name, max + 1));
        assert!(set.is_some_and(|set| set.is_err()), "{}", limit.name);
    }
    assert_eq!(StateLimits::default().set("connections=1"), None);
}

#[test]
fn a_limit_that_is_reached_has_a_code() {
    let (name, limit) = ("volumes", 7);
    let error = ServerError::Commit(CommitError::LimitReached(LimitReached { name, limit }));
    let (code, status) = error.code_and_status();
    assert_eq!((code, status.as_u16()), (Code::ServerLimit, 507));
    assert!(error.text().contains("limit `volumes` of 7"), "{}", error.text());
}
