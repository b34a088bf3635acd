//! Lists, snapshots and expansion over gRPC, against the strict fake plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, Condition,
    ControllerCapabilities, ExternalId, MountOptions, Secrets, SnapshotId,
};
use nomad_csi_ports::{
    Connector as _, Controller, CreateSnapshot, CreateVolume, ExpandVolume, ListSnapshots,
    PageRequest, PluginError, Rpc, SentSecrets, StatusCode, VolumeSource,
};
use nomad_csi_testing::{FakeBackend, Fault, PluginSettings};

use crate::support::fake_plugin::FakePluginServer;

const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

struct FakePlugin {
    _directory: tempfile::TempDir,
    server: FakePluginServer,
    controller: Arc<dyn Controller>,
}

fn start_plugin(settings: PluginSettings) -> FakePlugin {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start(FakeBackend::new(settings), &socket);
    let controller =
        GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default()).controller;
    FakePlugin { _directory: directory, server, controller }
}

fn capable_settings() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            list_volumes: true,
            create_delete_snapshot: true,
            list_snapshots: true,
            clone_volume: true,
            expand_volume: true,
            volume_condition: true,
            ..ControllerCapabilities::default()
        }),
        secrets: secrets(),
        ..PluginSettings::default()
    }
}

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn size(bytes: u64) -> Bytes {
    Bytes::new(bytes).unwrap()
}

impl FakePlugin {
    async fn create(&self, name: &str, source: Option<VolumeSource>) -> ExternalId {
        let request = CreateVolume {
            name: name.to_owned(),
            capacity: CapacityRange { min: size(1 << 20), max: Bytes::ZERO },
            capabilities: vec![WRITER],
            mount_options: MountOptions::default(),
            parameters: BTreeMap::new(),
            secrets: secrets(),
            source,
            topology: None,
        };
        let created = self.controller.create_volume(request).await;
        created.unwrap().external_id
    }

    async fn snapshot(&self, source: &ExternalId, name: &str) -> Result<SnapshotId, PluginError> {
        let request = CreateSnapshot {
            source: source.clone(),
            name: name.to_owned(),
            parameters: BTreeMap::new(),
            secrets: secrets(),
        };
        let cut = self.controller.create_snapshot(request).await?;
        assert_eq!((&cut.source, cut.size), (source, size(1 << 20)));
        assert!(cut.create_time > 0 && cut.is_ready);
        Ok(cut.id)
    }
}

/// Every entry has its capacity, source, context and condition, and the pages are complete (W29).
#[tokio::test]
async fn a_provider_lists_all_its_volumes_page_by_page() {
    let plugin = start_plugin(capable_settings());
    let db = plugin.create("db", None).await;
    let cut = plugin.snapshot(&db, "nightly").await.unwrap();
    let copy = plugin.create("copy", Some(VolumeSource::Volume(db.to_string()))).await;
    let restored = plugin.create("restored", Some(VolumeSource::Snapshot(cut.to_string()))).await;
    let broken = Condition { abnormal: true, message: "lost a disk".to_owned() };
    plugin.server.backend.set_condition(&copy, broken.clone());
    let mut found = vec![];
    let mut token = String::new();
    loop {
        let page = PageRequest { entries: 2, starting_token: token };
        let page = plugin.controller.list_volumes(page).await.unwrap();
        assert!(page.entries.len() <= 2);
        found.extend(page.entries);
        match page.next_token {
            Some(next) => token = next,
            None => break,
        }
    }
    let ids: Vec<_> = found.iter().map(|volume| &volume.external_id).collect();
    assert_eq!(ids, [&db, &copy, &restored]);
    assert_eq!(found[0].capacity, size(1 << 20));
    assert_eq!(found[0].context["made-by"], db.to_string());
    assert_eq!(found[1].clone_id, Some(db.to_string()));
    assert_eq!(found[1].condition, Some(broken));
    assert_eq!(found[2].snapshot_id, Some(cut.to_string()));
    let all = PageRequest::default();
    let all = plugin.controller.list_volumes(all).await.unwrap();
    assert_eq!((all.entries, all.next_token), (found, None));
}

