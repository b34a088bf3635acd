//! Health over gRPC, against the strict fake plugin.

use std::path::PathBuf;

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::{
    AttachmentMode, ControllerCapabilities, ExternalId, NodeCapabilities, Secrets, StorageStatus,
    StorageStatusKind, VolumeStatus, VolumeStatusKind,
};
use nomad_csi_ports::{
    Connector as _, ListVolumeHealth, NodeVolumeHealth, PageRequest, PluginConnection, SentSecrets,
    StatusCode,
};
use nomad_csi_testing::{FakeBackend, PluginSettings};

use crate::support::fake_plugin::FakePluginServer;

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn start() -> (tempfile::TempDir, FakePluginServer, PluginConnection) {
    let settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            get_volume_health: true,
            list_volume_health: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            get_volume_health: true,
            get_storage_health: true,
            ..NodeCapabilities::default()
        }),
        secrets: secrets(),
        ..PluginSettings::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start(FakeBackend::new(settings), &socket);
    let connection = GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
    (directory, server, connection)
}

fn status(kind: VolumeStatusKind) -> VolumeStatus {
    VolumeStatus { kind, reason: "Why".to_owned(), message: "text".to_owned() }
}

/// W56: the health of volumes and storage is asked for.
#[tokio::test]
async fn health_arrives_as_it_was_sent() {
    let (_directory, server, plugin) = start();
    let capabilities = plugin.controller.controller_capabilities().await.unwrap();
    assert!(capabilities.get_volume_health && capabilities.list_volume_health);
    let capabilities = plugin.node.node_capabilities().await.unwrap();
    assert!(capabilities.get_volume_health && capabilities.get_storage_health);
    let id = ExternalId::new("v");
    server.backend.add_volume(id.clone(), Default::default());
    let statuses = vec![
        status(VolumeStatusKind::Degraded),
        status(VolumeStatusKind::Inaccessible),
        status(VolumeStatusKind::DataLoss),
        status(VolumeStatusKind::Unknown(9)),
    ];
    server.backend.set_volume_health(id.clone(), statuses.clone());
    let answer = plugin.controller.volume_health(id.clone(), secrets()).await;
    assert_eq!(answer.unwrap(), statuses);
    let request = ListVolumeHealth { page: PageRequest::default(), secrets: secrets() };
    let page = plugin.controller.list_volume_health(request).await.unwrap();
    assert_eq!((page.entries.len(), page.next_token), (1, None));
    assert_eq!(page.entries[0].statuses, statuses);
    let unknown = ExternalId::new("nothing");
    let refused = plugin.controller.volume_health(unknown, secrets()).await;
    assert_eq!(refused.unwrap_err().code, StatusCode::NotFound);
    let node = server.backend.settings().description.external_node_id;
    let here = vec![status(VolumeStatusKind::Inaccessible)];
    server.backend.set_node_volume_health(node, id.clone(), here.clone());
    let request = NodeVolumeHealth {
        external_id: id,
        publish_path: Some(PathBuf::from("/target")),
        staging_path: Some(PathBuf::from("/staging")),
    };
    assert_eq!(plugin.node.node_volume_health(request).await.unwrap(), here);
    let storage = vec![StorageStatus {
        kind: StorageStatusKind::Unreachable,
        reason: "PathLost".to_owned(),
        message: String::new(),
        attachment_mode: Some(AttachmentMode::BlockDevice),
    }];
    server.backend.set_storage_health(storage.clone());
    assert_eq!(plugin.node.storage_health(secrets()).await.unwrap(), storage);
    assert_eq!(server.backend.take_violations(), Vec::<String>::new());
}

#[tokio::test]
async fn a_bad_token_is_aborted() {
    let (_directory, _server, plugin) = start();
    let request = ListVolumeHealth {
        page: PageRequest { entries: 1, starting_token: "yesterday".to_owned() },
        secrets: secrets(),
    };
    let refused = plugin.controller.list_volume_health(request).await;
    assert_eq!(refused.unwrap_err().code, StatusCode::Aborted);
}
