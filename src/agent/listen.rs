//! Serves HTTP on a TCP address and a Unix socket.
//!
//! Sockets are opened first and served later: a port in use is reported before anything starts, and
//! early clients wait instead of being refused. The number of connections is limited, also by the
//! number of open files, and for each client address and user of this machine; the Unix socket has places of its own. Idle
//! clients, and those that do not read their response, are disconnected. At the stop no connection is accepted, and running requests are
//! completed within [`DRAIN_LIMIT`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::blocking;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::private::bind_socket;
use nomad_csi_rpc::HttpsAcceptor;
use nomad_csi_server::http::{Connection, ConnectionSlot, ConnectionSlots, Limits, Peer};

mod client_addresses;
mod client_user;
mod peer;
mod stall_limit;

use client_addresses::{Client, ClientAddresses};
use client_user::user_of;
use peer::{peer_on_socket, peer_over_tcp};
use stall_limit::StallLimit;

/// The longest time for a client to send the headers of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// The longest time for the handshake of a client with TLS.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// The longest time for running requests after the stop.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// The pause before accepting again when the process has no free file descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// The most clients that are refused at the same time; others are disconnected without an answer.
const MAX_REFUSALS: usize = 64;
/// The longest time to refuse a client.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// The longest time for a client that is refused to begin its request.
const REQUEST_LIMIT: Duration = Duration::from_millis(500);
/// The most bytes that a refused client may have sent.
const MAX_UNREAD: u64 = 64 << 10;
/// Nomad's response to a client with too many connections.
const TOO_MANY: &str = "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: 81\r\nConnection: close\r\n\r\nYour IP is issuing too many concurrent connections, please rate limit your calls\n";

/// Open sockets that are not served yet; clients wait.
pub(super) struct Listeners {
    tcp: Option<TcpListener>,
    /// The certificate for clients over TCP; `None` without TLS.
    tls: Option<HttpsAcceptor>,
    unix: UnixListener,
}

impl Listeners {
    /// Opens both sockets. Repermits a socket that an earlier agent left at `socket`; the caller holds the
    /// lock of the directory.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub(super) async fn open(http: Option<SocketAddr>, socket: &Path) -> Result<Self, Diagnostics> {
        let tcp = match http {
            Some(address) => {
                let bound = TcpListener::bind(address).await;
                Some(bound.map_err(|error| cannot_listen(&address.to_string(), &error))?)
            }
            None => None,
        };
        let path = socket.to_owned();
        let unix = tokio::task::spawn_blocking(move || bind_unix(&path)).await;
        let unix =
            unix.unwrap_or_else(|stopped| Err(stopped.into())).and_then(UnixListener::from_std);
        let unix = unix.map_err(|error| cannot_listen(&socket.display().to_string(), &error))?;
        Ok(Self { tcp, tls: None, unix })
    }

    /// Serves clients over TCP with this certificate.
    #[must_use]
    pub(super) fn with_tls(self, tls: Option<HttpsAcceptor>) -> Self {
        Self { tls, ..self }
    }

    /// Returns the URL of the TCP address.
    pub(super) fn url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.address().map(|address| format!("{scheme}://{address}"))
    }

    /// The TCP address with its actual port.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok())
    }

    /// Every address under which TCP clients reach it: one for all IPv6 addresses may be for those of IPv4 too.
    pub(super) fn reached_addresses(&self) -> Vec<SocketAddr> {
        let Some(address) = self.address() else {
            return vec![];
        };
        let has_ipv4 = |tcp: &TcpListener| {
            let all = address.is_ipv6() && address.ip().is_unspecified();
            all && rustix::net::sockopt::ipv6_v6only(tcp).is_ok_and(|is_only| !is_only)
        };
        let ipv4 = self.tcp.as_ref().filter(|tcp| has_ipv4(tcp));
        let ipv4 = ipv4.map(|_| SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())));
        std::iter::once(address).chain(ipv4).collect()
    }

    /// Serves until `stop`, closes the sockets, and completes running requests.
    pub(super) async fn serve(self, router: Router, limits: Limits, stop: CancellationToken) {
        let server = self.accept(router, &limits, &stop).await;
        drop((self.tcp, self.unix));
        server.drain(DRAIN_LIMIT).await;
    }

    /// Serves until `stop`, and completes running requests within `limit`. Clients that come later wait until it serves
    /// again.
    pub(super) async fn serve_for_now(
        &self,
        router: Router,
        limits: Limits,
        stop: CancellationToken,
        limit: Duration,
    ) {
        self.accept(router, &limits, &stop).await.drain(limit).await;
    }

    async fn accept(&self, router: Router, limits: &Limits, stop: &CancellationToken) -> Server {
        let server = Server::new(router, limits);
        let unix = accept_all((&server, None), &server.socket_places, stop, || async {
            let (stream, _) = self.unix.accept().await?;
            Ok(Accepted { peer: peer_on_socket(&stream).await, client: None, stream })
        });
        let tcp = async {
            if let Some(listener) = &self.tcp {
                let accept = || accept_tcp(listener);
                let tls = self.tls.as_ref();
                accept_all((&server, tls), &server.tcp_places, stop, accept).await;
            }
        };
        tokio::join!(unix, tcp);
        server
    }
}

