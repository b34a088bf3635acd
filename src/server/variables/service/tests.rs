//! Writes that come at once, locks that end, restarts, and what stands in the journal.

use std::time::Duration;

use super::*;
use crate::model::{Namespace, VariablePath};
use crate::ports::fake::{AppendFault, Settings};
use crate::ports::{Journal as _, JournalErrorKind};
use crate::server::fake::FakeAgent;
use crate::server::volumes::VolumeLimits;
use crate::state::{replay, violations};

async fn agent() -> FakeAgent {
    FakeAgent::start(Settings::default()).await.unwrap()
}

fn key(path: &str) -> VariableKey {
    VariableKey::new(Namespace::default(), VariablePath::new(path))
}

fn items(value: &str) -> Secrets {
    Secrets::from_iter([("k", value)])
}

fn set(value: &str, check: Option<u64>) -> VariableWrite {
    VariableWrite::Set {
        items: items(value),
        check,
        holder: None,
    }
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
    async fn write(&self, write: VariableWrite) -> Result<VariableOutcome, ServerError> {
        let outcome = self.services.variables.write(&key("app"), write).await;
        assert_eq!(violations(&self.state()), Vec::<String>::new());
        outcome
    }

    async fn written(&self, write: VariableWrite) -> Arc<VariableRecord> {
        match self.write(write).await.unwrap() {
            VariableOutcome::Written { record, .. } => record,
            other => panic!("{other:?}"),
        }
    }

    fn held(&self) -> VariableReading {
        let reading = self.services.variables.read(&key("app"));
        reading.unwrap().expect("it is there")
    }
}

/// Compare-and-set: of any number of writers that have seen the same, one writes.
#[tokio::test(start_paused = true)]
async fn of_writers_at_once_one_writes_and_the_others_see_what_he_wrote() {
    let agent = agent().await;
    let seen = agent.written(set("0", Some(0))).await.modify_index;
    let writes = (1..=20).map(|n| {
        let variables = agent.services.variables.clone();
        async move {
            variables
                .write(&key("app"), set(&n.to_string(), Some(seen)))
                .await
        }
    });
    let outcomes = futures_util::future::join_all(writes).await;
    let won = |outcome: &Result<_, _>| matches!(outcome, Ok(VariableOutcome::Written { .. }));
    assert_eq!(outcomes.iter().filter(|outcome| won(outcome)).count(), 1);
    let now = agent.held();
    for outcome in outcomes.iter().filter(|outcome| !won(outcome)) {
        let Ok(VariableOutcome::Differs(Some(reading))) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(*reading, now);
    }
}

/// Who hangs up loses the answer, and the next one finds what he wrote.
#[tokio::test(start_paused = true)]
async fn a_writer_who_hangs_up_does_not_give_his_turn_away() {
    let agent = agent().await;
    let app = key("app");
    let variables = agent.services.variables.clone();
    {
        let write = std::pin::pin!(variables.write(&app, set("1", Some(0))));
        assert!(futures_util::poll!(write).is_pending());
        tokio::task::yield_now().await;
    }
    let next = agent.write(set("2", Some(0))).await.unwrap();
    let VariableOutcome::Differs(Some(reading)) = next else {
        panic!("{next:?}");
    };
    assert_eq!(reading.items, items("1"));
}

/// `nomad-neighbour-apis` 2.6: for twice its time and its delay nobody else gets it, then anybody.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_not_renewed_ends_and_leaves_what_was_written() {
    let agent = agent().await;
    let lock = agent.written(acquire(None)).await.lock.clone().unwrap();
    let renew = || VariableWrite::Renew {
        id: lock.terms.id.clone(),
    };
    agent.clock.advance(Duration::from_secs(19));
    let renewed = agent.written(renew()).await;
    agent.clock.advance(Duration::from_secs(24));
    let lost = agent.write(renew()).await.unwrap_err();
    assert_eq!(lost.text(), "attempting to modify locked variable");
    assert_eq!(
        agent.write(acquire(None)).await.unwrap(),
        VariableOutcome::Held
    );
    agent.clock.advance(Duration::from_secs(1));
    let next = agent.written(set("free", None)).await;
    assert_eq!(next.lock, None);
    assert_eq!(next.create_index, renewed.create_index);
    assert_eq!(
        next.modify_index,
        renewed.modify_index + 3,
        "renewed, expired, written"
    );
}

/// A renewal moves nothing that a reader waits for.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_no_change_of_the_variable() {
    let agent = agent().await;
    let held = agent.written(acquire(Some("mine"))).await;
    let before = agent.state().variables_index();
    let renewed = agent
        .written(VariableWrite::Renew { id: "mine".into() })
        .await;
    assert_eq!(renewed.modify_index, held.modify_index);
    assert_eq!(agent.state().variables_index(), before);
}

