//! Deleting and deregistering volumes.

use std::sync::Arc;

use futures_util::future::join_all;

use super::recording::record;
use super::*;
use crate::repeated_call::ForwardLimits;
use crate::volumes::VolumeLimits;
use nomad_csi_model::Secrets;
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::Fault;

#[tokio::test(start_paused = true)]
async fn a_delete_removes_the_volume_and_its_data() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let index = agent.delete("db").await.unwrap();
    assert_eq!(index, agent.cell.index());
    assert_eq!((agent.record("db"), agent.external_volumes().len()), (None, 0));
    assert_eq!(text(agent.delete("db").await), "volume not found: db");
}

/// W28: a delete succeeds if the provider does not have the volume.
#[tokio::test(start_paused = true)]
async fn a_volume_missing_at_the_provider_is_deleted() {
    let settings = PluginSettings { unknown_is_not_found: true, ..PluginSettings::default() };
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.backend.remove_volume(&ExternalId::new("fake-1"));
    agent.delete("db").await.unwrap();
    assert_eq!(agent.record("db"), None);
}

/// W10, B35: without an external ID, the volume ID is sent.
#[tokio::test(start_paused = true)]
async fn without_an_external_id_the_id_is_sent() {
    let agent = agent().await;
    agent.backend.add_volume(ExternalId::new("db"), Default::default());
    agent.register(FakeAgent::request("db")).await.unwrap();
    agent.delete("db").await.unwrap();
    assert_eq!(agent.external_volumes(), Vec::<String>::new());
}

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
    agent.volumes.delete(FakeAgent::key("db"), secrets).await.unwrap();
    let deletes = sent.deletes.lock();
    let sent: Vec<_> = deletes[0].1.expose().collect();
    assert_eq!(sent, [("a", "1"), ("b", "3")]);
}

/// W09: after a refusal without effect the volume is registered as before.
#[tokio::test(start_paused = true)]
async fn a_refusal_without_effect_restores_the_volume() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    let in_use = Fault::Fail(StatusCode::FailedPrecondition);
    agent.backend.inject_faults(Rpc::DeleteVolume, [in_use]);
    let error = agent.delete("db").await.unwrap_err();
    assert_eq!(
        error.text(),
        "controller delete volume: CSI.ControllerDeleteVolume: volume \"fake-1\" is in use: \
         rpc error: code = FailedPrecondition desc = scripted FailedPrecondition"
    );
    assert_eq!(error.code_and_status().0.as_str(), "volume/in-use");
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    agent.register(FakeAgent::request("db")).await.unwrap();
    agent.delete("db").await.unwrap();
}

/// W09: a deletion with unknown effect stays on record. Other operations are refused, and the next
/// delete completes it.
#[tokio::test(start_paused = true)]
async fn a_pending_deletion_is_completed_by_the_next_delete() {
    for fault in [Fault::FailAfterEffect(StatusCode::Internal), Fault::Fail(StatusCode::Unknown)] {
        let agent = agent().await;
        agent.create(FakeAgent::request("db")).await.unwrap();
        agent
            .backend
            .inject_faults(Rpc::DeleteVolume, [fault, Fault::Fail(StatusCode::PermissionDenied)]);
        for _ in 0..2 {
            let error = agent.delete("db").await.unwrap_err();
            assert_eq!(error.code_and_status().0.as_str(), "volume/pending");
            assert_eq!(agent.phase("db"), Some(Phase::Deleting));
        }
        for refused in [
            agent.create(FakeAgent::request("db")).await,
            agent.register(FakeAgent::request("db")).await,
        ] {
            assert_eq!(refused.unwrap_err().code_and_status().0.as_str(), "volume/being-deleted");
        }
        agent.delete("db").await.unwrap();
        assert_eq!((agent.record("db"), agent.external_volumes().len()), (None, 0));
    }
}

/// FAILED_PRECONDITION proves that no earlier call deleted the volume.
#[tokio::test(start_paused = true)]
async fn a_volume_in_use_ends_a_pending_deletion() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.backend.inject_faults(
        Rpc::DeleteVolume,
        [Fault::Fail(StatusCode::Internal), Fault::Fail(StatusCode::FailedPrecondition)],
    );
    for phase in [Phase::Deleting, Phase::Registered] {
        agent.delete("db").await.unwrap_err();
        assert_eq!(agent.phase("db"), Some(phase));
    }
}

/// A call that was never sent has no effect.
#[tokio::test(start_paused = true)]
async fn an_unreachable_plugin_deletes_nothing() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.backend.crash();
    let error = agent.delete("db").await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "plugin/unreachable");
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    agent.observe(false).await;
    assert_eq!(
        text(agent.delete("db").await),
        "controller delete volume: failed to find clients running controller plugin \"fake\": \
         plugin instance \"99999999-2222-4333-8444-555555555555\" is not healthy"
    );
}

