//! Deleting and deregistering.

use std::sync::Arc;

use futures_util::future::join_all;

use super::recording::record;
use super::*;
use crate::model::Secrets;
use crate::ports::StatusCode;
use crate::ports::fake::Fault;
use crate::server::volumes::VolumeLimits;

#[tokio::test(start_paused = true)]
async fn a_deleted_volume_is_gone_with_its_data() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let index = agent.delete("db").await.unwrap();
    assert_eq!(index, agent.cell.index());
    assert_eq!(
        (agent.record("db"), agent.external_volumes().len()),
        (None, 0)
    );
    assert_eq!(text(agent.delete("db").await), "volume not found: db");
}

/// W28: a volume that the provider does not have is deleted.
#[tokio::test(start_paused = true)]
async fn a_volume_that_the_provider_does_not_have_is_deleted() {
    let settings = Settings {
        unknown_is_not_found: true,
        ..Settings::default()
    };
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.backend.lose_volume(&ExternalId::new("fake-1"));
    agent.delete("db").await.unwrap();
    assert_eq!(agent.record("db"), None);
}

/// W10, B35: without an external ID the provider knows the volume by its ID.
#[tokio::test(start_paused = true)]
async fn without_an_external_id_the_id_is_sent() {
    let agent = agent().await;
    agent
        .backend
        .add_volume(ExternalId::new("db"), Default::default());
    agent.register(FakeAgent::request("db")).await.unwrap();
    agent.delete("db").await.unwrap();
    assert_eq!(agent.external_volumes(), Vec::<String>::new());
}

/// `nomad-http-api` 2.4.
#[tokio::test(start_paused = true)]
async fn secrets_of_the_request_overlay_the_stored_ones() {
    let agent = agent().await;
    let sent = record(&agent);
    let request = VolumeRequest {
        secrets: Some(Secrets::from_iter([("a", "1"), ("b", "2")])),
        ..FakeAgent::request("db")
    };
    agent.create(request).await.unwrap();
    let secrets = Secrets::from_iter([("b", "3")]);
    agent
        .volumes
        .delete(FakeAgent::key("db"), secrets)
        .await
        .unwrap();
    let deletes = sent.deletes.lock().unwrap();
    let sent: Vec<_> = deletes[0].1.expose().collect();
    assert_eq!(sent, [("a", "1"), ("b", "3")]);
}

/// W09: a refusal that is certain gives the volume back.
#[tokio::test(start_paused = true)]
async fn a_certain_refusal_gives_the_volume_back() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let in_use = Fault::Fail(StatusCode::FailedPrecondition);
    agent.backend.script(Rpc::DeleteVolume, [in_use]);
    let error = agent.delete("db").await.unwrap_err();
    assert_eq!(
        error.text(),
        "controller delete volume: CSI.ControllerDeleteVolume: volume \"fake-1\" is in use: \
         rpc error: code = FailedPrecondition desc = scripted FailedPrecondition"
    );
    assert_eq!(error.class().0.as_str(), "volume/in-use");
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    agent.register(FakeAgent::request("db")).await.unwrap();
    agent.delete("db").await.unwrap();
}

/// W09: what may have happened stays on record; nothing else can be done with it, and the next
/// deletion ends it.
#[tokio::test(start_paused = true)]
async fn an_open_deletion_is_finished_by_the_next_one() {
    for fault in [
        Fault::FailAfterEffect(StatusCode::Internal),
        Fault::Fail(StatusCode::Unknown),
    ] {
        let agent = agent().await;
        agent.create(FakeAgent::request("db")).await.unwrap();
        agent.backend.script(
            Rpc::DeleteVolume,
            [fault, Fault::Fail(StatusCode::PermissionDenied)],
        );
        for _ in 0..2 {
            let error = agent.delete("db").await.unwrap_err();
            assert_eq!(error.class().0.as_str(), "volume/pending");
            assert_eq!(agent.phase("db"), Some(Phase::Deleting));
        }
        for refused in [
            agent.create(FakeAgent::request("db")).await,
            agent.register(FakeAgent::request("db")).await,
        ] {
            assert_eq!(
                refused.unwrap_err().class().0.as_str(),
                "volume/being-deleted"
            );
        }
        agent.delete("db").await.unwrap();
        assert_eq!(
            (agent.record("db"), agent.external_volumes().len()),
            (None, 0)
        );
    }
}

