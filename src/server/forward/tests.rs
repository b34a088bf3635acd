//! Calls against scripted answers, on a paused clock.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::candidates::candidates;
use crate::fake::NoInstances;
use crate::forward_error::ForwardOutcome;
use crate::plugin_call_queue::{CallClass, PluginConcurrency};
use crate::plugin_call_queues::PluginCallQueues;
use nomad_csi_claims::state::PluginAlloc;
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    ControllerCapabilities, ControllerInfo, Health, NodeId, NodeStatus, PluginId, PluginInstance,
};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::NoCallObserver;

/// No jitter: pauses are exact.
struct Steady;

impl IdSource for Steady {
    fn uuid(&self) -> String {
        String::new()
    }

    fn jitter(&self) -> f64 {
        1.0
    }
}

fn queues() -> PluginCallQueues {
    let (observer, instances) = (Arc::new(NoCallObserver), Arc::new(NoInstances));
    PluginCallQueues::of_instances(PluginConcurrency::DEFAULT, 1024, observer, instances)
}

fn failure(code: StatusCode, verdict: Verdict) -> PluginError {
    PluginError {
        rpc: Rpc::CreateVolume,
        code,
        verdict,
        message: String::new(),
        delivery: nomad_csi_ports::Delivery::Answered,
    }
}

fn unreachable() -> PluginError {
    failure(StatusCode::Unavailable, Verdict::Retry)
}

fn lost() -> PluginError {
    failure(StatusCode::Unavailable, Verdict::RetryUnknownOutcome)
}

fn pending() -> PluginError {
    failure(StatusCode::Aborted, Verdict::Retry)
}

#[derive(Clone)]
enum Step {
    Answers(Result<u32, PluginError>),
    /// Answers after this many seconds.
    AnswersAfter(u64, Result<u32, PluginError>),
    IsNotConnected,
}
use Step::{Answers, AnswersAfter, IsNotConnected};

/// No answer until the limit on the wire.
fn hangs() -> Step {
    let limit = failure(StatusCode::DeadlineExceeded, Verdict::RetryUnknownOutcome);
    AnswersAfter(1800, Err(limit))
}

struct Run {
    result: Result<u32, ForwardError>,
    /// The early answer to the client, and after how long.
    reported: Option<(Duration, ForwardError)>,
    asked: Vec<String>,
    took: Duration,
}

/// The effect of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Read,
    Change,
}

/// Runs the steps of a change in order over these allocations; the last step repeats forever.
async fn run_steps(allocs: &[&str], steps: &[Step]) -> Run {
    run_kind(Kind::Change, allocs, steps).await
}

async fn run_kind(kind: Kind, allocs: &[&str], steps: &[Step]) -> Run {
    let asked = Mutex::new(vec![]);
    let reported = Mutex::new(None);
    let start = Instant::now();
    let allocs: Vec<_> = allocs.iter().map(|alloc| AllocId::new(*alloc)).collect();
    let permit = queues().acquire(&"p".into(), CallClass::Create).await.unwrap();
    let report = |error| {
        let earlier = reported.lock().replace((start.elapsed(), error));
        assert_eq!(earlier, None, "reported twice");
    };
    let late = match kind {
        Kind::Read => OnDeadline::Cancel,
        Kind::Change => OnDeadline::Await { permit: &permit, report: &report },
    };
    let attempt = |alloc: AllocId| {
        let step = {
            let mut asked = asked.lock();
            asked.push(alloc.as_str().to_owned());
            steps[(asked.len() - 1).min(steps.len() - 1)].clone()
        };
        async move {
            match step {
                Answers(answer) => Some(answer),
                AnswersAfter(seconds, answer) => {
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                    Some(answer)
                }
                IsNotConnected => None,
            }
        }
    };
    let call = RepeatedCall::new(Rpc::CreateVolume, &allocs, ForwardLimits::default(), late);
    let result = call.run(attempt, &Steady).await;
    Run {
        result,
        took: start.elapsed(),
        reported: reported.into_inner(),
        asked: asked.into_inner(),
    }
}

/// B53, B54: retryable failures are retried.
#[tokio::test(start_paused = true)]
async fn retryable_failures_are_retried_with_growing_pauses() {
    for error in [
        unreachable(),
        lost(),
        pending(),
        failure(StatusCode::DeadlineExceeded, Verdict::RetryUnknownOutcome),
    ] {
        let steps = [Answers(Err(error.clone())), Answers(Err(error)), Answers(Ok(7))];
        let run = run_steps(&["n1"], &steps).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked.len(), 3);
        assert_eq!(run.took, Duration::from_millis(100 + 200));
    }
}

