use std::time::Duration;

use super::*;
use nomad_csi_ports::{Rpc, StatusCode, verdict_of};

const STAGE: HostOperation = HostOperation::Stage;

fn call_locks() -> VolumeCallLocks {
    VolumeCallLocks::new("now".into())
}

fn key(volume: &str) -> CallLockKey {
    CallLockKey::Node(RemoteVolume { plugin_id: "p".into(), external_id: volume.into() })
}

const FIRST: Term = Term { epoch: 0, revision: 1 };
const NEXT: Term = Term { epoch: 0, revision: 7 };

fn order(session: &str, number: u64) -> CallOrder {
    in_term(FIRST, session, number)
}

fn in_term(term: Term, session: &str, number: u64) -> CallOrder {
    CallOrder { term, number, session: session.into(), instance: "task".into() }
}

fn process() -> PluginProcess {
    PluginProcess { plugin: "p".into(), alloc: "task".into(), run: ProcessRun::default() }
}

fn is_busy(call_locks: &VolumeCallLocks) -> bool {
    let refused = call_locks.admit_unordered(key("v"), STAGE).err();
    matches!(refused, Some(HostError::Busy { .. }))
}

fn lost() -> PluginError {
    let (rpc, code) = (Rpc::NodeStageVolume, StatusCode::Unavailable);
    PluginError {
        rpc,
        code,
        verdict: verdict_of(rpc, code),
        message: "the connection broke".to_owned(),
        delivery: Delivery::Unanswered,
    }
}

#[tokio::test]
async fn a_request_for_another_session_is_refused_and_not_counted() {
    let call_locks = call_locks();
    let refused = call_locks.admit(key("v"), &order("before", 9), STAGE).err();
    let expected = HostError::OtherSession { desired: "before".into(), own: "now".into() };
    assert_eq!(refused, Some(expected));
    assert!(call_locks.admit(key("v"), &order("now", 1), STAGE).is_ok());
}

/// Rule 11 of the claims machine: the next server's first request, whichever volume it names and also if it is refused, ends
/// what the server before it may ask.
#[tokio::test]
async fn a_host_serves_the_newest_server_only() {
    let old_term = Some(HostError::OldTerm { desired: FIRST, newest: NEXT });
    for refused_for in ["nothing", "busy", "session"] {
        let call_locks = call_locks();
        let running = call_locks.admit(key("v"), &order("now", 8), STAGE).ok().unwrap();
        let (volume, session) = match refused_for {
            "busy" => ("v", "now"),
            "session" => ("w", "before"),
            _ => ("w", "now"),
        };
        let next = call_locks.admit(key(volume), &in_term(NEXT, session, 1), STAGE);
        assert_eq!(next.is_ok(), refused_for == "nothing");
        drop((running, next));
        for volume in ["v", "w", "x"] {
            let late = call_locks.admit(key(volume), &order("now", 9), STAGE).err();
            assert_eq!(late, old_term, "{refused_for}: {volume}");
        }
        assert!(call_locks.admit(key("v"), &in_term(NEXT, "now", 1), STAGE).is_ok());
    }
}

#[tokio::test]
async fn each_volume_has_its_own_call_lock_and_its_own_order() {
    let call_locks = call_locks();
    let first = call_locks.admit(key("v"), &order("now", 5), STAGE).ok().unwrap();
    assert!(is_busy(&call_locks));
    assert!(call_locks.admit(key("w"), &order("now", 4), STAGE).is_ok());
    drop(first);
    let refused = call_locks.admit(key("v"), &order("now", 4), STAGE).err();
    let overtaken = matches!(refused, Some(HostError::Overtaken { latest: 5, .. }));
    assert!(overtaken, "{refused:?}");
}