/// Nobody has to come for a lock to end.
#[tokio::test(start_paused = true)]
async fn a_lock_ends_by_itself() {
    let agent = agent().await;
    agent.written(acquire(None)).await;
    let mut changes = agent.cell.subscribe();
    changes.mark_unchanged();
    agent.clock.advance(Duration::from_secs(25));
    changes.changed().await.unwrap();
    assert_eq!(agent.held().record.lock, None);
    assert_eq!(agent.held().items, items("held"));
}

/// A disk that is full for a moment delays the end of a lock, however much else is going on, and is
/// not asked again at every change.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_ended_is_tried_again_after_a_pause() {
    let agent = agent().await;
    agent.written(acquire(None)).await;
    agent.clock.advance(Duration::from_secs(25));
    let fault = AppendFault::Refused(JournalErrorKind::Unavailable);
    agent.journal.fail_next([fault]);
    tokio::time::advance(Duration::from_secs(25)).await;
    while agent.journal.faults_left() > 0 {
        tokio::task::yield_now().await;
    }
    let started = tokio::time::Instant::now();
    let mut changes = agent.cell.subscribe();
    let other = key("other");
    while agent.held().record.lock.is_some() {
        tokio::time::advance(Duration::from_secs(1)).await;
        agent
            .services
            .variables
            .write(&other, set("x", None))
            .await
            .ok();
        changes.changed().await.unwrap();
    }
    let waited = started.elapsed();
    assert!(
        (PAUSE - Duration::from_secs(1)..=PAUSE + Duration::from_secs(1)).contains(&waited),
        "{waited:?}"
    );
}

/// Renewals are on record, so a lock ends when it would have ended, however often agents start.
#[tokio::test(start_paused = true)]
async fn a_restart_neither_prolongs_a_lock_nor_cuts_it_short() {
    let mut agent = agent().await;
    agent.written(acquire(Some("mine"))).await;
    for _ in 0..3 {
        agent.clock.advance(Duration::from_secs(6));
        agent = agent.restart(VolumeLimits::default()).await.unwrap();
        assert_eq!(
            agent.write(acquire(None)).await.unwrap(),
            VariableOutcome::Held
        );
    }
    agent
        .written(VariableWrite::Renew { id: "mine".into() })
        .await;
    agent.clock.advance(Duration::from_secs(26));
    agent = agent.restart(VolumeLimits::default()).await.unwrap();
    agent.written(acquire(Some("other"))).await;
}

/// A clock that was set back must not hold a lock until the time that it once showed.
#[tokio::test(start_paused = true)]
async fn a_lock_from_the_future_counts_from_the_agents_start() {
    let agent = agent().await;
    agent.clock.advance(Duration::from_secs(3600));
    agent.written(acquire(None)).await;
    let (backend, journal, ids) = (
        agent.backend.clone(),
        agent.journal.clone(),
        agent.ids.clone(),
    );
    drop(agent);
    let clock = crate::ports::fake::FakeClock::default();
    let agent = FakeAgent::on(backend, journal, clock, ids, VolumeLimits::default());
    let agent = agent.await.unwrap();
    agent.clock.advance(Duration::from_secs(26));
    agent.written(acquire(Some("other"))).await;
}

/// Items may be secrets: the journal holds none of them, and gives the same state again.
#[tokio::test(start_paused = true)]
async fn the_journal_holds_items_only_sealed_and_replays_to_the_same() {
    let agent = agent().await;
    agent.written(set("canary-4711", None)).await;
    agent.written(acquire(Some("mine"))).await;
    agent
        .written(VariableWrite::Release { id: "mine".into() })
        .await;
    let gone = agent.write(VariableWrite::Delete { check: None }).await;
    assert_eq!(gone.unwrap(), VariableOutcome::Gone);
    agent.written(set("canary-4711", Some(0))).await;
    let held = agent.journal.load().await.unwrap();
    let owner = SecretOwner::Variable(key("app"));
    let sealed = agent.sealer.seal(&owner, &items("canary-4711"));
    assert_eq!(agent.held().record.items, sealed);
    let shown = format!("{:?} {:?}", held.events, agent.held());
    assert!(!shown.contains("canary"), "{shown}");
    assert_eq!(replay(held.snapshot, held.events).unwrap(), agent.state());
}

/// Another key is another agent's: nothing is taken for what it is not.
#[tokio::test(start_paused = true)]
async fn items_that_do_not_open_are_an_error_and_can_be_written_again() {
    let agent = agent().await;
    agent.written(set("1", None)).await;
    let owner = SecretOwner::Variable(key("other"));
    let foreign = VariableEvent::Written {
        items: agent.sealer.seal(&owner, &items("1")),
    };
    let kind = EventKind::Variable {
        key: key("app"),
        event: foreign,
    };
    let event = Event::new(0, kind);
    agent.cell.commit(Expected::Any, event).await.unwrap();
    let error = agent.services.variables.read(&key("app")).unwrap_err();
    assert_eq!(
        error.text(),
        "variable app: the sealed secrets do not open with this agent's key"
    );
    agent.written(set("2", None)).await;
    assert_eq!(agent.held().items, items("2"));
}
