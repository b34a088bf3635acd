//! [`NodeListener`]: the server's port for the cluster.
//!
//! The server that leads answers nodes, also over connections that other servers forward, and the requests that those forward.
//! A server that does not lead forwards connections of nodes. The port stays open while a server changes its part.
//!
//! A connection without a certificate of the role that its protocol needs, or with another protocol, is closed. So is one that has not finished TLS
//! and said which node it is within [`GREETING_LIMIT`]. Until then, there are few of each address and of all, and a newer one
//! takes the place of an older one; afterwards, an address has many.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;
use tonic::transport::Server;

use super::address_limit::{AddressLimit, Counted};
use super::connected_nodes::ConnectedNodes;
use super::connection_token::ConnectionToken;
use super::dial::dial;
use super::forwarded_connection::{read_certificate, write_certificate};
use super::node_connection::NodeConnection;
use super::peer_stream::{PeerStream, channel_over};
use super::protocol::{
    CALLS, FORWARDED_CALLS, FORWARDED_REVERSED, REQUESTS, REVERSED, answering, answering_requests,
};
use super::refusal_log::RefusalLog;
use super::unknown_connections::{Limits, UnknownConnections, UnknownPlace};
use crate::tls::cluster_tls::ClusterTls;
use crate::tls::peer_failure::{failure_at_server, tls_error};
use crate::tls::role::Role;
use nomad_csi_model::shell_quoted;

/// How long a connection may take until the server knows its node.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// The most connections whose node is not known yet. Each has a file descriptor, of which a process may have 1,024.
const MAX_UNKNOWN: Limits = Limits { of_address: 100, of_all: 256 };
/// How long a refused connection may take to read why.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// The most connections of an address. Nodes may share one, behind a router.
const MAX_CONNECTIONS: usize = 8_192;
/// The pause before accepting again when the process has no free file descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// The connections that wait for the service.
const ACCEPTED: usize = 64;

type CallingStream = PeerStream<TlsStream<TcpStream>, NodeConnection>;
type RequestingStream = PeerStream<TlsStream<TcpStream>, ()>;

/// The server's port for the cluster. It is open, and answers when it is served.
pub struct NodeListener {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// Returns where the server is that leads, as `HOST:PORT`; `None` if none does.
pub type LeaderAddress = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What a server answers that leads.
pub struct LeaderServices {
    /// The nodes that are connected: the services have the same ones.
    pub nodes: Arc<ConnectedNodes>,
    /// What nodes call.
    pub calls: Routes,
    /// The HTTP API, for requests that other servers forward.
    pub requests: Routes,
    /// Ends it: requests under way are completed, unless the stop comes before.
    pub stop_requests: CancellationToken,
    /// Is cancelled when they are.
    pub requests_ended: CancellationToken,
}

/// What a server does with its connections.
enum Part {
    Leads {
        nodes: Arc<ConnectedNodes>,
        calling: mpsc::Sender<CallingStream>,
        requesting: mpsc::Sender<RequestingStream>,
    },
    Forwards {
        leader: LeaderAddress,
    },
}

impl Part {
    /// Returns the protocols of the connections that it takes.
    fn protocols(&self) -> &'static [&'static [u8]] {
        match self {
            Self::Leads { .. } => &[CALLS, REVERSED, FORWARDED_CALLS, FORWARDED_REVERSED, REQUESTS],
            Self::Forwards { .. } => &[CALLS, REVERSED],
        }
    }
}

struct Shared {
    tls: watch::Receiver<ClusterTls>,
    unknown: UnknownConnections,
    all: AddressLimit,
    refusals: RefusalLog,
}

/// The places of a connection.
struct Places {
    unknown: UnknownPlace,
    all: Counted,
}

/// Who calls on a connection, and whether another server forwards it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Calls { is_forwarded: bool },
    Reversed { is_forwarded: bool },
    Requests,
}

impl Protocol {
    fn of(name: &[u8]) -> Option<Self> {
        match name {
            CALLS => Some(Self::Calls { is_forwarded: false }),
            REVERSED => Some(Self::Reversed { is_forwarded: false }),
            FORWARDED_CALLS => Some(Self::Calls { is_forwarded: true }),
            FORWARDED_REVERSED => Some(Self::Reversed { is_forwarded: true }),
            REQUESTS => Some(Self::Requests),
            _ => None,
        }
    }

