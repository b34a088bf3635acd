//! What a provider has: its volumes page by page, its snapshots, new ones.

use super::*;
use crate::model::{
    Condition, ControllerCapabilities, ExternalVolume, PluginId, Secrets, Snapshot, SnapshotId,
};
use crate::ports::fake::Fault;
use crate::ports::{Page, PageRequest, StatusCode};
use crate::server::error::SnapshotError;
use crate::server::volumes::SnapshotRequest;

fn able() -> Settings {
    Settings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            list_volumes: true,
            create_delete_snapshot: true,
            list_snapshots: true,
            volume_condition: true,
            ..ControllerCapabilities::default()
        }),
        ..Settings::default()
    }
}

async fn able_agent() -> FakeAgent {
    FakeAgent::start(able()).await.unwrap()
}

fn of(volume: &str, name: &str) -> SnapshotRequest {
    SnapshotRequest {
        source: FakeAgent::key(volume),
        name: name.to_owned(),
        plugin: None,
        parameters: Default::default(),
        secrets: Secrets::default(),
    }
}

impl FakeAgent {
    async fn cut(&self, request: SnapshotRequest) -> Result<Snapshot, ServerError> {
        let snapshots = self.volumes.create_snapshots(vec![request]).await;
        self.is_sound();
        Ok(snapshots?.remove(0))
    }

    async fn external(
        &self,
        entries: u32,
        token: &str,
    ) -> Result<Page<ExternalVolume>, ServerError> {
        let token = token.to_owned();
        let page = PageRequest { entries, token };
        self.volumes.list_external(Self::PLUGIN.into(), page).await
    }

    async fn snapshots(&self, secrets: Secrets) -> Vec<Snapshot> {
        let (plugin, page) = (Self::PLUGIN.into(), PageRequest::default());
        let page = self.volumes.list_snapshots(plugin, page, secrets).await;
        page.unwrap().entries
    }

    async fn uncut(&self, id: &str) -> Result<(), ServerError> {
        let (plugin, id) = (Self::PLUGIN.into(), SnapshotId::new(id));
        self.volumes
            .delete_snapshot(plugin, id, Secrets::default())
            .await
    }
}

/// Registered or not, each is there, with what the provider says of it; what it says of nodes counts
/// only with the capability (`csi-spec` 2.3, VolumeStatus).
#[tokio::test(start_paused = true)]
async fn a_provider_is_asked_page_by_page_for_all_that_it_has() {
    let agent = able_agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    for id in ["b-orphan", "c-orphan"] {
        agent
            .backend
            .add_volume(ExternalId::new(id), Default::default());
    }
    let broken = Condition {
        abnormal: true,
        message: "lost a disk".into(),
    };
    let orphan = ExternalId::new("b-orphan");
    agent.backend.set_condition(&orphan, broken.clone());
    let first = agent.external(2, "").await.unwrap();
    assert_eq!(first.entries.len(), 2);
    assert_eq!(first.entries[0].condition, Some(broken));
    let rest = agent.external(2, &first.next.unwrap()).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next), (1, None));
    assert_eq!(rest.entries[0].external_id.as_str(), "fake-1");
    let gone = agent.external(2, "yesterday").await;
    assert_eq!(
        text(gone),
        "controller list volumes: CSI.ControllerListVolumes: invalid starting token \"yesterday\": \
         rpc error: code = Aborted desc = the token is not one of this list"
    );
    assert_eq!(
        agent.backend.count(Rpc::ListVolumes),
        3,
        "a lost page is not asked for again"
    );
}

/// `nomad-http-api` 3.9, 3.10.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_cannot_is_not_asked() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!(
        text(agent.external(0, "").await),
        "unimplemented for this plugin"
    );
    let (plugin, page) = (PluginId::new("fake"), PageRequest::default());
    let listed = agent
        .volumes
        .list_snapshots(plugin, page, Secrets::default());
    assert_eq!(
        text(listed.await),
        "plugin does not support listing snapshots"
    );
    assert_eq!(
        text(agent.cut(of("db", "one")).await),
        "1 error occurred:\n\t* plugin \"fake\" does not support snapshot\n\n"
    );
    assert_eq!(
        text(agent.uncut("x").await),
        "plugin does not support snapshot"
    );
}

/// `csi-spec` 5.11: and the name belongs to one volume.
#[tokio::test(start_paused = true)]
async fn a_name_is_one_snapshot() {
    let agent = able_agent().await;
    for id in ["db", "web"] {
        agent.create(FakeAgent::request(id)).await.unwrap();
    }
    let first = agent.cut(of("db", "nightly")).await.unwrap();
    assert_eq!(agent.cut(of("db", "nightly")).await.unwrap(), first);
    assert_eq!(first.source.as_str(), "fake-1");
    let taken = agent.cut(of("web", "nightly")).await.unwrap_err();
    assert_eq!(taken.class().0.as_str(), "snapshot/conflict");
    assert_eq!(
        taken.text(),
        "1 error occurred:\n\t* could not create snapshot: controller create snapshot: \
         CSI.ControllerCreateSnapshot: snapshot \"nightly\" already exists but is incompatible with \
         volume ID \"fake-2\": rpc error: code = AlreadyExists desc = the name nightly is taken by \
         another snapshot\n\n"
    );
    assert_eq!(agent.snapshots(Secrets::default()).await, [first]);
    agent.uncut("snap-1").await.unwrap();
    agent.uncut("snap-1").await.unwrap();
    assert_eq!(agent.backend.snapshots(), []);
}