/// What was never ordered leaves nothing; an ordered call lock keeps its index only.
#[tokio::test]
async fn an_unused_call_lock_takes_no_memory() {
    let call_locks = call_locks();
    drop(call_locks.admit_unordered(key("v"), STAGE).ok().unwrap());
    assert_eq!(call_locks.locked().len(), 0);
    drop(call_locks.admit(key("v"), &order("now", 5), STAGE).ok().unwrap());
    assert_eq!(call_locks.locked().len(), 1);
    assert_eq!(call_locks.running(), []);
}

/// A caller that gives up cancels nothing.
#[tokio::test]
async fn a_call_goes_on_without_its_caller() {
    let call_locks = call_locks();
    let (answer, awaited) = oneshot::channel::<()>();
    let permit = call_locks.admit(key("v"), &order("now", 1), STAGE).ok().unwrap();
    let work = |calls: PluginCalls| async move {
        let call = async { Ok(awaited.await.is_ok()) };
        calls.send(call).await
    };
    let call = call_locks.run(permit, process(), work);
    let given_up = tokio::time::timeout(Duration::ZERO, call).await;
    assert!(given_up.is_err() && is_busy(&call_locks));
    assert_eq!(call_locks.running().len(), 1);
    answer.send(()).unwrap();
    call_locks.drain().await;
    assert_eq!(call_locks.running(), []);
    let refused = call_locks.admit_unordered(key("v"), STAGE).err();
    assert_eq!(refused, Some(HostError::Stopping));
}

/// A connection that breaks frees nothing; the end of the process does.
#[tokio::test]
async fn a_call_without_an_answer_keeps_its_call_lock_until_the_process_is_gone() {
    let call_locks = call_locks();
    let process = process();
    let permit = call_locks.admit(key("v"), &order("now", 1), STAGE).ok().unwrap();
    let work = |calls: PluginCalls| async move { calls.send(async { Err::<(), _>(lost()) }).await };
    let broken = call_locks.run(permit, process.clone(), work).await;
    assert!(broken.unwrap_err().may_have_taken_effect());
    assert!(is_busy(&call_locks));
    process.run.end().await;
    call_locks.drain().await;
    assert_eq!(call_locks.running(), []);
}

#[tokio::test]
async fn the_end_of_the_process_ends_its_calls() {
    let call_locks = call_locks();
    let process = process();
    let permit = call_locks.admit(key("v"), &order("now", 1), STAGE).ok().unwrap();
    let (sent, is_sent) = oneshot::channel();
    let work = |calls: PluginCalls| async move {
        let call = async {
            sent.send(()).unwrap();
            std::future::pending::<Result<(), PluginError>>().await
        };
        calls.send(call).await
    };
    let run = process.run.clone();
    let call = call_locks.run(permit, process.clone(), work);
    let end = async {
        is_sent.await.unwrap();
        run.end().await;
    };
    let (ended, ()) = tokio::join!(call, end);
    assert!(matches!(ended, Err(HostError::ProcessEnded { .. })), "{ended:?}");
    assert!(!is_busy(&call_locks));

    let permit = call_locks.admit(key("v"), &order("now", 1), STAGE).ok().unwrap();
    let work = |calls: PluginCalls| async move { calls.send(async { Ok(()) }).await };
    let refused = call_locks.run(permit, process, work).await.unwrap_err();
    assert!(refused.was_not_sent(), "{refused}");
}

/// A panic of the agent proves nothing about the plugin. The end of its process does.
#[tokio::test]
async fn a_lost_call_keeps_its_call_lock_until_the_process_is_gone() {
    let call_locks = call_locks();
    let process = process();
    let permit = call_locks.admit(key("v"), &order("now", 1), STAGE).ok().unwrap();
    let work = |_: PluginCalls| async { panic!("a mistake") };
    let lost = call_locks.run::<(), _>(permit, process.clone(), work).await;
    assert!(matches!(lost, Err(HostError::Lost { .. })), "{lost:?}");
    assert!(is_busy(&call_locks));
    process.run.end().await;
    call_locks.drain().await;
    assert_eq!(call_locks.running(), []);
}