    /// Returns the name of a connection of this kind that is forwarded.
    fn forwarded(self) -> &'static [u8] {
        match self {
            Self::Calls { .. } => FORWARDED_CALLS,
            Self::Reversed { .. } => FORWARDED_REVERSED,
            Self::Requests => REQUESTS,
        }
    }

    fn is_forwarded(self) -> bool {
        match self {
            Self::Calls { is_forwarded } | Self::Reversed { is_forwarded } => is_forwarded,
            Self::Requests => false,
        }
    }

    /// Returns the role of the other end.
    fn role(self) -> Role {
        match self {
            Self::Requests => Role::Server,
            Self::Calls { .. } | Self::Reversed { .. } => {
                if self.is_forwarded() {
                    Role::Server
                } else {
                    Role::Node
                }
            }
        }
    }
}

/// A connection whose other end is known.
struct Accepted {
    stream: TlsStream<TcpStream>,
    /// That of the node, or of the server whose requests these are.
    certificate: CertificateDer<'static>,
    protocol: Protocol,
}

/// Returns a certificate that has the role.
fn with_role(
    certificate: Option<CertificateDer<'static>>,
    role: Role,
    region: &str,
) -> Result<CertificateDer<'static>, NotKept> {
    let certificate = certificate.filter(|own| role.is_in(region, own));
    certificate.ok_or_else(|| {
        let (name, role, region) = (role.dns_name(region), role.as_str(), shell_quoted(region));
        NotKept::Refused(format!(
            "its certificate has no DNS name `{name}`; issue one with \
             `nomad-csi agent tls {role} NAME --cluster-region {region}`"
        ))
    })
}

/// Why a connection did not become that of a node.
enum NotKept {
    /// The operator must know.
    Refused(String),
    /// Ordinary, as with a probe or at a stop.
    Ended(String),
}

impl NotKept {
    fn stopping() -> Self {
        Self::Ended("the server is stopping".to_owned())
    }

    /// The reason of a connection that was closed before its node was known.
    fn closed(place: UnknownPlace) -> Self {
        if place.leave() { Self::Ended("it ended".to_owned()) } else { Self::replaced() }
    }

    fn replaced() -> Self {
        Self::Refused(
            "too many connections have not said which node they are: the oldest one is closed"
                .to_owned(),
        )
    }
}

impl NodeListener {
    /// Opens the port. `tls` can change later, for connections from then on.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub async fn bind(address: SocketAddr, tls: watch::Receiver<ClusterTls>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let unknown = UnknownConnections::new(MAX_UNKNOWN);
        let all = AddressLimit::new(MAX_CONNECTIONS);
        let shared = Shared { tls, unknown, all, refusals: RefusalLog::default() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns the address with its actual port.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers with these services until `stop`, which closes every connection. Waits until all of them are closed.
    pub async fn serve(&self, services: LeaderServices, stop: CancellationToken) {
        let LeaderServices { nodes, calls, requests, stop_requests, requests_ended } = services;
        let (calling, accepted_calling) = mpsc::channel(ACCEPTED);
        let (requesting, accepted_requesting) = mpsc::channel(ACCEPTED);
        let part = Arc::new(Part::Leads { nodes, calling, requesting });
        let requests = async {
            answer(answering_requests(), requests, accepted_requesting, &stop_requests).await;
            requests_ended.cancel();
        };
        tokio::join!(
            answer(answering(), calls, accepted_calling, &stop),
            requests,
            self.accept(part, &stop),
        );
    }

    /// Forwards connections of nodes to the server that leads, until `stop`, which closes every connection. Waits until all of
    /// them are closed.
    pub async fn forward(&self, leader: LeaderAddress, stop: CancellationToken) {
        self.accept(Arc::new(Part::Forwards { leader }), &stop).await;
    }

    async fn accept(&self, part: Arc<Part>, stop: &CancellationToken) {
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            let (tcp, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of a node");
                    sleep(EXHAUSTED_PAUSE).await;
                    continue;
                }
            };
            let ip = address.ip();
            let Some(all) = self.shared.all.enter(ip) else {
                let reason = format!("its address has {MAX_CONNECTIONS} connections");
                self.shared.note(address, NotKept::Refused(reason));
                continue;
            };
            let (shared, part) = (self.shared.clone(), part.clone());
            let closed = stop.child_token();
            let places = Places { unknown: shared.unknown.enter(ip, closed.clone()), all };
            connections.spawn(async move {
                if let Err(reason) = shared.greet(&part, tcp, places, closed).await {
                    shared.note(address, reason);
                }
            });
        }
        drop(part);
        connections.close();
        connections.wait().await;
    }
}

