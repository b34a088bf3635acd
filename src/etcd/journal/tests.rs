//! What is acknowledged is kept, in every order of lost answers, leaders and crashes.

use std::collections::HashSet;

use tokio::sync::watch;

use super::append::{Appended, ended};
use super::*;
use crate::api::{KeyValue, MemberStatus, TransactionAnswer};
use crate::batch::{Batch, MAX_BYTES};
use crate::fake::{FakeEtcd, Fault};
use crate::leadership::{Candidate, LeadingServer};
use nomad_csi_claims::state::samples::History;
use nomad_csi_claims::state::{State, StateSnapshot, Subject, replay, replay_changes};
use nomad_csi_model::Term;
use nomad_csi_server::JournalErrorKind;

const FIRST: u64 = State::FIRST_INDEX + 1;
const HISTORY: u64 = 20;

fn keys() -> Keys {
    Keys::new("/nomad-csi/global/")
}

async fn lead(etcd: &FakeEtcd) -> EtcdJournal {
    let shared: Arc<dyn Etcd> = Arc::new(etcd.clone());
    let server = LeadingServer { name: "s1".to_owned(), ..LeadingServer::default() };
    let candidate = Candidate { keys: keys(), server, seconds: 10 };
    let (seen, stop) = (watch::Sender::new(None), CancellationToken::new());
    let leadership = Leadership::win(shared.clone(), &candidate, &seen, &stop).await.unwrap();
    EtcdJournal::new(shared, keys(), Arc::new(leadership), None).with_history(HISTORY)
}

/// Lets another server lead.
async fn depose(etcd: &FakeEtcd) -> EtcdJournal {
    etcd.expire_all();
    lead(etcd).await
}

fn events(seed: u64, count: usize) -> Vec<Event> {
    History::new(seed).take(count).collect()
}

async fn append(
    journal: &EtcdJournal,
    first: u64,
    events: &[Event],
) -> Result<(), JournalErrorKind> {
    let appended = journal.append(first, events.to_vec().into()).await;
    appended.map_err(|error| error.kind)
}

async fn loaded(journal: &EtcdJournal) -> Vec<Event> {
    let replay = journal.load().await.unwrap();
    assert!(replay.snapshot.is_none());
    replay.events
}

#[tokio::test(start_paused = true)]
async fn every_lost_answer_is_resolved_without_a_gap_or_a_double() {
    let faults = [
        Fault::AnswerLost,
        Fault::RequestLost,
        Fault::Late(0),
        Fault::Late(1),
        Fault::Late(2),
        Fault::Late(5),
    ];
    for first in faults {
        for second in faults.map(Some).into_iter().chain([None]) {
            let etcd = FakeEtcd::default();
            let journal = lead(&etcd).await;
            assert_eq!(loaded(&journal).await, vec![]);
            let all = events(1, 12);
            append(&journal, FIRST, &all[..4]).await.unwrap();
            etcd.fault_next([Some(first), second]);
            append(&journal, FIRST + 4, &all[4..9]).await.unwrap();
            append(&journal, FIRST + 9, &all[9..]).await.unwrap();
            etcd.deliver_late();
            let next = depose(&etcd).await;
            assert_eq!(loaded(&next).await, all, "{first:?} {second:?}");
        }
    }
}

/// The old leader's request is under way while another server takes over.
#[tokio::test(start_paused = true)]
async fn a_deposed_leader_writes_nothing_and_says_what_it_knows() {
    for fault in [Fault::AnswerLost, Fault::RequestLost, Fault::Late(0), Fault::Late(9)] {
        let etcd = FakeEtcd::default();
        let old = lead(&etcd).await;
        loaded(&old).await;
        let all = events(2, 9);
        append(&old, FIRST, &all[..3]).await.unwrap();
        etcd.fault_next([Some(fault)]);
        let pending = {
            let (old, batch) = (old.clone(), all[3..6].to_vec());
            tokio::spawn(async move { append(&old, FIRST + 3, &batch).await })
        };
        // The request has been sent, and its answer is lost.
        let sent = etcd.transactions() + 1;
        while etcd.transactions() < sent {
            tokio::task::yield_now().await;
        }
        let new = depose(&etcd).await;
        let found = loaded(&new).await;
        let is_there = fault == Fault::AnswerLost;
        assert_eq!(found.len(), if is_there { 6 } else { 3 }, "{fault:?}");
        etcd.deliver_late();
        let expected = if is_there { Ok(()) } else { Err(JournalErrorKind::NotLeader) };
        assert_eq!(pending.await.unwrap(), expected, "{fault:?}");
        let next = FIRST + found.len() as u64;
        append(&new, next, &all[6..]).await.unwrap();
        let refused = append(&old, next, &all[6..]).await;
        assert_eq!(refused, Err(JournalErrorKind::NotLeader), "{fault:?}");
        let kept = loaded(&depose(&etcd).await).await;
        assert_eq!(kept.len(), found.len() + 3, "{fault:?}");
    }
}

