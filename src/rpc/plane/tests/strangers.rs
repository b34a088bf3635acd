//! What is closed: certificates, protocols, secrets and tokens that are not those of a node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::service::Routes;
use tonic::transport::Channel;

use super::super::messages::control_plane_client::ControlPlaneClient;
use super::super::messages::{self as wire, register_reply};
use super::super::remote::RemoteControlPlane;
use super::bed::{
    Bed, Certificates, TestMemory, TestNode, TestPlane, TestServer, Warnings, at, profile, soon,
};
use crate::tls::authority::Authority;
use crate::tls::cluster_tls::{ClusterTls, ClusterTlsFiles};
use crate::tls::provider::provider;
use crate::tls::role::Role;
use crate::tls::samples::{self, REGION};
use crate::transport::dialer::{Dialer, Registrar as _};
use crate::transport::peer_stream::{PeerStream, channel_over};
use nomad_csi_ports::{Clock as _, NotLeader, SystemClock};
use nomad_csi_testing::{CountingIds, FakeClock};

const CALLS: &[u8] = b"h2";
const REVERSED: &[u8] = b"ncsi-node/1";

async fn open(
    server: SocketAddr,
    config: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let name = Role::Server.server_name(REGION).unwrap();
    let tcp = TcpStream::connect(server).await?;
    TlsConnector::from(config).connect(name, tcp).await
}

