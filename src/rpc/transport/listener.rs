//! [`NodeListener`]: the server's port for the cluster.
//!
//! A connection without a certificate of role node, or with another protocol, is closed. So is one that has not finished TLS
//! and said which node it is within [`GREETING_LIMIT`]. Until then, there are few of each address and of all, and a newer one
//! takes the place of an older one; afterwards, an address has many.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
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

use super::address_limit::{AddressLimit, Counted};
use super::connected_nodes::ConnectedNodes;
use super::connection_token::ConnectionToken;
use super::node_connection::NodeConnection;
use super::peer_stream::{PeerStream, channel_over};
use super::protocol::{CALLS, REVERSED, answering};
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

/// The server's port for the cluster. It is open, and answers when it is served.
pub struct NodeListener {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    tls: watch::Receiver<ClusterTls>,
    nodes: Arc<ConnectedNodes>,
    unknown: UnknownConnections,
    all: AddressLimit,
    refusals: RefusalLog,
}

/// The places of a connection.
struct Places {
    unknown: UnknownPlace,
    all: Counted,
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
    pub async fn bind(
        address: SocketAddr,
        tls: watch::Receiver<ClusterTls>,
        nodes: Arc<ConnectedNodes>,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let unknown = UnknownConnections::new(MAX_UNKNOWN);
        let all = AddressLimit::new(MAX_CONNECTIONS);
        let shared = Shared { tls, nodes, unknown, all, refusals: RefusalLog::default() };
        Ok(Self { listener, shared: Arc::new(shared) })
    }

    /// Returns the address with its actual port.
    ///
    /// # Errors
    /// If the system does not know it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers nodes with these services until `stop`, which closes every connection. Waits until all of them are closed.
    pub async fn serve(self, services: Routes, stop: CancellationToken) {
        let (sender, accepted) = mpsc::channel::<CallingStream>(ACCEPTED);
        let incoming = ReceiverStream::new(accepted).map(Ok::<_, io::Error>);
        let served = answering().add_routes(services);
        let served = served.serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
        let connections = TaskTracker::new();
        let accepting = async {
            loop {
                let accepted = tokio::select! {
                    biased;
                    () = stop.cancelled() => return,
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
                let (shared, sender) = (self.shared.clone(), sender.clone());
                let closed = stop.child_token();
                let places = Places { unknown: shared.unknown.enter(ip, closed.clone()), all };
                connections.spawn(async move {
                    if let Err(reason) = shared.greet(tcp, places, sender, closed).await {
                        shared.note(address, reason);
                    }
                });
            }
        };
        let (served, ()) = tokio::join!(served, accepting);
        if let Err(error) = served {
            tracing::warn!(%error, "the service for nodes has ended");
        }
        connections.close();
        connections.wait().await;
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
        tcp: TcpStream,
        places: Places,
        calling: mpsc::Sender<CallingStream>,
        closed: CancellationToken,
    ) -> Result<(), NotKept> {
        let deadline = Instant::now() + GREETING_LIMIT;
        let (stream, certificate) = tokio::select! {
            greeted = timeout_at(deadline, self.accept(tcp)) => {
                greeted.map_err(|_| NotKept::Refused("TLS took too long".to_owned()))??
            }
            () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
        };
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        match protocol.as_deref() {
            Some(CALLS) => {
                let connection = NodeConnection::new(certificate, closed.clone());
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
            Some(REVERSED) => {
                let kept = self.keep_reversed(stream, certificate, deadline, closed, places);
                kept.await
            }
            Some(_) | None => {
                Err(NotKept::Refused("its protocol is not one of the cluster".to_owned()))
            }
        }
    }

    async fn accept(
        &self,
        tcp: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, CertificateDer<'static>), NotKept> {
        let tls = self.tls.borrow().clone();
        tcp.set_nodelay(true).map_err(|error| NotKept::Ended(error.to_string()))?;
        let acceptor = TlsAcceptor::from(tls.server(&[CALLS, REVERSED]));
        let stream = match acceptor.accept(tcp).into_fallible().await {
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
        let chain = stream.get_ref().1.peer_certificates();
        let own = chain.and_then(|chain| chain.first()).cloned().map(CertificateDer::into_owned);
        let own = own.filter(|own| Role::Node.is_in(tls.region(), own));
        let own = own.ok_or_else(|| {
            let name = Role::Node.dns_name(tls.region());
            let region = shell_quoted(tls.region());
            NotKept::Refused(format!(
                "its certificate has no DNS name `{name}`; issue one with \
                 `nomad-csi agent tls node NAME --cluster-region {region}`"
            ))
        })?;
        Ok((stream, own))
    }

    /// Reads which registration a reversed connection belongs to, and keeps it as the channel to that node.
    async fn keep_reversed(
        &self,
        mut stream: TlsStream<TcpStream>,
        certificate: CertificateDer<'static>,
        deadline: Instant,
        closed: CancellationToken,
        places: Places,
    ) -> Result<(), NotKept> {
        let mut token = [0; ConnectionToken::LENGTH];
        let read = tokio::select! {
            read = timeout_at(deadline, stream.read_exact(&mut token)) => read,
            () = closed.cancelled() => return Err(NotKept::closed(places.unknown)),
        };
        let read = read.map_err(|_| NotKept::Refused("it sent no token in time".to_owned()))?;
        read.map_err(|error| NotKept::Ended(error.to_string()))?;
        let offer = self.nodes.offer(&ConnectionToken::new(token), &certificate);
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
        self.nodes.keep(offer, channel).await;
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
