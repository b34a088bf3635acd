//! Listing the volumes of a provider, and its snapshots.

use super::*;
use crate::error::SnapshotError;
use crate::volumes::SnapshotRequest;
use nomad_csi_model::{
    Condition, ControllerCapabilities, ExternalVolume, PluginId, Secrets, Snapshot, SnapshotId,
};
use nomad_csi_ports::{Page, PageRequest, StatusCode};
use nomad_csi_testing::Fault;

fn capable() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            list_volumes: true,
            create_delete_snapshot: true,
            list_snapshots: true,
            volume_condition: true,
            ..ControllerCapabilities::default()
        }),
        ..PluginSettings::default()
    }
}

async fn capable_agent() -> FakeAgent {
    FakeAgent::start(capable()).await.unwrap()
}

fn snapshot_of(volume: &str, name: &str) -> SnapshotRequest {
    SnapshotRequest {
        source: FakeAgent::key(volume),
        name: name.to_owned(),
        plugin: None,
        parameters: Default::default(),
        secrets: Secrets::default(),
    }
}

impl FakeAgent {
    async fn create_snapshot(&self, request: SnapshotRequest) -> Result<Snapshot, ServerError> {
        let snapshots = self.volumes.create_snapshots(vec![request]).await;
        self.assert_consistent();
        Ok(snapshots?.remove(0).snapshot)
    }

    async fn list_external(
        &self,
        entries: u32,
        token: &str,
    ) -> Result<Page<ExternalVolume>, ServerError> {
        let token = token.to_owned();
        let page = PageRequest { entries, starting_token: token };
        self.volumes.list_external(Self::PLUGIN.into(), page).await
    }

    async fn snapshots(&self, secrets: Secrets) -> Vec<Snapshot> {
        let (plugin, page) = (Self::PLUGIN.into(), PageRequest::default());
        let page = self.volumes.list_snapshots(plugin, page, secrets).await;
        page.unwrap().entries
    }

    async fn delete_snapshot(&self, id: &str) -> Result<(), ServerError> {
        let (plugin, id) = (Self::PLUGIN.into(), SnapshotId::new(id));
        self.volumes.delete_snapshot(plugin, id, Secrets::default()).await
    }
}

/// All volumes are listed, registered or not. Published nodes are returned only with the plugin's
/// capability (CSI 1.12, ListVolumes).
#[tokio::test(start_paused = true)]
async fn a_provider_is_listed_page_by_page() {
    let agent = capable_agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    for id in ["b-orphan", "c-orphan"] {
        agent.backend.add_volume(ExternalId::new(id), Default::default());
    }
    let broken = Condition { abnormal: true, message: "lost a disk".into() };
    let orphan = ExternalId::new("b-orphan");
    agent.backend.set_condition(&orphan, broken.clone());
    let first = agent.list_external(2, "").await.unwrap();
    assert_eq!(first.entries.len(), 2);
    assert_eq!(first.entries[0].condition, Some(broken));
    let rest = agent.list_external(2, &first.next_token.unwrap()).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next_token), (1, None));
    assert_eq!(rest.entries[0].external_id.as_str(), "fake-1");
    let gone = agent.list_external(2, "yesterday").await;
    assert_eq!(
        text(gone),
        "controller list volumes: CSI.ControllerListVolumes: invalid starting token \"yesterday\": \
         rpc error: code = Aborted desc = the page token is unknown"
    );
    assert_eq!(agent.backend.count(Rpc::ListVolumes), 3, "a lost page is not asked for again");
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_operation_is_not_sent() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!(text(agent.list_external(0, "").await), "unimplemented for this plugin");
    let (plugin, page) = (PluginId::new("fake"), PageRequest::default());
    let listed = agent.volumes.list_snapshots(plugin, page, Secrets::default());
    assert_eq!(text(listed.await), "plugin does not support listing snapshots");
    assert_eq!(
        text(agent.create_snapshot(snapshot_of("db", "one")).await),
        "1 error occurred:\n\t* plugin \"fake\" does not support snapshot\n\n"
    );
    assert_eq!(text(agent.delete_snapshot("x").await), "plugin does not support snapshot");
}

