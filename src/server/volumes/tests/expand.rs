//! Growth in two halves, each on record.

use super::*;
use crate::model::{ControllerCapabilities, Secrets};
use crate::ports::fake::{AppendFault, Fault, MemoryJournal};
use crate::ports::{JournalErrorKind, Replay, StatusCode};
use crate::server::volumes::VolumeLimits;
use crate::state::{Event, EventKind, replay};

fn growing(node_expansion_required: bool) -> Settings {
    Settings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            expand_volume: true,
            ..ControllerCapabilities::default()
        }),
        node_expansion_required,
        largest_capacity: Bytes::new(1000),
        ..Settings::default()
    }
}

fn wanted(min: u64, max: u64) -> VolumeRequest {
    VolumeRequest {
        capacity: sized(min, max),
        ..FakeAgent::request("db")
    }
}

async fn with_volume(settings: Settings) -> FakeAgent {
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.create(wanted(10, 0)).await.unwrap();
    agent
}

impl FakeAgent {
    /// Of the volume: its size on record, in the provider, and what is open.
    fn size(&self) -> (u64, u64, bool, bool) {
        let record = self.record("db").expect("it is there");
        let provided = self.backend.volumes()[0].capacity.get();
        let open = record.expanding.is_some();
        let on_record = record.provided.capacity.get();
        (on_record, provided, open, record.node_expansion_pending)
    }

    fn expansions(&self) -> usize {
        self.backend.count(Rpc::ControllerExpandVolume)
    }
}

/// W17: create and register grow; the answer shows the new size, and what nodes have to do stays on
/// record until one has done it.
#[tokio::test(start_paused = true)]
async fn a_volume_grows_in_its_provider_and_waits_for_its_nodes() {
    for pending in [false, true] {
        let agent = with_volume(growing(pending)).await;
        let outcome = agent.create(wanted(20, 0)).await.unwrap();
        let shown = outcome.volumes[0].volume();
        assert_eq!(shown.capacity.get(), 20);
        assert_eq!(shown.requested_capacity, sized(20, 0));
        assert_eq!(outcome.volumes[0].record.node_expansion_pending, pending);
        assert_eq!(outcome.warnings.len(), usize::from(pending), "{outcome:?}");
        assert_eq!(agent.size(), (20, 20, false, pending));
        let outcome = agent.register(wanted(30, 40)).await.unwrap();
        assert_eq!(outcome.volumes[0].volume().capacity.get(), 30);
        assert_eq!(agent.size(), (30, 30, false, pending));
        assert_eq!(agent.expansions(), 2);
        agent.register(wanted(30, 50)).await.unwrap();
        assert_eq!(agent.expansions(), 2, "it is large enough already");
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        assert_eq!(agent.size(), (30, 30, false, pending));
    }
}

/// `csi-orchestration` 2.7, steps 7 and 8: Nomad's words for each refusal, and nothing is stored.
#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_grow_is_as_it_was() {
    let agent = with_volume(growing(false)).await;
    let before = agent.record("db");
    let refused = agent.register(wanted(2000, 0)).await.unwrap_err();
    assert_eq!(
        refused.text(),
        "unable to update volume: unable to expand volume: controller expand volume: \
         CSI.ControllerExpandVolume: unsupported capacity_range for volume \"fake-1\": rpc error: \
         code = OutOfRange desc = fake-1 cannot be so large"
    );
    assert_eq!(refused.class().0.as_str(), "plugin/capacity");
    assert_eq!(agent.size(), (10, 10, false, false));
    let (now, before) = (agent.record("db").unwrap(), before.unwrap());
    assert_eq!(now.definition, before.definition);
    assert!(
        text(agent.create(wanted(2000, 0)).await).starts_with(
            "1 error occurred:\n\t* unable to expand volume: controller expand volume: "
        )
    );
    let agent = with_volume(Settings::default()).await;
    assert_eq!(
        text(agent.register(wanted(20, 0)).await),
        "unable to update volume: expand is not implemented by this controller plugin"
    );
    assert_eq!(agent.expansions(), 0);
}

/// B94: nothing grows for a request that is refused for another reason, of this volume or another.
#[tokio::test(start_paused = true)]
async fn nothing_grows_for_a_request_that_is_refused() {
    let agent = with_volume(growing(false)).await;
    let mut renamed = wanted(20, 0);
    renamed.name = Some("other".into());
    assert!(text(agent.register(renamed).await).contains("volume name cannot be updated"));
    let other = FakeAgent::request("nobody-has-it");
    let both = vec![wanted(20, 0).into(), other.into()];
    let refused = agent.volumes.register(both).await;
    assert!(text(refused).contains("nobody-has-it"));
    assert_eq!(
        (agent.expansions(), agent.size()),
        (0, (10, 10, false, false))
    );
}

