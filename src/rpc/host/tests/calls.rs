//! A call over a connection is the same call.

use super::connection::{Connection, description};
use super::request::{Call, ReadLimit, plugin_alloc, plugin_id};
use super::samples::Random;
use super::scripted::ScriptedNode;
use crate::host::service::NodeHostService;
use nomad_csi_model::Term;
use nomad_csi_ports::PluginDirectory as _;

/// The number of drawn requests for each method.
const ROUNDS: usize = 60;

/// B106: each method, with drawn requests, answers and failures: the node gets the request as it was made, with its secrets, and the
/// caller gets the answer or the failure as the node gave it.
#[tokio::test]
async fn every_call_arrives_and_is_answered_as_without_a_connection() {
    for (number, name) in Call::NAMES.iter().enumerate() {
        let seed = u64::try_from(number).unwrap();
        let (direct, behind) = (ScriptedNode::new(seed), ScriptedNode::new(seed));
        let connection = Connection::to_scripted(&behind).await;
        // The term of every order is at least that of the one before.
        let term = Term { epoch: u64::MAX, revision: u64::MAX };
        let remote = connection.remote(term).connected();
        let local = direct.connected();
        let mut random = Random(seed + 1000);
        for round in 0..ROUNDS {
            let call = Call::sample(name, &mut random).of_term(term);
            let expected = call.clone().make(&local).await;
            assert_eq!(call.clone().make(&remote).await, expected, "{name}, round {round}");
            assert_eq!(behind.recorded().last(), Some(&call), "{name}, round {round}");
            assert_eq!(behind.recorded().len(), round + 1, "{name} arrives once");
        }
        assert_eq!(behind.recorded(), direct.recorded(), "{name}");
    }
}

#[tokio::test]
async fn a_node_describes_its_run() {
    let connection = Connection::to_scripted(&ScriptedNode::new(0)).await;
    let described = connection.remote(Term::default()).describe().await;
    assert_eq!(described, Ok(description()));
}

/// B103: a call for another plugin is not sent, so it is tried again.
#[tokio::test]
async fn only_the_instance_of_a_plugin_that_runs_is_found() {
    let connection = Connection::to_scripted(&ScriptedNode::new(0)).await;
    let remote = connection.remote(Term::default());
    assert!(remote.instance(&plugin_id(), &plugin_alloc()).await.is_some());
    assert!(remote.instance(&"nfs".into(), &plugin_alloc()).await.is_none());
    assert!(remote.instance(&plugin_id(), &"other".into()).await.is_none());
}

/// What a server asks for does not decide how much memory an answer takes.
#[tokio::test]
async fn a_node_gives_a_limited_part_of_an_output_at_once() {
    let node = ScriptedNode::new(0);
    let connection = Connection::to_scripted(&node).await;
    let Call::ReadLog(output, position, _) = Call::sample("ReadLog", &mut Random(1)) else {
        panic!("a read of an output");
    };
    let call = Call::ReadLog(output.clone(), position, ReadLimit(u64::MAX));
    drop(call.make(&connection.remote(Term::default()).connected()).await);
    assert_eq!(node.recorded(), [Call::ReadLog(output, position, ReadLimit(64 << 10))]);
}

/// A plugin that never answers keeps its calls, and their callers are perhaps gone.
#[tokio::test]
async fn a_node_that_runs_too_many_calls_refuses_the_next_one_before_it_has_an_effect() {
    let node = ScriptedNode::new(0);
    let service = NodeHostService::limited((node.connected(), node.terms()), description(), 2);
    let connection = Connection::to_routes(service.into_routes()).await;
    let remote = connection.remote(Term::default()).connected();
    let call = Call::sample("Stage", &mut Random(1)).of_term(Term::default());
    node.hold();
    for arrived in 1..=2 {
        let (remote, call) = (remote.clone(), call.clone());
        let caller = tokio::spawn(async move { call.make(&remote).await });
        node.wait_for_arrived(arrived).await;
        caller.abort();
    }
    let refused = call.clone().make(&remote).await.unwrap_err();
    assert!(refused.was_not_sent(), "{refused:?}");
    assert_eq!(node.recorded().len(), 2);
    node.release();
    node.wait_for_finished(2).await;
    drop(call.make(&remote).await);
    assert_eq!(node.recorded().len(), 3);
}

/// More than a buffer of the connection, and more than a window of the protocol.
#[tokio::test]
async fn a_large_request_arrives_whole() {
    let node = ScriptedNode::new(0);
    let connection = Connection::to_scripted(&node).await;
    let mut call = Call::sample("Stage", &mut Random(1));
    if let Call::Stage(_, request) = &mut call {
        request.secrets.insert("key", "x".repeat(1 << 20));
    }
    drop(call.clone().make(&connection.remote(Term::default()).connected()).await);
    assert_eq!(node.recorded(), [call]);
}