/// ABORTED from a list means an invalid token (CSI, "ListVolumes"), so a retry does not help.
#[tokio::test]
async fn an_expired_token_is_a_permanent_error() {
    let plugin = start_plugin(capable_settings());
    let page = PageRequest { entries: 2, starting_token: "yesterday".to_owned() };
    let error = plugin.controller.list_volumes(page.clone()).await;
    let error = error.unwrap_err();
    assert_eq!((error.code, error.verdict), (StatusCode::Aborted, Verdict::Permanent));
    let request = ListSnapshots { page, secrets: secrets(), ..ListSnapshots::default() };
    let error = plugin.controller.list_snapshots(request).await.unwrap_err();
    assert_eq!(error.verdict, Verdict::Permanent);
}

/// A name yields one snapshot. A snapshot that does not exist counts as deleted (W28).
#[tokio::test]
async fn a_snapshot_is_created_once_per_name_listed_and_deleted() {
    let plugin = start_plugin(PluginSettings { unknown_is_not_found: true, ..capable_settings() });
    let (db, other) = (plugin.create("db", None).await, plugin.create("other", None).await);
    let first = plugin.snapshot(&db, "one").await.unwrap();
    assert_eq!(plugin.snapshot(&db, "one").await.unwrap(), first);
    let taken = plugin.snapshot(&other, "one").await.unwrap_err();
    assert_eq!(taken.code, StatusCode::AlreadyExists);
    let unknown = ExternalId::new("unknown");
    let missing = plugin.snapshot(&unknown, "two").await.unwrap_err();
    assert_eq!(missing.verdict, Verdict::RetryLater);
    let second = plugin.snapshot(&other, "two").await.unwrap();
    let list = async |source: Option<&ExternalId>| {
        let request = ListSnapshots {
            source: source.cloned(),
            secrets: secrets(),
            ..ListSnapshots::default()
        };
        let page = plugin.controller.list_snapshots(request).await.unwrap();
        let ids = page.entries.into_iter().map(|each| each.id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list(None).await, [first.clone(), second.clone()]);
    assert_eq!(list(Some(&other)).await, [second]);
    assert_eq!(list(Some(&unknown)).await, []);
    for _ in 0..2 {
        let deleted = plugin.controller.delete_snapshot(first.clone(), secrets());
        deleted.await.unwrap();
    }
    assert_eq!(list(Some(&db)).await, []);
}

/// A repeated expansion succeeds, an impossible one is a permanent error, and the response states
/// whether the node must expand too.
#[tokio::test]
async fn a_volume_is_expanded_and_may_require_node_expansion() {
    let plugin = start_plugin(PluginSettings {
        node_expansion_required: true,
        max_capacity: Some(size(1 << 30)),
        ..capable_settings()
    });
    let db = plugin.create("db", None).await;
    let expand = |id: &ExternalId, min: u64, capability| {
        plugin.controller.expand_volume(ExpandVolume {
            external_id: id.clone(),
            capacity: CapacityRange { min: size(min), max: Bytes::ZERO },
            capability,
            mount_options: MountOptions::default(),
            secrets: secrets(),
        })
    };
    for capability in [None, Some(WRITER)] {
        let expanded = expand(&db, 5 << 20, capability).await.unwrap();
        assert_eq!(expanded.capacity, size(5 << 20));
        assert!(expanded.node_expansion_required);
    }
    let too_large = expand(&db, 1 << 31, None).await.unwrap_err();
    assert_eq!((too_large.code, too_large.verdict), (StatusCode::OutOfRange, Verdict::Permanent));
    let unknown = ExternalId::new("unknown");
    let missing = expand(&unknown, 1 << 21, None).await.unwrap_err();
    assert_eq!(missing.verdict, Verdict::RetryLater);
    assert_eq!(plugin.server.backend.volumes()[0].capacity, size(5 << 20));
}

/// After a lost response the identical call completes the work once (B53, B54: it can be retried).
#[tokio::test]
async fn a_call_is_repeated_after_a_lost_response() {
    let plugin = start_plugin(capable_settings());
    let db = plugin.create("db", None).await;
    let backend = &plugin.server.backend;
    backend.inject_faults(Rpc::CreateSnapshot, [Fault::LoseReply]);
    let lost = plugin.snapshot(&db, "one").await.unwrap_err();
    assert_eq!(lost.verdict, Verdict::RetryUnknownOutcome);
    plugin.snapshot(&db, "one").await.unwrap();
    assert_eq!(backend.snapshots().len(), 1);
}
