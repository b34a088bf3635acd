//! At most one server leads, and a lease that may have ended is not certain.

use tokio::sync::watch;

use super::*;
use crate::fake::{FakeEtcd, Fault};

fn candidate(name: &str) -> Candidate {
    let address = format!("{name}:4647");
    let server = LeadingServer { name: name.to_owned(), address };
    Candidate { keys: Keys::new("/c/"), server, seconds: 10 }
}

fn unseen() -> watch::Sender<Option<LeadingServer>> {
    watch::Sender::new(None)
}

async fn win(etcd: &FakeEtcd, name: &str) -> Leadership {
    let etcd: Arc<dyn Etcd> = Arc::new(etcd.clone());
    Leadership::win(etcd, &candidate(name), &unseen(), &CancellationToken::new()).await.unwrap()
}

/// Returns whether a server becomes the leader within ten attempts.
async fn can_win(etcd: &FakeEtcd, name: &str) -> bool {
    let etcd: Arc<dyn Etcd> = Arc::new(etcd.clone());
    let (stop, candidate, seen) = (CancellationToken::new(), candidate(name), unseen());
    let won = Leadership::win(etcd, &candidate, &seen, &stop);
    tokio::time::timeout(ATTEMPT * 10, won).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn one_server_leads_until_it_resigns_or_is_silent() {
    let etcd = FakeEtcd::default();
    let first = win(&etcd, "s1").await;
    assert!(first.is_certain());
    assert!(!can_win(&etcd, "s2").await);
    first.resign().await;
    assert!(!first.is_certain());
    let second = win(&etcd, "s2").await;
    assert!(second.term() > first.term());
    etcd.expire_all();
    let third = win(&etcd, "s3").await;
    assert!(third.term() > second.term());
}

/// Both read that there is no leader before one of them writes.
#[tokio::test(start_paused = true)]
async fn two_servers_that_try_at_once_make_one_leader() {
    let etcd = FakeEtcd::default();
    let (one, other) = tokio::join!(can_win(&etcd, "s1"), can_win(&etcd, "s2"));
    assert!(one != other, "{one} {other}");
}

/// Each way of losing an answer to a candidacy ends with one leader.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_second_leader() {
    for fault in [Fault::AnswerLost, Fault::RequestLost, Fault::Late(0), Fault::Late(1)] {
        let etcd = FakeEtcd::default();
        etcd.fault_next([Some(fault)]);
        let leader = win(&etcd, "s1").await;
        etcd.deliver_late();
        assert!(!can_win(&etcd, "s2").await, "{fault:?}");
        let keys = etcd.all();
        assert!(keys.contains_key(&Keys::new("/c/").leader()), "{fault:?}");
        leader.resign().await;
        assert_eq!(etcd.all().len(), 0, "{fault:?}: nothing is left of the first attempt");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_gone_ends_the_leadership() {
    let etcd = FakeEtcd::default();
    let leader = Arc::new(win(&etcd, "s1").await);
    let keeping = {
        let leader = leader.clone();
        tokio::spawn(async move { leader.keep(CancellationToken::new()).await })
    };
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!leader.lost().is_cancelled());
    etcd.expire_all();
    leader.lost().cancelled().await;
    keeping.await.unwrap();
}

#[test]
fn a_lease_is_certain_for_nine_tenths_of_it_since_the_request() {
    let sent = Duration::from_secs(100);
    assert_eq!(certain_until(sent, 10), 108_800);
    assert_eq!(certain_until(sent, 0), 100_000);
    assert_eq!(certain_until(sent, -1), 100_000);
}

#[tokio::test]
async fn a_lease_of_no_time_is_not_certain() {
    let etcd: Arc<dyn Etcd> = Arc::new(FakeEtcd::default());
    let candidate = Candidate { seconds: 0, ..candidate("s1") };
    let leader =
        Leadership::win(etcd, &candidate, &unseen(), &CancellationToken::new()).await.unwrap();
    assert!(!leader.is_certain());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_waits_knows_which_one_leads_and_where_it_is() {
    let etcd = FakeEtcd::default();
    let first = win(&etcd, "s1").await;
    let shared: Arc<dyn Etcd> = Arc::new(etcd.clone());
    let (seen, stop, third) = (unseen(), CancellationToken::new(), candidate("s3"));
    let mut known = seen.subscribe();
    let names = async {
        let mut names = vec![];
        for next in ["s1", "s2", ""] {
            let of = |leader: &Option<LeadingServer>| leader.clone().unwrap_or_default();
            let now = of(&known.wait_for(|leader| of(leader).name == next).await.unwrap());
            names.push(now.address);
            etcd.expire_all();
            if next == "s1" {
                // Before the third can try.
                win(&etcd, "s2").await;
            }
        }
        names
    };
    let (won, names) = tokio::join!(Leadership::win(shared, &third, &seen, &stop), names);
    assert!(won.is_some());
    assert_eq!(names, ["s1:4647", "s2:4647", ""]);
    drop(first);
}

#[test]
fn a_leader_without_an_address_is_one() {
    let kv = |value: &str| KeyValue { value: value.into(), ..KeyValue::default() };
    let named = |name: &str| LeadingServer { name: name.to_owned(), ..LeadingServer::default() };
    assert_eq!(leading_server(&kv(r#"{"name": "old"}"#)), named("old"));
    assert_eq!(leading_server(&kv("?")), named("unknown"));
}