/// W05, W17, B53, B54: the request that meets the fault may fail, and says whether it may have grown;
/// the next one, here or after a restart, ends as if nothing had happened.
#[tokio::test(start_paused = true)]
async fn every_fault_of_an_expansion_is_finished_by_the_next_request() {
    for (fault, open) in [
        (Fault::Fail(StatusCode::Internal), true),
        (Fault::Fail(StatusCode::ResourceExhausted), false),
        (Fault::FailAfterEffect(StatusCode::Unknown), true),
        (Fault::Hang, true),
        (Fault::AnswerLate, true),
        (Fault::Crash, true),
        (Fault::CrashAfterEffect, true),
    ] {
        for restarted in [false, true] {
            let agent = with_volume(growing(true)).await;
            agent.backend.script(Rpc::ControllerExpandVolume, [fault]);
            let failed = agent.register(wanted(20, 0)).await.unwrap_err();
            let code = failed.class().0.as_str();
            assert_eq!(code == "volume/pending", open, "{fault:?}: {failed:?}");
            assert_eq!(
                agent.record("db").unwrap().expanding.is_some(),
                open,
                "{fault:?}"
            );
            agent.backend.restart();
            agent.backend.release();
            let agent = match restarted {
                true => agent.restart(VolumeLimits::default()).await.unwrap(),
                false => agent,
            };
            agent.register(wanted(20, 0)).await.unwrap();
            assert_eq!(agent.size(), (20, 20, false, true), "{fault:?}");
        }
    }
}

/// Whoever comes next finds out how large it is, also if he wants nothing larger; and a deletion does
/// not need to know.
#[tokio::test(start_paused = true)]
async fn an_open_expansion_is_settled_by_any_update() {
    let agent = with_volume(growing(false)).await;
    let open = [Fault::CrashAfterEffect];
    agent.backend.script(Rpc::ControllerExpandVolume, open);
    agent.register(wanted(20, 0)).await.unwrap_err();
    agent.backend.restart();
    assert_eq!(agent.size(), (10, 20, true, false));
    agent.register(wanted(10, 0)).await.unwrap();
    assert_eq!(agent.size(), (20, 20, false, false));
    agent.backend.script(Rpc::ControllerExpandVolume, open);
    agent.register(wanted(30, 0)).await.unwrap_err();
    agent.backend.restart();
    agent.delete("db").await.unwrap();
    assert_eq!(agent.external_volumes(), Vec::<String>::new());
}

/// What the provider refuses as it is was refused before too: then nothing is open.
#[tokio::test(start_paused = true)]
async fn an_open_expansion_that_is_refused_is_given_up() {
    let agent = with_volume(growing(false)).await;
    agent
        .backend
        .script(Rpc::ControllerExpandVolume, [Fault::Crash]);
    agent.register(wanted(2000, 0)).await.unwrap_err();
    agent.backend.restart();
    assert!(agent.size().2);
    agent.register(wanted(2000, 0)).await.unwrap_err();
    assert_eq!(agent.size(), (10, 10, false, false));
}

/// A size that may have been reached is never forgotten for another one that is refused.
#[tokio::test(start_paused = true)]
async fn an_open_expansion_is_settled_before_another_size_is_asked_for() {
    let agent = with_volume(growing(false)).await;
    let lost = [Fault::CrashAfterEffect];
    agent.backend.script(Rpc::ControllerExpandVolume, lost);
    agent.register(wanted(20, 0)).await.unwrap_err();
    agent.backend.restart();
    for _ in 0..2 {
        let refused = agent.register(wanted(2000, 0)).await.unwrap_err();
        assert_eq!(refused.class().0.as_str(), "plugin/capacity");
        assert_eq!(agent.size(), (20, 20, false, false));
    }
    agent.backend.script(Rpc::ControllerExpandVolume, lost);
    agent.register(wanted(30, 0)).await.unwrap_err();
    agent.backend.restart();
    let unavailable = [Fault::Fail(StatusCode::Internal)];
    agent
        .backend
        .script(Rpc::ControllerExpandVolume, unavailable);
    agent.register(wanted(40, 0)).await.unwrap_err();
    assert_eq!(agent.size(), (20, 30, true, false));
    agent.register(wanted(40, 0)).await.unwrap();
    assert_eq!(agent.size(), (40, 40, false, false));
    agent
        .backend
        .script(Rpc::ControllerExpandVolume, [Fault::Crash]);
    agent.register(wanted(2000, 0)).await.unwrap_err();
    agent.backend.restart();
    agent.register(wanted(50, 0)).await.unwrap();
    assert_eq!(
        agent.size(),
        (50, 50, false, false),
        "what is refused is given up, and the rest goes on"
    );
}

