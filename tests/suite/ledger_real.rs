//! The ledger on a real server, Nomad or the embedded agent. Run with
//! `NOMAD_ADDR=http://127.0.0.1:4646 cargo test --test suite ledger_real -- --ignored`. Each test
//! uses its own set and leaves its head and its lock. On a server without variables (before 1.4) or
//! locks (before 1.7), a test only checks the error.

use std::sync::Arc;
use std::time::Duration;

use nomad_csi_client::nomad::{ClientSettings, NomadClient, NomadLedger, RedactedString};
use nomad_csi_client::ports::{
    Ledger as _, LedgerFailure, LockHolder, ServerKind, VolumeReader as _,
};
use nomad_csi_client::reconcile::{LockState, LockWait, SetLedger, hold_lock};
use nomad_csi_model::{Namespace, NamespacedId, SetName, VolumeId};
use nomad_csi_plan::{Actor, LedgerSet, Ownership};
use nomad_csi_ports::{IdSource as _, RandomIds};

fn client() -> NomadClient {
    let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR is set");
    let token = std::env::var("NOMAD_TOKEN").ok().map(RedactedString::new);
    let settings = ClientSettings { token, ..ClientSettings::new(address) };
    NomadClient::new(&settings).expect("NOMAD_ADDR is an address")
}

fn ledger() -> NomadLedger {
    client().ledger(Namespace::default())
}

/// Returns a new set name.
fn name() -> SetName {
    SetName::parse(&RandomIds.uuid()).expect("a UUID is a name")
}

fn waiting(seconds: u64) -> LockWait<'static> {
    LockWait { timeout: Duration::from_secs(seconds), processes: None }
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

#[expect(clippy::print_stderr, reason = "the output shows which checks were skipped")]
async fn is_at_least(minor: u32) -> bool {
    match client().server().await.expect("the server responds") {
        ServerKind::Nomad(version) => {
            let is = version.is_at_least(1, minor, 0);
            eprintln!("Nomad {version}: has the features of 1.{minor}: {is}");
            is
        }
        ServerKind::Agent => true,
        ServerKind::NomadUnknownVersion => panic!("the token may read the agent"),
    }
}

/// Returns whether the server has variables. If not, checks the error.
async fn has_variables() -> bool {
    if is_at_least(4).await {
        return true;
    }
    let refused = ledger().read(&name()).await.expect_err("the server has no variables");
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    assert!(refused.message.contains("Nomad 1.4"), "{}", refused.message);
    false
}

/// Returns whether the server has locks. If not, checks the error, and that no variable remains.
async fn has_locks() -> bool {
    if !has_variables().await {
        return false;
    }
    if is_at_least(7).await {
        return true;
    }
    let (name, ledger) = (name(), ledger());
    let Err(refused) = ledger.lock(&name, &holder("ada")).await else {
        panic!("the server has no locks");
    };
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    assert!(refused.message.contains("Nomad 1.7"), "{}", refused.message);
    let bo = ledger.lock(&name, &holder("bo")).await.err().expect("the server has no locks");
    assert_eq!(bo.failure, LedgerFailure::Unsupported);
    false
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

async fn open(name: &SetName) -> SetLedger {
    SetLedger::open(Arc::new(ledger()), name.clone(), Arc::new(RandomIds))
        .await
        .expect("the set opens")
}

fn owned(set: &LedgerSet) -> usize {
    set.owned().count()
}

/// Removes all volumes from the set. Only the head shard remains.
async fn remove(name: &SetName) {
    let mut set = open(name).await;
    let keys: Vec<NamespacedId> = set.set().owned().map(|(key, _)| key.clone()).collect();
    set.update(|set| {
        for key in &keys {
            set.forget(key);
        }
    })
    .await
    .expect("the write succeeds");
    let stored = ledger().read(name).await.expect("the read succeeds");
    assert_eq!(stored.shards.len(), 1, "only the head remains");
}

#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_a_servers_kind_is_known() {
    let kind = client().server().await.expect("the server responds");
    match kind {
        ServerKind::Nomad(version) => assert!(version.is_at_least(1, 1, 0), "{version}"),
        ServerKind::Agent => {}
        ServerKind::NomadUnknownVersion => panic!("the token may read the agent"),
    }
}