/// The name is the identity of a snapshot (CSI 1.12, CreateSnapshot), and belongs to one volume.
#[tokio::test(start_paused = true)]
async fn one_name_is_one_snapshot() {
    let agent = capable_agent().await;
    for id in ["db", "web"] {
        agent.create(FakeAgent::request(id)).await.unwrap();
    }
    let first = agent.create_snapshot(snapshot_of("db", "nightly")).await.unwrap();
    assert_eq!(agent.create_snapshot(snapshot_of("db", "nightly")).await.unwrap(), first);
    assert_eq!(first.source.as_str(), "fake-1");
    let taken = agent.create_snapshot(snapshot_of("web", "nightly")).await.unwrap_err();
    assert_eq!(taken.code_and_status().0.as_str(), "snapshot/conflict");
    assert_eq!(
        taken.text(),
        "1 error occurred:\n\t* could not create snapshot: controller create snapshot: \
         CSI.ControllerCreateSnapshot: snapshot \"nightly\" already exists but is incompatible with \
         volume ID \"fake-2\": rpc error: code = AlreadyExists desc = the name nightly is taken by \
         another snapshot\n\n"
    );
    assert_eq!(agent.snapshots(Secrets::default()).await, [first]);
    agent.delete_snapshot("snap-1").await.unwrap();
    agent.delete_snapshot("snap-1").await.unwrap();
    assert_eq!(agent.backend.snapshots(), []);
}