/// The places of one listener, each at most `max`.
fn places(working: usize, limits: &Limits, max: usize) -> ConnectionSlots {
    ConnectionSlots::new(working.min(max), limits.waiting_queries.min(max), limits.streams.min(max))
}

/// A connection that was accepted.
struct Accepted<S> {
    stream: S,
    /// A TCP client.
    client: Option<Client>,
    /// Where the client is.
    peer: Peer,
}

/// The shared state of all connections.
struct Server {
    router: Router,
    graceful: GracefulShutdown,
    tcp_places: ConnectionSlots,
    socket_places: ConnectionSlots,
    clients: ClientAddresses,
    head_bytes: usize,
    write_limit: Duration,
    refusals: Arc<Semaphore>,
    connections: TaskTracker,
    /// Cancelled when no handshake is completed any more.
    draining: CancellationToken,
    give_up: CancellationToken,
}

impl Server {
    fn new(router: Router, limits: &Limits) -> Self {
        let max = max_connections();
        Self {
            router,
            graceful: GracefulShutdown::new(),
            tcp_places: places(limits.connections, limits, max),
            socket_places: places(limits.socket_connections, limits, max / 4),
            clients: ClientAddresses::new(limits.connections_per_address),
            head_bytes: limits.head_bytes,
            write_limit: Duration::from_secs(limits.write_seconds as u64),
            refusals: Arc::new(Semaphore::new(MAX_REFUSALS)),
            connections: TaskTracker::new(),
            draining: CancellationToken::new(),
            give_up: CancellationToken::new(),
        }
    }

    /// Serves one connection in its own task, which holds `place`. A client with too many connections
    /// is refused as by Nomad.
    fn serve_connection<S>(
        &self,
        accepted: Accepted<S>,
        place: ConnectionSlot,
        tls: Option<&HttpsAcceptor>,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let stream = StallLimit::new(accepted.stream, self.write_limit);
        let Some(counted) = self.clients.enter(accepted.client) else {
            // A client with TLS does not read an answer without it.
            if tls.is_none()
                && let Ok(permit) = self.refusals.clone().try_acquire_owned()
            {
                self.connections.spawn(refuse(stream, permit));
            }
            return;
        };
        let holder = accepted.client.map(|client| (client.address, client.user));
        let connection = Connection::new(accepted.peer, place).of(holder);
        let serving = Serving {
            router: self.router.clone(),
            connection,
            head_bytes: self.head_bytes,
            watcher: self.graceful.watcher(),
        };
        let (give_up, draining) = (self.give_up.clone(), self.draining.clone());
        let tls = tls.cloned();
        self.connections.spawn(async move {
            let _counted = counted;
            let served = async {
                match tls {
                    None => serving.serve(stream).await,
                    // It is large, and only clients with TLS need it.
                    Some(tls) => Box::pin(serving.serve_encrypted(tls, stream, draining)).await,
                }
            };
            tokio::select! {
                () = served => {}
                () = give_up.cancelled() => {}
            }
        });
    }

