//! Listens on a private socket and serves until told to stop.
//!
//! The socket has mode 0600 from its first moment, in a directory of mode 0700 if the plugin makes
//! it (CSI defines no authentication; access to the socket is access to the data, `csi-spec` 3.1). A
//! socket file that a dead plugin left is replaced; one on which somebody listens is not. A stop
//! lets running calls end, removes the socket, and leaves mounts as they are: they belong to the
//! workloads, and a restarted plugin finds them again.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

use super::config::Config;
use super::controller::ControllerService;
use super::error::Machine;
use super::gate::GateLayer;
use super::group::GroupService;
use super::identity::IdentityService;
use super::metadata::MetadataService;
use super::node::NodeService;
use super::plugin::{Host, Plugin, private_directory};
use super::recovery;
use crate::csi::proto::controller_server::ControllerServer;
use crate::csi::proto::group_controller_server::GroupControllerServer;
use crate::csi::proto::identity_server::IdentityServer;
use crate::csi::proto::node_server::NodeServer;
use crate::csi::proto::snapshot_metadata_server::SnapshotMetadataServer;

/// How many calls of one connection are worked on at once; more wait in the connection.
const CALLS_AT_ONCE: usize = 64;
/// How long a stop waits for running calls.
const GRACE: Duration = Duration::from_secs(10);
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 128;

/// The plugin cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A plugin, or something else, listens there.
    #[error(
        "another process listens on {}; stop it, or choose another endpoint", .0.display()
    )]
    SocketInUse(PathBuf),
    /// There is a file that is not ours to remove.
    #[error("{} is there and is not a socket; move it away, or choose another endpoint", .0.display())]
    NotASocket(PathBuf),
    /// Another plugin works on the same directory.
    #[error(
        "another plugin uses the state directory {}; stop it, or choose another directory", .0.display()
    )]
    StateInUse(PathBuf),
    /// The socket, or its directory, cannot be made.
    #[error("cannot listen on {}: {source}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The state directory, or what is in it, cannot be used.
    #[error("cannot use the state directory {}: {reason}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// What was the matter.
        reason: String,
    },
    /// The server ended by itself.
    #[error("the server on {} ended: {reason}", path.display())]
    Ended {
        /// The socket.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

/// Serves the plugin until `stop` is ready, or its standard input ends if the configuration says
/// so. Returns when all calls have ended and the socket is gone.
///
/// # Errors
/// If it cannot begin, or the server ends by itself; the message says what to do.
pub async fn serve(
    config: Config,
    host: Host,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let plugin = Arc::new(open(&config, host).await?);
    let recovered = recovery::recover(&plugin).await;
    recovered.map_err(|error| unusable(&config, &error))?;
    let socket = config.socket.clone();
    let (listener, mine) = listen(&socket).await?;
    tracing::info!(socket = %socket.display(), state = %config.state_dir.display(),
        node.id = %config.node_id, "the plugin listens");
    tell_limits(&plugin).await;
    plugin.spawn(recovery::finish_removals(plugin.clone()));
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder()
        .concurrency_limit_per_connection(CALLS_AT_ONCE)
        .layer(GateLayer::new(plugin.clone()))
        .add_service(IdentityServer::new(IdentityService(plugin.clone())))
        .add_service(ControllerServer::new(ControllerService(plugin.clone())))
        .add_service(GroupControllerServer::new(GroupService(plugin.clone())))
        .add_service(SnapshotMetadataServer::new(MetadataService(plugin.clone())))
        .add_service(NodeServer::new(NodeService(plugin.clone())))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
            // The sender says so, or is gone: both mean the end.
            drop(stopped.await);
        });
    let told = async {
        tokio::select! {
            () = stop => {}
            () = end_of_stdin(), if config.exit_on_stdin_eof => {}
        }
        plugin.stop_removals();
    };
    let result = run(server, told, stopping).await;
    if tokio::time::timeout(GRACE, plugin.finish()).await.is_err() {
        tracing::warn!("work that does not end is left behind; its next repetition finishes it");
    }
    mine.remove().await;
    tracing::info!(socket = %socket.display(), "the plugin stopped");
    result.map_err(|reason| ServeError::Ended {
        path: socket,
        reason,
    })
}

