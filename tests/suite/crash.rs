//! The agent's state after a power failure at every write, with torn writes, and during recovery.
//!
//! The journal lists all moments at which an agent can be killed, so the second half starts on every
//! prefix of a recorded run. `NOMAD_CSI_POWER_ROUNDS` multiplies the tries per moment (default 1).

use std::collections::HashSet;
use std::sync::Arc;

use nomad_csi_claims::state::samples::{History, definition, key, provided, started};
use nomad_csi_claims::state::{
    Event, EventKind, Phase, SnapshotChanges, State, StateSnapshot, Subject, provider_name, replay,
    replay_changes, violations,
};
use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets};
use nomad_csi_server::fake::MemoryJournal;
use nomad_csi_server::store::{EmbeddedJournal, KeySealer};
use nomad_csi_server::{CellOptions, Expected, Journal as _, Replay, Sealer as _, StateCell};

use nomad_csi_testing::crash_disk::{CrashDisk, DiskOperation, SeededRng, lose_power_at};

/// The events of a run, and how many of them there are after each write.
struct Run {
    events: Vec<Event>,
    writes: Vec<usize>,
    log: Vec<DiskOperation>,
}

const FIRST: u64 = State::FIRST_INDEX + 1;
/// How many replaced events a journal keeps, so that snapshots remove others.
const HISTORY: u64 = 3;

/// Records a run on that disk, in batches of varying size with snapshots in between. A promise is the
/// number of acknowledged events.
async fn record(disk: &CrashDisk, seed: u64, count: usize) -> Run {
    let events: Vec<_> = History::new(seed).take(count).collect();
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await.unwrap();
    let (mut done, mut writes, mut snapshot) = (0, vec![0], None);
    let mut rng = SeededRng(seed);
    while done < events.len() {
        let size = (1 + rng.below(6)).min(events.len() - done);
        append(&journal, &events, done, size).await;
        done += size;
        writes.push(done);
        disk.mark_durable(done as u64);
        if rng.below(6) == 0 {
            let since = snapshot.as_ref().map_or(0, events_in);
            let replayed = replay_changes(snapshot.clone(), events[since..done].to_vec());
            let (state, changed) = replayed.unwrap();
            write_snapshot(&journal, snapshot.is_some(), &state, changed).await.unwrap();
            snapshot = Some(StateSnapshot::from(&state));
        }
    }
    // Not closed: the power fails while it is open.
    let log = disk.log();
    drop(journal);
    Run { events, writes, log }
}

/// Returns the number of events in a snapshot.
fn events_in(snapshot: &StateSnapshot) -> usize {
    usize::try_from(snapshot.numbers.index - State::FIRST_INDEX).unwrap()
}

/// Writes a snapshot as the agent does: everything, and later what changed.
async fn write_snapshot(
    journal: &EmbeddedJournal<CrashDisk>,
    accepts_changes: bool,
    state: &State,
    changed: HashSet<Subject>,
) -> Result<(), String> {
    let changes = match accepts_changes {
        true => SnapshotChanges::of(state, changed),
        false => SnapshotChanges::complete(state),
    };
    let written = journal.write_snapshot(changes).await;
    written.map(|_| ()).map_err(|error| format!("takes no snapshot: {}", error.source))
}

async fn append(journal: &EmbeddedJournal<CrashDisk>, events: &[Event], done: usize, size: usize) {
    let batch: Arc<[Event]> = events[done..done + size].into();
    let first = FIRST + done as u64;
    journal.append(first, batch).await.unwrap();
}

/// Checks the state that a restart finds.
async fn restart(disk: &CrashDisk, run: &Run, promised: u64) -> Result<(), String> {
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await;
    let journal = journal.map_err(|error| format!("does not open: {error}: {}", error.source))?;
    let held = journal.load().await;
    let held = held.map_err(|error| format!("does not load: {}", error.source))?;
    let accepts_changes = held.accepts_changes;
    let replayed = replay_changes(held.snapshot, held.events);
    let (mut state, mut changed) = replayed.map_err(|error| error.to_string())?;
    let found = state.index() - State::FIRST_INDEX;
    if found < promised {
        return Err(format!("promised {promised} events, found {found}"));
    }
    let found = usize::try_from(found).unwrap();
    if found > run.events.len() || replay(None, run.events[..found].to_vec()).unwrap() != state {
        return Err(format!("{found} events make another state than in the run"));
    }
    // The events of one commit are in one write.
    if !run.writes.contains(&found) {
        return Err(format!("a write was split after {found} events"));
    }
    let broken = violations(&state);
    if !broken.is_empty() {
        return Err(broken.join("; "));
    }
    // The restarted journal accepts the next write, and a snapshot.
    if let Some(end) = run.writes.iter().find(|end| **end > found) {
        let next = run.events[found..*end].to_vec();
        let appended = journal.append(state.index() + 1, next.clone().into()).await;
        appended.map_err(|error| format!("takes nothing more: {}", error.source))?;
        let before = Some(StateSnapshot::from(&state));
        let (after, more) = replay_changes(before, next).unwrap();
        changed.extend(more);
        state = after;
    }
    write_snapshot(&journal, accepts_changes, &state, changed).await?;
    let held = journal.load().await;
    let held = held.map_err(|error| format!("does not load again: {}", error.source))?;
    if replay(held.snapshot, held.events).as_ref() != Ok(&state) {
        return Err(format!("the snapshot after {found} events is another state"));
    }
    Ok(())
}

