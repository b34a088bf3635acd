//! A reply that a server cannot read, and a request that a node cannot read.

use tonic::transport::Endpoint;
use tonic::{Code, Status};

use super::connection::Connection;
use super::scripted::ScriptedNode;
use crate::host::answer::Answer as _;
use crate::host::messages::node_host_client::NodeHostClient;
use crate::host::messages::reply::End;
use crate::host::messages::{
    ControllerRequest, HostFailure, LeftBehindRequest, ReadPluginRequest, Reply, StageRequest,
};
use crate::host::remote_node::RemoteNode;
use crate::host::status;
use nomad_csi_model::{Bytes, Term};
use nomad_csi_ports::HostError;

fn remote() -> RemoteNode {
    let channel = Endpoint::from_static("http://node").connect_lazy();
    RemoteNode::new(channel, "n1".into(), Term::default())
}

/// The call may have taken effect: a newer node can end a call in ways that this server does not know.
#[tokio::test]
async fn a_reply_that_is_not_known_is_no_answer() {
    for end in [
        None,
        Some(End::Failure(HostFailure { why: None })),
        Some(true.end()),
        Some(End::Size(u64::MAX)),
    ] {
        let answer: Result<Bytes, HostError> = remote().answer(Reply { end });
        assert_eq!(answer, Err(HostError::Unanswered { node: "n1".into() }));
    }
    let answer = remote().answer(Reply { end: Some(Bytes::MAX.end()) });
    assert_eq!(answer, Ok(Bytes::MAX));
}

/// A newer server gets an answer that says so, and no secret of the request comes back.
#[tokio::test]
async fn a_request_that_cannot_be_read_has_no_effect() {
    let node = ScriptedNode::new(0);
    let connection = Connection::to_scripted(&node).await;
    let mut client = NodeHostClient::new(connection.channel.clone());
    let secrets = [("password".to_owned(), super::samples::CANARY.to_owned())];
    let stage = StageRequest { secrets: secrets.into(), ..StageRequest::default() };
    let usage = StageRequest { usage_json: b"hunter2".to_vec(), ..stage.clone() };
    let statuses: Vec<Status> = vec![
        client.stage(stage).await.err().unwrap(),
        client.stage(usage).await.err().unwrap(),
        client.left_behind(LeftBehindRequest::default()).await.err().unwrap(),
        client.controller(ControllerRequest::default()).await.err().unwrap(),
        client.read_plugin(ReadPluginRequest::default()).await.err().unwrap(),
    ];
    for failed in statuses {
        assert_eq!(failed.code(), Code::InvalidArgument);
        assert!(status::was_not_sent(&failed), "{failed}");
        assert!(!format!("{failed:?}").contains(super::samples::CANARY), "{failed:?}");
    }
    assert_eq!(node.recorded(), []);
}
