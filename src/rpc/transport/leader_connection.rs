//! [`LeaderConnection`]: one connection to the server that leads, for requests of the HTTP API.

use std::io;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::Channel;
use tower::{Service as _, ServiceExt as _};

use super::dial::dial;
use super::peer_stream::{PeerStream, channel_with};
use super::protocol::{REQUESTS, forwarding};
use crate::tls::cluster_tls::ClusterTls;

/// How long it may take to open.
const OPEN_LIMIT: Duration = Duration::from_secs(5);

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum NoResponse {
    /// It was not sent.
    #[error("it was not sent: {0}")]
    NotSent(String),
    /// It was sent, and the connection ended.
    #[error("it was not answered: {0}")]
    Unanswered(String),
}

/// A connection that is open until it ends, or another server leads.
struct Open {
    server: String,
    channel: Channel,
    closed: CancellationToken,
}

/// The connection to the server that leads. It is opened by the first request, and again after its end.
pub struct LeaderConnection {
    tls: watch::Receiver<ClusterTls>,
    open: Mutex<Option<Open>>,
    /// One request opens the connection, and the others wait for it.
    opening: Semaphore,
}

impl LeaderConnection {
    /// Returns a connection that is not open yet. `tls` can change later, for connections from then on.
    pub fn new(tls: watch::Receiver<ClusterTls>) -> Self {
        Self { tls, open: Mutex::new(None), opening: Semaphore::new(1) }
    }

    /// Sends a request to the leader, which is at this address, once.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn send(
        &self,
        server: &str,
        request: http::Request<Body>,
    ) -> Result<http::Response<Body>, NoResponse> {
        let not_sent = |error: &dyn std::fmt::Display| NoResponse::NotSent(error.to_string());
        let channel = match self.channel(server) {
            Some(channel) => channel,
            None => {
                let opened = timeout(OPEN_LIMIT, self.open(server)).await;
                let opened = opened.map_err(|_| not_sent(&"the connection took too long"))?;
                opened.map_err(|error| not_sent(&error))?
            }
        };
        let mut channel = channel;
        let ready = channel.ready().await.map_err(|error| not_sent(&error))?;
        let answered = ready.call(request).await;
        answered.map_err(|error| NoResponse::Unanswered(error.to_string()))
    }

    fn channel(&self, server: &str) -> Option<Channel> {
        let open = self.open.lock();
        let open = open.as_ref()?;
        let is_usable = open.server == server && !open.closed.is_cancelled();
        is_usable.then(|| open.channel.clone())
    }

    async fn open(&self, server: &str) -> io::Result<Channel> {
        let _opening = self.opening.acquire().await.map_err(io::Error::other)?;
        if let Some(channel) = self.channel(server) {
            return Ok(channel);
        }
        let tls = self.tls.borrow().clone();
        let stream = dial(&tls, server, REQUESTS).await?;
        let closed = CancellationToken::new();
        let stream = PeerStream::new(stream, &closed, ());
        let channel = channel_with(forwarding(), stream).await.map_err(io::Error::other)?;
        let opened = Open { server: server.to_owned(), channel: channel.clone(), closed };
        // Requests of the one before end with it: another server leads, or it had ended.
        *self.open.lock() = Some(opened);
        Ok(channel)
    }
}
