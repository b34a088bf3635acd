//! The ledger on a server that is really there, a Nomad or our agent: run with
//! `NOMAD_ADDR=http://127.0.0.1:4646 cargo test --test suite ledger_real -- --ignored`. Each test has a
//! set of its own and leaves its head and its lock. Where a server has no variables (before 1.4) or no
//! locks (before 1.7), that it is told so is what a test looks at, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use nomad_csi::model::{Namespace, NamespacedId, SetName, VolumeId};
use nomad_csi::nomad::{Hidden, NomadClient, NomadLedger, Settings};
use nomad_csi::plan::{Actor, LedgerSet, Ownership};
use nomad_csi::ports::{
    IdSource as _, Ledger as _, LedgerFailure, LockHolder, RandomIds, ServerKind, VolumeReader as _,
};
use nomad_csi::reconcile::{SetLedger, hold};

fn client() -> NomadClient {
    let address = std::env::var("NOMAD_ADDR").expect("NOMAD_ADDR says where the server is");
    let token = std::env::var("NOMAD_TOKEN").ok().map(Hidden::new);
    let settings = Settings {
        token,
        ..Settings::new(address)
    };
    NomadClient::new(&settings).expect("NOMAD_ADDR is an address")
}

fn ledger() -> NomadLedger {
    client().ledger(Namespace::default())
}

/// A set that nobody else has.
fn name() -> SetName {
    SetName::parse(&RandomIds.uuid()).expect("a UUID is a name")
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
    }
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs it has to see what was not looked at"
)]
async fn is_at_least(minor: u32) -> bool {
    match client().server().await.expect("it answers") {
        ServerKind::Nomad(version) => {
            let is = version.is_at_least(1, minor, 0);
            eprintln!("Nomad {version}: what there is since 1.{minor} is there: {is}");
            is
        }
        ServerKind::Agent => true,
        ServerKind::Undisclosed => panic!("the token may read the agent"),
    }
}

/// Whether the server has variables. If it has none, that is what it says.
async fn has_variables() -> bool {
    if is_at_least(4).await {
        return true;
    }
    let refused = ledger().read(&name()).await.expect_err("it has none");
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    assert!(refused.message.contains("since 1.4"), "{}", refused.message);
    false
}

/// Whether the server has locks. If it has none, that is what it says, and nothing is left behind.
async fn has_locks() -> bool {
    if !has_variables().await {
        return false;
    }
    if is_at_least(7).await {
        return true;
    }
    let (name, ledger) = (name(), ledger());
    let Err(refused) = ledger.lock(&name, &holder("ada")).await else {
        panic!("nothing was locked");
    };
    assert_eq!(refused.failure, LedgerFailure::Unsupported);
    assert!(refused.message.contains("since 1.7"), "{}", refused.message);
    let bo = ledger
        .lock(&name, &holder("bo"))
        .await
        .err()
        .expect("nor now");
    assert_eq!(bo.failure, LedgerFailure::Unsupported);
    false
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

async fn open(name: &SetName) -> SetLedger {
    SetLedger::open(Arc::new(ledger()), name.clone(), Arc::new(RandomIds))
        .await
        .expect("it opens")
}

fn owned(set: &LedgerSet) -> usize {
    set.owned().count()
}

/// Lets everything go; no shard but the head is left.
async fn remove(name: &SetName) {
    let mut set = open(name).await;
    let keys: Vec<NamespacedId> = set.set().owned().map(|(key, _)| key.clone()).collect();
    set.update(|set| {
        for key in &keys {
            set.forget(key);
        }
    })
    .await
    .expect("it writes");
    let stored = ledger().read(name).await.expect("it reads");
    assert_eq!(stored.shards.len(), 1, "only the head is left");
}

#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_a_servers_kind_is_known() {
    let kind = client().server().await.expect("it answers");
    match kind {
        ServerKind::Nomad(version) => assert!(version.is_at_least(1, 1, 0), "{version}"),
        ServerKind::Agent => {}
        ServerKind::Undisclosed => panic!("the token may read the agent"),
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
    .expect("it writes");
    assert_eq!(open(&name).await.set(), set.set());
    assert!(ledger().sets().await.expect("it lists").contains(&name));
    remove(&name).await;
}

/// Both are told of nothing, and both changes hold.
#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_eight_writers_at_once_lose_nothing() {
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
                // Who is out of luck six times in a row is told so, and tries again.
                while let Err(error) = set
                    .update(|set| set.own(key.clone(), Ownership::default()))
                    .await
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
async fn real_of_two_who_read_the_same_one_wins() {
    if !has_variables().await {
        return;
    }
    let name = name();
    let (first, second) = (open(&name).await, open(&name).await);
    let write = async |set: &SetLedger, id: &str| {
        let mut changed = set.set().clone();
        changed.own(key(id), Ownership::default());
        let ledger = ledger();
        let mut stored = nomad_csi::plan::StoredSet::default();
        let changes = changed
            .changes(&stored, &RandomIds.uuid())
            .expect("it fits");
        ledger.write(&name, &mut stored, &changes).await
    };
    assert_eq!(write(&first, "db0").await, Ok(()));
    let refused = write(&second, "db1").await.expect_err("it is stale");
    assert_eq!(refused.failure, LedgerFailure::Conflict);
    assert_eq!(owned(open(&name).await.set()), 1);
    remove(&name).await;
}

#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR"]
async fn real_a_lock_keeps_others_out_and_names_its_holder() {
    if !has_locks().await {
        return;
    }
    let (name, ledger) = (name(), ledger());
    let ada = ledger
        .lock(&name, &holder("ada"))
        .await
        .expect("it is free");
    let Err(refused) = ledger.lock(&name, &holder("bo")).await else {
        panic!("two hold it");
    };
    let expected = LedgerFailure::Held(Some(Box::new(holder("ada"))));
    assert_eq!(refused.failure, expected);
    let set = open(&name).await;
    let (done, ended) = hold(ada, async |lost| {
        // The lock is on a variable of its own: the set can be written meanwhile.
        let mut set = open(&name).await;
        set.update(|set| set.own(key("db0"), Ownership::default()))
            .await
            .expect("it writes");
        !*lost.borrow()
    })
    .await;
    assert_eq!((done, ended), (true, Ok(())));
    let bo = set
        .lock(&holder("bo"), Duration::from_secs(30), |_| {})
        .await
        .expect("it is free");
    bo.renew().await.expect("it is ours");
    bo.release().await.expect("it is ours");
    remove(&name).await;
}

/// Takes as long as a lock needs to run out: twice its time to live, and a second.
#[tokio::test]
#[ignore = "needs a server: NOMAD_ADDR; takes more than half a minute"]
async fn real_a_lock_that_nobody_renews_runs_out_and_is_lost() {
    if !has_locks().await {
        return;
    }
    let (name, ledger) = (name(), ledger());
    let ada = ledger
        .lock(&name, &holder("ada"))
        .await
        .expect("it is free");
    let set = open(&name).await;
    let bo = set
        .lock(&holder("bo"), Duration::from_secs(90), |_| {})
        .await
        .expect("it runs out");
    let lost = ada.renew().await.expect_err("it is bo's");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    let lost = ada.release().await.expect_err("it is bo's");
    assert_eq!(lost.failure, LedgerFailure::LockLost);
    bo.release().await.expect("it is ours");
}
