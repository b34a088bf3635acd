//! Serves CSI on a private socket until a stop is requested.
//!
//! The socket has mode 0600 from the start, and its directory mode 0700 if the plugin creates it:
//! CSI defines no authentication, so access to the socket is access to the data. So a directory where
//! another user could replace the socket is refused, and a state directory that another user owns or
//! can write to. A stale socket is replaced; a socket with a listener is not.
//!
//! A shutdown lets calls in progress end, then removes the socket. Mounts stay, because workloads
//! use them. The next start finds them again.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::Server;

use super::config::Config;
use super::detach_watch::watch_detachments;
use super::error::HostError;
use super::plugin::{Host, Plugin};
use super::recovery;
use super::services::{
    CallLogLayer, ControllerService, FaultLayer, GroupControllerService, IdentityService,
    MeasuredLayer, NodeService, SnapshotMetadataService,
};

use nomad_csi_database::FailureKind;
use nomad_csi_model::private::{NotPrivate, bind_socket, check_socket_directory, create_directory};
use nomad_csi_proto::controller_server::ControllerServer;
use nomad_csi_proto::group_controller_server::GroupControllerServer;
use nomad_csi_proto::identity_server::IdentityServer;
use nomad_csi_proto::node_server::NodeServer;
use nomad_csi_proto::snapshot_metadata_server::SnapshotMetadataServer;

/// The most calls of one connection that run at the same time. More calls wait.
const MAX_CONCURRENT_CALLS: usize = 64;
/// How long a shutdown waits for calls in progress.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Why the plugin cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process listens on the socket.
    #[error(
        "another process listens on `{}`; stop it, or use another endpoint", .0.display()
    )]
    SocketInUse(PathBuf),
    /// The path holds a file that is not a socket.
    #[error("`{}` is not a socket; move it away, or use another endpoint", .0.display())]
    NotASocket(PathBuf),
    /// Another plugin uses the state directory.
    #[error(
        "another plugin uses the state directory `{}`; stop it, or use another directory", .0.display()
    )]
    StateInUse(PathBuf),
    /// The socket or its directory cannot be created.
    #[error("cannot listen on `{}`: {source}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The state directory, or a file in it, cannot be used.
    #[error("cannot use state directory `{}`: {reason}", path.display())]
    State {
        /// The directory.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Another user could replace the socket.
    #[error("cannot listen on a socket there: {0}; {help}", help = .0.help())]
    NotPrivate(NotPrivate),
    /// The server stopped unexpectedly.
    #[error("the server on `{}` stopped: {reason}", path.display())]
    Ended {
        /// The socket.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Serves the plugin until `stop` completes, or until standard input ends if the configuration asks
/// for that. Returns when all calls have ended and the socket is removed.
///
/// # Errors
/// Fails if the plugin cannot start, or if the server stops unexpectedly.
pub async fn serve(
    config: Config,
    host: Host,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let plugin = open_plugin(&config, host).await?;
    let socket = config.socket.clone();
    let (listener, socket_file) = listen(&socket).await?;
    tracing::info!(socket = %socket.display(), state = %config.state_dir.display(),
        node.id = %config.node_id, "plugin is listening");
    plugin.spawn_background(|plugin| {
        log_limits(plugin);
        recovery::finish_deletions(plugin);
    });
    let watch = || AbortOnDropHandle::new(tokio::spawn(watch_detachments(plugin.clone())));
    let _watch = plugin.detach_cuts().then(watch);
    let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
    let server = Server::builder()
        .concurrency_limit_per_connection(MAX_CONCURRENT_CALLS)
        .layer(MeasuredLayer(plugin.host.measurements.clone()))
        .layer(CallLogLayer(plugin.shared.as_ref().map(|shared| shared.calls.clone())))
        .layer(FaultLayer::new(plugin.clone()))
        .add_service(IdentityServer::new(IdentityService(plugin.clone())))
        .add_service(ControllerServer::new(ControllerService(plugin.clone())))
        .add_service(GroupControllerServer::new(GroupControllerService(plugin.clone())))
        .add_service(SnapshotMetadataServer::new(SnapshotMetadataService(plugin.clone())))
        .add_service(NodeServer::new(NodeService(plugin.clone())))
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), async {
            // A dropped sender counts as a stop request too.
            drop(stopped.await);
        });
    let stop_requested = async {
        tokio::select! {
            () = stop => {}
            () = end_of_stdin(), if config.exit_on_stdin_eof => {}
        }
        plugin.stop_removals();
    };
    let result = run_server(server, stop_requested, stopping).await;
    if tokio::time::timeout(SHUTDOWN_GRACE, plugin.wait_for_work()).await.is_err() {
        tracing::warn!(
            "shutdown timed out: work in progress was abandoned; a repeated call completes it"
        );
    }
    socket_file.remove().await;
    tracing::info!(socket = %socket.display(), "plugin stopped");
    result.map_err(|reason| ServeError::Ended { path: socket, reason })
}