/// The index is taken by the new leader: the old one cannot know more.
#[tokio::test(start_paused = true)]
async fn an_append_that_another_leader_overtook_is_of_unknown_outcome() {
    let etcd = FakeEtcd::default();
    let old = lead(&etcd).await;
    loaded(&old).await;
    let all = events(3, 4);
    etcd.fault_next([Some(Fault::RequestLost)]);
    let pending = {
        let (old, batch) = (old.clone(), all[..2].to_vec());
        tokio::spawn(async move { append(&old, FIRST, &batch).await })
    };
    let sent = etcd.transactions() + 1;
    while etcd.transactions() < sent {
        tokio::task::yield_now().await;
    }
    let new = depose(&etcd).await;
    loaded(&new).await;
    append(&new, FIRST, &all[2..]).await.unwrap();
    assert_eq!(pending.await.unwrap(), Err(JournalErrorKind::OutcomeUnknown));
    assert!(old.0.leadership.lost().is_cancelled());
}

#[test]
fn each_answer_says_what_the_design_says() {
    let id = BatchId { term: Term { epoch: 1, revision: 5 }, number: 3 };
    let batch = Batch::new(id, 10, &events(1, 1)).unwrap();
    let kv =
        |create_revision, value| Some(KeyValue { create_revision, value, ..KeyValue::default() });
    let head = |index: u64| kv(1, index.to_be_bytes().to_vec());
    let other = Batch { id: BatchId { number: 4, ..id }, ..batch.clone() };
    let answer = |found| TransactionAnswer { succeeded: false, revision: 9, found };
    let of = |answer: &TransactionAnswer| ended(answer, id, 10, 5);
    assert_eq!(of(&TransactionAnswer { succeeded: true, ..answer(vec![]) }), Appended::Done);
    let (ours, foreign) = (kv(2, batch.value()), kv(2, other.value()));
    for (leader, head, log, expected) in [
        (kv(5, vec![]), head(10), ours.clone(), Appended::Done),
        (kv(6, vec![]), head(10), ours.clone(), Appended::Done),
        (None, head(30), ours, Appended::Done),
        (kv(6, vec![]), head(9), None, Appended::NotLeader),
        (None, head(9), None, Appended::NotLeader),
        (None, None, None, Appended::NotLeader),
        (kv(6, vec![]), head(10), foreign.clone(), Appended::Unknown),
        (kv(6, vec![]), head(90), None, Appended::Unknown),
        (kv(5, vec![]), head(10), foreign, Appended::Gap(10)),
        (kv(5, vec![]), head(7), None, Appended::Gap(7)),
    ] {
        let case = answer(vec![leader, head, log]);
        assert_eq!(of(&case), expected, "{case:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_etcd_refuses_certainly_only_what_was_never_unknown() {
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    loaded(&journal).await;
    let all = events(4, 6);
    etcd.fault_next([Some(Fault::NoSpace)]);
    assert_eq!(append(&journal, FIRST, &all[..2]).await, Err(JournalErrorKind::EtcdFull));
    append(&journal, FIRST, &all[2..4]).await.unwrap();
    // It was carried out, its answer was lost, and then there was no space to repeat it.
    etcd.fault_next([Some(Fault::AnswerLost), Some(Fault::NoSpace)]);
    append(&journal, FIRST + 2, &all[4..5]).await.unwrap();
    // It was not carried out, and waits until there is space.
    etcd.fault_next([Some(Fault::RequestLost), Some(Fault::NoSpace), Some(Fault::NoSpace)]);
    append(&journal, FIRST + 3, &all[5..]).await.unwrap();
    assert_eq!(loaded(&depose(&etcd).await).await, all[2..]);
}

#[tokio::test(start_paused = true)]
async fn growth_is_refused_before_etcd_is_full() {
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    loaded(&journal).await;
    let member = |size| MemberStatus { size, quota: 100, ..MemberStatus::default() };
    for (size, space) in [(10, Space::Enough), (70, Space::Short), (90, Space::Full)] {
        etcd.set_space(vec![member(size)], false);
        journal.0.measure_space().await;
        assert_eq!(journal.space(), space);
        // No member answers: what was known counts.
        etcd.set_space(vec![], false);
        journal.0.measure_space().await;
        assert_eq!(journal.space(), space);
        assert_eq!(journal.is_full(), space == Space::Full);
        assert_eq!(journal.wants_snapshot(), space >= Space::Short);
    }
    etcd.set_space(vec![member(90)], false);
    let grows = events(1, 60).into_iter().find(|event| is_growth(std::slice::from_ref(event)));
    let refused = append(&journal, FIRST, &[grows.unwrap()]).await;
    assert_eq!(refused, Err(JournalErrorKind::EtcdFull));
    let reclaimed = crate::reclaim::reclaim(&etcd, &keys()).await.unwrap();
    assert_eq!((reclaimed[0].before, reclaimed[0].after), (90, 45));
    journal.0.measure_space().await;
    assert_eq!(journal.space(), Space::Enough);
}

/// Growth that would fill etcd between two questions is seen at once.
#[tokio::test(start_paused = true)]
async fn much_growth_is_measured_before_it_is_due() {
    use nomad_csi_claims::state::samples::jobs::{job_key, job_registered};
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    loaded(&journal).await;
    let stop = CancellationToken::new();
    let maintaining = {
        let (journal, stop) = (journal.clone(), stop.clone());
        tokio::spawn(async move { journal.maintain(stop).await })
    };
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    etcd.set_space(vec![MemberStatus { size: 90, quota: 100, ..MemberStatus::default() }], false);
    let event = Event { at: 1, kind: job_registered(&job_key("web")) };
    let mut first = FIRST;
    while journal.space() != Space::Full {
        let batch = vec![event.clone(); 256];
        match append(&journal, first, &batch).await {
            Ok(()) => first += 256,
            Err(kind) => assert_eq!(kind, JournalErrorKind::EtcdFull),
        }
        tokio::task::yield_now().await;
        assert!(first < FIRST + (1 << 20), "nothing is measured");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    stop.cancel();
    maintaining.await.unwrap();
}

/// A commit of a job with a long template does not fit under one key.
#[tokio::test(start_paused = true)]
async fn a_large_batch_is_written_in_pieces_and_removed_with_them() {
    use nomad_csi_claims::state::samples::jobs::{job_key, job_registered};
    use nomad_csi_claims::state::{EventKind, JobEvent};
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    loaded(&journal).await;
    let mut kind = job_registered(&job_key("web"));
    let EventKind::Job { event, .. } = &mut kind else { unreachable!() };
    let JobEvent::Registered { job, .. } = &mut **event else { unreachable!() };
    job.groups[0].tasks[0].driver = "x".repeat(3 * MAX_BYTES);
    let event = Event { at: events(1, 1)[0].at, kind };
    append(&journal, FIRST, std::slice::from_ref(&event)).await.unwrap();
    let parts =
        || etcd.all().keys().filter(|key| key.starts_with(b"/nomad-csi/global/part/")).count();
    assert_eq!(parts(), 7, "pieces of 512 KiB");
    let next = depose(&etcd).await;
    assert_eq!(loaded(&next).await, std::slice::from_ref(&event));
    let read = next.read_events(State::FIRST_INDEX, 9).await.unwrap();
    assert_eq!(read, [(FIRST, event.clone())]);
    let state = replay(None, vec![event]).unwrap();
    *next.0.space.lock() = Space::Short;
    next.write_snapshot(SnapshotChanges::complete(&state)).await.unwrap();
    append(&next, FIRST + 1, &events(1, 1)).await.unwrap();
    crate::reclaim::reclaim(&etcd, &keys()).await.unwrap();
    assert_eq!(parts(), 0);
    let held = next.load().await.unwrap();
    assert_eq!(held.events, events(1, 1), "what follows the snapshot stays");
    assert_eq!(replay(held.snapshot, vec![]).unwrap(), state);
}

fn changed(before: &StateSnapshot, events: &[Event]) -> (State, HashSet<Subject>) {
    replay_changes(Some(before.clone()), events.to_vec()).unwrap()
}

/// A server is killed before and after each of its transactions, with and without its effect, and the next one goes on.
#[tokio::test(start_paused = true)]
async fn a_leader_killed_at_any_transaction_loses_nothing_that_it_acknowledged() {
    let all = events(7, 90);
    let mut moments = 0;
    for killed_at in 1..200 {
        for fault in [Fault::AnswerLost, Fault::RequestLost, Fault::Late(3)] {
            let etcd = FakeEtcd::default();
            let journal = lead(&etcd).await;
            let before = etcd.transactions();
            let acknowledged = Arc::new(AtomicU64::new(0));
            let run = work(journal, all.clone(), acknowledged.clone());
            let faults = (1..killed_at).map(|_| None).chain([Some(fault)]);
            etcd.fault_next(faults);
            // At its fault the process ends: its future is dropped.
            let killed = async {
                while etcd.transactions() < before + killed_at {
                    tokio::task::yield_now().await;
                }
            };
            let is_done = tokio::select! {
                biased;
                () = killed => false,
                () = run => true,
            };
            if is_done {
                assert!(moments > 150, "{moments} moments");
                return;
            }
            moments += 1;
            let next = depose(&etcd).await;
            etcd.deliver_late();
            let promised = acknowledged.load(Ordering::Relaxed);
            check(&next, &all, promised, &format!("{killed_at} {fault:?}")).await;
        }
    }
    panic!("the run has more transactions");
}

/// Appends events in batches, with snapshots in between.
async fn work(journal: EtcdJournal, all: Vec<Event>, acknowledged: Arc<AtomicU64>) {
    journal.load().await.unwrap();
    let mut snapshot: Option<StateSnapshot> = None;
    let mut next = NextSnapshot::Complete;
    let mut since = 0;
    for (at, batch) in all.chunks(3).enumerate() {
        let first = FIRST + acknowledged.load(Ordering::Relaxed);
        journal.append(first, batch.to_vec().into()).await.unwrap();
        acknowledged.fetch_add(batch.len() as u64, Ordering::Relaxed);
        if at % 4 == 3 {
            let done = usize::try_from(acknowledged.load(Ordering::Relaxed)).unwrap();
            let new = &all[since..done];
            let (state, subjects) = match &snapshot {
                Some(snapshot) => changed(snapshot, new),
                None => replay_changes(None, new.to_vec()).unwrap(),
            };
            let changes = match next {
                NextSnapshot::Complete => SnapshotChanges::complete(&state),
                NextSnapshot::Changes => SnapshotChanges::of(&state, subjects),
            };
            next = journal.write_snapshot(changes).await.unwrap();
            (snapshot, since) = (Some(StateSnapshot::from(&state)), done);
        }
    }
}

/// Checks what a leader finds, and that it can go on.
async fn check(journal: &EtcdJournal, all: &[Event], promised: u64, case: &str) {
    let held = journal.load().await.unwrap();
    let accepts_changes = held.accepts_changes;
    let (state, mut subjects) = replay_changes(held.snapshot, held.events).unwrap();
    let found = state.index() - State::FIRST_INDEX;
    assert!(found >= promised, "{case}: promised {promised}, found {found}");
    assert!(found <= promised + 3, "{case}: {found}");
    let found = usize::try_from(found).unwrap();
    assert_eq!(replay(None, all[..found].to_vec()).unwrap(), state, "{case}");
    let more = &all[found..(found + 3).min(all.len())];
    append(journal, state.index() + 1, more).await.unwrap();
    let (state, changed) = changed(&StateSnapshot::from(&state), more);
    subjects.extend(changed);
    let changes = match accepts_changes {
        true => SnapshotChanges::of(&state, subjects),
        false => SnapshotChanges::complete(&state),
    };
    journal.write_snapshot(changes).await.unwrap();
    let held = journal.load().await.unwrap();
    assert!(held.events.is_empty(), "{case}");
    assert_eq!(replay(held.snapshot, vec![]).unwrap(), state, "{case}");
    let last = state.index();
    let kept = journal.read_events(last.saturating_sub(HISTORY), 1_000).await.unwrap();
    assert_eq!(kept.len() as u64, HISTORY.min(last - State::FIRST_INDEX), "{case}");
    assert!(
        kept.iter().all(|(index, event)| all[usize::try_from(index - FIRST).unwrap()] == *event)
    );
}

#[tokio::test(start_paused = true)]
async fn what_no_manifest_names_is_removed_and_what_is_missing_is_found() {
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    let all = events(9, 63);
    work(journal, all[..60].to_vec(), Arc::default()).await;
    let keys_of = |part: &str| {
        let start = format!("/nomad-csi/global/{part}");
        let keys = etcd.all().into_keys().filter(|key| key.starts_with(start.as_bytes()));
        keys.collect::<Vec<_>>()
    };
    etcd.overwrite(&keys().chunk(77, 0), vec![1]);
    let next = depose(&etcd).await;
    check(&next, &all, 60, "leftover").await;
    assert!(keys_of("snap/000000000000004d").is_empty(), "the chunk that no manifest names");
    assert!(keys_of("log/").len() <= 8, "the history has {HISTORY} events in batches of 3");
    let chunk = keys_of("snap/").remove(0);
    for damaged in [&chunk, &keys().snapshots(), &keys().head()] {
        let copy = etcd.copy();
        copy.remove(damaged);
        let other = depose(&copy).await;
        let error = other.load().await.unwrap_err();
        assert_eq!(error.kind, JournalErrorKind::Damaged, "{}", String::from_utf8_lossy(damaged));
    }
    assert!(!keys_of("log/").is_empty(), "a part of the history");
}

/// The history is a comfort, and space is none.
#[tokio::test(start_paused = true)]
async fn without_space_a_snapshot_keeps_no_history() {
    for (space, kept) in [(Space::Enough, HISTORY), (Space::Short, 0), (Space::Full, 0)] {
        let etcd = FakeEtcd::default();
        let journal = lead(&etcd).await;
        loaded(&journal).await;
        let all = events(5, 60);
        for (at, batch) in all.chunks(3).enumerate() {
            append(&journal, FIRST + 3 * at as u64, batch).await.unwrap();
        }
        *journal.0.space.lock() = space;
        let state = replay(None, all).unwrap();
        journal.write_snapshot(SnapshotChanges::complete(&state)).await.unwrap();
        let found = journal.read_events(State::FIRST_INDEX, 1_000).await.unwrap();
        // The batch in which the kept events begin stays whole; without any, the last one.
        let rest = found.len() as u64 - kept.min(found.len() as u64);
        assert!(found.len() as u64 >= kept && rest <= 3, "{space:?}: {}", found.len());
        assert_eq!(replay(journal.load().await.unwrap().snapshot, vec![]).unwrap(), state);
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_layout_is_refused() {
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    etcd.overwrite(&keys().format(), b"2".to_vec());
    assert_eq!(journal.load().await.unwrap_err().kind, JournalErrorKind::TooNew);
}

/// A server that stops while etcd does not answer ends, and says that it does not know.
#[tokio::test(start_paused = true)]
async fn a_repetition_can_be_given_up() {
    let etcd = FakeEtcd::default();
    let journal = lead(&etcd).await;
    loaded(&journal).await;
    etcd.fault_next(std::iter::repeat_n(Some(Fault::RequestLost), 1_000));
    let pending = {
        let journal = journal.clone();
        tokio::spawn(async move { append(&journal, FIRST, &events(1, 1)).await })
    };
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!pending.is_finished());
    journal.give_up();
    assert_eq!(pending.await.unwrap(), Err(JournalErrorKind::OutcomeUnknown));
    assert_eq!(append(&journal, FIRST, &events(1, 1)).await, Err(JournalErrorKind::NotLeader));
}
