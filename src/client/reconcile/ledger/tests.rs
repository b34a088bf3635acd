use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::ports::fake::{LedgerFault, MemoryLedger};
use crate::ports::{ProcessIdentity, ProcessState};
use crate::reconcile::lock_renewal::{hold_lock, is_held};
use crate::reconcile::volume_owners::owners;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, NamespacedId, VolumeId};
use nomad_csi_plan::{Actor, Ownership};
use nomad_csi_testing::CountingIds;

fn name() -> SetName {
    SetName::parse("web").unwrap()
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

fn holder(user: &str) -> LockHolder {
    LockHolder {
        by: Actor {
            user: user.into(),
            host: "build-7".into(),
            process: 7,
            command: "apply".into(),
        },
        since: 5,
        process: None,
    }
}

async fn open(ledger: &MemoryLedger) -> SetLedger {
    let (ledger, ids) = (Arc::new(ledger.clone()), Arc::new(CountingIds::default()));
    SetLedger::open(ledger, name(), ids).await.unwrap()
}

async fn own(set: &mut SetLedger, id: &str) -> Result<(), LedgerError> {
    let key = key(id);
    set.update(|set| set.own(key.clone(), Ownership::default())).await
}

fn owned(set: &SetLedger) -> Vec<&str> {
    set.set().owned().map(|(key, _)| key.id.as_str()).collect()
}

/// Both changes hold at the end.
#[tokio::test(start_paused = true)]
async fn a_change_is_repeated_after_a_concurrent_write() {
    let ledger = MemoryLedger::default();
    let (mut ada, mut bo) = (open(&ledger).await, open(&ledger).await);
    assert!(!ada.exists());
    own(&mut ada, "db0").await.unwrap();
    own(&mut bo, "db1").await.unwrap();
    assert_eq!(owned(&bo), ["db0", "db1"]);
    assert_eq!(owned(&open(&ledger).await), ["db0", "db1"]);
}

#[tokio::test(start_paused = true)]
async fn lost_replies_and_partial_writes_are_repaired() {
    for fault in [LedgerFault::ReplyLost, LedgerFault::ConflictAfterFirst] {
        let ledger = MemoryLedger::default();
        let mut set = open(&ledger).await;
        ledger.fail_next(&[fault, fault, fault]);
        own(&mut set, "db0").await.unwrap();
        own(&mut set, "db1").await.unwrap();
        assert_eq!(owned(&open(&ledger).await), ["db0", "db1"], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_an_error_and_changes_nothing() {
    let ledger = MemoryLedger::default();
    let mut set = open(&ledger).await;
    ledger.fail_next(&[LedgerFault::Unavailable]);
    let refused = own(&mut set, "db0").await.unwrap_err();
    assert_eq!(refused.failure, LedgerFailure::Unavailable);
    assert_eq!(owned(&set), Vec::<&str>::new());
    ledger.fail_next(&[LedgerFault::ConflictAfterFirst; 6]);
    let refused = own(&mut set, "db0").await.unwrap_err();
    assert_eq!(refused.failure, LedgerFailure::Conflict);
}

fn waiting(timeout: Duration) -> LockWait<'static> {
    LockWait { timeout, processes: None }
}

/// A machine on which no process runs.
struct Idle;

impl ProcessTable for Idle {
    fn own(&self) -> Option<ProcessIdentity> {
        Some(ProcessIdentity {
            boot_id: "boot".into(),
            pid_namespace: "pid:[1]".into(),
            start_time: 9,
        })
    }

    fn state(&self, _: u32) -> ProcessState {
        ProcessState::Absent
    }
}

/// Without a wait, and with a word.
#[tokio::test(start_paused = true)]
async fn the_lock_of_an_ended_process_is_taken_over_at_once() {
    let ledger = MemoryLedger::default();
    let set = open(&ledger).await;
    let ended = LockHolder { process: Idle.own(), ..holder("ada") };
    let lock = set.lock(&ended, waiting(Duration::ZERO), |_| {});
    let old = lock.await.unwrap();
    let wait = LockWait { timeout: Duration::ZERO, processes: Some(&Idle) };
    let mut reported = vec![];
    let taken = set
        .lock(&holder("bo"), wait, |event| {
            reported.push(format!("{event:?}"));
        })
        .await;
    assert!(taken.is_ok());
    let expected = format!("{:?}", LockEvent::HolderEnded(&ended));
    assert_eq!(reported, [expected]);
    let renewed = old.renew().await.unwrap_err();
    assert_eq!(renewed.failure, LedgerFailure::LockLost);
    let third = set.lock(&holder("eve"), wait, |_| {}).await;
    assert!(third.is_err(), "the holder of an old record is waited for");
}

#[tokio::test(start_paused = true)]
async fn a_second_command_waits_and_learns_the_holder() {
    let ledger = MemoryLedger::default();
    let set = open(&ledger).await;
    let ada = set.lock(&holder("ada"), waiting(Duration::ZERO), |_| {}).await.unwrap();
    let mut reported = vec![];
    let patience = Duration::from_secs(60);
    let start = Instant::now();
    let refused = set
        .lock(&holder("bo"), waiting(patience), |event| {
            reported.push(format!("{event:?}"));
        })
        .await;
    let Err(refused) = refused else {
        panic!("two commands hold the lock");
    };
    let held = LedgerFailure::Locked(Some(Box::new(holder("ada"))));
    assert_eq!((refused.failure, refused.code), (held, Code::LedgerHeld));
    let by_ada = format!("{:?}", LockEvent::Waiting(Some(&holder("ada"))));
    assert_eq!(reported, [by_ada], "once per holder");
    assert!(start.elapsed() <= patience);
    let bo = holder("bo");
    let locking = set.lock(&bo, waiting(patience), |_| {});
    let releasing = async {
        sleep(Duration::from_secs(5)).await;
        ada.release().await.unwrap();
    };
    let (taken, ()) = tokio::join!(locking, releasing);
    assert!(taken.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_lock_is_renewed_during_the_work_and_released_after_it() {
    let ledger = MemoryLedger::default();
    let set = open(&ledger).await;
    let lock = set.lock(&holder("ada"), waiting(Duration::ZERO), |_| {}).await.unwrap();
    let (done, ended) = hold_lock(lock, Duration::ZERO, async |state| {
        sleep(Duration::from_secs(600)).await;
        assert!(ledger.is_locked(&name()));
        *state.borrow() == LockState::Held
    })
    .await;
    assert!(done);
    assert_eq!(ended, Ok(()));
    assert!(!ledger.is_locked(&name()));
}

#[tokio::test(start_paused = true)]
async fn work_is_notified_when_its_lock_is_lost() {
    let ledger = MemoryLedger::default();
    let set = open(&ledger).await;
    let lock = set.lock(&holder("ada"), waiting(Duration::ZERO), |_| {}).await.unwrap();
    let (done, ended) = hold_lock(lock, Duration::ZERO, async |mut state| {
        ledger.expire_locks();
        state.changed().await.unwrap();
        sleep(Duration::from_secs(60)).await;
        "finished"
    })
    .await;
    assert_eq!(done, "finished");
    assert_eq!(ended.unwrap_err().failure, LedgerFailure::LockLost);
}

/// A lock that counts its renewals.
struct Counted(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl SetLock for Counted {
    fn time_to_live(&self) -> Option<Duration> {
        Some(Duration::from_millis(20))
    }

    async fn renew(&self) -> Result<(), LedgerError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// A pipe that is not read and a stopped terminal block the thread that prints.
#[test]
fn a_lock_is_renewed_while_the_work_blocks_its_thread() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let renewals = Arc::new(AtomicUsize::new(0));
    let lock = Box::new(Counted(Arc::clone(&renewals)));
    let limit = std::time::Instant::now() + Duration::from_secs(30);
    let (is_held, ended) = runtime.block_on(hold_lock(lock, Duration::ZERO, async |state| {
        while renewals.load(Ordering::SeqCst) < 5 {
            assert!(std::time::Instant::now() < limit, "the lock is not renewed");
            std::thread::yield_now();
        }
        *state.borrow() == LockState::Held
    }));
    assert!(is_held);
    assert_eq!(ended, Ok(()));
}

/// A server that took a lock and has been silent since.
struct Silent;

#[async_trait::async_trait]
impl SetLock for Silent {
    fn time_to_live(&self) -> Option<Duration> {
        Some(Duration::from_secs(15))
    }

    async fn renew(&self) -> Result<(), LedgerError> {
        std::future::pending().await
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        Ok(())
    }
}

/// The holder of a lock relies on its time to live. After that, it waits for an answer.
#[tokio::test(start_paused = true)]
async fn a_lock_without_a_renewal_reply_is_uncertain_and_then_lost() {
    let start = Instant::now();
    let patience = Duration::from_secs(60);
    let (seen, ended) = hold_lock(Box::new(Silent), patience, async |mut state| {
        let mut seen = vec![];
        for _ in 0..2 {
            state.changed().await.unwrap();
            let now = *state.borrow_and_update();
            seen.push((now, start.elapsed().as_secs()));
        }
        seen
    })
    .await;
    let expected = [(LockState::Uncertain, 15), (LockState::Lost, 75)];
    assert_eq!(seen, expected);
    assert_eq!(ended.unwrap_err().failure, LedgerFailure::LockLost);
}

/// A server that is away for 40 seconds and has kept the lock.
struct Away(Instant);

#[async_trait::async_trait]
impl SetLock for Away {
    fn time_to_live(&self) -> Option<Duration> {
        Some(Duration::from_secs(15))
    }

    async fn renew(&self) -> Result<(), LedgerError> {
        tokio::time::sleep_until(self.0 + Duration::from_secs(40)).await;
        Ok(())
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_outlives_an_outage_is_held_again() {
    let start = Instant::now();
    let patience = Duration::from_secs(60);
    let (seen, ended) = hold_lock(Box::new(Away(start)), patience, async |state| {
        sleep(Duration::from_secs(20)).await;
        assert_eq!(*state.borrow(), LockState::Uncertain);
        (is_held(&state).await, start.elapsed().as_secs())
    })
    .await;
    assert_eq!(seen, (true, 40));
    assert_eq!(ended, Ok(()));
}

/// Its own set, sets without them, and sets that cannot be read are no other owners.
#[tokio::test(start_paused = true)]
async fn other_sets_that_own_a_volume_are_named() {
    let ledger = MemoryLedger::default();
    let open_as = async |name: &str| {
        let (ledger, ids) = (Arc::new(ledger.clone()), Arc::new(CountingIds::default()));
        let name = SetName::parse(name).unwrap();
        SetLedger::open(ledger, name, ids).await.unwrap()
    };
    for (name, volumes) in [
        ("web", &["db0", "db1"][..]),
        ("shop", &["db1", "db2"]),
        ("old", &["db1"]),
        ("other", &["db3"]),
    ] {
        let mut set = open_as(name).await;
        for id in volumes {
            own(&mut set, id).await.unwrap();
        }
    }
    let (ledger, ids): (Arc<dyn Ledger>, Arc<dyn IdSource>) =
        (Arc::new(ledger), Arc::new(CountingIds::default()));
    let asked = ["db0", "db1", "db2", "db4"].map(key).into();
    let web = SetName::parse("web").unwrap();
    let found = owners(&ledger, &ids, &asked, Some(&web)).await.unwrap();
    let shown: Vec<String> = found
        .iter()
        .map(|(key, sets)| {
            let sets: Vec<_> = sets.iter().map(|owner| owner.set.as_str()).collect();
            format!("{}: {}", key.id, sets.join(" "))
        })
        .collect();
    assert_eq!(shown, ["db1: old shop", "db2: shop"]);
}
