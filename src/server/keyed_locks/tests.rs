//! Order, limits, dropped futures, cleanup.

use futures_util::FutureExt as _;

use super::*;

/// Polls once and returns the output if the future is ready.
fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    future.now_or_never()
}

#[test]
fn permits_are_granted_in_order() {
    let locks = KeyedLocks::new(8);
    let first = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap();
    let mut second = Box::pin(locks.acquire("db"));
    let mut third = Box::pin(locks.acquire("db"));
    assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
    drop(first);
    assert!(poll(&mut third).is_none(), "the third must wait for the second");
    let second = poll(&mut second).unwrap().unwrap();
    assert!(poll(&mut third).is_none());
    drop(second);
    assert!(poll(&mut third).unwrap().is_ok());
}

#[test]
fn keys_do_not_wait_for_each_other() {
    let locks = KeyedLocks::new(0);
    let _db = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap();
    assert!(poll(&mut Box::pin(locks.acquire("web"))).unwrap().is_ok());
}

#[test]
fn a_dropped_future_leaves_the_queue() {
    let locks = KeyedLocks::new(8);
    let first = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap();
    let mut dropped = Box::pin(locks.acquire("db"));
    let mut waits = Box::pin(locks.acquire("db"));
    assert!(poll(&mut dropped).is_none() && poll(&mut waits).is_none());
    drop(dropped);
    drop(first);
    assert!(poll(&mut waits).unwrap().is_ok());
}

#[test]
fn a_permit_granted_to_a_dropped_future_goes_to_the_next() {
    let locks = KeyedLocks::new(8);
    let first = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap();
    let mut granted = Box::pin(locks.acquire("db"));
    let mut next = Box::pin(locks.acquire("db"));
    assert!(poll(&mut granted).is_none() && poll(&mut next).is_none());
    drop(first);
    drop(granted);
    assert!(poll(&mut next).unwrap().is_ok());
}

#[test]
fn a_full_queue_refuses_immediately_and_accepts_again_after_a_release() {
    let locks = KeyedLocks::new(1);
    let first = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap();
    let mut second = Box::pin(locks.acquire("db"));
    assert!(poll(&mut second).is_none());
    let refused = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap_err();
    assert_eq!(refused, QueueFull { waiting: 1 });
    drop(first);
    let _second = poll(&mut second).unwrap().unwrap();
    assert!(poll(&mut Box::pin(locks.acquire("db"))).is_none());
}

#[test]
fn unused_keys_are_removed() {
    let locks = KeyedLocks::new(8);
    let first = poll(&mut Box::pin(locks.acquire("db"))).unwrap().unwrap();
    let mut waits = Box::pin(locks.acquire("db"));
    assert!(poll(&mut waits).is_none());
    drop(first);
    assert_eq!(locks.active_keys(), 1);
    drop(waits);
    assert_eq!(locks.active_keys(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_never_has_two_permits() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let locks = KeyedLocks::new(1000);
    let inside = Arc::new(AtomicBool::new(false));
    let work = (0..200).map(|_| {
        let (locks, inside) = (locks.clone(), inside.clone());
        tokio::spawn(async move {
            let _permit = locks.acquire("db").await.unwrap();
            assert!(!inside.swap(true, Ordering::SeqCst));
            tokio::task::yield_now().await;
            assert!(inside.swap(false, Ordering::SeqCst));
        })
    });
    for done in futures_util::future::join_all(work).await {
        done.unwrap();
    }
    assert_eq!(locks.active_keys(), 0);
}
