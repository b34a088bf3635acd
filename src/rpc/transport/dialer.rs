//! [`Dialer`]: keeps the connections of a node to its servers open.
//!
//! It opens a pair to a server: it registers on the first, and the second begins with the token of the registration. When
//! one of them ends, both do, and a pair is opened again after a pause that grows. One server that answers is enough: it leads, or
//! forwards the pair to the one that leads. Without one, all servers are dialled at once.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::transport::Channel;

use super::connection_token::ConnectionToken;
use super::dial::dial;
use super::peer_stream::{PeerStream, StreamFailure, channel_over};
use super::protocol::{CALLS, REVERSED, answering};
use crate::tls::cluster_tls::ClusterTls;
use crate::tls::peer_failure::failure_at_node;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_ports::IdSource;

/// The pauses between attempts. Servers that wait refuse connections until one of them leads: then its nodes are missed.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(250), max: Duration::from_secs(5) };
/// How long each step of an attempt may take: TCP, TLS, the registration.
const STEP_LIMIT: Duration = Duration::from_secs(10);
/// A pair that lasted this long was a success: the pauses begin again.
const LASTED: Duration = Duration::from_secs(10);

/// Makes a connection the one of a node.
#[async_trait]
pub trait Registrar: Send + Sync {
    /// Registers the node on a new connection to a server, and returns the token for the second connection.
    ///
    /// # Errors
    /// Why not, for the log. The attempt is repeated.
    async fn register(&self, server: &str, channel: &Channel) -> Result<ConnectionToken, String>;

    /// Both connections to a server are there.
    fn connected(&self, server: &str, channel: Channel);

    /// The connections to a server are gone.
    fn disconnected(&self, server: &str);

    /// Returns whether a server answers the node, so that it needs no other one.
    fn is_served(&self) -> watch::Receiver<bool>;
}

/// Keeps the connections of a node to its servers open.
pub struct Dialer {
    servers: Vec<String>,
    tls: watch::Receiver<ClusterTls>,
    registrar: Arc<dyn Registrar>,
    services: Routes,
    ids: Arc<dyn IdSource>,
}

impl Dialer {
    /// Returns a dialer for these servers, each as `HOST:PORT`. The servers call `services`. `tls` can change later, for
    /// connections from then on.
    pub fn new(
        servers: Vec<String>,
        tls: watch::Receiver<ClusterTls>,
        registrar: Arc<dyn Registrar>,
        services: Routes,
        ids: Arc<dyn IdSource>,
    ) -> Self {
        Self { servers, tls, registrar, services, ids }
    }

    /// Keeps the connections open until `stop`, and closes them.
    pub async fn run(self, stop: CancellationToken) {
        join_all(self.servers.iter().map(|server| self.keep_connected(server, &stop))).await;
    }

    async fn keep_connected(&self, server: &str, stop: &CancellationToken) {
        let mut failures = 0;
        let mut is_served = self.registrar.is_served();
        while !stop.is_cancelled() {
            tokio::select! {
                _ = is_served.wait_for(|is_served| !is_served) => {}
                () = stop.cancelled() => return,
            }
            let begun = Instant::now();
            // It ends this pair, and is cancelled by the end of either connection.
            let pair = stop.child_token();
            let reason = tokio::select! {
                reason = self.connect_once(server, &pair) => reason,
                () = stop.cancelled() => String::new(),
            };
            pair.cancel();
            if stop.is_cancelled() {
                return;
            }
            if begun.elapsed() >= LASTED {
                failures = 0;
            }
            let pause = RETRY.delay(failures, self.ids.jitter());
            failures = failures.saturating_add(1);
            tracing::warn!(
                server.address = server,
                reason,
                pause_ms = pause.as_millis(),
                "no connection to a server"
            );
            tokio::select! {
                () = sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Opens a pair of connections, and returns why it ended.
    pub(crate) async fn connect_once(&self, server: &str, pair: &CancellationToken) -> String {
        let (channel, token, failure) = match self.register(server, pair).await {
            Ok(registered) => registered,
            Err(reason) => return reason,
        };
        let reversed = async {
            let mut stream = self.open(server, REVERSED).await?;
            stream.write_all(token.expose()).await?;
            stream.flush().await?;
            Ok::<_, io::Error>(stream)
        };
        let reversed = match timeout(STEP_LIMIT, reversed).await {
            Ok(Ok(stream)) => PeerStream::new(stream, pair, ()),
            Ok(Err(error)) => return self.describe(&error),
            Err(_) => return "the second connection took too long".to_owned(),
        };
        let _connected = Connected::new(self.registrar.as_ref(), server, channel);
        let incoming =
            stream::once(async { Ok::<_, io::Error>(reversed) }).chain(stream::pending());
        let served = answering().add_routes(self.services.clone()).serve_with_incoming(incoming);
        tokio::select! {
            () = pair.cancelled() => self.explain(&failure, || "a connection ended".to_owned()),
            ended = served => format!("the services of the node ended: {ended:?}"),
        }
    }

    async fn register(
        &self,
        server: &str,
        pair: &CancellationToken,
    ) -> Result<(Channel, ConnectionToken, StreamFailure), String> {
        let opened = timeout(STEP_LIMIT, self.open(server, CALLS)).await;
        let opened = opened.map_err(|_| "the connection took too long".to_owned())?;
        let stream = PeerStream::new(opened.map_err(|error| self.describe(&error))?, pair, ());
        let failure = stream.failure();
        let channel = channel_over(stream).await;
        let channel = channel.map_err(|error| self.explain(&failure, || error.to_string()))?;
        let registered = timeout(STEP_LIMIT, self.registrar.register(server, &channel)).await;
        let registered = registered.map_err(|_| "the registration took too long".to_owned())?;
        let token = registered.map_err(|reason| self.explain(&failure, || reason))?;
        Ok((channel, token, failure))
    }

    /// Returns why a connection failed, or the other reason if it did not.
    fn explain(&self, failure: &StreamFailure, other: impl FnOnce() -> String) -> String {
        failure.get().map_or_else(other, |error| self.describe(error))
    }

    fn describe(&self, error: &io::Error) -> String {
        failure_at_node(error, self.tls.borrow().region())
    }

    async fn open(&self, server: &str, protocol: &[u8]) -> io::Result<TlsStream<TcpStream>> {
        let tls = self.tls.borrow().clone();
        dial(&tls, server, protocol).await
    }
}

/// A pair of connections that the registrar knows, until it is dropped.
struct Connected<'a> {
    registrar: &'a dyn Registrar,
    server: &'a str,
}

impl<'a> Connected<'a> {
    fn new(registrar: &'a dyn Registrar, server: &'a str, channel: Channel) -> Self {
        registrar.connected(server, channel);
        Self { registrar, server }
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.registrar.disconnected(self.server);
    }
}
