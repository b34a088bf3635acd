//! Compare-and-set, failure, stopping, snapshots.

mod followed;
mod together;
mod waiting;

use std::sync::Arc;

use futures_util::future::join_all;

use super::{CellOptions, CommitError, Expected, StateCell};
use crate::fake::{AppendFault, MemoryJournal};
use crate::journal::{JournalErrorKind, NextSnapshot};
use nomad_csi_claims::state::samples::{definition, key, provided, registered, started};
use nomad_csi_claims::state::{
    Event, EventConflict, EventKind, Phase, State, Subject, Topic, replay, violations,
};
use nomad_csi_model::{NamespacedId, SealedSecrets};

fn event(kind: EventKind) -> Event {
    Event::new(1, kind)
}

fn updated(key: &NamespacedId, external_id: &str) -> Event {
    event(EventKind::VolumeUpdated {
        definition: Box::new(definition(key)),
        provided: Box::new(provided(external_id)),
        secrets: SealedSecrets::default(),
    })
}

async fn cell_on(journal: &MemoryJournal, options: CellOptions) -> StateCell {
    let journal = Arc::new(journal.clone());
    StateCell::open(journal, options).await.unwrap()
}

async fn started_cell(journal: &MemoryJournal) -> StateCell {
    let cell = cell_on(journal, CellOptions::default()).await;
    cell.commit(Expected::Any, event(started())).await.unwrap();
    cell
}

/// The state that a restart replays from the journal.
fn after_restart(journal: &MemoryJournal) -> State {
    let held = journal.replay();
    replay(held.snapshot, held.events).unwrap()
}

#[tokio::test]
async fn a_commit_is_visible_at_its_index_and_after_a_restart() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let db = key("default", "db");
    let absent = Expected::VolumeAbsent(db.clone());
    let committed = cell.commit(absent, event(registered(&db, "ext-1"))).await;
    assert_eq!(committed.unwrap(), 3);
    assert_eq!(cell.index(), 3);
    assert_eq!(cell.read(|state| state.record(&db).unwrap().modify_index), 3);
    let again = cell_on(&journal, CellOptions::default()).await;
    assert_eq!(again.read(State::clone), cell.read(State::clone));
}

/// W08: of two conflicting commits one fails.
#[tokio::test]
async fn of_two_commits_on_one_index_one_conflicts() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let db = key("default", "db");
    let first = event(registered(&db, "ext-1"));
    cell.commit(Expected::Any, first).await.unwrap();
    let seen = || Expected::VolumeAt(db.clone(), 3);
    let (one, other) = tokio::join!(
        cell.commit(seen(), updated(&db, "ext-2")),
        cell.commit(seen(), updated(&db, "ext-3")),
    );
    assert_eq!(one.unwrap(), 4);
    let found = match other.unwrap_err() {
        CommitError::Conflict { volume, found } if volume == db => found,
        other => panic!("{other}"),
    };
    assert_eq!(found, Some((Phase::Registered, 4)));
}

#[tokio::test]
async fn every_expectation_is_checked() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let (db, web) = (key("default", "db"), key("default", "web"));
    let first = event(registered(&db, "ext-1"));
    cell.commit(Expected::Any, first).await.unwrap();
    for (expected, fits) in [
        (Expected::Any, true),
        (Expected::VolumeAt(db.clone(), 3), false),
        (Expected::VolumeAt(db.clone(), 4), true),
        (Expected::VolumeAbsent(db.clone()), false),
        (Expected::VolumeAbsent(web.clone()), true),
        (Expected::VolumeAt(web.clone(), 3), false),
    ] {
        let result = cell.commit(expected.clone(), updated(&db, "ext-2")).await;
        match result {
            Ok(_) => assert!(fits, "{expected:?}"),
            Err(CommitError::Conflict { .. }) => assert!(!fits, "{expected:?}"),
            Err(other) => panic!("{expected:?}: {other}"),
        }
    }
}

#[tokio::test]
async fn an_event_that_does_not_fit_is_not_written() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let db = key("default", "db");
    let refused = cell.commit(Expected::Any, updated(&db, "ext-1")).await;
    assert!(matches!(
        refused.unwrap_err(),
        CommitError::InvalidEvent(EventConflict::Volume { phase: None, .. })
    ));
    assert_eq!((cell.index(), journal.replay().events.len()), (2, 1));
}

#[tokio::test]
async fn waiting_commits_share_a_write() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let volumes: Vec<_> = (0..20).map(|n| key("default", &format!("v{n}"))).collect();
    let register = |key| cell.commit(Expected::Any, event(registered(key, "ext")));
    let results = join_all(volumes.iter().map(register)).await;
    let indexes = results.into_iter().map(Result::unwrap);
    assert!(indexes.eq(3..23), "in the order of arrival");
    assert_eq!(journal.append_sizes(), [1, 20]);
}

#[tokio::test]
async fn a_journal_failure_fails_the_whole_write_and_changes_nothing() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let before = cell.read(State::clone);
    journal.fail_next([AppendFault::NotWritten(JournalErrorKind::DiskFull)]);
    let volumes: Vec<_> = (0..3).map(|n| key("default", &format!("v{n}"))).collect();
    let register = |key| {
        cell.commit(Expected::VolumeAbsent(NamespacedId::clone(key)), event(registered(key, "ext")))
    };
    let results = join_all(volumes.iter().map(register)).await;
    for result in &results {
        assert!(matches!(
            result,
            Err(CommitError::Journal(error)) if error.kind == JournalErrorKind::DiskFull
        ));
    }
    assert_eq!(cell.read(State::clone), before);
    let results = join_all(volumes.iter().map(register)).await;
    assert!(results.iter().all(Result::is_ok), "the cell keeps working");
}