#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_a_thousand_volumes_are_read_back() {
    if !has_variables().await {
        return;
    }
    let name = name();
    let mut set = open(&name).await;
    set.update(|set| {
        for at in 0..1_000 {
            set.own(key(&format!("volume-{at}")), Ownership::default());
        }
    })
    .await
    .expect("the write succeeds");
    assert_eq!(open(&name).await.set(), set.set());
    assert!(ledger().sets().await.expect("the list succeeds").contains(&name));
    remove(&name).await;
}

/// No writer loses a change.
#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_eight_concurrent_writers_lose_nothing() {
    if !has_variables().await {
        return;
    }
    let name = name();
    let writers = (0..8).map(|writer| {
        let name = name.clone();
        async move {
            let mut set = open(&name).await;
            let mut refused = 0;
            for at in 0..5 {
                let key = key(&format!("volume-{writer}-{at}"));
                // A writer that loses six times in a row gets a conflict and tries again.
                while let Err(error) =
                    set.update(|set| set.own(key.clone(), Ownership::default())).await
                {
                    assert_eq!(error.failure, LedgerFailure::Conflict);
                    refused += 1;
                    assert!(refused < 50);
                }
            }
        }
    });
    futures_util::future::join_all(writers).await;
    assert_eq!(owned(open(&name).await.set()), 40);
    remove(&name).await;
}

#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_only_one_of_two_concurrent_writers_succeeds() {
    if !has_variables().await {
        return;
    }
    let name = name();
    let (first, second) = (open(&name).await, open(&name).await);
    let write = async |set: &SetLedger, id: &str| {
        let mut changed = set.set().clone();
        changed.own(key(id), Ownership::default());
        let ledger = ledger();
        let mut stored = nomad_csi_plan::StoredSet::default();
        let changes = changed.changes(&stored, &RandomIds.uuid()).expect("the changes fit");
        ledger.write(&name, &mut stored, changes).await
    };
    assert_eq!(write(&first, "db0").await, Ok(()));
    let refused = write(&second, "db1").await.expect_err("the write conflicts");
    assert_eq!(refused.failure, LedgerFailure::Conflict);
    assert_eq!(owned(open(&name).await.set()), 1);
    remove(&name).await;
}

#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_a_lock_excludes_others_and_names_its_holder() {
    if !has_locks().await {
        return;
    }
    let (name, ledger) = (name(), ledger());
    let ada = ledger.lock(&name, &holder("ada")).await.expect("the lock is free");
    let Err(refused) = ledger.lock(&name, &holder("bo")).await else {
        panic!("two commands hold the lock");
    };
    let expected = LedgerFailure::Locked(Some(Box::new(holder("ada"))));
    assert_eq!(refused.failure, expected);
    let set = open(&name).await;
    let (done, ended) = hold_lock(ada, Duration::ZERO, async |state| {
        // The lock is a variable of its own, so the set stays writable.
        let mut set = open(&name).await;
        set.update(|set| set.own(key("db0"), Ownership::default()))
            .await
            .expect("the write succeeds");
        *state.borrow() == LockState::Held
    })
    .await;
    assert_eq!((done, ended), (true, Ok(())));
    let bo = set.lock(&holder("bo"), waiting(30), |_| {}).await.expect("the lock is free");
    bo.renew().await.expect("the lock is held");
    bo.release().await.expect("the lock is held");
    remove(&name).await;
}

/// Takes as long as a lock needs to expire: twice its time to live, and a second.
#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR; takes more than half a minute"]
async fn real_a_lock_without_renewal_expires() {
    if !has_locks().await {
        return;
    }
    let (name, ledger) = (name(), ledger());
    let ada = ledger.lock(&name, &holder("ada")).await.expect("the lock is free");
    let set = open(&name).await;
    let bo = set.lock(&holder("bo"), waiting(90), |_| {}).await.expect("the lock expires");
    let lost = ada.renew().await.expect_err("another command holds the lock");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    let lost = ada.release().await.expect_err("another command holds the lock");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    bo.release().await.expect("the lock is held");
}
