//! Connections of nodes that a server forwards to the one that leads.

use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use super::super::remote::RemoteControlPlane;
use super::bed::{Certificates, TestMemory, TestNode, TestPlane, TestServer, at, profile, soon};
use crate::tls::cluster_tls::ClusterTls;
use crate::tls::role::Role;
use crate::transport::dial::dial;
use crate::transport::dialer::Dialer;
use crate::transport::forwarded_connection::write_certificate;
use crate::transport::leader_connection::{LeaderConnection, NoResponse};
use crate::transport::listener::NodeListener;
use crate::transport::protocol::{FORWARDED_CALLS, REQUESTS};
use nomad_csi_ports::ControlPlane as _;
use nomad_csi_testing::CountingIds;

/// A server that does not lead.
struct Standby {
    address: SocketAddr,
    leader: Arc<Mutex<Option<String>>>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Standby {
    async fn start(certificates: &Certificates, leader: Option<SocketAddr>) -> Self {
        let (_, tls) = watch::channel(certificates.tls(Role::Server, "s2"));
        let listener = NodeListener::bind("127.0.0.1:0".parse().unwrap(), tls).await.unwrap();
        let address = listener.address().unwrap();
        let leader = Arc::new(Mutex::new(leader.map(|address| address.to_string())));
        let (known, stop) = (leader.clone(), CancellationToken::new());
        let stopped = stop.clone();
        let served = tokio::spawn(async move {
            listener.forward(Arc::new(move || known.lock().clone()), stopped).await;
        });
        Self { address, leader, stop, served }
    }

    async fn stop(self) {
        self.stop.cancel();
        soon("the standby stops", self.served).await.unwrap();
    }
}

struct Bed {
    certificates: Certificates,
    plane: Arc<TestPlane>,
    leader: TestServer,
    standby: Standby,
}

impl Bed {
    async fn new() -> Self {
        let certificates = Certificates::new();
        let plane = TestPlane::new(at("c1", 5, 100));
        let tls = certificates.tls(Role::Server, "s1");
        let leader = TestServer::start(&plane, tls, "127.0.0.1:0").await;
        let standby = Standby::start(&certificates, Some(leader.address)).await;
        Self { certificates, plane, leader, standby }
    }

    async fn node(&self, servers: &[SocketAddr]) -> TestNode {
        let tls = self.certificates.tls(Role::Node, "n1");
        TestNode::start(profile("n1", 1, "run-1"), tls, servers, None).await
    }

