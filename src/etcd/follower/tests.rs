//! A follower has what the leader has, and says when it cannot know.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::fake::{FakeEtcd, Fault};
use crate::journal::EtcdJournal;
use crate::leadership::{Candidate, Leadership, LeadingServer};
use nomad_csi_claims::state::samples::History;
use nomad_csi_claims::state::{Subject, Topic};
use nomad_csi_server::{CellOptions, Expected, FollowedState, JournalErrorKind, StateCell};

const HISTORY: u64 = 5;

fn keys() -> Keys {
    Keys::new("/c/")
}

fn follower(etcd: &FakeEtcd) -> EtcdFollower {
    EtcdFollower::new(Arc::new(etcd.clone()), keys())
}

async fn lead(etcd: &FakeEtcd) -> EtcdJournal {
    let shared: Arc<dyn Etcd> = Arc::new(etcd.clone());
    let candidate = Candidate { keys: keys(), server: LeadingServer::default(), seconds: 10 };
    let (seen, stop) = (watch::Sender::new(None), CancellationToken::new());
    let leadership = Leadership::win(shared.clone(), &candidate, &seen, &stop).await.unwrap();
    EtcdJournal::new(shared, keys(), Arc::new(leadership), None).with_history(HISTORY)
}

async fn cell(journal: EtcdJournal) -> StateCell {
    let options = CellOptions { snapshot_every: 7, ..CellOptions::default() };
    StateCell::open(Arc::new(journal), options).await.unwrap()
}

async fn follow(etcd: &FakeEtcd) -> FollowedState {
    FollowedState::open(Arc::new(follower(etcd))).await.unwrap()
}

fn assert_equal(followed: &FollowedState, leader: &StateCell) {
    assert_eq!(followed.cell().read(State::clone), leader.read(State::clone));
}

/// Snapshots, trimmed logs, several leaders and lost answers are on the way.
#[tokio::test(start_paused = true)]
async fn a_follower_has_every_acknowledged_change_and_nothing_else() {
    for fault in [None, Some(Fault::AnswerLost), Some(Fault::RequestLost), Some(Fault::Late(0))] {
        let etcd = FakeEtcd::default();
        let mut leader = cell(lead(&etcd).await).await;
        let followed = follow(&etcd).await;
        for (number, event) in History::new(4).take(120).enumerate() {
            if number % 17 == 3 {
                etcd.fault_next([fault]);
            }
            if number % 40 == 39 {
                leader.stop().await;
                etcd.expire_all();
                leader = cell(lead(&etcd).await).await;
            }
            leader.commit(Expected::Any, event).await.unwrap();
            followed.wait_until_current().await.unwrap();
            assert_equal(&followed, &leader);
            let fresh = follow(&etcd).await;
            assert_equal(&fresh, &leader);
            fresh.cell().stop().await;
        }
        followed.cell().stop().await;
        leader.stop().await;
    }
}

/// It was away while its place in the log was trimmed.
#[tokio::test(start_paused = true)]
async fn a_follower_whose_next_event_is_gone_loads_everything_again() {
    let etcd = FakeEtcd::default();
    let leader = cell(lead(&etcd).await).await;
    let mut history = History::new(5);
    for event in history.by_ref().take(3) {
        leader.commit(Expected::Any, event).await.unwrap();
    }
    let followed = follow(&etcd).await;
    let behind = followed.cell().index();
    etcd.set_silent(true);
    assert!(followed.wait_until_current().await.is_err());
    let mut watch = followed.cell().watch(vec![Topic::Object(Subject::Plugin("other".into()))]);
    etcd.set_silent(false);
    for event in history.take(60) {
        leader.commit(Expected::Any, event).await.unwrap();
    }
    leader.stop().await;
    let gone = follower(&etcd).read_after(behind).await.unwrap();
    assert_eq!(gone, Followed::Gone, "the log was trimmed");
    followed.wait_until_current().await.unwrap();
    assert_equal(&followed, &leader);
    watch.changed().await.unwrap();
    followed.cell().stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_without_etcd_says_so_and_shows_what_it_had() {
    let etcd = FakeEtcd::default();
    let leader = cell(lead(&etcd).await).await;
    for event in History::new(6).take(5) {
        leader.commit(Expected::Any, event).await.unwrap();
    }
    let followed = follow(&etcd).await;
    followed.wait_until_current().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(followed.since_current() < Duration::from_millis(500));
    etcd.set_silent(true);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(followed.wait_until_current().await.is_err());
    assert!(followed.since_current() >= Duration::from_secs(60));
    assert_equal(&followed, &leader);
    etcd.set_silent(false);
    followed.wait_until_current().await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(followed.since_current() < Duration::from_millis(500));
    followed.cell().stop().await;
}

#[tokio::test(start_paused = true)]
async fn readers_share_the_question_for_the_end_of_the_log() {
    let etcd = FakeEtcd::default();
    let leader = cell(lead(&etcd).await).await;
    let followed = follow(&etcd).await;
    let before = etcd.reads();
    let waiting = (0..500).map(|_| followed.wait_until_current());
    assert!(join_all(waiting).await.iter().all(Result::is_ok));
    let reads = etcd.reads() - before;
    assert!((1..=20).contains(&reads), "{reads}");
    leader.stop().await;
    followed.cell().stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_writes_nothing() {
    let etcd = FakeEtcd::default();
    let leader = cell(lead(&etcd).await).await;
    let followed = follow(&etcd).await;
    let before = etcd.all();
    let event = History::new(7).next().unwrap();
    let refused = followed.cell().commit(Expected::Any, event.clone()).await.unwrap_err();
    let nomad_csi_server::CommitError::Journal(refused) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(refused.kind, JournalErrorKind::NotLeader);
    let refused = follower(&etcd).append(2, vec![event].into()).await.unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::NotLeader);
    assert_eq!(etcd.all(), before);
    leader.stop().await;
    followed.cell().stop().await;
}

/// etcd was restored from a backup that is older than what the follower has.
#[tokio::test(start_paused = true)]
async fn a_log_that_went_back_is_shown_as_it_is() {
    let etcd = FakeEtcd::default();
    let leader = cell(lead(&etcd).await).await;
    let mut history = History::new(8);
    leader.commit(Expected::Any, history.next().unwrap()).await.unwrap();
    let backup = etcd.all();
    for event in history.take(3) {
        leader.commit(Expected::Any, event).await.unwrap();
    }
    let followed = follow(&etcd).await;
    leader.stop().await;
    for key in etcd.all().keys().filter(|key| !backup.contains_key(*key)) {
        etcd.remove(key);
    }
    for (key, value) in &backup {
        etcd.overwrite(key, value.clone());
    }
    let restored = follow(&etcd).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    followed.wait_until_current().await.unwrap();
    assert_equal(&followed, restored.cell());
    restored.cell().stop().await;
    followed.cell().stop().await;
}
