//! Serves HTTP on a TCP address and a Unix socket.
//!
//! Sockets are opened first and served later: a port in use is reported before anything starts, and
//! early clients wait instead of being refused. The number of open files limits the connections.
//! Idle clients are disconnected. At the stop no connection is accepted, and running requests are
//! completed within [`DRAIN_LIMIT`].

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::private::bind_socket;

/// The longest time for a client to send the headers of a request.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// The longest time for running requests after the stop.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// The pause before accepting again when the process has no free file descriptors.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// The largest number of connections.
const MAX_CONNECTIONS: u64 = 4096;

/// Open sockets that are not served yet; clients wait.
pub(super) struct Listeners {
    tcp: Option<TcpListener>,
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
        let unix = unix
            .unwrap_or_else(|stopped| Err(stopped.into()))
            .and_then(UnixListener::from_std);
        let unix = unix.map_err(|error| cannot_listen(&socket.display().to_string(), &error))?;
        Ok(Self { tcp, unix })
    }

    /// The TCP address with its actual port.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok())
    }

    /// Serves until `stop`, then completes running requests.
    pub(super) async fn serve(self, router: Router, stop: CancellationToken) {
        let server = Server::new(router);
        let unix = accept_all(&server, &stop, || async { Ok(self.unix.accept().await?.0) });
        let tcp = async {
            if let Some(listener) = &self.tcp {
                accept_all(&server, &stop, || accept_tcp(listener)).await;
            }
        };
        tokio::join!(unix, tcp);
        drop((self.tcp, self.unix));
        server.drain().await;
    }
}

/// The shared state of all connections.
struct Server {
    router: Router,
    graceful: GracefulShutdown,
    free_connections: Arc<Semaphore>,
    connections: TaskTracker,
    give_up: CancellationToken,
}

impl Server {
    fn new(router: Router) -> Self {
        Self {
            router,
            graceful: GracefulShutdown::new(),
            free_connections: Arc::new(Semaphore::new(max_connections())),
            connections: TaskTracker::new(),
            give_up: CancellationToken::new(),
        }
    }

    /// Serves one connection in its own task, which holds `permit`.
    fn serve_connection<S>(&self, stream: S, permit: tokio::sync::OwnedSemaphorePermit)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_LIMIT)
            .serve_connection(
                TokioIo::new(stream),
                TowerToHyperService::new(self.router.clone()),
            );
        let connection = self.graceful.watch(connection);
        let give_up = self.give_up.clone();
        self.connections.spawn(async move {
            let _permit = permit;
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                },
                () = give_up.cancelled() => {}
            }
        });
    }

    async fn drain(self) {
        if timeout(DRAIN_LIMIT, self.graceful.shutdown())
            .await
            .is_err()
        {
            tracing::warn!(
                open = self.connections.len(),
                "aborting requests that took longer than {} s",
                DRAIN_LIMIT.as_secs()
            );
        }
        self.give_up.cancel();
        self.connections.close();
        self.connections.wait().await;
    }
}

async fn accept_all<S, F>(server: &Server, stop: &CancellationToken, accept: impl Fn() -> F)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<S>>,
{
    loop {
        let next = async {
            let permit = server.free_connections.clone().acquire_owned().await;
            (accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = next => next,
        };
        match (accepted, permit) {
            (Ok(stream), Ok(permit)) => server.serve_connection(stream, permit),
            (Err(error), _) if is_connection_error(&error) => {}
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept connections; retrying");
                sleep(EXHAUSTED_PAUSE).await;
            }
            (_, Err(_closed)) => return,
        }
    }
}

async fn accept_tcp(listener: &TcpListener) -> io::Result<tokio::net::TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether the error concerns one connection, such as a client that disconnected early.
fn is_connection_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput
    )
}

/// Raises the limit of open files to its maximum, and returns a quarter of it.
fn max_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let maximum = limit.maximum.unwrap_or(u64::MAX).min(65_536);
    let raised = Rlimit {
        current: Some(maximum),
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(_) => limit.current.unwrap_or(maximum),
    };
    usize::try_from((now / 4).clamp(16, MAX_CONNECTIONS)).unwrap_or(16)
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