/// B53: what needs a change first is left to the caller.
#[tokio::test(start_paused = true)]
async fn final_failures_are_returned_immediately() {
    for (code, verdict) in [
        (StatusCode::InvalidArgument, Verdict::Permanent),
        (StatusCode::AlreadyExists, Verdict::Permanent),
        (StatusCode::FailedPrecondition, Verdict::RetryLater),
        (StatusCode::PermissionDenied, Verdict::RetryLater),
        (StatusCode::NotFound, Verdict::AlreadyDone),
    ] {
        let error = failure(code, verdict);
        let run = run_steps(&["n1", "n2"], &[Answers(Err(error.clone()))]).await;
        let outcome = run.result.as_ref().map_err(ForwardError::outcome);
        let expected = if verdict.may_have_taken_effect() {
            ForwardOutcome::Unknown
        } else {
            ForwardOutcome::NoEffect
        };
        assert_eq!(outcome, Err(expected), "{code:?}");
        assert!(matches!(run.result, Err(ForwardError::Failed { error: e, .. }) if e == error));
        assert_eq!(run.asked, ["n1"]);
        assert_eq!(run.took, Duration::ZERO);
    }
}

/// B102: another instance is called only if one is unreachable. W32: an instance without a connection
/// does not end the search.
#[tokio::test(start_paused = true)]
async fn the_next_instance_is_called_when_one_is_unreachable() {
    for first in [Answers(Err(unreachable())), IsNotConnected] {
        let run = run_steps(&["n1", "n2"], &[first, Answers(Ok(7))]).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked, ["n1", "n2"]);
        assert_eq!(run.took, Duration::ZERO);
    }
}

/// B102: a call that may have been sent goes to no other instance, however long the first is gone. A
/// call that changes nothing may.
#[tokio::test(start_paused = true)]
async fn a_call_that_may_have_been_sent_stays_with_its_instance() {
    let steps = [Answers(Err(lost())), Answers(Err(unreachable())), IsNotConnected, Answers(Ok(7))];
    let change = run_kind(Kind::Change, &["n1", "n2"], &steps).await;
    assert_eq!(change.result, Ok(7));
    assert_eq!(change.asked, ["n1"; 4]);
    let read = run_kind(Kind::Read, &["n1", "n2"], &steps).await;
    assert_eq!(read.asked, ["n1", "n2", "n1", "n2"]);
}

/// An operation that is pending at one instance is not started at another.
#[tokio::test(start_paused = true)]
async fn an_instance_with_a_pending_operation_is_called_again() {
    for first in [
        pending(),
        failure(StatusCode::DeadlineExceeded, Verdict::RetryUnknownOutcome),
        failure(StatusCode::Internal, Verdict::RetryUnknownOutcome),
    ] {
        let run = run_steps(&["n1", "n2"], &[Answers(Err(first)), Answers(Ok(7))]).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked, ["n1", "n1"]);
    }
}

fn timed_out(last: Option<PluginError>, outcome: ForwardOutcome) -> ForwardError {
    ForwardError::TimedOut {
        rpc: Rpc::CreateVolume,
        after: Duration::from_secs(300),
        last,
        outcome,
    }
}

/// W04: a call without an answer is an error that reports the known effect.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_an_error_with_the_known_effect() {
    for (steps, last, outcome) in [
        (vec![IsNotConnected], None, ForwardOutcome::NoEffect),
        (vec![Answers(Err(unreachable()))], Some(unreachable()), ForwardOutcome::NoEffect),
        (vec![Answers(Err(lost()))], Some(lost()), ForwardOutcome::Unknown),
        (
            vec![Answers(Err(lost())), Answers(Err(unreachable()))],
            Some(unreachable()),
            ForwardOutcome::Unknown,
        ),
    ] {
        let run = run_steps(&["n1"], &steps).await;
        assert_eq!(run.result, Err(timed_out(last, outcome)));
        assert_eq!(run.took, Duration::from_secs(300));
        assert_eq!(run.reported, None);
    }
}

/// B30: an answer that comes before the deadline succeeds, however slow the plugin is.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_succeeds_without_another_call() {
    for seconds in [90, 119, 121, 150, 299] {
        let run = run_steps(&["n1", "n2"], &[AnswersAfter(seconds, Ok(7)), Answers(Ok(8))]).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked, ["n1"], "{seconds} s");
        assert_eq!(run.took, Duration::from_secs(seconds));
        assert_eq!(run.reported, None);
    }
}

/// B30, W04: the client gets an error at the deadline. The call is not cancelled, and its late answer
/// counts.
#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_not_cancelled_at_the_deadline() {
    let seconds = |run: &Run| (run.took.as_secs(), run.reported.clone().unwrap().0.as_secs());
    let unknown = ForwardOutcome::Unknown;
    let late = run_steps(&["n1"], &[AnswersAfter(400, Ok(7)), Answers(Ok(8))]).await;
    assert_eq!((&late.result, late.asked.len()), (&Ok(7), 1));
    assert_eq!(seconds(&late), (400, 300));
    assert_eq!(late.reported.unwrap().1, timed_out(None, unknown));

    let steps = [Answers(Err(unreachable())), hangs()];
    let never = run_steps(&["n1"], &steps).await;
    assert_eq!(never.asked.len(), 2);
    assert_eq!(seconds(&never), (1800, 300));
    let reported = never.reported.unwrap().1;
    assert_eq!(reported, timed_out(Some(unreachable()), unknown));
    let last = failure(StatusCode::DeadlineExceeded, Verdict::RetryUnknownOutcome);
    assert_eq!(never.result, Err(timed_out(Some(last), unknown)));
}

