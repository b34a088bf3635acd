//! Expanding volumes at the provider and on the nodes.

use super::*;
use crate::fake::{AppendFault, MemoryJournal};
use crate::journal::{JournalErrorKind, Replay};
use crate::volumes::VolumeLimits;
use nomad_csi_claims::state::{Event, EventKind, replay};
use nomad_csi_model::{ControllerCapabilities, Secrets};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::Fault;

fn expanding(node_expansion_required: bool) -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            expand_volume: true,
            ..ControllerCapabilities::default()
        }),
        node_expansion_required,
        max_capacity: Bytes::new(1000),
        ..PluginSettings::default()
    }
}

fn desired(min: u64, max: u64) -> VolumeRequest {
    VolumeRequest { capacity: sized(min, max), ..FakeAgent::request("db") }
}

async fn with_volume(settings: PluginSettings) -> FakeAgent {
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.create(desired(10, 0)).await.unwrap();
    agent
}

impl FakeAgent {
    /// The recorded size, the size at the provider, and whether the expansion and the node expansion are
    /// pending.
    fn size(&self) -> (u64, u64, bool, bool) {
        let record = self.record("db").expect("the volume has a record");
        let provided = self.backend.volumes()[0].capacity.get();
        let open = record.expanding.is_some();
        let on_record = record.provided.capacity.get();
        (on_record, provided, open, record.node_expansion_pending)
    }

    fn expansions(&self) -> usize {
        self.backend.count(Rpc::ControllerExpandVolume)
    }
}

/// W17: create and register expand a volume and return the new size. A required node expansion stays
/// on record.
#[tokio::test(start_paused = true)]
async fn a_volume_is_expanded_and_node_expansion_is_pending() {
    for pending in [false, true] {
        let agent = with_volume(expanding(pending)).await;
        let result = agent.create(desired(20, 0)).await.unwrap();
        let shown = result.volumes[0].volume();
        assert_eq!(shown.capacity.get(), 20);
        assert_eq!(shown.requested_capacity, sized(20, 0));
        assert_eq!(result.volumes[0].record.node_expansion_pending, pending);
        assert_eq!(result.warnings.len(), usize::from(pending), "{result:?}");
        assert_eq!(agent.size(), (20, 20, false, pending));
        let result = agent.register(desired(30, 40)).await.unwrap();
        assert_eq!(result.volumes[0].volume().capacity.get(), 30);
        assert_eq!(agent.size(), (30, 30, false, pending));
        assert_eq!(agent.expansions(), 2);
        agent.register(desired(30, 50)).await.unwrap();
        assert_eq!(agent.expansions(), 2, "the volume is already large enough");
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        assert_eq!(agent.size(), (30, 30, false, pending));
    }
}

/// Each refusal has Nomad's text, and nothing is stored.
#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_expanded_is_unchanged() {
    let agent = with_volume(expanding(false)).await;
    let before = agent.record("db");
    let refused = agent.register(desired(2000, 0)).await.unwrap_err();
    assert_eq!(
        refused.text(),
        "unable to update volume: unable to expand volume: controller expand volume: \
         CSI.ControllerExpandVolume: unsupported capacity_range for volume \"fake-1\": rpc error: \
         code = OutOfRange desc = fake-1 is limited to a smaller size"
    );
    assert_eq!(refused.code_and_status().0.as_str(), "plugin/capacity");
    assert_eq!(agent.size(), (10, 10, false, false));
    let (now, before) = (agent.record("db").unwrap(), before.unwrap());
    assert_eq!(now.definition, before.definition);
    assert!(
        text(agent.create(desired(2000, 0)).await).starts_with(
            "1 error occurred:\n\t* unable to expand volume: controller expand volume: "
        )
    );
    let agent = with_volume(PluginSettings::default()).await;
    assert_eq!(
        text(agent.register(desired(20, 0)).await),
        "unable to update volume: expand is not implemented by this controller plugin"
    );
    assert_eq!(agent.expansions(), 0);
}

/// B94: a request that is refused for another reason, or for another volume, expands nothing.
#[tokio::test(start_paused = true)]
async fn a_refused_request_expands_nothing() {
    let agent = with_volume(expanding(false)).await;
    let mut renamed = desired(20, 0);
    renamed.name = Some("other".into());
    assert!(text(agent.register(renamed).await).contains("volume name cannot be updated"));
    let other = FakeAgent::request("unregistered");
    let both = vec![desired(20, 0).into(), other.into()];
    let refused = agent.volumes.register(both).await;
    assert!(text(refused).contains("unregistered"));
    assert_eq!((agent.expansions(), agent.size()), (0, (10, 10, false, false)));
}

