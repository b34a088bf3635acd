//! From a Unix socket to the plugin ports.
//!
//! One channel per socket, shared by all who ask. A channel connects with its first call and again
//! after the connection broke, so it may be had before the plugin listens, and outlives the
//! plugin's restarts. The `:authority` is `localhost`, never the socket's path: tonic servers, and
//! those of Node.js, refuse a path there (`csi-spec` 8.8, GH-12359).

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};

use super::{deadline, status};
use crate::ports::{Connector, PluginConnection, PluginError, Rpc};

/// Connects to plugins over Unix sockets.
#[derive(Debug, Default)]
pub struct GrpcConnector {
    channels: Mutex<HashMap<PathBuf, Channel>>,
}

impl GrpcConnector {
    /// One without any connection yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn channel(&self, socket: &Path) -> Channel {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels
            .entry(socket.to_owned())
            .or_insert_with(|| lazy_channel(socket.to_owned()))
            .clone()
    }
}

impl Connector for GrpcConnector {
    /// Has to be called on a tokio runtime, which then carries the connection.
    fn connect(&self, socket: &Path) -> PluginConnection {
        let client = Arc::new(Client {
            channel: self.channel(socket),
            socket: socket.to_owned(),
        });
        PluginConnection {
            identity: client.clone(),
            controller: client.clone(),
            node: client,
        }
    }
}

/// A channel that connects when it is first used.
pub(super) fn lazy_channel(socket: PathBuf) -> Channel {
    let connector = tower::service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(connector)
}

/// One plugin over its channel: implements the three ports.
#[derive(Debug)]
pub(super) struct Client {
    channel: Channel,
    socket: PathBuf,
}

impl Client {
    /// Sends one call, once, under its deadline, and reads what a failure means.
    pub(super) async fn call<M, A, F>(
        &self,
        rpc: Rpc,
        message: M,
        send: impl FnOnce(Channel, Request<M>) -> F,
    ) -> Result<A, PluginError>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let deadline = deadline::of(rpc);
        let mut request = Request::new(message);
        request.set_timeout(deadline);
        let answer = tokio::time::timeout(deadline, send(self.channel.clone(), request)).await;
        let result = match answer {
            Err(_elapsed) => Err(status::late(rpc, deadline)),
            Ok(Err(failed)) => Err(status::failure(rpc, &self.socket, &failed)),
            Ok(Ok(response)) => Ok(response.into_inner()),
        };
        if let Err(error) = &result {
            tracing::debug!(csi.rpc = %rpc, socket = %self.socket.display(), %error, "call failed");
        }
        result
    }
}