/// Runs the server until told to stop, and then for as long as calls need, but not for ever: a
/// client that keeps its connection open does not keep the plugin alive.
async fn run(
    server: impl Future<Output = Result<(), tonic::transport::Error>>,
    told: impl Future<Output = ()>,
    stopping: tokio::sync::oneshot::Sender<()>,
) -> Result<(), String> {
    let mut server = std::pin::pin!(server);
    tokio::select! {
        ended = &mut server => return Err(match ended {
            Ok(()) => "without being told to".to_owned(),
            Err(error) => error.to_string(),
        }),
        () = told => {}
    }
    drop(stopping);
    match tokio::time::timeout(GRACE, server).await {
        Ok(Ok(())) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
    }
}

/// Opens the state on a blocking thread.
async fn open(config: &Config, host: Host) -> Result<Plugin, ServeError> {
    let state_dir = config.state_dir.clone();
    let node_id = config.node_id.clone();
    let play = config.play.clone();
    let opened = tokio::task::spawn_blocking(move || {
        private_directory(&state_dir).map_err(Machine::files("make it"))?;
        Plugin::open(&state_dir, node_id, play, host)
    })
    .await
    .unwrap_or_else(|ended| Err(Machine::Ended(ended)));
    opened.map_err(|error| match error {
        Machine::Catalog(error) if error.is_in_use => {
            ServeError::StateInUse(config.state_dir.clone())
        }
        other => unusable(config, &other),
    })
}

/// Says once what this machine, or what this process may do on it, takes away from the plugin.
async fn tell_limits(plugin: &Arc<Plugin>) {
    let offers = plugin.blocking(|plugin| Ok::<_, Machine>(plugin.host.storage.offers()));
    match offers.await {
        Err(error) => tracing::warn!(%error, "cannot look what this machine offers"),
        Ok(offers) => {
            if let Some(reason) = &offers.no_loop_devices {
                tracing::warn!(%reason, "no loop devices: volumes are directories without a size, and EXPAND_VOLUME is not advertised");
            }
            for kind in &offers.grow_unmounted {
                tracing::warn!(
                    file_system = kind.name(),
                    "this process lacks CAP_SYS_RESOURCE: a volume of that file system grows only while it is not in use, and volume expansion is advertised as OFFLINE"
                );
            }
        }
    }
}

fn unusable(config: &Config, error: &Machine) -> ServeError {
    ServeError::State {
        path: config.state_dir.clone(),
        reason: error.to_string(),
    }
}

/// The socket file, as this process made it.
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Removes the file if it still is the one that this process made.
    async fn remove(self) {
        let found = tokio::fs::symlink_metadata(&self.path).await;
        let is_mine =
            found.is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if is_mine && let Err(error) = tokio::fs::remove_file(&self.path).await {
            tracing::warn!(socket = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// Binds the socket, private from its first moment.
async fn listen(path: &Path) -> Result<(UnixListener, SocketFile), ServeError> {
    let failed = |source| ServeError::Listen {
        path: path.to_owned(),
        source,
    };
    if let Some(parent) = path.parent() {
        private_directory(parent).map_err(failed)?;
    }
    remove_stale(path).await?;
    let listener = bind(path).map_err(failed)?;
    let made = tokio::fs::symlink_metadata(path).await.map_err(failed)?;
    let file = SocketFile {
        path: path.to_owned(),
        device: made.dev(),
        inode: made.ino(),
    };
    Ok((listener, file))
}

/// Linux gives a socket's file the mode of the socket, so setting that before binding leaves no
/// moment in which others could connect.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
}

/// Removes what a dead plugin left; refuses if somebody listens or if it is no socket.
async fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let failed = |source| ServeError::Listen {
        path: path.to_owned(),
        source,
    };
    match tokio::fs::symlink_metadata(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServeError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match tokio::net::UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tokio::fs::remove_file(path).await.map_err(failed)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(failed(error)),
        Ok(_) => Err(ServeError::SocketInUse(path.to_owned())),
    }
}

/// Ready when standard input ends. Read on a thread of its own: one of tokio's would keep the
/// process from ending while it waits.
async fn end_of_stdin() {
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let reader = std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
            drop(ended);
        });
    match reader {
        Ok(_) => drop(end.await),
        Err(error) => {
            tracing::warn!(%error, "cannot watch standard input");
            std::future::pending::<()>().await;
        }
    }
}
