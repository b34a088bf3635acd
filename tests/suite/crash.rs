//! The agent's memory when the power goes: at every write, torn in every way, and again while it
//! recovers. The journal is also the list of all moments at which an agent can die, so the second
//! half starts on every prefix of a recorded run.
//!
//! `NOMAD_CSI_POWER_ROUNDS` multiplies the number of ways in which each moment is tried (default 1).

use std::sync::Arc;

use nomad_csi::model::{SealedSecrets, SecretOwner, Secrets};
use nomad_csi::ports::fake::MemoryJournal;
use nomad_csi::ports::{Journal as _, Replay, Sealer as _};
use nomad_csi::server::{CellOptions, Expected, StateCell};
use nomad_csi::state::samples::{History, definition, key, provided, started};
use nomad_csi::state::{
    Event, EventKind, Phase, State, StateSnapshot, provider_name, replay, violations,
};
use nomad_csi::store::{EmbeddedJournal, KeySealer, Storage as _};

use crate::support::power::{Chance, Disk, Operation, lose_power};

/// Events of a run, and where its snapshots are taken.
struct Run {
    events: Vec<Event>,
    log: Vec<Operation>,
}

const FIRST: u64 = State::FIRST_INDEX + 1;

/// A run in batches of changing size, with snapshots in between, on that disk. A promise is the
/// number of events that were acknowledged.
async fn record(disk: &Disk, seed: u64, count: usize) -> Run {
    let events: Vec<_> = History::new(seed).take(count).collect();
    let journal = EmbeddedJournal::over(disk.clone()).await.unwrap();
    let mut done = 0;
    let mut chance = Chance(seed);
    while done < events.len() {
        let size = (1 + chance.below(6)).min(events.len() - done);
        append(&journal, &events, done, size).await;
        done += size;
        disk.promise(done as u64);
        if chance.below(6) == 0 {
            let state = replay(None, events[..done].to_vec()).unwrap();
            let snapshot = StateSnapshot::from(&state);
            journal.write_snapshot(snapshot).await.unwrap();
        }
    }
    // Not closed: the power goes while it is open.
    let log = disk.log();
    drop(journal);
    Run { events, log }
}

async fn append(journal: &EmbeddedJournal<Disk>, events: &[Event], done: usize, size: usize) {
    let batch: Arc<[Event]> = events[done..done + size].into();
    let first = FIRST + done as u64;
    journal.append(first, batch).await.unwrap();
}

/// What is wrong with what a restart finds, if anything.
async fn restart(disk: &Disk, run: &Run, promised: u64) -> Result<(), String> {
    let journal = EmbeddedJournal::over(disk.clone()).await;
    let journal = journal.map_err(|error| format!("does not open: {error}: {}", error.source))?;
    let held = journal.load().await;
    let held = held.map_err(|error| format!("does not load: {}", error.source))?;
    let state = replay(held.snapshot, held.events).map_err(|error| error.to_string())?;
    let found = state.index() - State::FIRST_INDEX;
    if found < promised {
        return Err(format!("promised {promised} events, found {found}"));
    }
    let found = usize::try_from(found).unwrap();
    if found > run.events.len() || replay(None, run.events[..found].to_vec()).unwrap() != state {
        return Err(format!("{found} events make another state than in the run"));
    }
    let broken = violations(&state);
    if !broken.is_empty() {
        return Err(broken.join("; "));
    }
    // And it goes on from there.
    if found < run.events.len() {
        let next: Arc<[Event]> = [run.events[found].clone()].into();
        let appended = journal.append(state.index() + 1, next).await;
        appended.map_err(|error| format!("takes nothing more: {}", error.source))?;
    }
    Ok(())
}