/// Returns whether the server closes the connection before its limit of time.
async fn is_closed(server: SocketAddr, config: Arc<ClientConfig>, first: &[u8]) -> bool {
    let begun = Instant::now();
    let closed = soon("an answer", async {
        let Ok(mut stream) = open(server, config).await else { return true };
        stream.write_all(first).await.ok();
        let mut answer = vec![];
        // The settings of HTTP/2 come first, if it is served.
        while let Ok(read) = stream.read_buf(&mut answer).await {
            if read == 0 {
                return true;
            }
            if answer.len() > 9 {
                return false;
            }
        }
        true
    });
    closed.await && begun.elapsed() < Duration::from_secs(8)
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";

async fn server(certificates: &Certificates) -> TestServer {
    let tls = certificates.tls(Role::Server, "s1");
    TestServer::start(&TestPlane::new(at("c1", 5, 100)), tls, "127.0.0.1:0").await
}

/// Certificates of an authority, with the time at which they were loaded.
fn at_time(certificates: &Authority, name: &str, days: i64) -> ClusterTls {
    let clock = FakeClock::at(SystemClock.now() + days * 86_400_000_000_000);
    let files = samples::files(certificates, Role::Node, name, &clock);
    ClusterTls::load(&files, Role::Node, REGION, &clock).unwrap()
}

/// B104: neither without a certificate nor with that of a client.
#[tokio::test]
async fn only_a_valid_certificate_of_a_node_of_this_cluster_is_answered() {
    let old = FakeClock::at(SystemClock.now() - 1_000 * 86_400_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create(directory.path(), &old).unwrap();
    let tls = samples::tls(&authority, Role::Server, "s1");
    let server = TestServer::start(&TestPlane::new(at("c1", 5, 100)), tls, "127.0.0.1:0").await;
    let node = samples::tls(&authority, Role::Node, "n1");
    assert!(!is_closed(server.address, node.client(CALLS), PREFACE).await, "a node");

    let stranger = Certificates::new();
    let both = directory.path().join("both.pem");
    let text = |one: &Authority| std::fs::read_to_string(one.certificate_file()).unwrap();
    std::fs::write(&both, text(&authority) + &text(&stranger.authority)).unwrap();
    let files = samples::files(&stranger.authority, Role::Node, "n1", &SystemClock);
    let files = ClusterTlsFiles { authorities: both, ..files };
    let foreign = ClusterTls::load(&files, Role::Node, REGION, &SystemClock).unwrap();

    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(authority.certificate_file()).unwrap();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let mut without = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    without.alpn_protocols = vec![CALLS.to_vec()];

    let issued = authority.issue(Role::Node, "elsewhere", "other", &SystemClock).unwrap();
    let files = ClusterTlsFiles {
        authorities: authority.certificate_file(),
        certificate: issued.certificate,
        key: issued.key,
    };
    let elsewhere = ClusterTls::load(&files, Role::Node, "other", &SystemClock).unwrap();

    let cases = [
        ("the role of a client", samples::tls(&authority, Role::Client, "c1").client(CALLS)),
        ("the role of a server", samples::tls(&authority, Role::Server, "s2").client(CALLS)),
        ("another region", elsewhere.client(CALLS)),
        ("another authority", foreign.client(CALLS)),
        ("an expired certificate", at_time(&authority, "expired", -366).client(CALLS)),
        ("a certificate of the future", at_time(&authority, "early", 2).client(CALLS)),
        ("no certificate", Arc::new(without)),
        ("another protocol", node.client(b"http/1.1")),
        (
            "no protocol",
            Arc::new({
                let mut config = ClientConfig::clone(&node.client(CALLS));
                config.alpn_protocols = vec![];
                config
            }),
        ),
    ];
    for (what, config) in cases {
        assert!(is_closed(server.address, config, PREFACE).await, "{what}");
    }
    assert!(!is_closed(server.address, node.client(CALLS), PREFACE).await, "a node again");
}

#[tokio::test]
async fn a_node_does_not_believe_a_server_without_the_role_of_one() {
    let certificates = Certificates::new();
    let plane = TestPlane::new(at("c1", 5, 100));
    let tls = certificates.tls(Role::Node, "n2");
    let impostor = TestServer::start(&plane, tls, "127.0.0.1:0").await;
    let node = certificates.tls(Role::Node, "n1");
    let refused = soon("a refusal", open(impostor.address, node.client(CALLS))).await;
    assert!(refused.is_err());
}

/// Returns after how many seconds the server closes a silent connection, of a clock that only this waits for.
async fn closed_after(mut stream: impl tokio::io::AsyncRead + Unpin) -> u64 {
    tokio::time::pause();
    let begun = Instant::now();
    let mut answer = vec![];
    while matches!(stream.read_buf(&mut answer).await, Ok(1..)) {}
    tokio::time::resume();
    begun.elapsed().as_secs()
}

#[tokio::test]
async fn a_connection_that_does_not_say_who_it_is_is_closed_after_ten_seconds() {
    let certificates = Certificates::new();
    let server = server(&certificates).await;
    let node = certificates.tls(Role::Node, "n1");
    // No TLS; TLS without a registration; TLS without a token.
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let mut took = vec![closed_after(tcp).await];
    for protocol in [CALLS, REVERSED] {
        let mut stream = open(server.address, node.client(protocol)).await.unwrap();
        if protocol == CALLS {
            stream.write_all(PREFACE).await.unwrap();
        }
        took.push(closed_after(stream).await);
    }
    let (client, closed) = calling(server.address, &node).await;
    tokio::time::pause();
    let begun = Instant::now();
    closed.cancelled().await;
    took.push(begun.elapsed().as_secs());
    drop(client);
    assert!(took.iter().all(|took| (9..=11).contains(took)), "{took:?}");
}

/// Opens connections from an address of this machine, which say nothing.
async fn open_silent(from: &str, server: SocketAddr, number: usize) -> Vec<TcpStream> {
    let mut opened = vec![];
    for _ in 0..number {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
        opened.push(socket.connect(server).await.unwrap());
    }
    opened
}

async fn wait_for_end(stream: &mut TcpStream) {
    let read = soon("an end", stream.read(&mut [0; 1])).await;
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
}

fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0; 1]);
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
}

#[tokio::test]
async fn a_node_connects_from_an_address_that_is_full_of_connections_whose_node_is_not_known() {
    let certificates = Certificates::new();
    let server = server(&certificates).await;
    let begun = Instant::now();
    let mut held = open_silent("127.0.0.1", server.address, 101).await;
    wait_for_end(&mut held[0]).await;
    let node = certificates.tls(Role::Node, "n1");
    let (mut client, closed) = calling(server.address, &node).await;
    register(&mut client, registration("n1", 1, "run")).await.unwrap();
    wait_for_end(&mut held[1]).await;
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert!(held[2..].iter().all(is_open), "only as many as necessary are closed");
    // Its place is free again, and it is not closed when it was the oldest.
    held.extend(open_silent("127.0.0.1", server.address, 101).await);
    wait_for_end(&mut held[101]).await;
    assert!(!closed.is_cancelled());
}