/// W05, W17, B53, B54: the request that meets the fault may fail, and reports whether the call may have
/// taken effect. The next one, here or after a restart, completes the expansion.
#[tokio::test(start_paused = true)]
async fn every_fault_of_an_expansion_is_resolved_by_the_next_request() {
    for (fault, open) in [
        (Fault::Fail(StatusCode::Internal), true),
        (Fault::Fail(StatusCode::PermissionDenied), false),
        (Fault::FailAfterEffect(StatusCode::Unknown), true),
        (Fault::Hang, true),
        (Fault::DelayReply, true),
        (Fault::Crash, true),
        (Fault::CrashAfterEffect, true),
    ] {
        for restarted in [false, true] {
            let agent = with_volume(expanding(true)).await;
            agent.backend.inject_faults(Rpc::ControllerExpandVolume, [fault]);
            let failed = agent.register(desired(20, 0)).await.unwrap_err();
            let code = failed.code_and_status().0.as_str();
            assert_eq!(code == "volume/pending", open, "{fault:?}: {failed:?}");
            assert_eq!(agent.record("db").unwrap().expanding.is_some(), open, "{fault:?}");
            agent.backend.crash();
            agent.backend.restart();
            let agent = match restarted {
                true => agent.restart(VolumeLimits::default()).await.unwrap(),
                false => agent,
            };
            agent.register(desired(20, 0)).await.unwrap();
            assert_eq!(agent.size(), (20, 20, false, true), "{fault:?}");
        }
    }
}

/// The next update resolves it, even one that needs no larger size. A delete does not.
#[tokio::test(start_paused = true)]
async fn a_pending_expansion_is_settled_by_any_update() {
    let agent = with_volume(expanding(false)).await;
    let open = [Fault::CrashAfterEffect];
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, open);
    agent.register(desired(20, 0)).await.unwrap_err();
    agent.backend.restart();
    assert_eq!(agent.size(), (10, 20, true, false));
    agent.register(desired(10, 0)).await.unwrap();
    assert_eq!(agent.size(), (20, 20, false, false));
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, open);
    agent.register(desired(30, 0)).await.unwrap_err();
    agent.backend.restart();
    agent.delete("db").await.unwrap();
    assert_eq!(agent.external_volumes(), Vec::<String>::new());
}

/// A permanent refusal proves that the earlier identical call was refused too.
#[tokio::test(start_paused = true)]
async fn a_pending_expansion_that_is_refused_is_abandoned() {
    let agent = with_volume(expanding(false)).await;
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, [Fault::Crash]);
    agent.register(desired(2000, 0)).await.unwrap_err();
    agent.backend.restart();
    assert!(agent.size().2);
    agent.register(desired(2000, 0)).await.unwrap_err();
    assert_eq!(agent.size(), (10, 10, false, false));
}

/// The pending size stays on record even if another size is refused.
#[tokio::test(start_paused = true)]
async fn a_pending_expansion_is_settled_before_another_size_is_requested() {
    let agent = with_volume(expanding(false)).await;
    let lost = [Fault::CrashAfterEffect];
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, lost);
    agent.register(desired(20, 0)).await.unwrap_err();
    agent.backend.restart();
    for _ in 0..2 {
        let refused = agent.register(desired(2000, 0)).await.unwrap_err();
        assert_eq!(refused.code_and_status().0.as_str(), "plugin/capacity");
        assert_eq!(agent.size(), (20, 20, false, false));
    }
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, lost);
    agent.register(desired(30, 0)).await.unwrap_err();
    agent.backend.restart();
    let unavailable = [Fault::Fail(StatusCode::Internal)];
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, unavailable);
    agent.register(desired(40, 0)).await.unwrap_err();
    assert_eq!(agent.size(), (20, 30, true, false));
    agent.register(desired(40, 0)).await.unwrap();
    assert_eq!(agent.size(), (40, 40, false, false));
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, [Fault::Crash]);
    agent.register(desired(2000, 0)).await.unwrap_err();
    agent.backend.restart();
    agent.register(desired(50, 0)).await.unwrap();
    assert_eq!(
        agent.size(),
        (50, 50, false, false),
        "the refused expansion is abandoned, and other updates continue"
    );
}

