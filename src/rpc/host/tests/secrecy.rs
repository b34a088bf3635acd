//! Nothing secret is in any `Debug`, error or status.

use super::connection::Connection;
use super::request::Call;
use super::samples::{CANARY, Random};
use super::scripted::ScriptedNode;
use nomad_csi_model::Term;

/// All messages, because a request of a port as a message has its secrets in plain text.
#[test]
fn no_message_has_a_debug() {
    let code = include_str!("../../../../proto/nomadcsi/host/v1/nomadcsi.host.v1.rs");
    let mut messages = 0;
    let mut lines = code.lines().peekable();
    while let Some(line) = lines.next() {
        let is_message = line.contains("derive(")
            && ["::prost::Message", "::prost::Oneof", "::prost::Enumeration"]
                .iter()
                .any(|derived| line.contains(derived));
        if is_message {
            let next = lines.peek().copied().unwrap_or_default();
            let is_number = line.contains("::prost::Enumeration");
            assert!(is_number || next.contains("skip_debug"), "{line}\n{next}");
            assert!(!line.contains("Debug"), "{line}");
            messages += 1;
        }
    }
    assert!(messages > 70, "{messages}");
}

/// The failure of each call whose answer is lost, and that of each call that is not sent.
#[tokio::test]
async fn no_failure_of_a_call_shows_a_secret_of_its_request() {
    let mut with_secrets = 0;
    for name in Call::NAMES {
        let node = ScriptedNode::new(0);
        let connection = Connection::to_scripted(&node).await;
        let remote = connection.remote(Term::default());
        let call = Call::sample(name, &mut Random(5)).of_term(Term::default());
        let shown = format!("{call:?}");
        assert!(!shown.contains(CANARY), "{shown}");
        with_secrets += usize::from(shown.contains("secrets: "));
        node.hold();
        let ports = remote.connected();
        let of_call = call.clone();
        let caller = tokio::spawn(async move { of_call.make(&ports).await });
        node.wait_for_arrived(1).await;
        connection.break_now().await;
        let unanswered = caller.await.unwrap();
        super::connection::wait_until_gone(&remote).await;
        let unsent = call.make(&remote.connected()).await;
        for failed in [unanswered, unsent] {
            let failure = failed.unwrap_err();
            assert!(!format!("{failure:?}").contains(CANARY), "{name}: {failure:?}");
        }
    }
    assert_eq!(with_secrets, 14, "four more calls have secrets without a request around them");
}
