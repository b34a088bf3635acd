//! Order, bound, giving up, and nothing left behind.

use futures_util::FutureExt as _;

use super::*;

/// Whether the future is done after a look at it, without waiting.
fn poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    future.now_or_never()
}

#[test]
fn who_came_first_works_first() {
    let lanes = Lanes::new(8);
    let first = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap();
    let mut second = Box::pin(lanes.enter("db"));
    let mut third = Box::pin(lanes.enter("db"));
    assert!(poll(&mut second).is_none() && poll(&mut third).is_none());
    drop(first);
    assert!(
        poll(&mut third).is_none(),
        "the third may not overtake the second"
    );
    let second = poll(&mut second).unwrap().unwrap();
    assert!(poll(&mut third).is_none());
    drop(second);
    assert!(poll(&mut third).unwrap().is_ok());
}

#[test]
fn keys_do_not_wait_for_each_other() {
    let lanes = Lanes::new(0);
    let _db = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap();
    assert!(poll(&mut Box::pin(lanes.enter("web"))).unwrap().is_ok());
}

#[test]
fn who_stops_waiting_is_out_of_line() {
    let lanes = Lanes::new(8);
    let first = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap();
    let mut gives_up = Box::pin(lanes.enter("db"));
    let mut waits = Box::pin(lanes.enter("db"));
    assert!(poll(&mut gives_up).is_none() && poll(&mut waits).is_none());
    drop(gives_up);
    drop(first);
    assert!(poll(&mut waits).unwrap().is_ok());
}

#[test]
fn giving_up_in_the_moment_of_the_turn_passes_it_on() {
    let lanes = Lanes::new(8);
    let first = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap();
    let mut called = Box::pin(lanes.enter("db"));
    let mut next = Box::pin(lanes.enter("db"));
    assert!(poll(&mut called).is_none() && poll(&mut next).is_none());
    drop(first);
    drop(called);
    assert!(poll(&mut next).unwrap().is_ok());
}

#[test]
fn a_full_line_is_refused_at_once_and_takes_again_when_it_moves() {
    let lanes = Lanes::new(1);
    let first = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap();
    let mut second = Box::pin(lanes.enter("db"));
    assert!(poll(&mut second).is_none());
    let refused = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap_err();
    assert_eq!(refused, LaneFull { waiting: 1 });
    drop(first);
    let _second = poll(&mut second).unwrap().unwrap();
    assert!(poll(&mut Box::pin(lanes.enter("db"))).is_none());
}

#[test]
fn nothing_is_kept_of_keys_that_nobody_uses() {
    let lanes = Lanes::new(8);
    let first = poll(&mut Box::pin(lanes.enter("db"))).unwrap().unwrap();
    let mut waits = Box::pin(lanes.enter("db"));
    assert!(poll(&mut waits).is_none());
    drop(first);
    assert_eq!(lanes.in_use(), 1);
    drop(waits);
    assert_eq!(lanes.in_use(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_at_once_however_many_come() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let lanes = Lanes::new(1000);
    let inside = Arc::new(AtomicBool::new(false));
    let work = (0..200).map(|_| {
        let (lanes, inside) = (lanes.clone(), inside.clone());
        tokio::spawn(async move {
            let _lane = lanes.enter("db").await.unwrap();
            assert!(!inside.swap(true, Ordering::SeqCst));
            tokio::task::yield_now().await;
            assert!(inside.swap(false, Ordering::SeqCst));
        })
    });
    for done in futures_util::future::join_all(work).await {
        done.unwrap();
    }
    assert_eq!(lanes.in_use(), 0);
}

/// W30: a plugin takes a bounded number of calls at a time.
#[tokio::test]
async fn a_wide_lane_lets_that_many_in_and_no_more() {
    let lanes = Lanes::wide(2, 1);
    let first = lanes.enter("plugin").await.unwrap();
    let _second = lanes.enter("plugin").await.unwrap();
    let mut third = Box::pin(lanes.enter("plugin"));
    assert!(futures_util::poll!(&mut third).is_pending());
    assert_eq!(
        lanes.enter("plugin").await.unwrap_err(),
        LaneFull { waiting: 1 }
    );
    drop(first);
    assert!(third.await.is_ok());
}