    async fn drain(self, limit: Duration) {
        self.draining.cancel();
        if timeout(limit, self.graceful.shutdown()).await.is_err() {
            tracing::warn!(
                open = self.connections.len(),
                "aborting requests that took longer than {} s",
                limit.as_secs()
            );
        }
        self.give_up.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

/// What serves one connection.
struct Serving {
    router: Router,
    connection: Connection,
    head_bytes: usize,
    watcher: Watcher,
}

impl Serving {
    /// Completes the handshake, and serves. The client has its place already, so the handshake must not take long.
    async fn serve_encrypted<S>(self, tls: HttpsAcceptor, stream: S, draining: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let handshake = timeout(HANDSHAKE_LIMIT, tls.accept(stream));
        match draining.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.serve(stream).await,
            Some(Ok(Err(error))) => tracing::debug!(%error, "no handshake with a client"),
            Some(Err(_)) => tracing::debug!("a client did not complete its handshake"),
            None => {}
        }
    }

    async fn serve<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self { router, connection, head_bytes, watcher } = self;
        let service = service_fn(move |request: http::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(connection.clone());
            router.clone().oneshot(request)
        });
        let served = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .max_buf_size(head_bytes)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(served).await {
            tracing::debug!(%error, "connection ended early");
        }
    }
}

async fn accept_all<S, F>(
    (server, tls): (&Server, Option<&HttpsAcceptor>),
    places: &ConnectionSlots,
    stop: &CancellationToken,
    accept: impl Fn() -> F,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<Accepted<S>>>,
{
    loop {
        let next = async {
            let place = places.enter().await;
            (accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = next => next,
        };
        match (accepted, place) {
            (Ok(accepted), Some(place)) => server.serve_connection(accepted, place, tls),
            (Err(error), _) if is_connection_error(&error) => {}
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept connections; retrying");
                sleep(EXHAUSTED_PAUSE).await;
            }
            (_, None) => return,
        }
    }
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<Accepted<tokio::net::TcpStream>> {
    let (stream, client) = listener.accept().await?;
    stream.set_nodelay(true)?;
    let own = stream.local_addr()?;
    let peer = peer_over_tcp(own);
    let user = match peer {
        Peer::Loopback => blocking::run_blocking(move || user_of(client, own)).await,
        Peer::Network | Peer::Operator | Peer::Stranger => Ok(None),
    };
    let client = Client { address: client.ip().to_canonical(), user: user.ok().flatten() };
    Ok(Accepted { peer, client: Some(client), stream })
}

/// Answers as Nomad does, and waits a moment for the client to read it. An HTTP client that gets an answer before it has
/// sent a request takes the connection for broken.
async fn refuse<S>(mut stream: S, _permit: OwnedSemaphorePermit)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = async {
        let _asked = timeout(REQUEST_LIMIT, stream.read(&mut [0])).await;
        stream.write_all(TOO_MANY.as_bytes()).await?;
        stream.shutdown().await?;
        // A connection that is closed with unread data loses the answer.
        let mut unread = (&mut stream).take(MAX_UNREAD);
        tokio::io::copy(&mut unread, &mut tokio::io::sink()).await
    };
    drop(timeout(REFUSAL_LIMIT, answer).await);
}

/// Returns whether the error concerns one connection, such as a client that disconnected early.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput)
}

/// Raises the limit of open files to its maximum, and returns a quarter of it: connections that work
/// and connections that wait leave half for the socket, the journal and plugins.
fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(u64::MAX).min(65_536);
    let raised = Rlimit { current: Some(maximum), maximum: limit.maximum };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => limit.current.unwrap_or(maximum),
    };
    usize::try_from((now / 4).max(16)).unwrap_or(16)
}

/// Binds a Unix socket that only this user can connect to.
fn bind_unix(socket: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    match std::fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(socket)?,
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    bind_socket(socket)
}

fn cannot_listen(address: &str, error: &io::Error) -> Diagnostics {
    let problem = |code, reason: &str| {
        Diagnostic::error(code, format!("cannot listen on `{address}`: {reason}"))
    };
    let problem = match error.kind() {
        io::ErrorKind::AddrInUse => problem(Code::AgentPortInUse, "the address is in use")
            .help("stop the other process (`ss -ltnp` shows it; a Nomad agent also listens on 4646), or use another address with `--http ADDR:PORT`"),
        io::ErrorKind::AddrNotAvailable => {
            problem(Code::AgentCannotListen, "this machine does not have that address")
                .help("run `ip address` to see the addresses of this machine")
        }
        io::ErrorKind::PermissionDenied => {
            problem(Code::AgentCannotListen, "permission denied")
                .help("use a port of 1024 or above; lower ports need privileges")
        }
        _ => problem(Code::AgentCannotListen, &error.to_string()),
    };
    problem.into()
}

#[cfg(test)]
mod tests;
