//! Several events in one commit, and several commits in one write.

use futures_util::future::join_all;
use proptest::prelude::*;

use super::{after_restart, cell_on, event, started_cell, updated};
use crate::cell::{CellOptions, CommitError, Expected, StateCell};
use crate::fake::{AppendFault, MemoryJournal};
use crate::journal::JournalErrorKind;
use nomad_csi_claims::state::samples::{History, definition, instance, key, registered, started};
use nomad_csi_claims::state::{
    ControllerCall, ControllerEffect, Event, EventConflict, EventKind, Phase, State, VolumeIntent,
    apply, check, violations,
};
use nomad_csi_model::{AllocId, CapacityRange, ExternalId, NamespacedId, NodeId, RemoteVolume};

fn at(key: &NamespacedId, index: u64) -> Vec<Expected> {
    vec![Expected::VolumeAt(key.clone(), index)]
}

#[tokio::test]
async fn all_events_of_a_commit_are_recorded_or_none() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let (db, web) = (key("default", "db"), key("default", "web"));
    let absent = |key: &NamespacedId| Expected::VolumeAbsent(key.clone());
    let both = || vec![event(registered(&db, "1")), event(registered(&web, "2"))];
    let expected = || vec![absent(&db), absent(&web)];
    assert_eq!(cell.commit_all(expected(), both()).await.unwrap(), 4);
    let index = |key| cell.read(|state| state.record(key).unwrap().modify_index);
    assert_eq!((index(&db), index(&web)), (3, 4));

    let before = cell.read(State::clone);
    let second_does_not_fit = vec![updated(&db, "3"), event(registered(&web, "2"))];
    let refused = cell.commit_all(vec![], second_does_not_fit).await;
    assert!(matches!(
        refused.unwrap_err(),
        CommitError::InvalidEvent(EventConflict::Volume { volume, .. }) if volume == web
    ));
    let refused = cell.commit_all(expected(), both()).await.unwrap_err();
    assert!(matches!(refused, CommitError::Conflict { volume, .. } if volume == db));
    assert_eq!(cell.read(State::clone), before);
    assert_eq!(journal.append_sizes(), [1, 2], "one write per commit");
}

/// One write, in which each commit sees those before it and a refused one harms no other.
#[tokio::test]
async fn commits_that_belong_together_share_a_write() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let (db, web) = (key("default", "db"), key("default", "web"));
    let commits = vec![
        (vec![], vec![event(registered(&db, "ext-1"))]),
        (vec![Expected::VolumeAt(db.clone(), 3)], vec![updated(&db, "ext-1")]),
        (vec![Expected::VolumeAt(db.clone(), 3)], vec![updated(&db, "ext-1")]),
        (vec![], vec![event(registered(&web, "ext-2"))]),
    ];
    let results = cell.commit_each(commits).await;
    assert!(matches!(results.as_slice(), [Ok(3), Ok(4), Err(CommitError::Conflict { .. }), Ok(5)]));
    assert_eq!(journal.append_sizes(), [1, 3]);
    cell.stop().await;
    let stopped = cell.commit_each(vec![(vec![], vec![updated(&db, "ext-1")])]);
    assert!(matches!(stopped.await.as_slice(), [Err(CommitError::Stopping)]));
}

/// The second event relies on the first one.
#[tokio::test]
async fn each_event_is_checked_after_the_ones_before_it() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let db = key("default", "db");
    let delete = || {
        event(EventKind::VolumeDeleteIntended { key: db.clone(), instance: None, request: None })
    };
    let deleted = || event(EventKind::VolumeDeleted { key: db.clone() });
    let register = || event(registered(&db, "1"));
    let early = cell.commit_all(vec![], vec![deleted(), register()]).await;
    assert!(matches!(early, Err(CommitError::InvalidEvent(_))));
    let whole_life = vec![register(), delete(), deleted(), register(), delete()];
    assert_eq!(cell.commit_all(vec![], whole_life).await.unwrap(), 7);
    let record = cell.read(|state| state.record(&db).cloned()).unwrap();
    assert_eq!((record.create_index, record.modify_index), (6, 7));
    assert_eq!(record.phase, Phase::Deleting);
}

