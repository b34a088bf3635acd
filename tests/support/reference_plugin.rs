//! An in-memory CSI plugin that conforms to the specification, except for one optional deviation.
//!
//! The tests of `plugin check` run against it. Unlike the strict fake plugin (`fake_plugin`), it also
//! answers requests that no orchestrator may send. Its volumes hold bytes, and [`ReferenceFiles`] shows
//! them at the published paths, so the tests need no mounts.

use std::path::Path;

use nomad_csi_proto::controller_server::ControllerServer;
use nomad_csi_proto::group_controller_server::GroupControllerServer;
use nomad_csi_proto::identity_server::IdentityServer;
use nomad_csi_proto::node_server::NodeServer;
use nomad_csi_proto::snapshot_metadata_server::SnapshotMetadataServer;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use super::fake_plugin::Connection;
pub(crate) use deviation::Deviation;
pub(crate) use files::ReferenceFiles;
use state::SharedState;

mod controller;
mod deviation;
mod files;
mod health;
mod node;
mod services;
mod snapshots;
mod state;

/// The plugin. Dropping the value stops it.
pub(crate) struct ReferencePlugin {
    state: SharedState,
    task: JoinHandle<()>,
}

impl ReferencePlugin {
    /// Listens on `socket`, with at most one deviation.
    pub(crate) fn start(socket: &Path, deviation: Option<Deviation>) -> Self {
        let state = SharedState::new(deviation);
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let service = services::Service(state.clone());
        let crash = state.lock().crash.clone();
        let server = Server::builder()
            .add_service(IdentityServer::new(service.clone()))
            .add_service(ControllerServer::new(service.clone()))
            .add_service(GroupControllerServer::new(service.clone()))
            .add_service(SnapshotMetadataServer::new(service.clone()))
            .add_service(NodeServer::new(service));
        // A crash of the plugin breaks all open connections.
        let (accepted, incoming) = mpsc::channel::<std::io::Result<Connection>>(16);
        let accept = async move {
            while let Ok((stream, _)) = listener.accept().await {
                let cut = Box::pin(crash.clone().cancelled_owned());
                drop(accepted.send(Ok(Connection { stream, cut })).await);
            }
        };
        let dead = state.lock().crash.clone();
        let serving = server.serve_with_incoming(ReceiverStream::new(incoming));
        let task = tokio::spawn(async move {
            tokio::select! {
                () = dead.cancelled_owned() => {}
                () = accept => {}
                served = serving => served.expect("the server runs"),
            }
        });
        Self { state, task }
    }

    /// Returns the paths of the machine as the plugin's workloads see them.
    pub(crate) fn files(&self) -> ReferenceFiles {
        ReferenceFiles(self.state.clone())
    }

    /// Returns whether the plugin has created anything.
    pub(crate) fn has_created_anything(&self) -> bool {
        self.state.lock().has_created_anything()
    }

    /// Refuses to create volumes without this parameter.
    pub(crate) fn require_parameter(&self, name: &'static str) {
        self.state.lock().required_parameter = Some(name);
    }

    /// Cancels `stop` during the creation of the `count`th volume from now.
    pub(crate) fn interrupt_at(&self, count: u32, stop: CancellationToken) {
        self.state.lock().interrupt = Some((count, stop));
    }

    /// Returns everything that still exists.
    pub(crate) fn remaining(&self) -> Vec<String> {
        self.state.lock().remaining()
    }
}

impl Drop for ReferencePlugin {
    fn drop(&mut self) {
        self.task.abort();
    }
}
