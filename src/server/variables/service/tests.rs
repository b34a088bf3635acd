//! Concurrent writes, lock expiry, restarts, and the content of the journal.

use std::time::Duration;

use super::*;
use crate::fake::{AppendFault, FakeAgent};
use crate::journal::{Journal as _, JournalErrorKind};
use crate::sealer::Sealer as _;
use crate::volumes::VolumeLimits;
use nomad_csi_claims::state::{replay, violations};
use nomad_csi_model::{Namespace, VariablePath};
use nomad_csi_testing::PluginSettings;

async fn agent() -> FakeAgent {
    FakeAgent::start(PluginSettings::default()).await.unwrap()
}

fn key(path: &str) -> VariableKey {
    VariableKey::new(Namespace::default(), VariablePath::new(path))
}

fn items(value: &str) -> Secrets {
    Secrets::from_iter([("k", value)])
}

fn set(value: &str, check: Option<u64>) -> VariableWrite {
    VariableWrite::Set { items: items(value), cas: check, lock_id: None }
}

fn acquire(id: Option<&str>) -> VariableWrite {
    VariableWrite::Acquire {
        items: items("held"),
        id: id.map(ToOwned::to_owned),
        ttl: 10_000_000_000,
        delay: 5_000_000_000,
    }
}

impl FakeAgent {
    async fn write(&self, write: VariableWrite) -> Result<VariableWriteOutcome, ServerError> {
        let outcome = self.services.variables.write(&key("app"), write).await;
        assert_eq!(violations(&self.state()), Vec::<String>::new());
        outcome
    }

    async fn written(&self, write: VariableWrite) -> Arc<VariableRecord> {
        match self.write(write).await.unwrap() {
            VariableWriteOutcome::Written { record, .. } => record,
            other => panic!("{other:?}"),
        }
    }

    fn held(&self) -> VariableContents {
        let reading = self.services.variables.read(&key("app"));
        reading.unwrap().expect("the variable exists")
    }
}