/// Answers the connections that are accepted, with these services, until `stop`.
async fn answer<I: Clone + Send + Sync + Unpin + 'static>(
    mut settings: Server,
    services: Routes,
    accepted: mpsc::Receiver<PeerStream<TlsStream<TcpStream>, I>>,
    stop: &CancellationToken,
) {
    let incoming = ReceiverStream::new(accepted).map(Ok::<_, io::Error>);
    let served = settings.add_routes(services);
    let served = served.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
    if let Err(error) = served.await {
        tracing::warn!(%error, "a service of the port for nodes has ended");
    }
}

impl Shared {
    fn note(&self, address: SocketAddr, reason: NotKept) {
        match reason {
            NotKept::Refused(reason) => {
                let Some(unreported) = self.refusals.note(Instant::now()) else { return };
                tracing::warn!(
                    client.address = %address,
                    reason,
                    unreported,
                    "a connection to the port for nodes is refused"
                );
            }
            NotKept::Ended(reason) => {
                tracing::debug!(client.address = %address, reason, "a connection ended");
            }
        }
    }

    /// Follows a connection to its end.
    async fn greet(
        &self,
        part: &Part,
        tcp: TcpStream,
        places: Places,
        closed: CancellationToken,
    ) -> Result<(), NotKept> {
        let deadline = Instant::now() + GREETING_LIMIT;
        let accepted = tokio::select! {
            greeted = timeout_at(deadline, self.accept(part, tcp)) => {
                greeted.map_err(|_| NotKept::Refused("TLS took too long".to_owned()))??
            }
            () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
        };
        let (nodes, calling, requesting) = match part {
            Part::Leads { nodes, calling, requesting } => (nodes, calling, requesting),
            Part::Forwards { leader } => {
                return self.forward(leader(), accepted, deadline, closed, places).await;
            }
        };
        match accepted.protocol {
            Protocol::Requests => {
                if !places.unknown.leave() {
                    return Err(NotKept::replaced());
                }
                let stream = PeerStream::new(accepted.stream, &closed, ());
                if requesting.send(stream).await.is_err() {
                    return Err(NotKept::stopping());
                }
                closed.cancelled().await;
                drop(places.all);
                Ok(())
            }
            Protocol::Calls { is_forwarded } => {
                let Accepted { stream, certificate, .. } = accepted;
                let connection = NodeConnection::new(certificate, is_forwarded, closed.clone());
                let stream = PeerStream::new(stream, &closed, connection.clone());
                if calling.send(stream).await.is_err() {
                    return Err(NotKept::stopping());
                }
                let registered = tokio::select! {
                    registered = timeout_at(deadline, connection.registered()) => registered,
                    () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
                };
                if registered.is_err() {
                    connection.close();
                    return Err(NotKept::Refused("it did not register in time".to_owned()));
                }
                if !places.unknown.leave() {
                    return Err(NotKept::replaced());
                }
                closed.cancelled().await;
                drop(places.all);
                Ok(())
            }
            Protocol::Reversed { .. } => {
                self.keep_reversed(nodes, accepted, deadline, closed, places).await
            }
        }
    }

    /// Ends TLS, and learns who is at the other end: the node, also if another server forwards its connection.
    async fn accept(&self, part: &Part, tcp: TcpStream) -> Result<Accepted, NotKept> {
        let tls = self.tls.borrow().clone();
        tcp.set_nodelay(true).map_err(|error| NotKept::Ended(error.to_string()))?;
        let acceptor = TlsAcceptor::from(tls.server(part.protocols()));
        let mut stream = match acceptor.accept(tcp).into_fallible().await {
            Ok(stream) => stream,
            Err((error, tcp)) => {
                // TCP drops the alert if the connection is closed while bytes of the client arrive.
                timeout(REFUSAL_LIMIT, read_to_end(tcp)).await.ok();
                let reason = failure_at_server(&error);
                let is_refused = tls_error(&error).is_some();
                let refused = if is_refused { NotKept::Refused } else { NotKept::Ended };
                return Err(refused(reason));
            }
        };
        let session = stream.get_ref().1;
        let protocol = session
            .alpn_protocol()
            .and_then(Protocol::of)
            .ok_or_else(|| NotKept::Refused("its protocol is not one of the cluster".to_owned()))?;
        let chain = session.peer_certificates();
        let own = chain.and_then(|chain| chain.first()).cloned().map(CertificateDer::into_owned);
        let own = with_role(own, protocol.role(), tls.region())?;
        let certificate = match protocol.is_forwarded() {
            false => own,
            true => {
                let sent = read_certificate(&mut stream).await;
                let sent = sent.map_err(|error| NotKept::Ended(error.to_string()))?;
                with_role(Some(sent), Role::Node, tls.region())?
            }
        };
        Ok(Accepted { stream, certificate, protocol })
    }

