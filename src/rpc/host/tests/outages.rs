//! A connection that breaks, a caller that is gone, and a deadline that passes.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::time::Instant;

use super::connection::{Connection, channel_over, wait_until_gone};
use super::request::{Call, Effect, plugin_alloc, plugin_id};
use super::samples::Random;
use super::scripted::ScriptedNode;
use crate::host::remote_node::RemoteNode;
use nomad_csi_model::Term;
use nomad_csi_ports::{HostError, PluginConnection, PluginDirectory as _};

/// A node that is connected, its remote end, and a plugin that was looked up.
async fn connected() -> (ScriptedNode, Connection, RemoteNode, PluginConnection) {
    let node = ScriptedNode::new(0);
    let connection = Connection::to_scripted(&node).await;
    let remote = connection.remote(Term::default());
    let plugin = remote.instance(&plugin_id(), &plugin_alloc()).await.unwrap();
    (node, connection, remote, plugin)
}

fn sampled(name: &str) -> Call {
    Call::sample(name, &mut Random(11)).of_term(Term::default())
}

/// A call that changes nothing.
const READ: &str = "Stats";

fn changes(call: &Call) -> bool {
    match call.effect() {
        Effect::Step | Effect::Change => true,
        Effect::ReadForLeader | Effect::Read => false,
    }
}

#[tokio::test]
async fn without_a_connection_no_call_is_sent() {
    for name in Call::NAMES {
        let (node, connection, remote, plugin) = connected().await;
        connection.break_now().await;
        wait_until_gone(&remote).await;
        let failure = sampled(name).make_on(&remote.connected(), &plugin).await.unwrap_err();
        assert!(failure.was_not_sent(), "{name}: {failure:?}");
        assert!(!failure.is_unanswered(), "{name}: {failure:?}");
        assert_eq!(node.recorded(), [], "{name}");
        assert!(remote.instance(&plugin_id(), &plugin_alloc()).await.is_none());
    }
}

/// The node runs what changes something to its end. A read ends with its connection.
#[tokio::test]
async fn a_connection_that_breaks_during_a_call_leaves_no_answer() {
    for name in Call::NAMES {
        let (node, connection, remote, plugin) = connected().await;
        node.hold();
        let call = sampled(name);
        let is_change = changes(&call);
        let ports = remote.connected();
        let caller = tokio::spawn(async move { call.make_on(&ports, &plugin).await });
        node.wait_for_arrived(1).await;
        // It shows when the node has noticed the end of the connection.
        let read = tokio::spawn(async move { sampled(READ).make(&remote.connected()).await });
        node.wait_for_arrived(2).await;
        connection.break_now().await;
        let failure = caller.await.unwrap().unwrap_err();
        assert!(failure.is_unanswered(), "{name}: {failure:?}");
        assert!(!failure.was_not_sent(), "{name}: {failure:?}");
        assert!(read.await.unwrap().unwrap_err().is_unanswered());
        let expected = if is_change { (1, 1) } else { (0, 2) };
        node.wait_for_dropped(expected.1).await;
        node.release();
        node.wait_for_finished(expected.0).await;
        assert_eq!(node.ended(), expected, "{name}");
        assert_eq!(node.recorded(), [sampled(name), sampled(READ)], "{name} is not repeated");
    }
}

