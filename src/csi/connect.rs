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
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};

use super::call_secrets::{CallSecrets, SecretInAddress};
use super::{answer_limits, deadline, status};
use nomad_csi_model::private::SocketPeer;
use nomad_csi_ports::{
    CallMeasurements, Connector, Delivery, NoMeasurements, PeerProcess, PluginConnection,
    PluginError, Rpc, SentSecrets, StatusCode,
};
use nomad_csi_proto::MessageTexts;
use nomad_csi_proto::controller_client::ControllerClient;
use nomad_csi_proto::node_client::NodeClient;

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
    shared: Shared,
    required_peer: Option<PeerProcess>,
}

/// The state that all connections to a socket share.
#[derive(Clone, Debug)]
struct Shared {
    secrets: Arc<CallSecrets>,
    /// One list is read at a time: it may take a hundred times the memory of another answer.
    lists: Arc<Semaphore>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { secrets: Arc::default(), lists: Arc::new(Semaphore::new(1)) }
    }
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
        Self { channels: Mutex::default(), measurements }
    }

    fn channel(&self, socket: &Path, required_peer: Option<PeerProcess>) -> (Channel, Shared) {
        let mut channels = self.channels.lock();
        let known = channels.get(socket);
        let shared = known.map(|known| known.shared.clone()).unwrap_or_default();
        match known {
            Some(known) if known.required_peer == required_peer => (known.channel.clone(), shared),
            // The process before is gone, and its channel with it. The next one may have its log or its files.
            Some(_) | None => {
                let channel = peer_channel(socket.to_owned(), required_peer);
                let entry =
                    PeerChannel { channel: channel.clone(), shared: shared.clone(), required_peer };
                channels.insert(socket.to_owned(), entry);
                (channel, shared)
            }
        }
    }
}

impl Connector for GrpcConnector {
    /// Must be called on a tokio runtime, which drives the connection.
    fn connect(
        &self,
        socket: &Path,
        required_peer: Option<PeerProcess>,
        sent: &SentSecrets,
    ) -> PluginConnection {
        let (channel, shared) = self.channel(socket, required_peer);
        shared.secrets.note_sent(sent);
        let client = Arc::new(Client {
            channel,
            secrets: shared.secrets,
            lists: shared.lists,
            socket: socket.to_owned(),
            driver: OnceLock::new(),
            measurements: self.measurements.clone(),
        });
        PluginConnection { identity: client.clone(), controller: client.clone(), node: client }
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
    endpoint().connect_with_connector_lazy(connector)
}

/// The bytes of an answer outside of its message, with the text of an error: more than any tool's output that a plugin
/// passes on. An answer with more is lost, as if the connection had broken.
const HEADER_BYTES: u32 = 4 << 20;

/// The largest answer that is decoded. The CSI specification has no limit, and gRPC's default of 4 MiB holds only about ten
/// thousand volumes of a list. The limits of its fields are checked after that, because the library's own error
/// looks like a refusal of the plugin, which has no effect.
pub(super) const ANSWER_BYTES: usize = 64 << 20;

pub(super) fn node_client(channel: Channel) -> NodeClient<Channel> {
    NodeClient::new(channel).max_decoding_message_size(ANSWER_BYTES)
}

pub(super) fn controller_client(channel: Channel) -> ControllerClient<Channel> {
    ControllerClient::new(channel).max_decoding_message_size(ANSWER_BYTES)
}

/// Returns the endpoint of every channel.
pub(super) fn endpoint() -> Endpoint {
    Endpoint::from_static("http://localhost").http2_max_header_list_size(HEADER_BYTES)
}

async fn require_peer(stream: &UnixStream, required: PeerProcess) -> io::Result<()> {
    let peer = SocketPeer::of(stream);
    let found = tokio::task::spawn_blocking(move || {
        let peer = peer?;
        let start_time = peer.start_time()?;
        io::Result::Ok(PeerProcess { pid: peer.pid, start_time })
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
    secrets: Arc<CallSecrets>,
    lists: Arc<Semaphore>,
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

    /// Waits until no other list of the plugin is read.
    ///
    /// The semaphore is never closed.
    pub(super) async fn list_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.lists.acquire().await.ok()
    }

    /// Sends one call, once, with its deadline, and classifies a failure. No text of the answer or of the error
    /// contains a secret that was sent.
    #[tracing::instrument(name = "call", level = "error", skip_all, fields(csi.rpc = %rpc))]
    pub(super) async fn call<M, R, F>(
        &self,
        rpc: Rpc,
        mut message: M,
        send: impl FnOnce(Channel, Request<M>) -> F,
    ) -> Result<R, PluginError>
    where
        M: MessageTexts,
        R: MessageTexts,
        F: Future<Output = Result<Response<R>, Status>>,
    {
        self.secrets.note(&mut message);
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
            Ok(Ok(response)) => {
                let mut answer = response.into_inner();
                let hidden = self.secrets.hide_in(&mut answer);
                let usable = hidden
                    .map_err(|error: SecretInAddress| error.to_string())
                    .and_then(|()| answer_limits::limit(&mut answer));
                usable.map(|()| answer).map_err(|problem| status::malformed(rpc, &problem))
            }
        };
        let result = result.map_err(|error| {
            let mut message = self.secrets.hidden_in(error.message);
            answer_limits::cut(&mut message, answer_limits::SHOWN_BYTES);
            PluginError { message, ..error }
        });
        let code = result.as_ref().err().map_or(StatusCode::Ok, |error| error.code);
        let driver = self.driver.get().map_or(UNKNOWN_DRIVER, String::as_str);
        self.measurements.plugin_call(driver, &rpc.method(), code, begun.elapsed());
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
    let is_timeout = matches!(error.code, StatusCode::DeadlineExceeded | StatusCode::Cancelled);
    if is_late && is_timeout && error.delivery == Delivery::Answered {
        return PluginError { delivery: Delivery::Unanswered, ..error };
    }
    error
}