/// fsync fails after the bytes were written: the refused event must not reappear.
#[tokio::test]
async fn a_refused_event_is_absent_after_a_restart() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    journal.fail_next([AppendFault::WrittenButFailed]);
    let (lost, kept) = (key("default", "lost"), key("default", "kept"));
    let commit = |key| cell.commit(Expected::Any, event(registered(key, "ext")));
    assert!(commit(&lost).await.is_err());
    assert_eq!(commit(&kept).await.unwrap(), 3);
    let state = after_restart(&journal);
    assert!(state.record(&lost).is_none() && state.record(&kept).is_some());
}

#[tokio::test]
async fn a_stop_completes_waiting_commits_and_refuses_others() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let volumes: Vec<_> = (0..10).map(|n| key("default", &format!("v{n}"))).collect();
    let register = |key| cell.commit(Expected::Any, event(registered(key, "ext")));
    let (results, ()) = tokio::join!(join_all(volumes.iter().map(register)), cell.stop());
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(after_restart(&journal), cell.read(State::clone));
    let late = cell.commit(Expected::Any, event(started())).await;
    assert!(matches!(late, Err(CommitError::Stopping)));
    cell.stop().await;
}

#[tokio::test]
async fn a_woken_reader_sees_the_change() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let db = key("default", "db");
    let mut watch = cell.watch(vec![Topic::Object(Subject::Volume(db.clone()))]);
    let wait = async {
        watch.changed().await.unwrap();
        cell.read(State::index)
    };
    let (seen, committed) =
        tokio::join!(wait, cell.commit(Expected::Any, event(registered(&db, "ext"))));
    assert_eq!((seen, committed.unwrap()), (3, 3));
}

#[tokio::test]
async fn snapshots_limit_the_replay_of_a_restart() {
    let journal = MemoryJournal::default();
    let options = CellOptions { snapshot_every: 4, ..CellOptions::default() };
    let cell = cell_on(&journal, options).await;
    cell.commit(Expected::Any, event(started())).await.unwrap();
    for number in 0..30 {
        let key = key("default", &format!("v{}", number % 3));
        let kind = if number < 3 {
            registered(&key, "ext")
        } else {
            updated(&key, &format!("ext-{number}")).kind
        };
        cell.commit(Expected::Any, event(kind)).await.unwrap();
    }
    cell.stop().await;
    let held = journal.replay();
    assert!(
        journal.snapshot_sizes().len() >= 4 && held.events.len() <= 12,
        "{}",
        held.events.len()
    );
    assert_eq!(after_restart(&journal), cell.read(State::clone));
    assert_eq!(cell.read(violations), Vec::<String>::new());
}

/// The cost of a snapshot depends on the changes, not on the size of the state.
#[tokio::test]
async fn a_snapshot_contains_what_changed_since_the_last_one() {
    let journal = MemoryJournal::default();
    let options = CellOptions { snapshot_every: 10, ..CellOptions::default() };
    let cell = cell_on(&journal, options).await;
    cell.commit(Expected::Any, event(started())).await.unwrap();
    let register = |number| registered(&key("default", &format!("v{number}")), "ext");
    for number in 0..200 {
        let event = event(register(number));
        cell.commit(Expected::Any, event).await.unwrap();
    }
    let before = cell.read(State::clone);
    cell.stop().await;
    let sizes = journal.snapshot_sizes();
    assert!(sizes.iter().all(|size| *size <= 30), "{sizes:?}");
    assert_eq!(after_restart(&journal), before);
    let cell = cell_on(&journal, options).await;
    for number in 0..12 {
        let event = updated(&key("default", &format!("v{}", number % 3)), "other");
        cell.commit(Expected::Any, event).await.unwrap();
    }
    let before = cell.read(State::clone);
    cell.stop().await;
    let after = journal.snapshot_sizes().split_off(sizes.len());
    assert!(after.iter().all(|size| *size <= 23), "{after:?}");
    assert!(!after.is_empty());
    assert_eq!(after_restart(&journal), before);
}

/// A chain of changes ends where the journal says, and one that is short of space does not wait until a snapshot is due.
#[tokio::test]
async fn a_journal_decides_what_the_next_snapshot_has_and_when_it_is_early() {
    for (next, wants, expected) in [
        (NextSnapshot::Changes, true, [1, 1, 1, 1]),
        (NextSnapshot::Complete, true, [1, 2, 3, 4]),
        (NextSnapshot::Changes, false, [0, 0, 0, 0]),
    ] {
        let journal = MemoryJournal::default();
        journal.want_next(next, wants);
        let cell = cell_on(&journal, CellOptions::default()).await;
        let mut sizes = vec![];
        for number in 0..4 {
            let key = key("default", &format!("v{number}"));
            let before = journal.snapshot_sizes().len();
            cell.commit(Expected::Any, event(registered(&key, "ext"))).await.unwrap();
            // A snapshot is written beside the next commits.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            sizes.push(journal.snapshot_sizes().get(before).copied().unwrap_or_default());
        }
        assert_eq!(sizes, expected, "{next:?} {wants}");
        let before = cell.read(State::clone);
        cell.stop().await;
        assert_eq!(after_restart(&journal), before);
    }
}

#[tokio::test]
async fn an_inconsistent_journal_does_not_open() {
    let journal = MemoryJournal::with_content(crate::journal::Replay {
        snapshot: None,
        accepts_changes: false,
        events: vec![event(started()), updated(&key("default", "db"), "ext")],
    });
    let refused = StateCell::open(Arc::new(journal), CellOptions::default()).await;
    let error = refused.err().unwrap();
    assert_eq!(error.kind, JournalErrorKind::Damaged);
    assert_eq!(error.source.to_string(), "event 3 contradicts earlier events");
}