    /// Forwards a connection of a node to the leader.
    async fn forward(
        &self,
        leader: Option<String>,
        accepted: Accepted,
        deadline: Instant,
        closed: CancellationToken,
        places: Places,
    ) -> Result<(), NotKept> {
        let Some(leader) = leader else {
            return Err(NotKept::Ended("no server leads".to_owned()));
        };
        let Accepted { stream: node, certificate, protocol } = accepted;
        let tls = self.tls.borrow().clone();
        let opened = async {
            let mut stream = dial(&tls, &leader, protocol.forwarded()).await?;
            write_certificate(&mut stream, &certificate).await?;
            Ok::<_, io::Error>(stream)
        };
        let opened = tokio::select! {
            opened = timeout_at(deadline, opened) => opened,
            () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
        };
        let unreached = |error: &dyn std::fmt::Display| {
            NotKept::Refused(format!("the leader at `{leader}` is not reached: {error}"))
        };
        let opened = opened.map_err(|error| unreached(&error))?;
        let stream = opened.map_err(|error| unreached(&error))?;
        if !places.unknown.leave() {
            return Err(NotKept::replaced());
        }
        let (mut from_node, mut to_node) = split(node);
        let (mut from_leader, mut to_leader) = split(stream);
        let mut up = pin!(copy(&mut from_node, &mut to_leader));
        let mut down = pin!(copy(&mut from_leader, &mut to_node));
        // An end that is gone without a word would keep the other direction for long.
        tokio::select! {
            _ = &mut up => drop(timeout(REFUSAL_LIMIT, down).await),
            _ = &mut down => drop(timeout(REFUSAL_LIMIT, up).await),
            () = closed.cancelled() => {}
        }
        drop(places.all);
        Ok(())
    }

    /// Reads which registration a reversed connection belongs to, and keeps it as the channel to that node.
    async fn keep_reversed(
        &self,
        nodes: &ConnectedNodes,
        accepted: Accepted,
        deadline: Instant,
        closed: CancellationToken,
        places: Places,
    ) -> Result<(), NotKept> {
        let Accepted { mut stream, certificate, .. } = accepted;
        let mut token = [0; ConnectionToken::LENGTH];
        let read = tokio::select! {
            read = timeout_at(deadline, stream.read_exact(&mut token)) => read,
            () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
        };
        let read = read.map_err(|_| NotKept::Refused("it sent no token in time".to_owned()))?;
        read.map_err(|error| NotKept::Ended(error.to_string()))?;
        let offer = nodes.offer(&ConnectionToken::new(token), &certificate);
        let unknown = || NotKept::Refused("its token is of no registration".to_owned());
        let offer = offer.ok_or_else(unknown)?;
        let stream = PeerStream::new(stream, &offer.closed, ());
        let channel = tokio::select! {
            channel = timeout_at(deadline, channel_over(stream)) => channel,
            () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
        };
        let slow = |_| NotKept::Refused("its answer took too long".to_owned());
        let channel = channel.map_err(slow)?;
        let channel = channel.map_err(|error| NotKept::Ended(error.to_string()))?;
        if !places.unknown.leave() {
            return Err(NotKept::replaced());
        }
        nodes.keep(offer, channel).await;
        drop(places.all);
        Ok(())
    }
}

/// Sends that nothing follows, and discards what arrives until the other end closes.
async fn read_to_end(mut tcp: TcpStream) -> io::Result<()> {
    tcp.shutdown().await?;
    let mut discarded = [0; 1_024];
    while tcp.read(&mut discarded).await? > 0 {}
    Ok(())
}