/// Runs the server until a stop is requested, then waits a limited time for calls in progress. A
/// client that keeps its connection open does not keep the plugin running.
async fn run_server(
    server: impl Future<Output = Result<(), tonic::transport::Error>>,
    stop_requested: impl Future<Output = ()>,
    stopping: tokio::sync::oneshot::Sender<()>,
) -> Result<(), String> {
    let mut server = std::pin::pin!(server);
    tokio::select! {
        ended = &mut server => return Err(match ended {
            Ok(()) => "without a stop request".to_owned(),
            Err(error) => error.to_string(),
        }),
        () = stop_requested => {}
    }
    drop(stopping);
    match tokio::time::timeout(SHUTDOWN_GRACE, server).await {
        Ok(Ok(())) | Err(_) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
    }
}

/// Opens and recovers the plugin's state on a blocking thread.
async fn open_plugin(config: &Config, host: Host) -> Result<Arc<Plugin>, ServeError> {
    let state_dir = config.state_dir.clone();
    let node_id = config.node_id.clone();
    let (profile, shared) = (config.profile.clone(), config.shared.clone());
    let opened = tokio::task::spawn_blocking(move || {
        create_directory(&state_dir).map_err(HostError::io("create it"))?;
        let opened = Plugin::open_placed(&state_dir, shared.as_ref(), node_id, profile, host);
        let plugin = Arc::new(opened?);
        recovery::recover(&plugin)?;
        Ok(plugin)
    })
    .await
    .unwrap_or_else(|ended| Err(HostError::TaskFailed(ended)));
    opened.map_err(|error| match error {
        HostError::Catalog(error) if error.kind == FailureKind::InUse => {
            ServeError::StateInUse(config.state_dir.clone())
        }
        other => unusable(config, &other),
    })
}

/// Logs once which capabilities this machine or this process does not have.
fn log_limits(plugin: &Plugin) {
    let features = plugin.host.storage.features();
    if let Some(reason) = &features.loop_devices_unavailable {
        tracing::warn!(%reason, "loop devices are not available: volumes are directories without a size, and EXPAND_VOLUME is not advertised");
    }
    for kind in &features.offline_growth_only {
        tracing::warn!(
            file_system = kind.name(),
            "this process lacks CAP_SYS_RESOURCE: volumes with this file system grow only while they are not in use, and volume expansion is advertised as OFFLINE"
        );
    }
}

fn unusable(config: &Config, error: &HostError) -> ServeError {
    ServeError::State {
        path: config.state_dir.clone(),
        reason: match NotPrivate::find(error) {
            Some(refused) => format!("{refused}; {}", refused.help()),
            None => error.to_string(),
        },
    }
}

/// The socket file that this process created.
struct SocketFile {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl SocketFile {
    /// Removes the file, unless another process replaced it.
    async fn remove(self) {
        let found = tokio::fs::symlink_metadata(&self.path).await;
        let is_mine =
            found.is_ok_and(|found| found.dev() == self.device && found.ino() == self.inode);
        if is_mine && let Err(error) = tokio::fs::remove_file(&self.path).await {
            tracing::warn!(socket = %self.path.display(), %error, "cannot remove the socket");
        }
    }
}

/// Binds the socket with mode 0600.
async fn listen(path: &Path) -> Result<(UnixListener, SocketFile), ServeError> {
    let failed = |source: io::Error| match NotPrivate::find(&source) {
        Some(refused) => ServeError::NotPrivate(refused.clone()),
        None => ServeError::Listen { path: path.to_owned(), source },
    };
    let directory = path.parent().map(Path::to_owned);
    let checked = tokio::task::spawn_blocking(move || match directory {
        Some(directory) => check_socket_directory(&directory),
        None => Ok(()),
    });
    let checked = checked.await.unwrap_or_else(|ended| Err(ended.into()));
    checked.map_err(failed)?;
    remove_stale(path).await?;
    let bound = bind_socket(path).and_then(UnixListener::from_std);
    let listener = bound.map_err(failed)?;
    let made = tokio::fs::symlink_metadata(path).await.map_err(failed)?;
    let file = SocketFile { path: path.to_owned(), device: made.dev(), inode: made.ino() };
    Ok((listener, file))
}

/// Removes a stale socket. Fails if a process listens on it, or if it is not a socket.
async fn remove_stale(path: &Path) -> Result<(), ServeError> {
    let failed = |source| ServeError::Listen { path: path.to_owned(), source };
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

/// Completes when standard input ends. A thread of its own reads it, because a thread of tokio
/// would keep the process from exiting.
async fn end_of_stdin() {
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    let reader = std::thread::Builder::new().name("stdin".to_owned()).spawn(move || {
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