/// The delete resolves the pending creation first.
#[tokio::test(start_paused = true)]
async fn deleting_a_pending_creation_leaves_nothing_behind() {
    for (fault, next) in [
        (Fault::FailAfterEffect(StatusCode::Internal), None),
        (Fault::Fail(StatusCode::Internal), None),
        (Fault::Fail(StatusCode::Internal), Some(Fault::Fail(StatusCode::InvalidArgument))),
    ] {
        let agent = agent().await;
        agent.backend.inject_faults(Rpc::CreateVolume, [fault]);
        agent.create(FakeAgent::request("db")).await.unwrap_err();
        agent.backend.inject_faults(Rpc::CreateVolume, next);
        agent.delete("db").await.unwrap();
        assert_eq!((agent.record("db"), agent.external_volumes().len()), (None, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deregistered_volume_keeps_its_data() {
    let agent = agent().await;
    agent.create(FakeAgent::request("db")).await.unwrap();
    agent.deregister("db", false).await.unwrap();
    assert_eq!(agent.record("db"), None);
    assert_eq!(agent.external_volumes(), ["fake-1"]);
    assert_eq!(text(agent.deregister("db", false).await), "volume not found: db");
}

/// Without force, the plugin is asked again first.
#[tokio::test(start_paused = true)]
async fn a_pending_creation_is_removed_only_by_force() {
    let agent = agent().await;
    let broken = [Fault::Fail(StatusCode::Internal); 3];
    agent.backend.inject_faults(Rpc::CreateVolume, broken);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let error = agent.deregister("db", false).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "volume/pending");
    agent.deregister("db", true).await.unwrap();
    assert_eq!(agent.record("db"), None);
}

/// W30: deletes of one plugin run one after another, and each of them runs.
#[tokio::test(start_paused = true)]
async fn deletes_of_one_plugin_are_serialized() {
    let agent = Arc::new(agent().await);
    let ids: Vec<_> = (0..5).map(|n| format!("v{n}")).collect();
    for id in &ids {
        agent.create(FakeAgent::request(id)).await.unwrap();
    }
    agent.backend.inject_faults(Rpc::DeleteVolume, [Fault::Hang; 5]);
    let before = agent.backend.calls().len();
    let release = async {
        for at in 1..=5 {
            agent.backend.wait_for_calls((before + at) as u64).await;
            // Every task that can run has run, and no other call has arrived.
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

/// B30, W30: a delete without an answer keeps its volume, and lets deletes of other volumes pass when
/// it hangs.
#[tokio::test(start_paused = true)]
async fn a_delete_without_an_answer_lets_others_pass() {
    let agent = agent().await;
    for id in ["slow", "next"] {
        agent.create(FakeAgent::request(id)).await.unwrap();
    }
    let hang = [Fault::Hang];
    agent.backend.inject_faults(Rpc::DeleteVolume, hang);
    let start = tokio::time::Instant::now();
    let next = async {
        agent.backend.wait_for_calls(3).await;
        agent.delete("next").await.unwrap();
        assert_eq!(start.elapsed(), ForwardLimits::HUNG_AFTER);
        agent.backend.release();
    };
    let (slow, ()) = tokio::join!(agent.delete("slow"), next);
    slow.unwrap();
    assert_eq!(agent.external_volumes(), Vec::<String>::new());
}

/// W30: a delete overtakes snapshots that wait for the same plugin.
#[tokio::test(start_paused = true)]
async fn a_delete_overtakes_waiting_expansions() {
    let mut settings = PluginSettings::default();
    settings.controller.as_mut().unwrap().expand_volume = true;
    let agent = FakeAgent::start(settings).await.unwrap();
    let sized =
        |id: &str, size| VolumeRequest { capacity: sized(size, 0), ..FakeAgent::request(id) };
    for id in ["a", "b", "c"] {
        agent.create(sized(id, 10)).await.unwrap();
    }
    let hang = [Fault::Hang];
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, hang);
    let delete = async {
        // Every task that can run has run: one expansion is sent, the other waits.
        agent.backend.wait_for_calls(4).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let delete = agent.delete("c");
        let release = async {
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            agent.backend.release();
        };
        tokio::join!(delete, release).0.unwrap();
    };
    let (a, b, ()) =
        tokio::join!(agent.create(sized("a", 20)), agent.create(sized("b", 20)), delete);
    a.and(b).unwrap();
    let order: Vec<_> = agent.backend.calls().iter().skip(3).map(|call| call.rpc).collect();
    let expand = Rpc::ControllerExpandVolume;
    assert_eq!(order, [expand, Rpc::DeleteVolume, expand]);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_an_immediate_error() {
    let limits = VolumeLimits { max_waiting: 0, ..VolumeLimits::default() };
    let agent = agent().await.restart(limits).await.unwrap();
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    let second = async {
        agent.backend.wait_for_calls(1).await;
        let error = agent.delete("db").await.unwrap_err();
        agent.backend.release();
        error
    };
    let (first, second) = tokio::join!(agent.create(FakeAgent::request("db")), second);
    first.unwrap();
    assert_eq!(second.text(), "0 operations are already waiting for volume `db`");
}