fn rounds() -> usize {
    let text = std::env::var("NOMAD_CSI_POWER_ROUNDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Fails the power at those moments. Returns the number of failures and the problems.
async fn lose_power(
    run: &Run,
    moments: impl Iterator<Item = usize>,
    rng: &mut SeededRng,
) -> (usize, Vec<String>) {
    let restarted = async |disk: &CrashDisk, promised| restart(disk, run, promised).await;
    lose_power_at(&run.log, moments, rng, restarted).await
}

#[tokio::test]
async fn acknowledged_events_survive_a_power_failure_at_any_moment() {
    for seed in 1..=2 {
        let run = record(&CrashDisk::default(), seed, 40).await;
        for round in 0..rounds() {
            let mut rng = SeededRng(seed * 1000 + round as u64);
            let moments = 0..=run.log.len();
            let (losses, problems) = lose_power(&run, moments, &mut rng).await;
            assert!(losses > 200, "the run is too short: {losses}");
            assert_eq!(problems, Vec::<String>::new(), "seed {seed}, round {round}");
        }
    }
}

/// Tests the harness: it must detect lost events on a disk that does not sync.
#[tokio::test]
async fn a_disk_that_does_not_sync_is_detected() {
    let run = record(&CrashDisk::ignoring_syncs(), 1, 20).await;
    let (_, problems) = lose_power(&run, 0..=run.log.len(), &mut SeededRng(1)).await;
    assert!(!problems.is_empty());
}

/// The journal contains secrets only sealed.
#[tokio::test]
async fn no_secret_is_written_to_the_disk_unsealed() {
    const CANARY: &str = "canary-7b1c9e";
    let directory = tempfile::tempdir().unwrap();
    let sealer = KeySealer::open(&directory.path().join("key"), None).unwrap();
    let db = key("default", "db");
    let owner = SecretOwner::from(&db);
    let secrets = Secrets::from_iter([("token", CANARY)]);
    let disk = CrashDisk::default();
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await.unwrap();
    let cell = StateCell::open(Arc::new(journal.clone()), CellOptions::default());
    let cell = cell.await.unwrap();
    for kind in [
        started(),
        EventKind::VolumeRegistered {
            definition: Box::new(definition(&db)),
            provided: Box::new(provided("ext-1")),
            secrets: sealer.seal(&owner, &secrets),
        },
    ] {
        cell.commit(Expected::Any, Event::new(1, kind)).await.unwrap();
    }
    let changes = cell.read(SnapshotChanges::complete);
    journal.write_snapshot(changes).await.unwrap();
    cell.stop().await;
    for operation in disk.log() {
        if let DiskOperation::Write(_, data) = operation {
            let found = data.windows(CANARY.len()).any(|w| w == CANARY.as_bytes());
            assert!(!found);
        }
    }
    let sealed = cell.read(|state| state.record(&db).unwrap().secrets.clone());
    assert!(sealer.open(&owner, &sealed).unwrap() == secrets);
}

/// W14: on every prefix, the next agent has the same state, knows the pending creations, and sends the
/// same names again.
#[tokio::test]
async fn an_agent_on_any_prefix_of_a_run_has_the_same_state() {
    let mut history = History::new(11);
    let mut states = vec![history.state().clone()];
    let mut events = vec![];
    for _ in 0..150 {
        events.extend(history.next());
        states.push(history.state().clone());
    }
    for (length, expected) in states.iter().enumerate() {
        let journal = MemoryJournal::with_content(Replay {
            snapshot: None,
            accepts_changes: false,
            events: events[..length].to_vec(),
        });
        let cell = StateCell::open(Arc::new(journal), CellOptions::default());
        let cell = cell.await.unwrap();
        assert_eq!(cell.read(State::clone), *expected, "{length} events");
        assert_eq!(cell.read(violations), Vec::<String>::new());
        let half_made = expected.records().filter(|r| r.phase == Phase::Creating);
        for record in half_made {
            let again = EventKind::VolumeCreateIntended {
                definition: Box::new(record.definition.clone()),
                secrets: SealedSecrets::default(),
                earlier: record.earlier_creates.clone(),
                instance: None,
                request: None,
            };
            let at = Expected::VolumeAt(record.key().clone(), record.modify_index);
            cell.commit(at, Event::new(9, again)).await.unwrap();
            let name = cell.read(|s| provider_name(s, s.record(record.key()).unwrap()));
            assert_eq!(name, provider_name(expected, record));
        }
        cell.stop().await;
    }
}