/// What was answered stays answered; the call after it is not sent.
#[tokio::test]
async fn a_connection_that_breaks_after_a_call_changes_nothing_of_it() {
    for name in Call::NAMES {
        let (node, connection, remote, plugin) = connected().await;
        let outcome = sampled(name).make_on(&remote.connected(), &plugin).await;
        let direct = ScriptedNode::new(0);
        let local = direct.connected();
        assert_eq!(outcome, sampled(name).make(&local).await, "{name}");
        connection.break_now().await;
        wait_until_gone(&remote).await;
        let failure = sampled(name).make_on(&remote.connected(), &plugin).await.unwrap_err();
        assert!(failure.was_not_sent(), "{name}: {failure:?}");
        assert_eq!(node.recorded().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_caller_that_is_gone_ends_only_what_changes_nothing() {
    for name in Call::NAMES {
        let (node, _connection, remote, plugin) = connected().await;
        node.hold();
        let call = sampled(name);
        let is_change = changes(&call);
        let ports = remote.connected();
        let caller = tokio::spawn(async move { call.make_on(&ports, &plugin).await });
        node.wait_for_arrived(1).await;
        caller.abort();
        drop(caller.await);
        if is_change {
            // A later call arrives after the end of the caller.
            remote.describe().await.unwrap();
            assert_eq!(node.ended(), (0, 0), "{name} goes on");
            node.release();
            node.wait_for_finished(1).await;
        } else {
            node.wait_for_dropped(1).await;
        }
        assert_eq!(node.recorded(), [sampled(name)], "{name} is not repeated");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_wait_and_not_the_call() {
    for name in Call::NAMES {
        let (node, _connection, remote, plugin) = connected().await;
        node.hold();
        let call = sampled(name);
        let is_change = changes(&call);
        let is_endless = matches!(call, Call::WaitForMore(..));
        let begun = Instant::now();
        let ports = remote.connected();
        let caller = call.make_on(&ports, &plugin);
        let day = Duration::from_secs(24 * 60 * 60);
        let outcome = tokio::time::timeout(day, caller).await;
        let expected = match (is_change, is_endless) {
            (true, _) => Duration::from_secs(31 * 60),
            (false, true) => day,
            (false, false) => Duration::from_secs(30),
        };
        let waited = begun.elapsed();
        assert!(
            waited >= expected && waited < expected + Duration::from_secs(1),
            "{name}: {waited:?}"
        );
        match outcome {
            Ok(outcome) => assert!(outcome.unwrap_err().is_unanswered(), "{name}"),
            Err(_elapsed) => assert!(is_endless, "{name}"),
        }
        if is_change {
            node.release();
            node.wait_for_finished(1).await;
        } else {
            node.wait_for_dropped(1).await;
        }
    }
}

/// The frames of HTTP/2: length, type, flags and stream, then the content.
fn frame(kind: u8, stream: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    let mut frame = vec![0, 0, length, kind, 0, 0, 0, 0, stream];
    frame.extend_from_slice(content);
    frame
}

/// Answers the first stream with a reset for this reason.
async fn reset_by_peer(reason: u8) -> HostError {
    const HEADERS: u8 = 1;
    let (server, mut node) = duplex(1 << 16);
    let peer = tokio::spawn(async move {
        let mut preface = [0; 24];
        node.read_exact(&mut preface).await.unwrap();
        node.write_all(&frame(4, 0, &[])).await.unwrap();
        loop {
            let mut header = [0; 9];
            node.read_exact(&mut header).await.unwrap();
            let length = usize::from(header[1]) << 8 | usize::from(header[2]);
            let mut content = vec![0; length];
            node.read_exact(&mut content).await.unwrap();
            if header[3] == HEADERS {
                node.write_all(&frame(3, header[8], &[0, 0, 0, reason])).await.unwrap();
                return node;
            }
        }
    });
    let remote = RemoteNode::new(channel_over(server).await, "n1".into(), Term::default());
    let failure = remote.describe().await.unwrap_err();
    drop(peer.await.unwrap());
    failure
}

/// A stream that the peer refused was not processed (RFC 9113, 8.7). Any other reset may come after the effect.
#[tokio::test]
async fn only_a_refused_stream_was_certainly_not_sent() {
    const REFUSED_STREAM: u8 = 7;
    for reason in 0..=13 {
        let failure = reset_by_peer(reason).await;
        assert_eq!(failure.was_not_sent(), reason == REFUSED_STREAM, "{reason}: {failure:?}");
        assert_eq!(failure.may_have_taken_effect(), reason != REFUSED_STREAM, "{reason}");
    }
}
