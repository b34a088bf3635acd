//! [`NodeListener`]: the server's port for the cluster.
//!
//! A connection without a certificate of role node, or with another protocol, is closed. So is one that has not finished TLS
//! and said which node it is within [`GREETING_LIMIT`]. Until then, each address has few; afterwards, many.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout_at};
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
use crate::tls::cluster_tls::ClusterTls;
use crate::tls::role::Role;

/// How long a connection may take until the server knows its node.
const GREETING_LIMIT: Duration = Duration::from_secs(10);
/// The most connections of an address whose node is not known yet.
const MAX_UNKNOWN: usize = 100;
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
    unknown: AddressLimit,
    all: AddressLimit,
}

/// The places of a connection.
struct Places {
    unknown: Counted,
    all: Counted,
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
        let (unknown, all) = (AddressLimit::new(MAX_UNKNOWN), AddressLimit::new(MAX_CONNECTIONS));
        let shared = Shared { tls, nodes, unknown, all };
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
                let places = self.shared.unknown.enter(ip).zip(self.shared.all.enter(ip));
                let Some((unknown, all)) = places else {
                    tracing::debug!(client.address = %ip, "too many connections of one address: closed");
                    continue;
                };
                let (shared, sender) = (self.shared.clone(), sender.clone());
                let closed = stop.child_token();
                let places = Places { unknown, all };
                connections.spawn(async move {
                    if let Err(reason) = shared.greet(tcp, places, sender, closed).await {
                        tracing::debug!(client.address = %address, reason, "a connection is refused");
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
    /// Follows a connection to its end.
    async fn greet(
        &self,
        tcp: TcpStream,
        places: Places,
        calling: mpsc::Sender<CallingStream>,
        closed: CancellationToken,
    ) -> Result<(), String> {
        let deadline = Instant::now() + GREETING_LIMIT;
        let (stream, certificate) = tokio::select! {
            greeted = timeout_at(deadline, self.accept(tcp)) => {
                greeted.map_err(|_| "it took too long".to_owned())??
            }
            () = closed.cancelled() => return Err("the server is stopping".to_owned()),
        };
        let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        match protocol.as_deref() {
            Some(CALLS) => {
                let connection = NodeConnection::new(certificate, closed.clone());
                let stream = PeerStream::new(stream, &closed, connection.clone());
                if calling.send(stream).await.is_err() {
                    return Err("the server is stopping".to_owned());
                }
                let registered = tokio::select! {
                    registered = timeout_at(deadline, connection.registered()) => registered,
                    () = closed.cancelled() => return Err("it ended".to_owned()),
                };
                if registered.is_err() {
                    connection.close();
                    return Err("it did not register in time".to_owned());
                }
                drop(places.unknown);
                closed.cancelled().await;
                drop(places.all);
                Ok(())
            }
            Some(REVERSED) => {
                let kept = self.keep_reversed(stream, certificate, deadline, closed, places);
                kept.await
            }
            Some(_) | None => Err("its protocol is not one of the cluster".to_owned()),
        }
    }

    async fn accept(
        &self,
        tcp: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, CertificateDer<'static>), String> {
        let tls = self.tls.borrow().clone();
        tcp.set_nodelay(true).map_err(|error| error.to_string())?;
        let acceptor = TlsAcceptor::from(tls.server(&[CALLS, REVERSED]));
        let stream = acceptor.accept(tcp).await.map_err(|error| error.to_string())?;
        let chain = stream.get_ref().1.peer_certificates();
        let own = chain.and_then(|chain| chain.first()).cloned().map(CertificateDer::into_owned);
        let own = own.filter(|own| Role::Node.is_in(tls.region(), own));
        let own = own.ok_or_else(|| "its certificate has not the role of a node".to_owned())?;
        Ok((stream, own))
    }

    /// Reads which registration a reversed connection belongs to, and keeps it as the channel to that node.
    async fn keep_reversed(
        &self,
        mut stream: TlsStream<TcpStream>,
        certificate: CertificateDer<'static>,
        deadline: Instant,
        stop: CancellationToken,
        places: Places,
    ) -> Result<(), String> {
        let mut token = [0; ConnectionToken::LENGTH];
        let read = tokio::select! {
            read = timeout_at(deadline, stream.read_exact(&mut token)) => read,
            () = stop.cancelled() => return Err("the server is stopping".to_owned()),
        };
        let read = read.map_err(|_| "it sent no token in time".to_owned())?;
        read.map_err(|error| error.to_string())?;
        let offer = self.nodes.offer(&ConnectionToken::new(token), &certificate);
        let offer = offer.ok_or_else(|| "its token is of no registration".to_owned())?;
        let stream = PeerStream::new(stream, &offer.closed, ());
        let channel = timeout_at(deadline, channel_over(stream)).await;
        let channel = channel.map_err(|_| "it took too long".to_owned())?;
        let channel = channel.map_err(|error| error.to_string())?;
        drop(places.unknown);
        self.nodes.keep(offer, channel).await;
        drop(places.all);
        Ok(())
    }
}
