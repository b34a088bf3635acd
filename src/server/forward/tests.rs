//! The loop against scripted answers, on a paused clock.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;

use super::*;
use crate::model::{AllocId, ControllerCapabilities, ControllerInfo, Health};
use crate::ports::PluginConnection;
use crate::retry::Verdict;

struct Nobody;

#[async_trait]
impl PluginDirectory for Nobody {
    async fn instance(&self, _: &PluginId, _: &NodeId) -> Option<PluginConnection> {
        None
    }
}

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

fn forward() -> Forward {
    Forward::new(Arc::new(Nobody), Arc::new(Steady), ForwardLimits::default())
}

fn failure(code: StatusCode, verdict: Verdict) -> PluginError {
    PluginError {
        rpc: Rpc::CreateVolume,
        code,
        verdict,
        message: String::new(),
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
    IsNotConnected,
    Hangs,
}
use Step::{Answers, Hangs, IsNotConnected};

struct Run {
    result: Result<u32, ForwardError>,
    asked: Vec<String>,
    took: Duration,
}

/// Plays the steps in order over these nodes; the last step is repeated for ever.
async fn play(nodes: &[&str], steps: &[Step]) -> Run {
    let asked = Mutex::new(vec![]);
    let start = Instant::now();
    let nodes: Vec<_> = nodes.iter().map(|node| NodeId::new(*node)).collect();
    let result = forward()
        .repeat(&nodes, Rpc::CreateVolume, |node| {
            let step = {
                let mut asked = asked.lock().unwrap();
                asked.push(node.as_str().to_owned());
                steps[(asked.len() - 1).min(steps.len() - 1)].clone()
            };
            async move {
                match step {
                    Answers(answer) => Some(answer),
                    IsNotConnected => None,
                    Hangs => std::future::pending().await,
                }
            }
        })
        .await;
    Run {
        result,
        asked: asked.into_inner().unwrap(),
        took: start.elapsed(),
    }
}

/// B53, B54.
#[tokio::test(start_paused = true)]
async fn failures_that_allow_it_are_repeated_with_growing_pauses() {
    for error in [
        unreachable(),
        lost(),
        pending(),
        failure(StatusCode::DeadlineExceeded, Verdict::RetryUnknownOutcome),
    ] {
        let steps = [
            Answers(Err(error.clone())),
            Answers(Err(error)),
            Answers(Ok(7)),
        ];
        let run = play(&["n1"], &steps).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked.len(), 3);
        assert_eq!(run.took, Duration::from_millis(100 + 200));
    }
}

/// B53; RESOURCE_EXHAUSTED is the caller's to wait for.
#[tokio::test(start_paused = true)]
async fn failures_that_will_not_change_are_answered_at_once() {
    for (code, verdict) in [
        (StatusCode::InvalidArgument, Verdict::Permanent),
        (StatusCode::AlreadyExists, Verdict::Permanent),
        (StatusCode::FailedPrecondition, Verdict::RetryLater),
        (StatusCode::ResourceExhausted, Verdict::RetryLater),
        (StatusCode::NotFound, Verdict::AlreadyDone),
    ] {
        let error = failure(code, verdict);
        let run = play(&["n1", "n2"], &[Answers(Err(error.clone()))]).await;
        let outcome = run.result.as_ref().map_err(ForwardError::outcome);
        let expected = if verdict.may_have_happened() {
            Outcome::Unknown
        } else {
            Outcome::Nothing
        };
        assert_eq!(outcome, Err(expected), "{code:?}");
        assert!(matches!(run.result, Err(ForwardError::Failed { error: e, .. }) if e == error));
        assert_eq!(run.asked, ["n1"]);
        assert_eq!(run.took, Duration::ZERO);
    }
}

/// B102.
#[tokio::test(start_paused = true)]
async fn the_next_instance_is_asked_when_one_cannot_be_reached() {
    for first in [
        Answers(Err(unreachable())),
        Answers(Err(lost())),
        IsNotConnected,
    ] {
        let run = play(&["n1", "n2"], &[first, Answers(Ok(7))]).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked, ["n1", "n2"]);
        assert_eq!(run.took, Duration::ZERO);
    }
}

/// An operation that is pending at one instance is not started at another.
#[tokio::test(start_paused = true)]
async fn an_instance_that_may_be_at_work_is_asked_again() {
    for first in [
        pending(),
        failure(StatusCode::DeadlineExceeded, Verdict::RetryUnknownOutcome),
        failure(StatusCode::Internal, Verdict::RetryUnknownOutcome),
    ] {
        let run = play(&["n1", "n2"], &[Answers(Err(first)), Answers(Ok(7))]).await;
        assert_eq!(run.result, Ok(7));
        assert_eq!(run.asked, ["n1", "n1"]);
    }
}

