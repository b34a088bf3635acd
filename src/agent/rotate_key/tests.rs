//! A rotation that is interrupted at each step, and what opens afterwards.

use super::*;
use nomad_csi_claims::state::samples::{key, registered, started};
use nomad_csi_claims::state::{VariableEvent, replay};
use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets, VariableKey, VariablePath};
use nomad_csi_server::Sealer as _;

use super::super::directory::journal_file;

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn volume() -> SecretOwner {
    SecretOwner::Volume(key("default", "db"))
}

fn variable() -> VariableKey {
    VariableKey::new("default".into(), VariablePath::new("app/db"))
}

/// A data directory with a volume and a variable that have secrets.
async fn used() -> tempfile::TempDir {
    let data = tempfile::tempdir().unwrap();
    let sealer = KeySealer::open(&key_file(data.path()), None).unwrap();
    let mut registration = registered(&key("default", "db"), "vol-1");
    if let EventKind::VolumeRegistered { secrets: sealed, .. } = &mut registration {
        *sealed = sealer.seal(&volume(), &secrets());
    }
    let items = sealer.seal(&SecretOwner::Variable(variable()), &secrets());
    let written = EventKind::Variable { key: variable(), event: VariableEvent::Written { items } };
    let kinds = [started(), registration, written];
    let events: Vec<_> = kinds.into_iter().map(|kind| Event::new(1, kind)).collect();
    let journal = EmbeddedJournal::open(journal_file(data.path())).await.unwrap();
    journal.append(2, events.into()).await.unwrap();
    journal.close().await.unwrap();
    data
}

/// Reads all secrets as an agent that starts there does. Returns their sealed forms.
async fn read_as_a_start_does(data: &Path) -> Vec<SealedSecrets> {
    let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
    let held = journal.load().await.unwrap();
    journal.close().await.unwrap();
    let state = replay(held.snapshot, held.events).unwrap();
    let record = state.record(&key("default", "db")).unwrap();
    let sealer = KeySealer::open(&key_file(data), Some((&volume(), &record.secrets))).unwrap();
    let items = state.variable(&variable()).unwrap().items.clone();
    let owner = SecretOwner::Variable(variable());
    assert!(sealer.open(&volume(), &record.secrets).unwrap() == secrets());
    assert!(sealer.open(&owner, &items).unwrap() == secrets());
    vec![record.secrets.clone(), items]
}

/// Returns whether a start finishes the rotation.
async fn start(data: &Path) -> bool {
    let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
    let state = read_state(data, &journal).await.unwrap();
    journal.close().await.unwrap();
    let is_finished = finish_if_resealed(&key_file(data), &state).unwrap();
    let sealer = KeySealer::open(&key_file(data), None).unwrap();
    assert_eq!(sealer.is_in_rotation(), !is_finished);
    is_finished
}

/// Checks that the new key alone opens everything, and that the old data is gone from the journal.
async fn assert_rotated(data: &Path, before: &[SealedSecrets]) {
    let after = read_as_a_start_does(data).await;
    let sealer = KeySealer::open(&key_file(data), None).unwrap();
    assert!(!sealer.is_in_rotation());
    for (old, new) in before.iter().zip(&after) {
        assert_ne!(old, new);
    }
    assert!(sealer.open(&volume(), &before[0]).is_err(), "the old key is gone");
    let journal = EmbeddedJournal::open(journal_file(data)).await.unwrap();
    let history = journal.read_events(0, 100).await.unwrap();
    journal.close().await.unwrap();
    assert_eq!(history, [], "events with the old key are gone");
}

#[tokio::test]
async fn everything_opens_with_the_new_key_only() {
    let data = used().await;
    let before = read_as_a_start_does(data.path()).await;
    let rotated = rotate_key(data.path()).await.unwrap();
    assert_eq!(rotated, RotatedKey { sealed: 2 });
    assert_rotated(data.path(), &before).await;
    let once = read_as_a_start_does(data.path()).await;
    rotate_key(data.path()).await.unwrap();
    assert_rotated(data.path(), &once).await;
}

/// After each interruption an agent can start, and the next rotation ends.
#[tokio::test]
async fn a_rotation_can_be_interrupted_at_every_step() {
    for steps in 1..=3 {
        let data = used().await;
        let before = read_as_a_start_does(data.path()).await;
        let rotation = KeyRotation::begin(&key_file(data.path())).unwrap();
        let journal = EmbeddedJournal::open(journal_file(data.path())).await.unwrap();
        let state = read_state(data.path(), &journal).await.unwrap();
        if steps == 2 {
            let event = Event::new(5, EventKind::KeyRotationStarted);
            let next = state.index() + 1;
            journal.append(next, Arc::new([event])).await.unwrap();
        }
        if steps == 3 {
            reseal(data.path(), &journal, state, &rotation).await.unwrap();
        }
        journal.close().await.unwrap();
        drop(rotation);
        read_as_a_start_does(data.path()).await;
        assert_eq!(start(data.path()).await, steps == 3, "step {steps}");
        read_as_a_start_does(data.path()).await;
        rotate_key(data.path()).await.unwrap();
        assert_rotated(data.path(), &before).await;
    }
}

#[tokio::test]
async fn a_directory_without_a_key_and_a_foreign_key_are_refused_unchanged() {
    let data = used().await;
    let key = std::fs::read(key_file(data.path())).unwrap();
    std::fs::remove_file(key_file(data.path())).unwrap();
    let refused = rotate_key(data.path()).await.unwrap_err();
    let headline = |problems: &Diagnostics| problems.iter().next().unwrap().message.clone();
    assert!(headline(&refused).ends_with("it has no key"), "{refused:?}");
    drop(KeySealer::open(&key_file(data.path()), None).unwrap());
    let foreign = std::fs::read(key_file(data.path())).unwrap();
    let refused = rotate_key(data.path()).await.unwrap_err();
    let expected = "cannot decrypt the secrets of ";
    assert!(headline(&refused).contains(expected), "{refused:?}");
    assert_eq!(std::fs::read(key_file(data.path())).unwrap(), foreign);
    std::fs::write(key_file(data.path()), key).unwrap();
    read_as_a_start_does(data.path()).await;
}