/// B53, W31: a call that changes nothing is cancelled at its deadline and sent again, as long as the
/// client waits.
#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_is_tried_again() {
    let no_answer = failure(StatusCode::DeadlineExceeded, Verdict::Retry);
    let hangs = AnswersAfter(120, Err(no_answer.clone()));
    let again = run_kind(Kind::Read, &["n1"], &[hangs.clone(), Answers(Ok(7))]).await;
    assert_eq!((again.result, again.asked.len()), (Ok(7), 2));
    let never = run_kind(Kind::Read, &["n1"], &[hangs]).await;
    let expected = timed_out(Some(no_answer), ForwardOutcome::NoEffect);
    assert_eq!((never.result, never.asked.len()), (Err(expected), 3));
    assert_eq!(never.took, Duration::from_secs(300));
}

/// The last answer proves nothing about earlier attempts.
#[tokio::test(start_paused = true)]
async fn an_unknown_effect_stays_unknown() {
    for code in [
        StatusCode::InvalidArgument,
        StatusCode::NotFound,
        StatusCode::PermissionDenied,
        StatusCode::ResourceExhausted,
    ] {
        let last = failure(code, Verdict::Permanent);
        let run = run_steps(&["n1"], &[Answers(Err(lost())), Answers(Err(last))]).await;
        assert_eq!(
            run.result.map_err(|error| error.outcome()),
            Err(ForwardOutcome::Unknown),
            "{code:?}"
        );
    }
}

fn instance(alloc: &str, healthy: bool, controller: bool) -> PluginInstance {
    PluginInstance {
        alloc_id: AllocId::new(alloc),
        health: Health { healthy, description: String::new() },
        updated_at: 0,
        provider: String::new(),
        provider_version: String::new(),
        process: None,
        requires_controller: true,
        requires_topologies: false,
        controller: controller
            .then(|| ControllerInfo { capabilities: ControllerCapabilities::default() }),
        node: None,
    }
}

/// B101: the choice of instances.
#[test]
fn healthy_controllers_on_ready_nodes_are_chosen_in_order() {
    let plugin = PluginId::new("p");
    let nodes = BTreeMap::from([
        ("n1", NodeStatus::Ready),
        ("n2", NodeStatus::Ready),
        ("n3", NodeStatus::Down),
        ("n5", NodeStatus::Ready),
        ("n6", NodeStatus::Ready),
    ]);
    let status = |node: &NodeId| nodes.get(node.as_str()).copied();
    let unusable = [
        ("n2", instance("a2", false, true)),
        ("n3", instance("a3", true, true)),
        ("n4", instance("a4", true, true)),
        ("n5", instance("a5", true, false)),
    ];
    let usable = [("n1", instance("a1", true, true)), ("n6", instance("a6", true, true))];
    let allocs = |list: &[(&str, PluginInstance)]| -> Vec<PluginAlloc> {
        let alloc = |(node, instance): &(&str, PluginInstance)| PluginAlloc {
            node: NodeId::new(*node),
            create_index: 2,
            program_index: 2,
            instance: instance.clone(),
        };
        list.iter().map(alloc).collect()
    };
    let all: Vec<_> = unusable.iter().cloned().chain(usable).collect();
    let all = allocs(&all);
    let chosen = candidates(&plugin, None, &all.iter().collect::<Vec<_>>(), status).unwrap();
    assert_eq!(chosen.allocs, [AllocId::new("a1"), AllocId::new("a6")]);

    let unusable = allocs(&unusable);
    let unusable: Vec<_> = unusable.iter().collect();
    let none = candidates(&plugin, None, &unusable, status).unwrap_err();
    assert_eq!(
        none.to_string(),
        "failed to find clients running controller plugin \"p\": \
         plugin instance \"a2\" is not healthy, \
         node \"n3\" for plugin instance \"a3\" is not ready, \
         cannot find node \"n4\" for plugin instance \"a4\", \
         plugin instance \"a5\" is not a controller but was registered as one - this is always a bug"
    );
    let nothing = candidates(&plugin, None, &[], status).unwrap_err();
    assert_eq!(nothing.to_string(), "failed to find instances of controller plugin \"p\"");
}

/// The call ends although the port is never reached.
#[tokio::test(start_paused = true)]
async fn a_plugin_without_a_connection_is_awaited_until_the_deadline() {
    let candidates = Candidates { plugin: PluginId::new("p"), allocs: vec![AllocId::new("a1")] };
    let limits = ForwardLimits::default();
    let caller = ControllerCaller::new(queues(), Arc::new(Steady), limits, Duration::ZERO);
    let calls = caller.admit(CallClass::List, candidates).await.unwrap();
    let result: Result<(), _> = calls.read(Rpc::ListVolumes, |_| async { Ok(()) }).await;
    assert_eq!(result.map_err(|error| error.outcome()), Err(ForwardOutcome::NoEffect));
}