fn rounds() -> usize {
    let text = std::env::var("NOMAD_CSI_POWER_ROUNDS").ok();
    text.and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Loses power behind each of the operations `moments` of a run; now and then again during the
/// recovery. Gives the number of losses and what went wrong.
async fn lose_power_at(
    run: &Run,
    moments: impl Iterator<Item = usize>,
    chance: &mut Chance,
) -> (usize, Vec<String>) {
    let (mut losses, mut problems) = (0, vec![]);
    for moment in moments {
        let (file, promised) = lose_power(None, &run.log[..moment], chance);
        let disk = Disk::holding(file.clone());
        losses += 1;
        let outcome = restart(&disk, run, promised).await;
        problems.extend(outcome.err().map(|e| format!("operation {moment}: {e}")));
        let recovery = disk.log();
        if recovery.is_empty() || chance.below(3) > 0 {
            continue;
        }
        let again = 1 + chance.below(recovery.len());
        let (file, _) = lose_power(file.as_deref(), &recovery[..again], chance);
        losses += 1;
        let outcome = restart(&Disk::holding(file), run, promised).await;
        problems.extend(
            outcome
                .err()
                .map(|e| format!("operation {moment}, then {again}: {e}")),
        );
    }
    (losses, problems)
}

#[tokio::test]
async fn whenever_the_power_goes_what_was_acknowledged_is_there_and_nothing_is_torn() {
    for seed in 1..=2 {
        let run = record(&Disk::default(), seed, 40).await;
        for round in 0..rounds() {
            let mut chance = Chance(seed * 1000 + round as u64);
            let moments = 0..=run.log.len();
            let (losses, problems) = lose_power_at(&run, moments, &mut chance).await;
            assert!(losses > 250, "too short a run: {losses}");
            assert_eq!(problems, Vec::<String>::new(), "seed {seed}, round {round}");
        }
    }
}

/// The harness's own test: on a disk that does not sync, it must find what is lost.
#[tokio::test]
async fn a_disk_that_does_not_sync_is_found_out() {
    let run = record(&Disk::that_ignores_syncs(), 1, 20).await;
    let (_, problems) = lose_power_at(&run, 0..=run.log.len(), &mut Chance(1)).await;
    assert!(!problems.is_empty());
}

/// Nothing but the key file opens them, and the journal holds nothing else of them.
#[tokio::test]
async fn no_byte_of_a_secret_is_ever_written_to_the_disk() {
    const CANARY: &str = "canary-7b1c9e";
    let directory = tempfile::tempdir().unwrap();
    let sealer = KeySealer::open(&directory.path().join("key"), None).unwrap();
    let db = key("default", "db");
    let owner = SecretOwner::from(&db);
    let secrets = Secrets::from_iter([("token", CANARY)]);
    let disk = Disk::default();
    let journal = EmbeddedJournal::over(disk.clone()).await.unwrap();
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
        cell.commit(Expected::Any, Event::new(1, kind))
            .await
            .unwrap();
    }
    let snapshot = cell.read(|state| StateSnapshot::from(state));
    journal.write_snapshot(snapshot).await.unwrap();
    cell.stop().await;
    for operation in disk.log() {
        if let Operation::Write(_, data) = operation {
            let found = data.windows(CANARY.len()).any(|w| w == CANARY.as_bytes());
            assert!(!found, "{:?}", disk.path());
        }
    }
    let sealed = cell.read(|state| state.record(&db).unwrap().secrets.clone());
    assert!(sealer.open(&owner, &sealed).unwrap() == secrets);
}

/// W14: whatever the agent had written when it died, the next one agrees with it, knows which
/// volumes are half made, and sends the same name again.
#[tokio::test]
async fn an_agent_that_starts_on_any_prefix_of_a_run_holds_what_the_first_one_held() {
    let mut history = History::new(11);
    let mut states = vec![history.state().clone()];
    let mut events = vec![];
    for _ in 0..150 {
        events.extend(history.next());
        states.push(history.state().clone());
    }
    for (length, expected) in states.iter().enumerate() {
        let journal = MemoryJournal::holding(Replay {
            snapshot: None,
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
            };
            let at = Expected::VolumeAt(record.key().clone(), record.modify_index);
            cell.commit(at, Event::new(9, again)).await.unwrap();
            let name = cell.read(|s| provider_name(s, s.record(record.key()).unwrap()));
            assert_eq!(name, provider_name(expected, record));
        }
        cell.stop().await;
    }
}