/// W57: the others are cut, and the same request then gives them all.
#[tokio::test(start_paused = true)]
async fn of_several_snapshots_each_is_cut_for_itself() {
    let agent = able_agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let requests = || vec![of("db", "one"), of("nope", "two"), of("db", "three")];
    let refused = agent.volumes.create_snapshots(requests()).await;
    assert_eq!(
        text(refused),
        "1 error occurred:\n\t* no such volume \"nope\"\n\n"
    );
    assert_eq!(agent.backend.snapshots().len(), 2);
    let again = agent
        .volumes
        .create_snapshots(vec![of("db", "one"), of("db", "three")]);
    assert_eq!(again.await.unwrap().len(), 2);
    assert_eq!(agent.backend.snapshots().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_be_cut_is_refused_without_a_call() {
    let agent = able_agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let long = "x".repeat(129);
    let named = |plugin: &str| SnapshotRequest {
        plugin: Some(PluginId::new(plugin)),
        ..of("db", "one")
    };
    let create =
        "could not create snapshot: controller create snapshot: CSI.ControllerCreateSnapshot: ";
    for (request, code, expected) in [
        (
            of("nope", "one"),
            "volume/not-found",
            "no such volume \"nope\"".to_owned(),
        ),
        (
            of("db", ""),
            "snapshot/invalid",
            format!("{create}missing Name"),
        ),
        (
            of("db", &long),
            "snapshot/invalid",
            format!("{create}invalid Name: it has more than the 128 bytes that CSI allows"),
        ),
        (
            of("db", "a\u{7}"),
            "snapshot/invalid",
            format!("{create}invalid Name: it has control characters"),
        ),
        (
            named("nope"),
            "plugin/unknown",
            "no such plugin \"nope\"".to_owned(),
        ),
    ] {
        let refused = agent.cut(request).await.unwrap_err();
        assert_eq!(refused.class().0.as_str(), code);
        assert_eq!(
            refused.text(),
            format!("1 error occurred:\n\t* {expected}\n\n")
        );
    }
    let missing = agent.uncut("").await.unwrap_err();
    assert!(matches!(
        missing,
        ServerError::Snapshot(SnapshotError::MissingId)
    ));
    assert_eq!(agent.backend.count(Rpc::CreateSnapshot), 0);
    assert_eq!(agent.backend.count(Rpc::DeleteSnapshot), 0);
    agent.cut(named("fake")).await.unwrap();
}

/// `csi-orchestration` 1.4: the volume's own, overlaid by the request's; of a list and a deletion the
/// request's alone.
#[tokio::test(start_paused = true)]
async fn snapshots_carry_the_secrets_that_belong_to_them() {
    let agent = able_agent().await;
    let mut request = FakeAgent::request("db");
    request.secrets = Some(Secrets::from_iter([("a", "1"), ("b", "1")]));
    agent.create(request).await.unwrap();
    let wanted = Secrets::from_iter([("a", "1"), ("b", "2")]);
    agent
        .backend
        .change(|settings| settings.secrets = wanted.clone());
    let cut = agent.cut(SnapshotRequest {
        secrets: Secrets::from_iter([("b", "2")]),
        ..of("db", "one")
    });
    cut.await.unwrap();
    assert_eq!(agent.snapshots(wanted.clone()).await.len(), 1);
    let (plugin, id) = (FakeAgent::PLUGIN.into(), SnapshotId::new("snap-1"));
    agent
        .volumes
        .delete_snapshot(plugin, id, wanted)
        .await
        .unwrap();
}

/// B53, B54, W04: whatever became of a call, the same request ends with one snapshot, and after a
/// deletion with none; a failure says whether it may have happened.
#[tokio::test(start_paused = true)]
async fn every_fault_of_a_snapshot_is_finished_by_the_same_request() {
    for (fault, open) in [
        (Fault::Fail(StatusCode::Internal), true),
        (Fault::FailAfterEffect(StatusCode::Unknown), true),
        (Fault::Fail(StatusCode::ResourceExhausted), false),
        (Fault::Hang, true),
        (Fault::AnswerLate, true),
        (Fault::Crash, true),
        (Fault::CrashAfterEffect, true),
    ] {
        let agent = able_agent().await;
        agent.create(FakeAgent::request("db")).await.unwrap();
        let code = |error: &ServerError| error.class().0.as_str() == "snapshot/pending";
        agent.backend.script(Rpc::CreateSnapshot, [fault]);
        let failed = agent.cut(of("db", "one")).await.unwrap_err();
        assert_eq!(code(&failed), open, "{fault:?}: {failed:?}");
        agent.backend.restart();
        agent.backend.release();
        agent.cut(of("db", "one")).await.unwrap();
        assert_eq!(agent.backend.snapshots().len(), 1, "{fault:?}");
        agent.backend.script(Rpc::DeleteSnapshot, [fault]);
        let failed = agent.uncut("snap-1").await.unwrap_err();
        assert_eq!(code(&failed), open, "{fault:?}: {failed:?}");
        agent.backend.restart();
        agent.backend.release();
        agent.uncut("snap-1").await.unwrap();
        assert_eq!(agent.backend.snapshots(), [], "{fault:?}");
    }
}