#[tokio::test]
async fn a_node_connects_while_many_addresses_have_connections_whose_node_is_not_known() {
    let certificates = Certificates::new();
    let server = server(&certificates).await;
    let begun = Instant::now();
    let mut held = vec![];
    for number in 2..6 {
        held.extend(open_silent(&format!("127.0.0.{number}"), server.address, 80).await);
    }
    let node = certificates.tls(Role::Node, "n1");
    let (mut client, _closed) = calling(server.address, &node).await;
    register(&mut client, registration("n1", 1, "run")).await.unwrap();
    soon("the limit of all", async {
        while held.iter().filter(|one| is_open(one)).count() > 255 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(held.iter().filter(|one| is_open(one)).count(), 255);
    assert!(begun.elapsed() < Duration::from_secs(8));
}

/// A connection of a test that calls as a node.
async fn calling(
    server: SocketAddr,
    tls: &ClusterTls,
) -> (ControlPlaneClient<Channel>, CancellationToken) {
    let stream = open(server, tls.client(CALLS)).await.unwrap();
    let closed = CancellationToken::new();
    let channel = channel_over(PeerStream::new(stream, &closed, ())).await.unwrap();
    (ControlPlaneClient::new(channel), closed)
}

fn registration(node: &str, secret: u8, session: &str) -> wire::RegisterRequest {
    let profile = profile(node, secret, session);
    wire::RegisterRequest {
        node: serde_json::to_vec(&profile.node).unwrap(),
        secret: profile.secret.expose().to_vec(),
        session: profile.session.as_str().to_owned(),
        boot_id: profile.boot_id,
        version: profile.version,
        features: profile.features,
        known: None,
    }
}

/// Registers, and returns the token or why not.
async fn register(
    client: &mut ControlPlaneClient<Channel>,
    request: wire::RegisterRequest,
) -> Result<Vec<u8>, &'static str> {
    let answer = soon("a registration", client.register(request)).await.unwrap().into_inner();
    match answer.end.unwrap() {
        register_reply::End::Registered(registered) => Ok(registered.token),
        register_reply::End::Refused(refused) => Err(refused.kind().as_str_name()),
    }
}

/// Returns the status of every call but Register.
async fn codes_of(client: &mut ControlPlaneClient<Channel>) -> Vec<(&'static str, Code)> {
    let mut codes = vec![];
    macro_rules! try_all {
        ($($call:ident($request:ident)),*) => {$(
            let called = soon("a refusal", client.$call(wire::$request::default())).await;
            codes.push((stringify!($call), called.map(|_| ()).unwrap_err().code()));
        )*};
    }
    try_all!(
        watch_allocs(WatchAllocsRequest),
        mount(MountRequest),
        wait_for_mount_delay(WaitForMountDelayRequest),
        wait_for_claim_change(WaitForClaimChangeRequest),
        note_lost(NoteLostRequest),
        note_cut_off(NoteCutOffRequest),
        report(ReportRequest),
        plugin_changed(PluginChangedRequest),
        plugin_gone(PluginGoneRequest),
        mount_events(MountEventsRequest)
    );
    let methods = include_str!("../../../../proto/nomadcsi/plane/v1/plane.proto");
    assert_eq!(codes.len() + 1, methods.matches("\n  rpc ").count(), "all but Register");
    codes
}

#[tokio::test]
async fn before_its_registration_and_at_another_than_the_leader_a_connection_can_call_nothing() {
    let certificates = Certificates::new();
    let plane = TestPlane::new(at("c1", 5, 100));
    let tls = certificates.tls(Role::Server, "s1");
    let server = TestServer::start(&plane, tls, "127.0.0.1:0").await;
    let (mut client, _closed) = calling(server.address, &certificates.tls(Role::Node, "n1")).await;
    for (call, code) in codes_of(&mut client).await {
        assert_eq!(code, Code::Unauthenticated, "{call}");
    }
    register(&mut client, registration("n1", 1, "run")).await.unwrap();
    *plane.position.lock() = Err(NotLeader { leader: None });
    for (call, code) in codes_of(&mut client).await {
        assert_eq!(code, Code::FailedPrecondition, "{call}");
    }
}

#[tokio::test]
async fn a_node_with_the_id_of_another_one_and_not_its_secret_is_refused() {
    let bed = Bed::new().await;
    let tls = bed.certificates.tls(Role::Node, "thief");
    let (mut client, _closed) = calling(bed.server.address, &tls).await;
    // Refused as a duplicate while the node is there, and by its secret afterwards.
    let refused = register(&mut client, registration("n1", 2, "thief")).await;
    assert_eq!(refused, Err("KIND_DUPLICATE"));
    // The session of the node is no secret, and does not help.
    let refused = register(&mut client, registration("n1", 2, "run-1")).await;
    assert_eq!(refused, Err("KIND_WRONG_SECRET"));
    assert_eq!(bed.server.nodes.nodes(), ["n1".into()], "the node is still connected");
    bed.node.stop().await;
    bed.server.wait_for_nodes(&[]).await;
    let refused = register(&mut client, registration("n1", 2, "thief")).await;
    assert_eq!(refused, Err("KIND_WRONG_SECRET"));
    let mount = soon("a refusal", client.mount(wire::MountRequest::default())).await;
    assert_eq!(mount.map(|_| ()).unwrap_err().code(), Code::Unauthenticated);
    // As itself it may come.
    register(&mut client, registration("n2", 2, "thief")).await.unwrap();
    let again = soon("a refusal", client.register(registration("n1", 1, "thief"))).await;
    assert_eq!(again.map(|_| ()).unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(bed.plane.registrations.borrow().len(), 2);
}

#[tokio::test]
async fn a_registration_that_is_not_whole_is_refused() {
    let certificates = Certificates::new();
    let server = server(&certificates).await;
    let (mut client, _closed) = calling(server.address, &certificates.tls(Role::Node, "n1")).await;
    let good = registration("n1", 1, "run");
    let cases = [
        wire::RegisterRequest { node: b"{}".to_vec(), ..good.clone() },
        wire::RegisterRequest { secret: vec![1; 31], ..good.clone() },
        wire::RegisterRequest { secret: vec![], ..good.clone() },
        wire::RegisterRequest { session: String::new(), ..good.clone() },
        wire::RegisterRequest { session: "s".repeat(257), ..good.clone() },
        wire::RegisterRequest { boot_id: String::new(), ..good.clone() },
        wire::RegisterRequest { version: String::new(), ..good.clone() },
        wire::RegisterRequest { features: vec!["f".to_owned(); 65], ..good.clone() },
        wire::RegisterRequest { known: Some(wire::Position::default()), ..good.clone() },
    ];
    for (number, request) in cases.into_iter().enumerate() {
        let refused = soon("a refusal", client.register(request)).await;
        assert_eq!(refused.map(|_| ()).unwrap_err().code(), Code::InvalidArgument, "{number}");
    }
    register(&mut client, good).await.unwrap();
}

#[tokio::test]
async fn a_second_process_with_a_node_id_waits_for_the_first_and_the_same_one_replaces_itself() {
    let certificates = Certificates::new();
    let server = server(&certificates).await;
    let tls = certificates.tls(Role::Node, "n1");
    let (mut first, first_closed) = calling(server.address, &tls).await;
    register(&mut first, registration("n1", 1, "run-1")).await.unwrap();
    let (mut copy, copy_closed) = calling(server.address, &tls).await;
    let refused = register(&mut copy, registration("n1", 1, "run-2")).await;
    assert_eq!(refused, Err("KIND_DUPLICATE"));
    assert!(!first_closed.is_cancelled());

    let (mut again, again_closed) = calling(server.address, &tls).await;
    register(&mut again, registration("n1", 1, "run-1")).await.unwrap();
    soon("the older connection is closed", first_closed.cancelled()).await;
    drop(again);
    again_closed.cancel();
    soon("the next process is registered", async {
        while register(&mut copy, registration("n1", 1, "run-2")).await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!copy_closed.is_cancelled());
}

#[tokio::test]
async fn a_reversed_connection_needs_the_token_and_the_certificate_of_its_registration() {
    let certificates = Certificates::new();
    let server = server(&certificates).await;
    let tls = certificates.tls(Role::Node, "n1");
    let (mut client, closed) = calling(server.address, &tls).await;
    let token = register(&mut client, registration("n1", 1, "run-1")).await.unwrap();
    assert_eq!(token.len(), 32);
    let random = [7; 32];
    assert!(is_closed(server.address, tls.client(REVERSED), &random).await, "no token of ours");
    let thief = certificates.tls(Role::Node, "n2");
    assert!(is_closed(server.address, thief.client(REVERSED), &token).await, "stolen");
    assert_eq!(server.nodes.nodes(), []);
    assert!(!closed.is_cancelled(), "the node is not harmed");

    let mut stream = open(server.address, tls.client(REVERSED)).await.unwrap();
    stream.write_all(&token).await.unwrap();
    server.wait_for_nodes(&["n1"]).await;
    let channel = server.nodes.channel(&"n1".into()).unwrap();
    assert_eq!(channel.session.as_str(), "run-1");
    // The end of the registration is the end of its channel, and of its token.
    closed.cancel();
    soon("the channel ends", channel.ended()).await;
    server.wait_for_nodes(&[]).await;
    let mut rest = vec![];
    soon("the reversed connection is closed", stream.read_to_end(&mut rest)).await.ok();
    assert!(is_closed(server.address, tls.client(REVERSED), &token).await, "an old token");
    soon("nothing is left", async {
        while !server.nodes.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_node_does_not_connect_while_its_secret_is_refused_and_connects_afterwards() {
    let bed = Bed::new().await;
    let tls = bed.certificates.tls(Role::Node, "copy");
    let copy = TestNode::start(profile("n2", 9, "run"), tls, &[bed.server.address], None).await;
    bed.server.wait_for_nodes(&["n1", "n2"]).await;
    copy.stop().await;
    bed.server.wait_for_nodes(&["n1"]).await;
    let tls = bed.certificates.tls(Role::Node, "liar");
    let liar =
        TestNode::start(profile("n2", 8, "run"), tls.clone(), &[bed.server.address], None).await;
    let stream = open(bed.server.address, tls.client(CALLS)).await.unwrap();
    let closed = CancellationToken::new();
    let channel = channel_over(PeerStream::new(stream, &closed, ())).await.unwrap();
    let refused = soon("a refusal", liar.remote.register("s1", &channel)).await.unwrap_err();
    assert!(refused.contains("secret") && refused.contains("restore"), "{refused}");
    assert!(bed.server.nodes.channel(&"n2".into()).is_none());
}

/// Returns the status of a call whose message never comes.
async fn code_without_message(channel: Channel, method: &'static str) -> Code {
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static(method);
    let codec = tonic_prost::ProstCodec::<wire::MountRequest, wire::MountReply>::default();
    let request = tonic::Request::new(futures_util::stream::pending());
    let called = client.client_streaming(request, path, codec).await;
    called.map(|_: tonic::Response<wire::MountReply>| ()).unwrap_err().code()
}

#[tokio::test]
async fn before_its_registration_a_connection_can_send_one_small_registration_at_a_time() {
    let certificates = Certificates::new();
    let plane = TestPlane::new(at("c1", 5, 100));
    let tls = certificates.tls(Role::Server, "s1");
    let server = TestServer::start(&plane, tls, "127.0.0.1:0").await;
    let stream = open(server.address, certificates.tls(Role::Node, "n1").client(CALLS)).await;
    let closed = CancellationToken::new();
    let channel = channel_over(PeerStream::new(stream.unwrap(), &closed, ())).await.unwrap();
    let mut client = ControlPlaneClient::new(channel.clone());

    // The message of a call is not waited for.
    let mount = "/nomadcsi.plane.v1.ControlPlane/Mount";
    let code = soon("a refusal", code_without_message(channel, mount)).await;
    assert_eq!(code, Code::Unauthenticated);

    let padding = |size| {
        let mut request = registration("n1", 1, "run");
        request.node.resize(size, b' ');
        request
    };
    let large = soon("a refusal", client.register(padding((1 << 20) + 1))).await;
    assert_eq!(large.map(|_| ()).unwrap_err().code(), Code::OutOfRange);

    plane.gate.close();
    let mut first = client.clone();
    let first = tokio::spawn(async move { register(&mut first, padding(1 << 19)).await });
    soon("a registration", plane.gate.wait_for_arrivals(1)).await;
    let second = soon("a refusal", client.register(registration("n1", 1, "run"))).await;
    assert_eq!(second.map(|_| ()).unwrap_err().code(), Code::ResourceExhausted);
    plane.gate.open();
    first.await.unwrap().unwrap();

    // Afterwards, its messages may be as large as reports are.
    let note = wire::NoteLostRequest { lost: None, reason: "r".repeat(2 << 20) };
    let noted = soon("an answer", client.note_lost(note)).await;
    assert_eq!(noted.map(|_| ()).unwrap_err().code(), Code::InvalidArgument);
}

/// Returns why a node has no connection to a server.
async fn reason_at_node(server: SocketAddr, tls: ClusterTls) -> String {
    let ids = Arc::new(CountingIds::default());
    let memory = Arc::new(TestMemory::default());
    let profile = profile("n1", 1, "run-1");
    let remote = RemoteControlPlane::open(profile, memory, ids.clone()).await.unwrap();
    let (_, tls) = watch::channel(tls);
    let dialer = Dialer::new(vec![], tls, Arc::new(remote), Routes::default(), ids);
    let pair = CancellationToken::new();
    soon("a reason", dialer.connect_once(&server.to_string(), &pair)).await
}

#[tokio::test]
async fn a_node_says_why_its_certificate_that_of_the_server_or_the_address_does_not_fit() {
    let old = FakeClock::at(SystemClock.now() - 1_000 * 86_400_000_000_000);
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::create(directory.path(), &old).unwrap();
    let plane = TestPlane::new(at("c1", 5, 100));
    let tls = samples::tls(&authority, Role::Server, "s1");
    let server = TestServer::start(&plane, tls, "127.0.0.1:0").await.address;
    let tls = samples::tls(&authority, Role::Node, "n2");
    let no_server = TestServer::start(&plane, tls, "127.0.0.1:0").await.address;
    let stranger = Certificates::new();
    // The server does not know the authority of the node, which knows that of the server.
    let both = directory.path().join("both.pem");
    let text = |one: &Authority| std::fs::read_to_string(one.certificate_file()).unwrap();
    std::fs::write(&both, text(&authority) + &text(&stranger.authority)).unwrap();
    let files = samples::files(&stranger.authority, Role::Node, "n3", &SystemClock);
    let files = ClusterTlsFiles { authorities: both, ..files };
    let foreign = ClusterTls::load(&files, Role::Node, REGION, &SystemClock).unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = plain.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut tcp, _) = plain.accept().await.unwrap();
        tcp.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        tcp.read_to_end(&mut vec![]).await.ok();
    });
    let node = || samples::tls(&authority, Role::Node, "n1");
    let client = samples::tls(&authority, Role::Client, "c1");
    let cases = [
        (server, at_time(&authority, "expired", -366), "TLS alert CertificateExpired"),
        (server, foreign, "none of the authorities that the server trusts issued it"),
        (server, client, "its log has the reason"),
        (server, stranger.tls(Role::Node, "n4"), "none of the authorities that this node trusts"),
        (no_server, node(), "has no DNS name `server.global.nomad-csi`"),
        (http, samples::tls(&authority, Role::Node, "n5"), "not that of a server for nodes"),
    ];
    for (address, tls, text) in cases {
        let reason = reason_at_node(address, tls).await;
        assert!(reason.contains(text), "{text}: {reason}");
    }
}

#[tokio::test]
async fn the_first_refused_certificate_is_a_warning_with_its_address_and_the_reason() {
    let warnings = Warnings::default();
    let _guard = tracing::subscriber::set_default(warnings.clone());
    let certificates = Certificates::new();
    let issued = certificates.authority.issue(Role::Node, "n2", "other", &SystemClock).unwrap();
    let files = ClusterTlsFiles {
        authorities: certificates.authority.certificate_file(),
        certificate: issued.certificate,
        key: issued.key,
    };
    let other_region = ClusterTls::load(&files, Role::Node, "other", &SystemClock).unwrap();
    let early = at_time(&certificates.authority, "early", 2);
    let cases = [
        (other_region, "agent tls node NAME --cluster-region global"),
        (early, "the certificate of the node is not valid yet"),
    ];
    for (tls, reason) in cases {
        let server = server(&certificates).await;
        warnings.0.send_replace(vec![]);
        for _ in 0..3 {
            assert!(is_closed(server.address, tls.client(CALLS), PREFACE).await);
        }
        let mut warned = warnings.0.subscribe();
        soon("a warning", warned.wait_for(|all| !all.is_empty())).await.unwrap();
        server.stop().await;
        let all = warnings.0.borrow().clone();
        assert_eq!(all.len(), 1, "{all:?}");
        assert!(all[0].contains(reason) && all[0].contains("127.0.0.1:"), "{all:?}");
    }
}