/// Rule 4 of the claims machine: two calls of a volume that were decided together do not go to two controllers.
#[tokio::test]
async fn of_two_intents_for_two_controllers_in_one_write_one_is_refused() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let (db, same) = (key("default", "db"), key("default", "same"));
    let mut events = vec![event(registered(&db, "1")), event(registered(&same, "1"))];
    let volume =
        RemoteVolume { plugin_id: definition(&db).plugin_id, external_id: ExternalId::new("1") };
    let both = ["p1", "p2"].map(AllocId::new);
    for alloc in &both {
        let mut instance = Box::new(instance(true));
        instance.alloc_id = alloc.clone();
        let (plugin, node) = (volume.plugin_id.clone(), NodeId::new("n1"));
        events.push(event(EventKind::PluginAllocObserved { plugin, node, instance }));
    }
    cell.commit_all(vec![], events).await.unwrap();
    let intent = |key: &NamespacedId, instance: &AllocId| {
        let record = cell.read(|state| state.record(key).unwrap().clone());
        let call = ControllerCall::of_intent(&record, VolumeIntent::Expand);
        let expected = Expected::Controller(call, instance.clone());
        let (key, to, instance) = (key.clone(), CapacityRange::default(), Some(instance.clone()));
        (
            vec![expected],
            vec![event(EventKind::VolumeExpandIntended { key, to, instance, request: None })],
        )
    };
    let results = cell.commit_each(vec![intent(&db, &both[0]), intent(&same, &both[1])]).await;
    let [Ok(_), Err(CommitError::Conflict { volume: refused, .. })] = results.as_slice() else {
        panic!("{results:?}");
    };
    assert_eq!(*refused, same);
    let effect = ControllerEffect::Attached(NodeId::new("n1"));
    let attach = ControllerCall::OfVolume { volume, effect };
    let check = |instance: &AllocId| {
        cell.commit_all(vec![Expected::Controller(attach.clone(), instance.clone())], vec![])
    };
    let refused = check(&both[1]).await;
    assert!(matches!(refused, Err(CommitError::ClaimsConflict { .. })), "{refused:?}");
    check(&both[0]).await.unwrap();
}

#[tokio::test]
async fn a_commit_without_events_only_checks_what_was_expected() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let db = key("default", "db");
    let first = event(registered(&db, "1"));
    cell.commit(Expected::Any, first).await.unwrap();
    assert_eq!(cell.commit_all(at(&db, 3), vec![]).await.unwrap(), 3);
    assert!(cell.commit_all(at(&db, 2), vec![]).await.is_err());
    assert_eq!(journal.append_sizes(), [1, 1]);
}

/// Each of them expects what the one before it wrote.
#[tokio::test]
async fn commits_about_one_volume_that_follow_each_other_share_a_write() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let db = key("default", "db");
    let first = event(registered(&db, "0"));
    cell.commit(Expected::Any, first).await.unwrap();
    let updates = (3..8).map(|seen| cell.commit_all(at(&db, seen), vec![updated(&db, "x")]));
    let results: Vec<_> = join_all(updates).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(results, [4, 5, 6, 7, 8]);
    assert_eq!(journal.append_sizes(), [1, 1, 5]);
    assert_eq!(after_restart(&journal), cell.read(State::clone));
}

/// A refusal that says what an earlier commit of the same write changed is given after the write. So
/// if the write fails, it is not given.
#[tokio::test]
async fn no_answer_shows_what_is_not_durable() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let db = key("default", "db");
    let first = event(registered(&db, "1"));
    cell.commit(Expected::Any, first).await.unwrap();
    let before = cell.read(State::clone);
    let race = || async {
        tokio::join!(
            cell.commit_all(at(&db, 3), vec![updated(&db, "2")]),
            cell.commit_all(at(&db, 3), vec![updated(&db, "3")]),
            cell.commit_all(at(&db, 9), vec![updated(&db, "4")]),
        )
    };
    journal.fail_next([AppendFault::NotWritten(JournalErrorKind::DiskFull)]);
    let (winner, second, wrong) = race().await;
    assert!(matches!(winner, Err(CommitError::Journal(_))));
    assert!(matches!(second, Err(CommitError::Journal(_))), "{second:?}");
    let found = |result| match result {
        Err(CommitError::Conflict { found, .. }) => found.map(|(_, index)| index),
        other => panic!("{other:?}"),
    };
    assert_eq!(found(wrong), Some(3), "refused with or without the others");
    assert_eq!(cell.read(State::clone), before);
    let (winner, second, wrong) = race().await;
    assert_eq!(winner.unwrap(), 4);
    assert_eq!((found(second), found(wrong)), (Some(4), Some(4)));
}