/// W04: what has no answer is an error, and says whether it may have happened.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_an_error_that_says_what_may_have_happened() {
    for (steps, last, outcome) in [
        (vec![Hangs], None, Outcome::Unknown),
        (vec![IsNotConnected], None, Outcome::Nothing),
        (
            vec![Answers(Err(unreachable()))],
            Some(unreachable()),
            Outcome::Nothing,
        ),
        (vec![Answers(Err(lost()))], Some(lost()), Outcome::Unknown),
        (
            vec![Answers(Err(lost())), Answers(Err(unreachable()))],
            Some(unreachable()),
            Outcome::Unknown,
        ),
        (
            vec![Answers(Err(unreachable())), Hangs],
            Some(unreachable()),
            Outcome::Unknown,
        ),
    ] {
        let run = play(&["n1"], &steps).await;
        assert_eq!(
            run.result,
            Err(ForwardError::TimedOut {
                rpc: Rpc::CreateVolume,
                after: Duration::from_secs(120),
                last,
                outcome,
            })
        );
        assert_eq!(run.took, Duration::from_secs(120));
    }
}

/// Whatever the last answer says, it does not tell what became of an attempt before it.
#[tokio::test(start_paused = true)]
async fn an_open_attempt_stays_open() {
    for code in [
        StatusCode::InvalidArgument,
        StatusCode::NotFound,
        StatusCode::PermissionDenied,
        StatusCode::ResourceExhausted,
    ] {
        let last = failure(code, Verdict::Permanent);
        let run = play(&["n1"], &[Answers(Err(lost())), Answers(Err(last))]).await;
        assert_eq!(
            run.result.map_err(|error| error.outcome()),
            Err(Outcome::Unknown),
            "{code:?}"
        );
    }
}

fn instance(alloc: &str, healthy: bool, controller: bool) -> PluginInstance {
    PluginInstance {
        alloc_id: AllocId::new(alloc),
        health: Health {
            healthy,
            description: String::new(),
        },
        updated_at: 0,
        provider: String::new(),
        provider_version: String::new(),
        requires_controller: true,
        requires_topologies: false,
        controller: controller.then(|| ControllerInfo {
            capabilities: ControllerCapabilities::default(),
        }),
        node: None,
    }
}

fn node(id: &str, status: NodeStatus) -> (NodeId, Node) {
    let node = Node {
        id: NodeId::new(id),
        name: id.into(),
        datacenter: "dc1".into(),
        status,
    };
    (node.id.clone(), node)
}

/// B101.
#[test]
fn healthy_controllers_on_ready_nodes_are_chosen_by_node_id() {
    let plugin = PluginId::new("p");
    let nodes = BTreeMap::from([
        node("n1", NodeStatus::Ready),
        node("n2", NodeStatus::Ready),
        node("n3", NodeStatus::Down),
        node("n5", NodeStatus::Ready),
        node("n6", NodeStatus::Ready),
    ]);
    let unusable = [
        ("n2", instance("a2", false, true)),
        ("n3", instance("a3", true, true)),
        ("n4", instance("a4", true, true)),
        ("n5", instance("a5", true, false)),
    ];
    let usable = [
        ("n6", instance("a6", true, true)),
        ("n1", instance("a1", true, true)),
    ];
    let map = |list: &[(&str, PluginInstance)]| -> BTreeMap<NodeId, PluginInstance> {
        list.iter()
            .map(|(node, instance)| (NodeId::new(*node), instance.clone()))
            .collect()
    };
    let all: Vec<_> = unusable.iter().cloned().chain(usable).collect();
    let chosen = candidates(&plugin, &map(&all), &nodes).unwrap();
    assert_eq!(chosen.nodes, [NodeId::new("n1"), NodeId::new("n6")]);

    let none = candidates(&plugin, &map(&unusable), &nodes).unwrap_err();
    assert_eq!(
        none.to_string(),
        "failed to find clients running controller plugin \"p\": \
         plugin instance \"a2\" is not healthy, \
         node \"n3\" for plugin instance \"a3\" is not ready, \
         cannot find node \"n4\" for plugin instance \"a4\", \
         plugin instance \"a5\" is not a controller but was registered as one - this is always a bug"
    );
    let nothing = candidates(&plugin, &BTreeMap::new(), &nodes).unwrap_err();
    assert_eq!(
        nothing.to_string(),
        "failed to find instances of controller plugin \"p\""
    );
}

/// Without a connection the port is never reached, and the whole call still ends.
#[tokio::test(start_paused = true)]
async fn a_plugin_without_a_connection_is_waited_for_until_the_deadline() {
    let candidates = Candidates {
        plugin: PluginId::new("p"),
        nodes: vec![NodeId::new("n1")],
    };
    let result: Result<(), _> = forward()
        .call(&candidates, Rpc::DeleteVolume, |_| async { Ok(()) })
        .await;
    assert_eq!(
        result.map_err(|error| error.outcome()),
        Err(Outcome::Nothing)
    );
}
