//! Connects the plugin ports to a Unix socket.
//!
//! All connections to a socket share one channel. A channel connects on its first call and reconnects
//! after a break, so it can exist before the plugin listens and survives restarts of the plugin. The
//! `:authority` is `localhost`: gRPC servers of tonic and Node.js refuse a path there (GH-12359).
//!
//! A channel to a certain process compares number and start time of the process that the kernel names at each connection.
//! The kernel opens that process itself, so neither can belong to a later one, as a number alone can.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};

use super::{deadline, status};
use crate::ports::{
    CallMeasurements, Connector, Delivery, NoMeasurements, PeerProcess, PluginConnection,
    PluginError, Rpc, StatusCode,
};
use crate::private::SocketPeer;

/// Connects to plugins over Unix sockets.
#[derive(Debug)]
pub struct GrpcConnector {
    channels: Mutex<HashMap<PathBuf, PeerChannel>>,
    measurements: Arc<dyn CallMeasurements>,
}

/// A channel, and the process that it must lead to.
#[derive(Debug)]
struct PeerChannel {
    channel: Channel,
    required_peer: Option<PeerProcess>,
}

impl Default for GrpcConnector {
    fn default() -> Self {
        Self::measured(Arc::new(NoMeasurements))
    }
}

impl GrpcConnector {
    /// Returns a connector without connections.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a connector without connections whose calls are measured.
    pub fn measured(measurements: Arc<dyn CallMeasurements>) -> Self {
        Self {
            channels: Mutex::default(),
            measurements,
        }
    }

    fn channel(&self, socket: &Path, required_peer: Option<PeerProcess>) -> Channel {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        match channels.get(socket) {
            Some(known) if known.required_peer == required_peer => known.channel.clone(),
            // The process before is gone, and its channel with it.
            Some(_) | None => {
                let channel = peer_channel(socket.to_owned(), required_peer);
                let entry = PeerChannel {
                    channel: channel.clone(),
                    required_peer,
                };
                channels.insert(socket.to_owned(), entry);
                channel
            }
        }
    }
}

impl Connector for GrpcConnector {
    /// Must be called on a tokio runtime, which drives the connection.
    fn connect(&self, socket: &Path, required_peer: Option<PeerProcess>) -> PluginConnection {
        let client = Arc::new(Client {
            channel: self.channel(socket, required_peer),
            socket: socket.to_owned(),
            driver: OnceLock::new(),
            measurements: self.measurements.clone(),
        });
        PluginConnection {
            identity: client.clone(),
            controller: client.clone(),
            node: client,
        }
    }
}

/// Returns a channel that connects on first use.
pub(super) fn lazy_channel(socket: PathBuf) -> Channel {
    peer_channel(socket, None)
}

/// Returns a channel that connects on first use, and only to this process if one is given.
fn peer_channel(socket: PathBuf, required_peer: Option<PeerProcess>) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move {
            let stream = UnixStream::connect(socket).await?;
            if let Some(required) = required_peer {
                require_peer(&stream, required).await?;
            }
            io::Result::Ok(TokioIo::new(stream))
        }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

async fn require_peer(stream: &UnixStream, required: PeerProcess) -> io::Result<()> {
    let peer = SocketPeer::of(stream);
    let found = tokio::task::spawn_blocking(move || {
        let peer = peer?;
        let start_time = peer.start_time()?;
        io::Result::Ok(PeerProcess {
            pid: peer.pid,
            start_time,
        })
    });
    let found = match found.await.map_err(io::Error::other)? {
        Ok(found) if found == required => return Ok(()),
        Ok(found) if found.pid == required.pid => "another process with its number".to_owned(),
        Ok(found) => format!("process {}", found.pid),
        Err(error) => format!("another process, which cannot be identified ({error}),"),
    };
    let required = required.pid;
    Err(io::Error::other(format!(
        "{found} listens on the socket now, and not process {required} that the agent uses"
    )))
}

/// A plugin behind a channel. Implements the three ports.
#[derive(Debug)]
pub(super) struct Client {
    channel: Channel,
    socket: PathBuf,
    /// The name that the plugin gives itself, once it was asked.
    driver: OnceLock<String>,
    measurements: Arc<dyn CallMeasurements>,
}

/// The name of a plugin that was not asked for it, as the sidecars write it.
const UNKNOWN_DRIVER: &str = "unknown-driver";

impl Client {
    /// Notes the name that the plugin gives itself.
    pub(super) fn note_driver(&self, name: &str) {
        self.driver.get_or_init(|| name.to_owned());
    }

    /// Sends one call, once, with its deadline, and classifies a failure.
    pub(super) async fn call<M, R, F>(
        &self,
        rpc: Rpc,
        message: M,
        send: impl FnOnce(Channel, Request<M>) -> F,
    ) -> Result<R, PluginError>
    where
        F: Future<Output = Result<Response<R>, Status>>,
    {
        let deadline = deadline::for_rpc(rpc);
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let begun = Instant::now();
        let response = tokio::time::timeout(deadline, send(self.channel.clone(), request)).await;
        let result = match response {
            Err(_elapsed) => Err(status::timed_out(rpc, deadline)),
            Ok(Err(failed)) => {
                let error = status::from_status(rpc, &self.socket, &failed);
                Err(at_the_limit(error, begun.elapsed(), deadline))
            }
            Ok(Ok(response)) => Ok(response.into_inner()),
        };
        let code = result
            .as_ref()
            .err()
            .map_or(StatusCode::Ok, |error| error.code);
        let driver = self.driver.get().map_or(UNKNOWN_DRIVER, String::as_str);
        self.measurements
            .plugin_call(driver, &rpc.method(), code, begun.elapsed());
        if let Err(error) = &result {
            tracing::debug!(csi.rpc = %rpc, socket = %self.socket.display(), %error, "call failed");
        }
        result
    }
}

/// A server also ends a call at the deadline, without waiting for the plugin's work. So a status that
/// says this near the deadline is no answer.
fn at_the_limit(error: PluginError, elapsed: Duration, deadline: Duration) -> PluginError {
    let is_late = elapsed >= deadline.mul_f64(0.99);
    let is_timeout = matches!(
        error.code,
        StatusCode::DeadlineExceeded | StatusCode::Cancelled
    );
    if is_late && is_timeout && error.delivery == Delivery::Answered {
        return PluginError {
            delivery: Delivery::Unanswered,
            ..error
        };
    }
    error
}