/// Whoever wants nothing larger is not kept from it by a plugin that goes on failing.
#[tokio::test(start_paused = true)]
async fn an_update_is_stored_while_an_expansion_stays_open() {
    let agent = with_volume(growing(false)).await;
    let lost = [Fault::CrashAfterEffect];
    agent.backend.script(Rpc::ControllerExpandVolume, lost);
    agent.register(wanted(20, 0)).await.unwrap_err();
    agent.backend.restart();
    let failing = || {
        agent.backend.script(
            Rpc::ControllerExpandVolume,
            [Fault::Fail(StatusCode::Internal)],
        );
    };
    let with_token = |token| VolumeRequest {
        secrets: Some(Secrets::from_iter([("token", token)])),
        ..wanted(10, 0)
    };
    failing();
    let registered = agent.register(with_token("first")).await.unwrap();
    failing();
    let created = agent.create(with_token("second")).await.unwrap();
    let sealed = [&registered, &created].map(|outcome| outcome.volumes[0].record.secrets.clone());
    assert_ne!(sealed[0], sealed[1], "both are stored");
    for outcome in [registered, created] {
        assert_eq!(
            outcome.warnings,
            [
                "volume db: an expansion to 20B was begun, and its plugin has not said what came of it; the next request for the volume asks again"
            ]
        );
    }
    assert_eq!(agent.size(), (10, 20, true, false));
    let index = agent.state().index();
    failing();
    agent.register(FakeAgent::request("db")).await.unwrap();
    assert_eq!(
        agent.state().index(),
        index,
        "nothing changed, and nothing was written"
    );
}

/// A journal that fails before or after the call loses nothing, and the next request ends it.
#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_at_any_write_of_an_expansion_loses_nothing() {
    let fault = AppendFault::Refused(JournalErrorKind::Unavailable);
    for after_the_call in [false, true] {
        let agent = with_volume(growing(true)).await;
        let before = agent.backend.calls().len() as u64;
        agent
            .backend
            .script(Rpc::ControllerExpandVolume, [Fault::Hang]);
        let fail = async {
            if after_the_call {
                agent.backend.arrived(before + 2).await;
            }
            agent.journal.fail_next([fault]);
            agent.backend.release();
        };
        let (failed, ()) = tokio::join!(agent.register(wanted(20, 0)), fail);
        let failed = failed.unwrap_err();
        assert_eq!(failed.class().0.as_str(), "journal/unavailable");
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        agent.backend.script(Rpc::ControllerExpandVolume, []);
        let again = agent.register(wanted(20, 0));
        let release = async {
            if !after_the_call {
                agent.backend.arrived(before + 3).await;
                agent.backend.release();
            }
        };
        tokio::join!(again, release).0.unwrap();
        assert_eq!(agent.size(), (20, 20, false, true), "{after_the_call}");
    }
}

/// The agent killed behind each record of an expansion: the next one starts on what is there, says
/// what is open, goes on, and comes to the same.
#[tokio::test(start_paused = true)]
async fn an_agent_killed_behind_any_record_of_an_expansion_goes_on() {
    let agent = with_volume(growing(true)).await;
    agent.create(wanted(20, 0)).await.unwrap();
    agent.register(wanted(30, 0)).await.unwrap();
    let run = agent.journal.replay().events;
    let is_begun = |event: &Event| matches!(event.kind, EventKind::VolumeCreated { .. });
    let begin = run.iter().position(is_begun).unwrap() + 1;
    let grown = |events: &[Event]| {
        let is_growth = |event: &&Event| matches!(event.kind, EventKind::VolumeExpanded { .. });
        events.iter().filter(is_growth).count()
    };
    assert_eq!(grown(&run), 2);
    for length in begin..=run.len() {
        let journal = MemoryJournal::holding(Replay {
            snapshot: None,
            events: run[..length].to_vec(),
        });
        let expected = replay(None, run[..length].to_vec()).unwrap();
        let (backend, clock, ids) = (
            agent.backend.clone(),
            agent.clock.clone(),
            agent.ids.clone(),
        );
        let next = FakeAgent::on(backend, journal, clock, ids, VolumeLimits::default());
        let next = next.await.unwrap();
        let key = FakeAgent::key("db");
        assert_eq!(
            next.state().record(&key),
            expected.record(&key),
            "{length} records"
        );
        next.register(wanted(30, 0)).await.unwrap();
        assert_eq!(next.size(), (30, 30, false, true), "{length} records");
        let record = next.record("db").unwrap();
        assert_eq!(record.definition.capacity, sized(30, 0), "{length} records");
    }
}
