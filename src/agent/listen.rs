//! Serves HTTP on a TCP address and a Unix socket.
//!
//! Sockets are opened first and served later, so that a port in use is told before anything was
//! started, and whoever connects meanwhile waits instead of being refused. The number of connections
//! is bounded by what the process may open; a client that sends nothing is let go. At the end
//! nothing new is accepted, and what is being answered is finished, bounded by [`DRAIN_LIMIT`].

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
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

/// How long a client may take to send the head of a request, also of the first one.
const HEAD_LIMIT: Duration = Duration::from_secs(30);
/// How long requests that are being answered may take once the agent is to stop.
pub(super) const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// Before accepting again when the process has no file descriptors left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);
/// No more connections than this, however many files may be open.
const MOST_CONNECTIONS: u64 = 4096;

/// Sockets that are open and not served yet: who connects waits.
pub(super) struct Listeners {
    tcp: Option<TcpListener>,
    unix: UnixListener,
}

impl Listeners {
    /// Opens both. A socket that an earlier agent left at `socket` is replaced: the caller holds the
    /// directory.
    ///
    /// # Errors
    /// In words, with what to do.
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

    /// The TCP address, with the port that was chosen.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok())
    }

    /// Serves until `stop`, and then finishes what is being answered.
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

/// What every connection shares.
struct Server {
    router: Router,
    graceful: GracefulShutdown,
    free: Arc<Semaphore>,
    connections: TaskTracker,
    give_up: CancellationToken,
}

impl Server {
    fn new(router: Router) -> Self {
        Self {
            router,
            graceful: GracefulShutdown::new(),
            free: Arc::new(Semaphore::new(most_connections())),
            connections: TaskTracker::new(),
            give_up: CancellationToken::new(),
        }
    }

    /// Answers the requests of one connection in a task of its own; `place` is given back at its end.
    fn answer<S>(&self, stream: S, place: tokio::sync::OwnedSemaphorePermit)
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
            let _place = place;
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
                "requests that were not answered within {} s are dropped",
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
            let place = server.free.clone().acquire_owned().await;
            (accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = next => next,
        };
        match (accepted, place) {
            (Ok(stream), Ok(place)) => server.answer(stream, place),
            (Err(error), _) if is_of_one_connection(&error) => {}
            (Err(error), _) => {
                tracing::warn!(%error, "cannot accept connections; trying again");
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

/// The client has gone before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, InvalidInput};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | InvalidInput
    )
}

/// A quarter of the files that the process may open, after asking for as many as it may have.
fn most_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX).min(65_536);
    let raised = Rlimit {
        current: Some(most),
        maximum: limit.maximum,
    };
    let now = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => most,
        Err(_) => limit.current.unwrap_or(most),
    };
    usize::try_from((now / 4).clamp(16, MOST_CONNECTIONS)).unwrap_or(16)
}

/// Only this user may connect.
fn bind_unix(socket: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    match std::fs::symlink_metadata(socket) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(socket)?,
        Ok(_) => return Err(io::ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = std::os::unix::net::UnixListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn cannot_listen(place: &str, error: &io::Error) -> Diagnostics {
    let told =
        |code, why: &str| Diagnostic::error(code, format!("cannot listen on {place}: {why}"));
    let problem = match error.kind() {
        io::ErrorKind::AddrInUse => told(Code::AgentPortInUse, "another process listens there")
            .help("stop that process (`ss -ltnp` shows it; a Nomad agent listens on 4646 too), or choose another address with --http ADDR:PORT"),
        io::ErrorKind::AddrNotAvailable => {
            told(Code::AgentCannotListen, "this machine has no such address")
                .help("`ip address` shows the addresses of this machine")
        }
        io::ErrorKind::PermissionDenied => {
            told(Code::AgentCannotListen, "this user is not allowed to")
                .help("choose a port from 1024 on; lower ones need privileges")
        }
        _ => told(Code::AgentCannotListen, &error.to_string()),
    };
    problem.into()
}

#[cfg(test)]
mod tests;
