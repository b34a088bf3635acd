//! Statistics of published volumes over gRPC, against the strict fake plugin.

use std::path::PathBuf;

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, Condition, ExternalId, NodeCapabilities, Quantity,
    ReportedQuantity, StatsUnit, VolumeStats,
};
use nomad_csi_ports::{
    Connector as _, NodeVolumeStats, PluginConnection, PublishVolume, Rpc, SentSecrets,
    StageVolume, StatusCode,
};
use nomad_csi_testing::{FakeBackend, Fault, PluginSettings, ReportedStats};

use crate::support::fake_plugin::FakePluginServer;

fn start() -> (tempfile::TempDir, FakePluginServer, PluginConnection) {
    let settings = PluginSettings {
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            get_volume_stats: true,
            ..NodeCapabilities::default()
        }),
        ..PluginSettings::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start(FakeBackend::new(settings), &socket);
    let connection = GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
    (directory, server, connection)
}

const CAPABILITY: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

fn id() -> ExternalId {
    ExternalId::new("v")
}

async fn publish(server: &FakePluginServer, plugin: &PluginConnection) {
    server.backend.add_volume(id(), Default::default());
    let stage = StageVolume {
        external_id: id(),
        publish_context: Default::default(),
        staging_path: "/staging".into(),
        capability: CAPABILITY,
        mount_options: Default::default(),
        secrets: Default::default(),
        context: Default::default(),
    };
    plugin.node.stage_volume(stage).await.unwrap();
    let publish = PublishVolume {
        external_id: id(),
        publish_context: Default::default(),
        staging_path: Some("/staging".into()),
        target_path: "/target".into(),
        capability: CAPABILITY,
        mount_options: Default::default(),
        read_only: false,
        secrets: Default::default(),
        context: Default::default(),
    };
    plugin.node.publish_volume(publish).await.unwrap();
}

fn request(path: &str) -> NodeVolumeStats {
    NodeVolumeStats {
        external_id: id(),
        volume_path: PathBuf::from(path),
        staging_path: Some("/staging".into()),
    }
}

fn reported(unit: StatsUnit, total: i64, used: i64, available: i64) -> ReportedQuantity {
    ReportedQuantity { unit, total, used, available }
}

/// W56: volume statistics are asked for, with the paths of the volume, and arrive as they were sent. Nonsense arrives as
/// a problem.
#[tokio::test]
async fn statistics_arrive_as_they_were_sent() {
    let (_directory, server, plugin) = start();
    let capabilities = plugin.node.node_capabilities().await.unwrap();
    assert!(capabilities.get_volume_stats);
    publish(&server, &plugin).await;
    let node = server.backend.settings().description.external_node_id;
    let report = |quantities, condition| {
        let stats = ReportedStats { quantities, condition };
        server.backend.set_stats(node.clone(), id(), stats);
    };
    let slow = Condition { abnormal: true, message: "slow".to_owned() };
    let (bytes, inodes) = (StatsUnit::Bytes, StatsUnit::Inodes);
    let all = vec![reported(inodes, 9, 2, 7), reported(bytes, i64::MAX, 5, 6)];
    report(all, Some(slow.clone()));
    let quantity = |total, used, available| {
        Some(Quantity { total: Some(total), used: Some(used), available: Some(available) })
    };
    let expected = VolumeStats {
        bytes: quantity(i64::MAX.unsigned_abs(), 5, 6),
        inodes: quantity(9, 2, 7),
        condition: Some(slow),
        problems: vec![],
    };
    for path in ["/target", "/staging"] {
        let answer = plugin.node.node_volume_stats(request(path)).await;
        assert_eq!(answer.unwrap(), expected, "{path}");
    }
    report(vec![reported(bytes, 5, 6, 0), reported(inodes, i64::MIN, 0, 0)], None);
    let answer = plugin.node.node_volume_stats(request("/target")).await;
    let problems = answer.unwrap().problems;
    assert_eq!(
        problems,
        [
            "the plugin reports 6 used of 5 bytes",
            "the plugin reports -9223372036854775808 total inodes, which is negative",
        ]
    );
    let elsewhere = plugin.node.node_volume_stats(request("/elsewhere")).await;
    assert_eq!(elsewhere.unwrap_err().code, StatusCode::NotFound);
    assert_eq!(server.backend.take_violations(), Vec::<String>::new());
    let unstaged = NodeVolumeStats { staging_path: None, ..request("/target") };
    plugin.node.node_volume_stats(unstaged).await.unwrap_err();
    assert_eq!(
        server.backend.take_violations(),
        ["NodeGetVolumeStats: the staging path is missing"]
    );
}

/// W56: the call has a deadline of ten seconds, and nothing waits for it.
#[tokio::test]
async fn statistics_have_a_deadline_and_delay_no_other_call() {
    let (_directory, server, plugin) = start();
    publish(&server, &plugin).await;
    let rpc = Rpc::NodeGetVolumeStats;
    server.backend.inject_faults(rpc, [Fault::Hang]);
    let asking = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.node.node_volume_stats(request("/target")).await })
    };
    while server.backend.count(rpc) == 0 {
        tokio::task::yield_now().await;
    }
    let undone = plugin.node.unpublish_volume(id(), "/target".into());
    undone.await.unwrap();
    assert!(!asking.is_finished());
    let headers = server.call_headers();
    let call = headers.iter().find(|call| call.path == rpc.method());
    assert_eq!(call.unwrap().timeout.as_deref(), Some("10000000u"));
    server.backend.release();
    let late = asking.await.unwrap().unwrap_err();
    assert_eq!(late.code, StatusCode::NotFound, "it is published no more");
}
