//! A CSI plugin in memory that does everything right, and on demand exactly one thing wrong.
//!
//! What `plugin check` is checked against. Unlike the strict fake plugin (`fake_plugin`), which
//! reports what CSI forbids an orchestrator, it answers everything, also what no orchestrator may
//! send. Its volumes hold bytes, and [`ExemplarFiles`] shows them at the paths where they are
//! published, so that faults in what a workload sees can be made without any mount.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use nomad_csi::csi::proto::controller_server::ControllerServer;
use nomad_csi::csi::proto::group_controller_server::GroupControllerServer;
use nomad_csi::csi::proto::identity_server::IdentityServer;
use nomad_csi::csi::proto::node_server::NodeServer;
use nomad_csi::csi::proto::snapshot_metadata_server::SnapshotMetadataServer;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::fake_plugin::Connection;
pub(crate) use deviation::Deviation;
pub(crate) use files::ExemplarFiles;
use world::World;

mod controller;
mod deviation;
mod files;
mod node;
mod services;
mod snapshots;
mod world;

/// The plugin, as long as its value lives.
pub(crate) struct Exemplar {
    world: Shared,
    task: JoinHandle<()>,
}

/// What the services and the files share.
#[derive(Clone)]
struct Shared(Arc<Mutex<World>>);

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("nothing panics under the lock")
    }
}

impl Exemplar {
    /// Listens on `socket`, with at most one thing wrong.
    pub(crate) fn start(socket: &Path, deviation: Option<Deviation>) -> Self {
        let world = Shared(Arc::new(Mutex::new(World::new(deviation))));
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let service = services::Service(world.clone());
        let death = world.world().death.clone();
        let server = Server::builder()
            .add_service(IdentityServer::new(service.clone()))
            .add_service(ControllerServer::new(service.clone()))
            .add_service(GroupControllerServer::new(service.clone()))
            .add_service(SnapshotMetadataServer::new(service.clone()))
            .add_service(NodeServer::new(service));
        // Whatever is open breaks when the plugin dies.
        let (accepted, incoming) = mpsc::channel::<std::io::Result<Connection>>(16);
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cut = Box::pin(death.clone().cancelled_owned());
                drop(accepted.send(Ok(Connection { stream, cut })).await);
            }
        };
        let dead = world.world().death.clone();
        let serving = server.serve_with_incoming(ReceiverStream::new(incoming));
        let task = tokio::spawn(async move {
            tokio::select! {
                () = dead.cancelled_owned() => {}
                () = accept => {}
                served = serving => served.expect("the server serves"),
            }
        });
        Self { world, task }
    }

    /// The machine's paths as this plugin's workloads see them.
    pub(crate) fn files(&self) -> ExemplarFiles {
        ExemplarFiles(self.world.clone())
    }

    /// Whether anything was ever made.
    pub(crate) fn has_made_anything(&self) -> bool {
        self.world.world().has_made_anything()
    }

    /// Presses Ctrl-C as the `count`th volume from now on is created.
    pub(crate) fn interrupt_at(&self, count: u32, stop: CancellationToken) {
        self.world.world().interrupt = Some((count, stop));
    }

    /// Everything that is still there.
    pub(crate) fn remains(&self) -> Vec<String> {
        self.world.world().remains()
    }
}

impl Drop for Exemplar {
    fn drop(&mut self) {
        self.task.abort();
    }
}
