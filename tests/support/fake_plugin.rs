//! Front 2 of the strict fake plugin: real gRPC over a Unix socket.
//!
//! The world, its rules and its faults are `ports::fake`'s. Here a lost reply is a connection that
//! really breaks, and a dead plugin one that really does not listen. What the wire alone can show is
//! checked here: messages that the specification forbids to send, the `:authority`, the deadline.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use nomad_csi::csi::proto::controller_server::ControllerServer;
use nomad_csi::csi::proto::identity_server::IdentityServer;
use nomad_csi::csi::proto::node_server::NodeServer;
use nomad_csi::ports::fake::FakeBackend;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tower::util::MapRequestLayer;

use services::Service;

mod messages;
mod services;

/// What came with a call, beside its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) path: String,
    pub(crate) authority: String,
    pub(crate) timeout: Option<String>,
}

/// The fake plugin on its socket. Ends with its value.
pub(crate) struct FakePluginServer {
    pub(crate) backend: Arc<FakeBackend>,
    socket: PathBuf,
    envelopes: Arc<Mutex<Vec<Envelope>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl FakePluginServer {
    /// Listens on `socket` for as long as the plugin lives.
    pub(crate) fn start(backend: Arc<FakeBackend>, socket: &Path) -> Self {
        let cuts = Arc::new(Cuts::default());
        let envelopes = Arc::new(Mutex::new(vec![]));
        let service = Service {
            backend: backend.clone(),
            cuts: cuts.clone(),
        };
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let (accepted, incoming) = mpsc::channel(16);
        let accept = accept(
            backend.clone(),
            socket.to_owned(),
            listener,
            cuts.clone(),
            accepted,
        );
        let serve = serve(service, envelopes.clone(), incoming);
        Self {
            backend,
            socket: socket.to_owned(),
            envelopes,
            tasks: vec![tokio::spawn(accept), tokio::spawn(serve)],
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What came with each call so far.
    pub(crate) fn envelopes(&self) -> Vec<Envelope> {
        self.envelopes.lock().unwrap().clone()
    }
}

impl Drop for FakePluginServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Breaks all connections at once.
#[derive(Default)]
struct Cuts(Mutex<CancellationToken>);

impl Cuts {
    fn cut(&self) {
        std::mem::take(&mut *self.0.lock().unwrap()).cancel();
    }

    fn token(&self) -> CancellationToken {
        self.0.lock().unwrap().clone()
    }
}

/// Accepts while the plugin lives; a dead one has closed its listener and its connections, and has
/// left its socket file.
async fn accept(
    backend: Arc<FakeBackend>,
    socket: PathBuf,
    first: UnixListener,
    cuts: Arc<Cuts>,
    accepted: mpsc::Sender<io::Result<Connection>>,
) {
    let mut listener = Some(first);
    loop {
        let mut lives = backend.lives();
        if !backend.is_alive() {
            drop(listener.take());
            cuts.cut();
            drop(lives.changed().await);
            continue;
        }
        let listening = listener.get_or_insert_with(|| {
            std::fs::remove_file(&socket).expect("a dead plugin leaves its socket");
            UnixListener::bind(&socket).expect("the socket can be bound again")
        });
        tokio::select! {
            stream = listening.accept() => {
                let (stream, _) = stream.expect("a connection is accepted");
                let cut = Box::pin(cuts.token().cancelled_owned());
                if accepted.send(Ok(Connection { stream, cut })).await.is_err() {
                    return;
                }
            }
            changed = lives.changed() => drop(changed),
        }
    }
}

async fn serve(
    service: Service,
    envelopes: Arc<Mutex<Vec<Envelope>>>,
    incoming: mpsc::Receiver<io::Result<Connection>>,
) {
    let record = MapRequestLayer::new(move |request: http::Request<tonic::body::Body>| {
        let text = |name: &str| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        envelopes.lock().unwrap().push(Envelope {
            path: request.uri().path().to_owned(),
            authority: request
                .uri()
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            timeout: text("grpc-timeout"),
        });
        request
    });
    Server::builder()
        .layer(record)
        .add_service(IdentityServer::new(service.clone()))
        .add_service(ControllerServer::new(service.clone()))
        .add_service(NodeServer::new(service))
        .serve_with_incoming(ReceiverStream::new(incoming))
        .await
        .expect("the server serves");
}

/// A connection that can be broken from outside.
pub(crate) struct Connection {
    pub(crate) stream: UnixStream,
    pub(crate) cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
