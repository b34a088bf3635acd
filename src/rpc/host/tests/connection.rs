//! A connection in memory between a server and a node, which can break.

use std::io;
use std::sync::Arc;

use futures_util::StreamExt as _;
use hyper_util::rt::TokioIo;
use tokio::io::{DuplexStream, copy_bidirectional, duplex};
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint, Server};

use super::scripted::ScriptedNode;
use crate::host::description::HostDescription;
use crate::host::remote_node::RemoteNode;
use crate::host::service::NodeHostService;
use nomad_csi_model::Term;
use nomad_csi_ports::{ConnectedNode, HostError, TermGuard};

/// The size of the buffers, small enough that a message does not fit.
const BUFFER: usize = 512;

/// The server's end of a connection.
pub(super) struct Connection {
    pub(super) channel: Channel,
    wire: JoinHandle<()>,
}

impl Connection {
    /// Connects to a node that serves these routes.
    pub(super) async fn to_routes(routes: Routes) -> Self {
        let (server, mut from_server) = duplex(BUFFER);
        let (mut from_node, node) = duplex(BUFFER);
        let once = futures_util::stream::once(async move { Ok::<_, io::Error>(node) });
        let incoming = once.chain(futures_util::stream::pending());
        tokio::spawn(Server::builder().add_routes(routes).serve_with_incoming(incoming));
        let wire = tokio::spawn(async move {
            drop(copy_bidirectional(&mut from_server, &mut from_node).await);
        });
        Self { channel: channel_over(server).await, wire }
    }

    /// Connects to this node.
    pub(super) async fn to(node: ConnectedNode, terms: Arc<dyn TermGuard>) -> Self {
        Self::to_routes(NodeHostService::new(node, terms, description()).into_routes()).await
    }

    pub(super) async fn to_scripted(node: &ScriptedNode) -> Self {
        Self::to(node.connected(), node.terms()).await
    }

    pub(super) fn remote(&self, term: Term) -> RemoteNode {
        RemoteNode::new(self.channel.clone(), "n1".into(), term)
    }

    /// Breaks the connection.
    pub(super) async fn break_now(self) {
        self.wire.abort();
        drop(self.wire.await);
    }
}

/// The channel whose only connection is this one.
pub(super) async fn channel_over(stream: DuplexStream) -> Channel {
    let mut stream = Some(TokioIo::new(stream));
    let connector = tower::service_fn(move |_: http::Uri| {
        let given = stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        async move { given }
    });
    let endpoint = Endpoint::from_static("http://node");
    endpoint.connect_with_connector(connector).await.unwrap()
}

/// Waits until the channel knows that its connection is gone.
pub(super) async fn wait_until_gone(remote: &RemoteNode) {
    for _ in 0..1000 {
        if matches!(remote.describe().await, Err(HostError::Unreachable { .. })) {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the channel does not notice that its connection is gone");
}

pub(super) fn description() -> HostDescription {
    HostDescription { session: "session".into(), boot_id: "boot".to_owned() }
}