/// An answer on the merits tells what became of an earlier call, too.
#[tokio::test(start_paused = true)]
async fn a_refusal_on_the_merits_ends_an_open_deletion() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.backend.script(
        Rpc::DeleteVolume,
        [
            Fault::Fail(StatusCode::Internal),
            Fault::Fail(StatusCode::FailedPrecondition),
        ],
    );
    for phase in [Phase::Deleting, Phase::Registered] {
        agent.delete("db").await.unwrap_err();
        assert_eq!(agent.phase("db"), Some(phase));
    }
}

/// What was never sent has no consequence, however long it was tried.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_cannot_be_reached_deletes_nothing() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.backend.crash();
    let error = agent.delete("db").await.unwrap_err();
    assert_eq!(error.class().0.as_str(), "plugin/unreachable");
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    agent.observe(false).await;
    assert_eq!(
        text(agent.delete("db").await),
        "controller delete volume: failed to find clients running controller plugin \"fake\": \
         plugin instance \"99999999-2222-4333-8444-555555555555\" is not healthy"
    );
}

/// A deletion of a volume whose creation is open finds out what came of that first.
#[tokio::test(start_paused = true)]
async fn deleting_an_open_creation_leaves_nothing_behind() {
    for (fault, next) in [
        (Fault::FailAfterEffect(StatusCode::Internal), None),
        (Fault::Fail(StatusCode::Internal), None),
        (
            Fault::Fail(StatusCode::Internal),
            Some(Fault::Fail(StatusCode::InvalidArgument)),
        ),
    ] {
        let agent = agent().await;
        agent.backend.script(Rpc::CreateVolume, [fault]);
        agent.create(FakeAgent::request("db")).await.unwrap_err();
        agent.backend.script(Rpc::CreateVolume, next);
        agent.delete("db").await.unwrap();
        assert_eq!(
            (agent.record("db"), agent.external_volumes().len()),
            (None, 0)
        );
    }
}

/// `nomad-http-api` 3.6: the data stays.
#[tokio::test(start_paused = true)]
async fn a_deregistered_volume_keeps_its_data() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.deregister("db", false).await.unwrap();
    assert_eq!(agent.record("db"), None);
    assert_eq!(agent.external_volumes(), ["fake-1"]);
    assert_eq!(
        text(agent.deregister("db", false).await),
        "volume not found: db"
    );
}

/// The way out of a creation that cannot be ended; and what the plugin can still say is asked first.
#[tokio::test(start_paused = true)]
async fn an_open_creation_is_given_up_only_by_force() {
    let agent = agent().await;
    let broken = [Fault::Fail(StatusCode::Internal); 3];
    agent.backend.script(Rpc::CreateVolume, broken);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let error = agent.deregister("db", false).await.unwrap_err();
    assert_eq!(error.class().0.as_str(), "volume/pending");
    agent.deregister("db", true).await.unwrap();
    assert_eq!(agent.record("db"), None);
}

/// W30: one after another per plugin, and every one gets its turn.
#[tokio::test(start_paused = true)]
async fn deletes_of_one_plugin_come_one_at_a_time() {
    let agent = Arc::new(agent().await);
    let ids: Vec<_> = (0..5).map(|n| format!("v{n}")).collect();
    for id in &ids {
        agent.create(FakeAgent::request(id)).await.unwrap();
    }
    agent.backend.script(Rpc::DeleteVolume, [Fault::Hang; 5]);
    let before = agent.backend.calls().len();
    let release = async {
        for at in 1..=5 {
            agent.backend.arrived((before + at) as u64).await;
            // All that can run has run, and no further call has arrived.
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            assert_eq!(agent.backend.calls().len(), before + at);
            agent.backend.release();
        }
    };
    let (outcomes, ()) = tokio::join!(join_all(ids.iter().map(|id| agent.delete(id))), release);
    assert!(outcomes.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn a_full_line_is_an_error_at_once() {
    let limits = VolumeLimits {
        line: 0,
        ..VolumeLimits::default()
    };
    let agent = agent().await.restart(limits).await.unwrap();
    agent.backend.script(Rpc::CreateVolume, [Fault::Hang]);
    let second = async {
        agent.backend.arrived(1).await;
        let error = agent.delete("db").await.unwrap_err();
        agent.backend.release();
        error
    };
    let (first, second) = tokio::join!(agent.create(FakeAgent::request("db")), second);
    first.unwrap();
    assert_eq!(
        second.text(),
        "0 operations are waiting already for volume db"
    );
}