/// Compare-and-set: of several writers with the same index, one writes.
#[tokio::test(start_paused = true)]
async fn of_concurrent_writers_one_writes_and_the_others_see_its_value() {
    let agent = agent().await;
    let seen = agent.written(set("0", Some(0))).await.modify_index;
    let writes = (1..=20).map(|n| {
        let variables = agent.services.variables.clone();
        async move { variables.write(&key("app"), set(&n.to_string(), Some(seen))).await }
    });
    let outcomes = futures_util::future::join_all(writes).await;
    let won = |outcome: &Result<_, _>| matches!(outcome, Ok(VariableWriteOutcome::Written { .. }));
    assert_eq!(outcomes.iter().filter(|outcome| won(outcome)).count(), 1);
    let now = agent.held();
    for outcome in outcomes.iter().filter(|outcome| !won(outcome)) {
        let Ok(VariableWriteOutcome::Conflict(Some(reading))) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(*reading, now);
    }
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_writer_keeps_its_permit() {
    let agent = agent().await;
    let app = key("app");
    let variables = agent.services.variables.clone();
    {
        let write = std::pin::pin!(variables.write(&app, set("1", Some(0))));
        assert!(futures_util::poll!(write).is_pending());
        tokio::task::yield_now().await;
    }
    let next = agent.write(set("2", Some(0))).await.unwrap();
    let VariableWriteOutcome::Conflict(Some(reading)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(reading.items, items("1"));
}

/// Other clients are refused for twice the TTL plus the delay.
#[tokio::test(start_paused = true)]
async fn an_expired_lock_is_removed_and_the_items_stay() {
    let agent = agent().await;
    let lock = agent.written(acquire(None)).await.lock.clone().unwrap();
    let renew = || VariableWrite::Renew { id: lock.terms.id.clone() };
    agent.clock.advance(Duration::from_secs(19));
    let renewed = agent.written(renew()).await;
    agent.clock.advance(Duration::from_secs(24));
    let lost = agent.write(renew()).await.unwrap_err();
    assert_eq!(lost.text(), "attempting to modify locked variable");
    assert_eq!(agent.write(acquire(None)).await.unwrap(), VariableWriteOutcome::Locked);
    agent.clock.advance(Duration::from_secs(1));
    let next = agent.written(set("free", None)).await;
    assert_eq!(next.lock, None);
    assert_eq!(next.create_index, renewed.create_index);
    assert_eq!(next.modify_index, renewed.modify_index + 3, "renewed, expired, written");
}

/// A renewal does not wake blocking reads.
#[tokio::test(start_paused = true)]
async fn a_renewal_does_not_change_the_index() {
    let agent = agent().await;
    let held = agent.written(acquire(Some("mine"))).await;
    let before = agent.state().variables_index();
    let renewed = agent.written(VariableWrite::Renew { id: "mine".into() }).await;
    assert_eq!(renewed.modify_index, held.modify_index);
    assert_eq!(agent.state().variables_index(), before);
}

/// No request is needed.
#[tokio::test(start_paused = true)]
async fn a_lock_expires_by_itself() {
    let agent = agent().await;
    agent.written(acquire(None)).await;
    let mut changes = agent.cell.watch(vec![Topic::all(Table::Variables)]);
    agent.clock.advance(Duration::from_secs(25));
    changes.changed().await.unwrap();
    assert_eq!(agent.held().record.lock, None);
    assert_eq!(agent.held().items, items("held"));
}

/// A journal failure delays the expiry. It is retried after a pause, not at every change.
#[tokio::test(start_paused = true)]
async fn a_failed_expiry_is_retried_after_a_pause() {
    let agent = agent().await;
    agent.written(acquire(None)).await;
    agent.clock.advance(Duration::from_secs(25));
    let fault = AppendFault::NotWritten(JournalErrorKind::Unavailable);
    agent.journal.fail_next([fault]);
    tokio::time::advance(Duration::from_secs(25)).await;
    while agent.journal.faults_left() > 0 {
        tokio::task::yield_now().await;
    }
    let started = tokio::time::Instant::now();
    let mut changes = agent.cell.watch(vec![Topic::all(Table::Variables)]);
    let other = key("other");
    while agent.held().record.lock.is_some() {
        tokio::time::advance(Duration::from_secs(1)).await;
        agent.services.variables.write(&other, set("x", None)).await.ok();
        changes.changed().await.unwrap();
    }
    let waited = started.elapsed();
    assert!(
        (EXPIRY_PAUSE - Duration::from_secs(1)..=EXPIRY_PAUSE + Duration::from_secs(1))
            .contains(&waited),
        "{waited:?}"
    );
}

/// Renewals are recorded, so restarts do not change the expiry.
#[tokio::test(start_paused = true)]
async fn a_restart_does_not_change_the_expiry_of_a_lock() {
    let mut agent = agent().await;
    agent.written(acquire(Some("mine"))).await;
    for _ in 0..3 {
        agent.clock.advance(Duration::from_secs(6));
        agent = agent.restart(VolumeLimits::default()).await.unwrap();
        assert_eq!(agent.write(acquire(None)).await.unwrap(), VariableWriteOutcome::Locked);
    }
    agent.written(VariableWrite::Renew { id: "mine".into() }).await;
    agent.clock.advance(Duration::from_secs(26));
    agent = agent.restart(VolumeLimits::default()).await.unwrap();
    agent.written(acquire(Some("other"))).await;
}

/// A clock that was set back must not prolong a lock.
#[tokio::test(start_paused = true)]
async fn a_lock_from_the_future_starts_with_the_agent() {
    let agent = agent().await;
    agent.clock.advance(Duration::from_secs(3600));
    agent.written(acquire(None)).await;
    let (backend, journal, ids) = (agent.backend.clone(), agent.journal.clone(), agent.ids.clone());
    drop(agent);
    let clock = nomad_csi_testing::FakeClock::default();
    let agent = FakeAgent::on(backend, journal, clock, ids, VolumeLimits::default());
    let agent = agent.await.unwrap();
    agent.clock.advance(Duration::from_secs(26));
    agent.written(acquire(Some("other"))).await;
}

/// Items may be secrets: the journal contains them only sealed, and replays to the same state.
#[tokio::test(start_paused = true)]
async fn the_journal_contains_items_only_sealed() {
    let agent = agent().await;
    agent.written(set("canary-4711", None)).await;
    agent.written(acquire(Some("mine"))).await;
    agent.written(VariableWrite::Release { id: "mine".into() }).await;
    let gone = agent.write(VariableWrite::Delete { check: None }).await;
    assert_eq!(gone.unwrap(), VariableWriteOutcome::Absent);
    agent.written(set("canary-4711", Some(0))).await;
    let held = agent.journal.load().await.unwrap();
    let owner = SecretOwner::Variable(key("app"));
    let sealed = agent.sealer.seal(&owner, &items("canary-4711"));
    assert_eq!(agent.held().record.items, sealed);
    let shown = format!("{:?} {:?}", held.events, agent.held());
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(replay(held.snapshot, held.events).unwrap(), agent.state());
}

/// Items that were sealed with another key cannot be read.
#[tokio::test(start_paused = true)]
async fn unreadable_items_are_an_error_and_can_be_overwritten() {
    let agent = agent().await;
    agent.written(set("1", None)).await;
    let owner = SecretOwner::Variable(key("other"));
    let foreign = VariableEvent::Written { items: agent.sealer.seal(&owner, &items("1")) };
    let kind = EventKind::Variable { key: key("app"), event: foreign };
    let event = Event::new(0, kind);
    agent.cell.commit(Expected::Any, event).await.unwrap();
    let error = agent.services.variables.read(&key("app")).unwrap_err();
    assert_eq!(
        error.text(),
        "variable app: cannot decrypt the stored secrets with this agent's key"
    );
    agent.written(set("2", None)).await;
    assert_eq!(agent.held().items, items("2"));
}