#[tokio::test]
async fn a_commit_larger_than_a_write_is_not_split() {
    let journal = MemoryJournal::default();
    let options = CellOptions { batch: 4, ..CellOptions::default() };
    let cell = cell_on(&journal, options).await;
    let many = (0..10).map(|n| event(registered(&key("default", &format!("v{n}")), "x")));
    cell.commit_all(vec![], many.collect()).await.unwrap();
    assert_eq!(journal.append_sizes(), [10]);
}

/// A commit as a value, to perform it on a cell and on a model.
#[derive(Clone, Debug)]
struct Attempt {
    expected: Vec<Expected>,
    events: Vec<Event>,
}

/// Attempts from several histories, so that many contradict each other.
fn attempts(seed: u64, count: usize) -> Vec<Attempt> {
    let mut clients: Vec<_> = (0..3).map(|client| History::new(seed ^ client)).collect();
    let mut number = seed;
    let mut below = |bound: u64| {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((number >> 33) % bound).unwrap()
    };
    let attempt = |_| {
        let client = &mut clients[below(3)];
        let events: Vec<_> = client.take(below(4)).collect();
        let volume = events.iter().find_map(|event| event.kind.volume());
        let seen = volume.and_then(|key| client.state().record(key));
        let expected = match (below(3), volume, seen) {
            (0, Some(key), None) => vec![Expected::VolumeAbsent(key.clone())],
            (0, Some(key), Some(seen)) => at(key, seen.modify_index),
            _ => vec![],
        };
        Attempt { expected, events }
    };
    (0..count).map(attempt).collect()
}

/// Performs one attempt at a time. Returns the index, or nothing if it is refused.
fn one_after_another(attempts: &[Attempt]) -> (State, Vec<Option<u64>>) {
    let mut state = State::default();
    let mut perform = |attempt: &Attempt| {
        let mut after = state.clone();
        for expected in &attempt.expected {
            expected.check(&after).ok()?;
        }
        for event in &attempt.events {
            check(&after, event).ok()?;
            apply(&mut after, event);
        }
        state = after;
        Some(state.index())
    };
    let results = attempts.iter().map(&mut perform).collect();
    (state, results)
}

#[test]
fn the_attempts_succeed_and_fail() {
    let (_, results) = one_after_another(&attempts(1, 80));
    let succeeded = results.iter().flatten().count();
    assert!((20..=75).contains(&succeeded), "{succeeded} of 80");
}

async fn in_waves(cell: &StateCell, attempts: &[Attempt], wave: usize) -> Vec<Option<u64>> {
    let mut results = vec![];
    for wave in attempts.chunks(wave) {
        let commit = |attempt: &Attempt| {
            let Attempt { expected, events } = attempt.clone();
            cell.commit_all(expected, events)
        };
        let answers = join_all(wave.iter().map(commit)).await;
        results.extend(answers.into_iter().map(Result::ok));
    }
    results
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn commits_that_share_writes_do_what_they_do_one_after_another(
        seed: u64, wave in 1_usize..40, batch in 1_usize..30,
    ) {
        let attempts = attempts(seed, 80);
        let (expected, expected_results) = one_after_another(&attempts);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let journal = MemoryJournal::default();
        let options = CellOptions { batch, ..CellOptions::default() };
        let results = runtime.block_on(async {
            let cell = cell_on(&journal, options).await;
            let results = in_waves(&cell, &attempts, wave).await;
            cell.stop().await;
            (results, cell.read(State::clone))
        });
        prop_assert_eq!(results, (expected_results, expected.clone()));
        prop_assert_eq!(violations(&expected), Vec::<String>::new());
        prop_assert_eq!(after_restart(&journal), expected);
    }
}

#[tokio::test]
async fn a_start_of_the_agent_shares_a_write_and_keeps_its_place() {
    let journal = MemoryJournal::default();
    let cell = started_cell(&journal).await;
    let (a, b) = (key("default", "a"), key("default", "b"));
    let commit = |kind| cell.commit(Expected::Any, event(kind));
    let (one, start, two) =
        tokio::join!(commit(registered(&a, "1")), commit(started()), commit(registered(&b, "2")),);
    assert_eq!((one.unwrap(), start.unwrap(), two.unwrap()), (3, 4, 5));
    assert_eq!(journal.append_sizes(), [1, 3]);
}
