//! Readers that wait while other threads change what they wait for.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::task::JoinSet;

use super::{event, started_cell, updated};
use crate::cell::{CellStopped, Expected, StateCell};
use crate::fake::MemoryJournal;
use nomad_csi_claims::state::samples::{key, registered, started};
use nomad_csi_claims::state::{State, Subject, Topic};
use nomad_csi_model::{ExternalId, NamespacedId};

const LIMIT: Duration = Duration::from_secs(60);
const LAST: &str = "last";

fn topic(key: &NamespacedId) -> Vec<Topic> {
    vec![Topic::Object(Subject::Volume(key.clone()))]
}

/// Waits for one change after the other until it sees the last one.
async fn follow(cell: StateCell, key: NamespacedId) {
    let mut seen = 0;
    loop {
        let index = |state: &State| state.record(&key).map_or(0, |record| record.modify_index);
        let waited = cell.wait_until(|_| topic(&key), |state| index(state) > seen);
        waited.await.unwrap();
        let record = cell.read(|state| state.record(&key).cloned()).unwrap();
        assert!(record.modify_index > seen);
        seen = record.modify_index;
        if record.provided.external_id == Some(ExternalId::new(LAST)) {
            return;
        }
    }
}

async fn change(cell: StateCell, key: NamespacedId, times: usize) {
    let first = event(registered(&key, "first"));
    cell.commit(Expected::Any, first).await.unwrap();
    for number in 0..times {
        let next = updated(&key, &format!("ext-{number}"));
        cell.commit(Expected::Any, next).await.unwrap();
    }
    let last = updated(&key, LAST);
    cell.commit(Expected::Any, last).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reader_misses_the_last_change() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let mut tasks = JoinSet::new();
    for number in 0..300 {
        let key = key("default", &format!("v{number}"));
        tasks.spawn(follow(cell.clone(), key.clone()));
        tasks.spawn(change(cell.clone(), key, 1 + number % 20));
    }
    let all = tokio::time::timeout(LIMIT, tasks.join_all()).await;
    assert!(all.is_ok(), "a reader was not woken");
}

#[tokio::test]
async fn a_stop_ends_every_wait() {
    let cell = started_cell(&MemoryJournal::default()).await;
    let db = key("default", "db");
    let waits = (0..3).map(|_| cell.wait_until(|_| topic(&db), |_| false));
    let (ended, ()) = tokio::join!(join_all(waits), cell.stop());
    assert_eq!(ended, [Err(CellStopped); 3]);
    let late = cell.wait_until(|_| topic(&db), |_| false).await;
    assert_eq!(late, Err(CellStopped));
    assert!(cell.commit(Expected::Any, event(started())).await.is_err());
}
