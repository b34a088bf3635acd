//! A plugin that answers every RPC with what a test gives it, such as the secrets of the request.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::{Request, State};
use axum::response::Response;
use prost::bytes::{Buf as _, BufMut as _};
use tokio::net::UnixListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::Grpc;
use tonic::service::Routes;
use tonic::transport::Server;

/// Answers an RPC, given by its name, with an encoded message.
type Answer = Arc<dyn Fn(&str) -> Result<Vec<u8>, Status> + Send + Sync>;

/// The plugin on its socket. Dropping the value stops it.
pub(crate) struct EchoPlugin {
    pub(crate) socket: PathBuf,
    task: JoinHandle<()>,
}

impl EchoPlugin {
    /// Listens on the socket. Must be called on a runtime.
    pub(crate) fn start(
        socket: &Path,
        answer: impl Fn(&str) -> Result<Vec<u8>, Status> + Send + Sync + 'static,
    ) -> Self {
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let answer: Answer = Arc::new(answer);
        let router = axum::Router::new().fallback(respond).with_state(answer);
        let serving = Server::builder()
            .add_routes(Routes::from(router))
            .serve_with_incoming(UnixListenerStream::new(listener));
        Self {
            socket: socket.to_owned(),
            task: tokio::spawn(async { serving.await.expect("the plugin serves") }),
        }
    }
}

impl Drop for EchoPlugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn respond(State(answer): State<Answer>, request: Request) -> Response {
    let rpc = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let service = Echo { answer, rpc };
    let response = Grpc::new(Bytes).unary(service, request).await;
    response.map(axum::body::Body::new)
}

struct Echo {
    answer: Answer,
    rpc: String,
}

impl tower::Service<tonic::Request<Vec<u8>>> for Echo {
    type Response = tonic::Response<Vec<u8>>;
    type Error = Status;
    type Future = std::future::Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: tonic::Request<Vec<u8>>) -> Self::Future {
        std::future::ready((self.answer)(&self.rpc).map(tonic::Response::new))
    }
}

/// Messages as the bytes that they are.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut bytes = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut bytes);
        Ok(Some(bytes))
    }
}