/// W57: the others are created and named beside the failures, and the same request then returns all, each with what
/// it was created from.
#[tokio::test(start_paused = true)]
async fn each_of_several_snapshots_is_created_independently() {
    let agent = capable_agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let requests =
        || vec![snapshot_of("db", "one"), snapshot_of("nope", "two"), snapshot_of("db", "three")];
    let refused = agent.volumes.create_snapshots(requests()).await;
    let refused = refused.unwrap_err();
    let created = [
        "snapshot `one` of volume `db` was created as `snap-1`",
        "snapshot `three` of volume `db` was created as `snap-2`",
    ];
    let failed = "1 error occurred:\n\t* no such volume \"nope\"\n\n";
    assert_eq!(refused.text(), format!("{failed}{}\n", created.join("\n")));
    assert_eq!(refused.notes(), created);
    assert_eq!(refused.code_and_status().0.as_str(), "volume/not-found");
    assert_eq!(agent.backend.snapshots().len(), 2);
    let again =
        agent.volumes.create_snapshots(vec![snapshot_of("db", "one"), snapshot_of("db", "three")]);
    let again = again.await.unwrap();
    let shown: Vec<_> = again
        .iter()
        .map(|one| (one.name.as_str(), one.source.clone(), one.plugin.as_str()))
        .collect();
    let (db, fake) = (FakeAgent::key("db"), FakeAgent::PLUGIN);
    assert_eq!(shown, [("one", db.clone(), fake), ("three", db, fake)]);
    assert_eq!(agent.backend.snapshots().len(), 2);
    let nothing = agent.volumes.create_snapshots(vec![snapshot_of("nope", "two")]);
    assert!(nothing.await.unwrap_err().notes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_invalid_snapshot_is_refused_without_a_call() {
    let agent = capable_agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let long = "x".repeat(129);
    let named = |plugin: &str| SnapshotRequest {
        plugin: Some(PluginId::new(plugin)),
        ..snapshot_of("db", "one")
    };
    let create =
        "could not create snapshot: controller create snapshot: CSI.ControllerCreateSnapshot: ";
    for (request, code, expected) in [
        (snapshot_of("nope", "one"), "volume/not-found", "no such volume \"nope\"".to_owned()),
        (snapshot_of("db", ""), "snapshot/invalid", format!("{create}missing Name")),
        (
            snapshot_of("db", &long),
            "snapshot/invalid",
            format!("{create}invalid Name: it is longer than the 128 bytes that CSI allows"),
        ),
        (
            snapshot_of("db", "a\u{7}"),
            "snapshot/invalid",
            format!("{create}invalid Name: it contains control characters"),
        ),
        (named("nope"), "plugin/unknown", "no such plugin \"nope\"".to_owned()),
    ] {
        let refused = agent.create_snapshot(request).await.unwrap_err();
        assert_eq!(refused.code_and_status().0.as_str(), code);
        assert_eq!(refused.text(), format!("1 error occurred:\n\t* {expected}\n\n"));
    }
    let missing = agent.delete_snapshot("").await.unwrap_err();
    assert!(matches!(missing, ServerError::Snapshot(SnapshotError::MissingId)));
    assert_eq!(agent.backend.count(Rpc::CreateSnapshot), 0);
    assert_eq!(agent.backend.count(Rpc::DeleteSnapshot), 0);
    agent.create_snapshot(named("fake")).await.unwrap();
}

/// A create sends the volume's secrets overlaid by the request's; a list and a delete send the
/// request's alone.
#[tokio::test(start_paused = true)]
async fn snapshot_calls_send_the_right_secrets() {
    let agent = capable_agent().await;
    let mut request = FakeAgent::request("db");
    request.secrets = Some(Secrets::from_iter([("a", "1"), ("b", "1")]));
    agent.create(request).await.unwrap();
    let desired = Secrets::from_iter([("a", "1"), ("b", "2")]);
    agent.backend.update_settings(|settings| settings.secrets = desired.clone());
    let cut = agent.create_snapshot(SnapshotRequest {
        secrets: Secrets::from_iter([("b", "2")]),
        ..snapshot_of("db", "one")
    });
    cut.await.unwrap();
    assert_eq!(agent.snapshots(desired.clone()).await.len(), 1);
    let (plugin, id) = (FakeAgent::PLUGIN.into(), SnapshotId::new("snap-1"));
    agent.volumes.delete_snapshot(plugin, id, desired).await.unwrap();
}

/// B53, B54, W04: after any fault the same request completes, with one snapshot, or with none after a
/// delete. A failure reports whether the call may have taken effect.
#[tokio::test(start_paused = true)]
async fn every_fault_of_a_snapshot_is_resolved_by_the_same_request() {
    for (fault, open) in [
        (Fault::Fail(StatusCode::Internal), true),
        (Fault::FailAfterEffect(StatusCode::Unknown), true),
        (Fault::Fail(StatusCode::PermissionDenied), false),
        (Fault::Hang, true),
        (Fault::DelayReply, true),
        (Fault::Crash, true),
        (Fault::CrashAfterEffect, true),
    ] {
        let agent = capable_agent().await;
        agent.create(FakeAgent::request("db")).await.unwrap();
        let code = |error: &ServerError| error.code_and_status().0.as_str() == "snapshot/pending";
        agent.backend.inject_faults(Rpc::CreateSnapshot, [fault]);
        let failed = agent.create_snapshot(snapshot_of("db", "one")).await.unwrap_err();
        assert_eq!(code(&failed), open, "{fault:?}: {failed:?}");
        agent.backend.crash();
        agent.backend.restart();
        agent.create_snapshot(snapshot_of("db", "one")).await.unwrap();
        assert_eq!(agent.backend.snapshots().len(), 1, "{fault:?}");
        agent.backend.inject_faults(Rpc::DeleteSnapshot, [fault]);
        let failed = agent.delete_snapshot("snap-1").await.unwrap_err();
        assert_eq!(code(&failed), open, "{fault:?}: {failed:?}");
        agent.backend.crash();
        agent.backend.restart();
        agent.delete_snapshot("snap-1").await.unwrap();
        assert_eq!(agent.backend.snapshots(), [], "{fault:?}");
    }
}
