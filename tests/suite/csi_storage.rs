//! Lists, snapshots and growth over gRPC, against the strict fake plugin.

use std::collections::BTreeMap;
use std::sync::Arc;

use nomad_csi::csi::GrpcConnector;
use nomad_csi::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, Condition,
    ControllerCapabilities, ExternalId, MountOptions, Secrets, SnapshotId,
};
use nomad_csi::ports::fake::{FakeBackend, Fault, Settings};
use nomad_csi::ports::{
    Connector as _, Controller, CreateSnapshot, CreateVolume, ExpandVolume, ListSnapshots,
    PageRequest, PluginError, Rpc, StatusCode, VolumeSource,
};
use nomad_csi::retry::Verdict;

use crate::support::fake_plugin::FakePluginServer;

const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

struct World {
    _directory: tempfile::TempDir,
    server: FakePluginServer,
    controller: Arc<dyn Controller>,
}

fn world(settings: Settings) -> World {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start(FakeBackend::new(settings), &socket);
    let controller = GrpcConnector::new().connect(server.socket()).controller;
    World {
        _directory: directory,
        server,
        controller,
    }
}

fn able() -> Settings {
    Settings {
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
        ..Settings::default()
    }
}

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn size(bytes: u64) -> Bytes {
    Bytes::new(bytes).unwrap()
}

impl World {
    async fn create(&self, name: &str, source: Option<VolumeSource>) -> ExternalId {
        let request = CreateVolume {
            name: name.to_owned(),
            capacity: CapacityRange {
                min: size(1 << 20),
                max: Bytes::ZERO,
            },
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

/// W29, and `csi-orchestration` 7.5: capacity, source, context and condition of every entry.
#[tokio::test]
async fn a_provider_tells_of_all_its_volumes_page_by_page() {
    let world = world(able());
    let db = world.create("db", None).await;
    let cut = world.snapshot(&db, "nightly").await.unwrap();
    let copy = world
        .create("copy", Some(VolumeSource::Volume(db.to_string())))
        .await;
    let restored = world
        .create("restored", Some(VolumeSource::Snapshot(cut.to_string())))
        .await;
    let broken = Condition {
        abnormal: true,
        message: "lost a disk".to_owned(),
    };
    world.server.backend.set_condition(&copy, broken.clone());
    let mut found = vec![];
    let mut token = String::new();
    loop {
        let page = PageRequest { entries: 2, token };
        let page = world.controller.list_volumes(page).await.unwrap();
        assert!(page.entries.len() <= 2);
        found.extend(page.entries);
        match page.next {
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
    let all = world.controller.list_volumes(all).await.unwrap();
    assert_eq!((all.entries, all.next), (found, None));
}

/// `csi-spec` 5.7: a token that is no more is not one to try again.
#[tokio::test]
async fn a_page_that_is_gone_is_refused_for_good() {
    let world = world(able());
    let page = PageRequest {
        entries: 2,
        token: "yesterday".to_owned(),
    };
    let error = world.controller.list_volumes(page.clone()).await;
    let error = error.unwrap_err();
    assert_eq!(
        (error.code, error.verdict),
        (StatusCode::Aborted, Verdict::Permanent)
    );
    let request = ListSnapshots {
        page,
        secrets: secrets(),
        ..ListSnapshots::default()
    };
    let error = world.controller.list_snapshots(request).await.unwrap_err();
    assert_eq!(error.verdict, Verdict::Permanent);
}

/// `csi-spec` 5.11 to 5.13; W28: a snapshot that is not there is deleted.
#[tokio::test]
async fn a_snapshot_is_cut_once_per_name_listed_and_deleted() {
    let world = world(Settings {
        unknown_is_not_found: true,
        ..able()
    });
    let (db, other) = (
        world.create("db", None).await,
        world.create("other", None).await,
    );
    let first = world.snapshot(&db, "one").await.unwrap();
    assert_eq!(world.snapshot(&db, "one").await.unwrap(), first);
    let taken = world.snapshot(&other, "one").await.unwrap_err();
    assert_eq!(taken.code, StatusCode::AlreadyExists);
    let nobody = ExternalId::new("nobody");
    let missing = world.snapshot(&nobody, "two").await.unwrap_err();
    assert_eq!(missing.verdict, Verdict::RetryLater);
    let second = world.snapshot(&other, "two").await.unwrap();
    let list = async |source: Option<&ExternalId>| {
        let request = ListSnapshots {
            source: source.cloned(),
            secrets: secrets(),
            ..ListSnapshots::default()
        };
        let page = world.controller.list_snapshots(request).await.unwrap();
        let ids = page.entries.into_iter().map(|each| each.id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(list(None).await, [first.clone(), second.clone()]);
    assert_eq!(list(Some(&other)).await, [second]);
    assert_eq!(list(Some(&nobody)).await, []);
    for _ in 0..2 {
        let deleted = world.controller.delete_snapshot(first.clone(), secrets());
        deleted.await.unwrap();
    }
    assert_eq!(list(Some(&db)).await, []);
}

/// `csi-spec` 5.15: repeated, it is done already; impossible, it is refused for good; and the plugin
/// says whether nodes have to follow.
#[tokio::test]
async fn a_volume_grows_and_says_whether_nodes_have_to_follow() {
    let world = world(Settings {
        node_expansion_required: true,
        largest_capacity: Some(size(1 << 30)),
        ..able()
    });
    let db = world.create("db", None).await;
    let expand = |id: &ExternalId, min: u64, capability| {
        world.controller.expand_volume(ExpandVolume {
            external_id: id.clone(),
            capacity: CapacityRange {
                min: size(min),
                max: Bytes::ZERO,
            },
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
    assert_eq!(
        (too_large.code, too_large.verdict),
        (StatusCode::OutOfRange, Verdict::Permanent)
    );
    let nobody = ExternalId::new("nobody");
    let missing = expand(&nobody, 1 << 21, None).await.unwrap_err();
    assert_eq!(missing.verdict, Verdict::RetryLater);
    assert_eq!(world.server.backend.volumes()[0].capacity, size(5 << 20));
}

/// B53, B54: after a lost answer the identical call finishes what it began, and makes nothing twice.
#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    let world = world(able());
    let db = world.create("db", None).await;
    let backend = &world.server.backend;
    backend.script(Rpc::CreateSnapshot, [Fault::LoseReply]);
    let lost = world.snapshot(&db, "one").await.unwrap_err();
    assert_eq!(lost.verdict, Verdict::RetryUnknownOutcome);
    world.snapshot(&db, "one").await.unwrap();
    assert_eq!(backend.snapshots().len(), 1);
}
