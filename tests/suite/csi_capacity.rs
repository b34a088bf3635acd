//! The capacity of a provider over gRPC, against the strict fake plugin.

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, Capacity, ControllerCapabilities, MountOptions,
    ReportedCapacity, Topology,
};
use nomad_csi_ports::{Connector as _, GetCapacity, PluginConnection, SentSecrets, StatusCode};
use nomad_csi_testing::{FakeBackend, PluginSettings};

use crate::support::fake_plugin::FakePluginServer;

fn start(has_topology: bool) -> (tempfile::TempDir, FakePluginServer, PluginConnection) {
    let mut settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            get_capacity: true,
            ..ControllerCapabilities::default()
        }),
        ..PluginSettings::default()
    };
    settings.plugin.volume_accessibility_constraints = has_topology;
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start(FakeBackend::new(settings), &socket);
    let connection = GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
    (directory, server, connection)
}

/// W56: the capacity is asked for, with everything that narrows it, and arrives as it was sent; a negative number is an
/// error.
#[tokio::test]
async fn capacity_arrives_as_it_was_sent() {
    let (_directory, server, plugin) = start(true);
    let capabilities = plugin.controller.controller_capabilities().await.unwrap();
    assert!(capabilities.get_capacity);
    let zone = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
    let reported = ReportedCapacity { available: i64::MAX, maximum: Some(0), minimum: None };
    server.backend.set_capacity(Some(zone.clone()), reported);
    let request = GetCapacity {
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }],
        mount_options: MountOptions {
            fs_type: "ext4".to_owned(),
            mount_flags: vec!["noatime".to_owned()],
        },
        parameters: [("type".to_owned(), "ssd".to_owned())].into(),
        topology: Some(zone),
    };
    let answer = plugin.controller.get_capacity(request).await.unwrap();
    let expected = Capacity {
        available: Bytes::MAX,
        maximum_volume_size: Some(Bytes::ZERO),
        minimum_volume_size: None,
    };
    assert_eq!(answer, expected);
    let everywhere = GetCapacity::default();
    let negative = ReportedCapacity { minimum: Some(-5), ..reported };
    server.backend.set_capacity(None, negative);
    let refused = plugin.controller.get_capacity(everywhere).await.unwrap_err();
    assert_eq!(refused.code, StatusCode::Internal);
    assert_eq!(
        refused.message,
        "the plugin's response violates the CSI specification: minimum_volume_size is negative (-5)"
    );
    assert_eq!(server.backend.take_violations(), Vec::<String>::new());
}