    async fn stop(self) {
        self.leader.stop().await;
        self.standby.stop().await;
    }
}

/// Waits until the other end closes a connection, without a byte.
async fn assert_ends(mut stream: TlsStream<TcpStream>) {
    let mut byte = [0; 1];
    let read = soon("the end of the connection", stream.read(&mut byte)).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

#[tokio::test]
async fn a_node_that_knows_only_a_standby_is_connected_to_the_leader() {
    let bed = Bed::new().await;
    let node = bed.node(&[bed.standby.address]).await;
    bed.leader.wait_for_nodes(&["n1"]).await;
    let listed = soon("a list", node.remote.assigned(None)).await.unwrap();
    assert!(listed.allocs.is_empty());
    let channel = bed.leader.nodes.channel(&"n1".into()).unwrap();
    assert_eq!(channel.session, "run-1".into());

    bed.standby.stop.cancel();
    soon("the channel ends", channel.ended()).await;
    node.stop().await;
    bed.stop().await;
}

#[tokio::test]
async fn a_direct_connection_takes_the_place_of_one_that_is_forwarded_and_not_the_other_way() {
    let bed = Bed::new().await;
    let passed = bed.node(&[bed.standby.address]).await;
    bed.leader.wait_for_nodes(&["n1"]).await;
    let first = bed.leader.nodes.channel(&"n1".into()).unwrap();
    // The same process, for the server: it has the same session.
    let direct = bed.node(&[bed.leader.address]).await;
    soon("the first channel ends", first.ended()).await;
    bed.leader.wait_for_nodes(&["n1"]).await;
    let second = bed.leader.nodes.channel(&"n1".into()).unwrap();
    let ids = Arc::new(CountingIds::default());
    let memory = Arc::new(TestMemory::default());
    let third = RemoteControlPlane::open(profile("n1", 1, "run-1"), memory, ids.clone()).await;
    let (_, tls) = watch::channel(bed.certificates.tls(Role::Node, "n1"));
    let dialer = Dialer::new(vec![], tls, Arc::new(third.unwrap()), Routes::default(), ids);
    let (address, pair) = (bed.standby.address.to_string(), CancellationToken::new());
    let reason = soon("a refusal", dialer.connect_once(&address, &pair)).await;
    assert!(reason.contains("the node is connected already"), "{reason}");
    assert!(bed.leader.nodes.channel(&"n1".into()).is_some());
    passed.stop().await;
    direct.stop().await;
    soon("the second channel ends", second.ended()).await;
    bed.stop().await;
}

#[tokio::test]
async fn a_node_that_knows_both_has_one_connection_and_another_one_after_its_end() {
    let bed = Bed::new().await;
    let node = bed.node(&[bed.leader.address, bed.standby.address]).await;
    bed.leader.wait_for_nodes(&["n1"]).await;
    // The leader is gone, and the standby knows the next one.
    let Bed { certificates, plane, leader, standby } = bed;
    leader.stop().await;
    let tls = certificates.tls(Role::Server, "s1");
    let next = TestServer::start(&plane, tls, "127.0.0.1:0").await;
    *standby.leader.lock() = Some(next.address.to_string());
    next.wait_for_nodes(&["n1"]).await;
    node.stop().await;
    next.stop().await;
    standby.stop().await;
}

#[tokio::test]
async fn without_a_leader_a_standby_ends_connections_at_once() {
    let certificates = Certificates::new();
    let standby = Standby::start(&certificates, None).await;
    let tls = certificates.tls(Role::Node, "n1");
    let stream = dial(&tls, &standby.address.to_string(), b"h2").await.unwrap();
    assert_ends(stream).await;
    standby.stop().await;
}

/// Only servers forward, and only connections of nodes; a standby takes neither.
#[tokio::test]
async fn what_is_forwarded_is_checked_at_the_leader() {
    let bed = Bed::new().await;
    let (leader, standby) = (bed.leader.address.to_string(), bed.standby.address.to_string());
    let node = bed.certificates.tls(Role::Node, "n1");
    let server = bed.certificates.tls(Role::Server, "s3");
    let ended = async |tls, address: &str, protocol: &[u8], said: Option<&ClusterTls>| {
        let Ok(mut stream) = dial(tls, address, protocol).await else {
            return;
        };
        if let Some(said) = said {
            write_certificate(&mut stream, said.own_certificate()).await.unwrap();
        }
        assert_ends(stream).await;
    };
    ended(&node, &leader, FORWARDED_CALLS, Some(&node)).await;
    ended(&node, &leader, REQUESTS, None).await;
    ended(&server, &leader, FORWARDED_CALLS, Some(&server)).await;
    ended(&server, &leader, b"h2", None).await;
    for protocol in [FORWARDED_CALLS, REQUESTS] {
        assert!(dial(&server, &standby, protocol).await.is_err(), "{protocol:?}");
    }
    assert!(bed.leader.nodes.is_empty());
    bed.stop().await;
}

#[tokio::test]
async fn a_request_is_sent_once_and_its_failure_says_whether_it_was() {
    let bed = Bed::new().await;
    let (sender, tls) = watch::channel(bed.certificates.tls(Role::Server, "s3"));
    let connection = LeaderConnection::new(tls);
    let request = || http::Request::get("/v1/x").body(tonic::body::Body::empty()).unwrap();
    let address = bed.leader.address.to_string();
    for _ in 0..3 {
        let response = soon("a response", connection.send(&address, request())).await.unwrap();
        // This leader has no API, and says so as gRPC does.
        assert_eq!(response.headers()["grpc-status"], "12");
    }
    let Bed { leader, standby, certificates, plane } = bed;
    leader.stop().await;
    // The first request may be the one that finds the end of the connection.
    let not_sent = async {
        while let NoResponse::Unanswered(_) =
            connection.send(&address, request()).await.unwrap_err()
        {}
    };
    soon("a request that is not sent", not_sent).await;
    let server = certificates.tls(Role::Server, "s1");
    let again = TestServer::start(&plane, server, &address).await;
    let response = soon("a response", connection.send(&address, request())).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "12");
    again.stop().await;
    standby.stop().await;
    drop(sender);
}

/// A leader that cannot reach etcd keeps its connections, and answers nothing. The node finds the next one.
#[tokio::test]
async fn a_node_whose_server_answers_no_more_finds_another_one() {
    let bed = Bed::new().await;
    let certificates = &bed.certificates;
    let plane = TestPlane::new(at("c1", 6, 200));
    let next = TestServer::start(&plane, certificates.tls(Role::Server, "s3"), "127.0.0.1:0").await;
    *plane.position.lock() = Err(nomad_csi_ports::NotLeader { leader: None });
    let node = bed.node(&[bed.leader.address, next.address]).await;
    bed.leader.wait_for_nodes(&["n1"]).await;
    assert!(soon("a list", node.remote.assigned(None)).await.is_ok());
    *bed.plane.position.lock() = Err(nomad_csi_ports::NotLeader { leader: None });
    *plane.position.lock() = Ok(at("c1", 6, 200));
    next.wait_for_nodes(&["n1"]).await;
    assert_eq!(bed.leader.nodes.nodes().len(), 1, "the connection is still there");
    node.stop().await;
    next.stop().await;
    bed.stop().await;
}
