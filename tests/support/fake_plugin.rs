//! The strict fake plugin over real gRPC and a Unix socket.
//!
//! State, rules and faults come from the crate `testing`. Here a lost reply is a broken connection, and a
//! crashed plugin does not listen. This module checks what only the wire shows: messages that the
//! specification forbids, the `:authority`, and the deadline.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use nomad_csi_model::ExternalNodeId;
use nomad_csi_proto::controller_server::ControllerServer;
use nomad_csi_proto::identity_server::IdentityServer;
use nomad_csi_proto::node_server::NodeServer;
use nomad_csi_testing::FakeBackend;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tower::util::MapRequestLayer;

pub(crate) use connection::Connection;
use connection::ConnectionCutter;
use services::Service;

mod connection;
mod messages;
mod services;

/// The headers of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallHeaders {
    pub(crate) path: String,
    pub(crate) authority: String,
    pub(crate) timeout: Option<String>,
}

/// The fake plugin on its socket. Dropping the value stops the plugin.
pub(crate) struct FakePluginServer {
    pub(crate) backend: Arc<FakeBackend>,
    socket: PathBuf,
    call_headers: Arc<Mutex<Vec<CallHeaders>>>,
    connections: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<()>>,
}

impl FakePluginServer {
    /// Listens on `socket` while the plugin is alive.
    pub(crate) fn start(backend: Arc<FakeBackend>, socket: &Path) -> Self {
        Self::start_on(backend, socket, None)
    }

    /// Listens on `socket` as the plugin of a node that the backend knows.
    pub(crate) fn start_on(
        backend: Arc<FakeBackend>,
        socket: &Path,
        node: Option<ExternalNodeId>,
    ) -> Self {
        let cutter = Arc::new(ConnectionCutter::default());
        let envelopes = Arc::new(Mutex::new(vec![]));
        let service = Service { backend: backend.clone(), cutter: cutter.clone(), node };
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let (accepted, incoming) = mpsc::channel(16);
        let connections = Arc::<AtomicUsize>::default();
        let accept = accept(
            backend.clone(),
            socket.to_owned(),
            listener,
            cutter.clone(),
            (accepted, connections.clone()),
        );
        let serve = serve(service, envelopes.clone(), incoming);
        Self {
            backend,
            socket: socket.to_owned(),
            call_headers: envelopes,
            connections,
            tasks: vec![tokio::spawn(accept), tokio::spawn(serve)],
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns how many connections were accepted so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the headers of all calls so far.
    pub(crate) fn call_headers(&self) -> Vec<CallHeaders> {
        self.call_headers.lock().unwrap().clone()
    }
}

impl Drop for FakePluginServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Accepts connections while the plugin is alive. A crashed plugin closes its listener and its
/// connections, and leaves its socket file behind.
async fn accept(
    backend: Arc<FakeBackend>,
    socket: PathBuf,
    first: UnixListener,
    cutter: Arc<ConnectionCutter>,
    (accepted, connections): (mpsc::Sender<io::Result<Connection>>, Arc<AtomicUsize>),
) {
    let mut listener = Some(first);
    loop {
        let mut lives = backend.lives();
        if !backend.is_alive() {
            drop(listener.take());
            cutter.cut();
            drop(lives.changed().await);
            continue;
        }
        let listening = listener.get_or_insert_with(|| {
            std::fs::remove_file(&socket).expect("a crashed plugin leaves its socket file");
            UnixListener::bind(&socket).expect("the socket can be bound again")
        });
        tokio::select! {
            stream = listening.accept() => {
                let (stream, _) = stream.expect("a connection is accepted");
                connections.fetch_add(1, Ordering::SeqCst);
                let cut = Box::pin(cutter.token().cancelled_owned());
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
    envelopes: Arc<Mutex<Vec<CallHeaders>>>,
    incoming: mpsc::Receiver<io::Result<Connection>>,
) {
    let record = MapRequestLayer::new(move |request: http::Request<tonic::body::Body>| {
        let text = |name: &str| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        envelopes.lock().unwrap().push(CallHeaders {
            path: request.uri().path().to_owned(),
            authority: request.uri().authority().map(ToString::to_string).unwrap_or_default(),
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
        .expect("the server runs");
}