/// A plugin that keeps failing does not block updates that need no larger size.
#[tokio::test(start_paused = true)]
async fn an_update_is_stored_while_an_expansion_is_pending() {
    let agent = with_volume(expanding(false)).await;
    let lost = [Fault::CrashAfterEffect];
    agent.backend.inject_faults(Rpc::ControllerExpandVolume, lost);
    agent.register(desired(20, 0)).await.unwrap_err();
    agent.backend.restart();
    let failing = || {
        agent
            .backend
            .inject_faults(Rpc::ControllerExpandVolume, [Fault::Fail(StatusCode::Internal)]);
    };
    let with_token = |token| VolumeRequest {
        secrets: Some(Secrets::from_iter([("token", token)])),
        ..desired(10, 0)
    };
    // The call with another secret is recorded, so the update is planned again.
    failing();
    failing();
    let registered = agent.register(with_token("first")).await.unwrap();
    failing();
    let created = agent.create(with_token("second")).await.unwrap();
    let sealed = [&registered, &created].map(|result| result.volumes[0].record.secrets.clone());
    assert_ne!(sealed[0], sealed[1], "both are stored");
    for result in [registered, created] {
        assert_eq!(
            result.warnings,
            [
                "volume `db`: an expansion to 20B was started and its outcome is unknown; the next request for the volume asks the plugin again"
            ]
        );
    }
    assert_eq!(agent.size(), (10, 20, true, false));
    let index = agent.state().index();
    failing();
    agent.register(FakeAgent::request("db")).await.unwrap();
    assert_eq!(agent.state().index(), index, "nothing changed, and nothing was written");
}

/// The journal fails before or after the call, and the next request completes the expansion.
#[tokio::test(start_paused = true)]
async fn a_journal_failure_at_any_write_of_an_expansion_loses_nothing() {
    let fault = AppendFault::NotWritten(JournalErrorKind::Unavailable);
    for after_the_call in [false, true] {
        let agent = with_volume(expanding(true)).await;
        let before = agent.backend.calls().len() as u64;
        agent.backend.inject_faults(Rpc::ControllerExpandVolume, [Fault::Hang]);
        let fail = async {
            if after_the_call {
                agent.backend.wait_for_calls(before + 2).await;
            }
            agent.journal.fail_next([fault]);
            agent.backend.release();
        };
        let (failed, ()) = tokio::join!(agent.register(desired(20, 0)), fail);
        let failed = failed.unwrap_err();
        assert_eq!(failed.code_and_status().0.as_str(), "journal/unavailable");
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        agent.backend.inject_faults(Rpc::ControllerExpandVolume, []);
        let again = agent.register(desired(20, 0));
        let release = async {
            if !after_the_call {
                agent.backend.wait_for_calls(before + 3).await;
                agent.backend.release();
            }
        };
        tokio::join!(again, release).0.unwrap();
        assert_eq!(agent.size(), (20, 20, false, true), "{after_the_call}");
    }
}

/// The agent is killed after each record of an expansion. The next one reports what is pending and
/// reaches the same result.
#[tokio::test(start_paused = true)]
async fn an_agent_killed_after_any_record_of_an_expansion_continues() {
    let agent = with_volume(expanding(true)).await;
    agent.create(desired(20, 0)).await.unwrap();
    agent.register(desired(30, 0)).await.unwrap();
    let run = agent.journal.replay().events;
    let is_begun = |event: &Event| matches!(event.kind, EventKind::VolumeCreated { .. });
    let begin = run.iter().position(is_begun).unwrap() + 1;
    let grown = |events: &[Event]| {
        let is_growth = |event: &&Event| matches!(event.kind, EventKind::VolumeExpanded { .. });
        events.iter().filter(is_growth).count()
    };
    assert_eq!(grown(&run), 2);
    for length in begin..=run.len() {
        let journal = MemoryJournal::with_content(Replay {
            snapshot: None,
            accepts_changes: false,
            events: run[..length].to_vec(),
        });
        let expected = replay(None, run[..length].to_vec()).unwrap();
        let (backend, clock, ids) = (agent.backend.clone(), agent.clock.clone(), agent.ids.clone());
        let next = FakeAgent::on(backend, journal, clock, ids, VolumeLimits::default());
        let next = next.await.unwrap();
        let key = FakeAgent::key("db");
        assert_eq!(next.state().record(&key), expected.record(&key), "{length} records");
        next.register(desired(30, 0)).await.unwrap();
        assert_eq!(next.size(), (30, 30, false, true), "{length} records");
        let record = next.record("db").unwrap();
        assert_eq!(record.definition.capacity, sized(30, 0), "{length} records");
    }
}
