//! Creating volumes, and continuing pending creations.

use std::collections::BTreeSet;
use std::time::Duration;

use super::recording::record;
use super::*;
use crate::fake::{AppendFault, MemoryJournal};
use crate::journal::{JournalErrorKind, Replay};
use crate::repeated_call::ForwardLimits;
use crate::volumes::VolumeLimits;
use nomad_csi_claims::state::provider_name;
use nomad_csi_model::{Namespace, Secrets};
use nomad_csi_ports::StatusCode;
use nomad_csi_testing::{CountingIds, FakeBackend, FakeClock, FakePlugin, Fault};

/// The volume has the provider's answer (B13, B20); a second create updates it (B01).
#[tokio::test(start_paused = true)]
async fn a_created_volume_is_not_created_again() {
    let agent = agent().await;
    let request = VolumeRequest {
        capacity: sized(100, 200),
        parameters: Some([("p".to_owned(), "v".to_owned())].into()),
        ..FakeAgent::request("db")
    };
    let result = agent.create(request.clone()).await.unwrap();
    let volume = result.volumes[0].volume();
    assert_eq!(volume.external_id, Some(ExternalId::new("fake-1")));
    assert_eq!(volume.capacity, Bytes::new(100).unwrap());
    assert_eq!(volume.context.len(), 1);
    assert_eq!(volume.topologies, []);
    assert_eq!(volume.name, "db-name");
    let before = agent.state();
    let again = agent.create(request).await.unwrap();
    assert_eq!(agent.state(), before);
    assert_eq!(again.volumes[0].volume(), volume);
    assert_eq!(agent.calls(), (1, 0, 0));
}

/// W13: the name at the provider is unique per volume.
#[tokio::test(start_paused = true)]
async fn one_name_in_two_namespaces_makes_two_volumes() {
    let agent = agent().await;
    agent.add_namespaces(&["prod"]).await;
    let sent = record(&agent);
    for namespace in ["default", "prod"] {
        let request =
            VolumeRequest { namespace: Namespace::new(namespace), ..FakeAgent::request("db") };
        agent.create(request).await.unwrap();
    }
    agent.delete("db").await.unwrap();
    agent.create(FakeAgent::request("db")).await.unwrap();
    let names: BTreeSet<_> =
        sent.creates.lock().iter().map(|request| request.name.clone()).collect();
    assert_eq!(names.len(), 3);
    assert_eq!(agent.external_volumes(), ["fake-2", "fake-3"]);
}

/// W14: the intent is recorded before the call. W27: topologies are sent only to plugins that support
/// them.
#[tokio::test(start_paused = true)]
async fn the_intent_is_on_record_before_the_plugin_is_called() {
    let agent = agent().await;
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    let request =
        VolumeRequest { topology_request: Some(in_zones(&["a"])), ..FakeAgent::request("db") };
    let look = async {
        agent.backend.wait_for_calls(1).await;
        assert_eq!(agent.phase("db"), Some(Phase::Creating));
        let state = agent.state();
        let record = state.record(&FakeAgent::key("db")).unwrap();
        let calls = agent.backend.calls();
        assert_eq!(calls[0].subject, provider_name(&state, record));
        agent.backend.release();
    };
    let (result, ()) = tokio::join!(agent.create(request), look);
    let volume = result.unwrap().volumes[0].volume();
    assert_eq!(volume.topology_request, Some(in_zones(&["a"])));
}

#[tokio::test(start_paused = true)]
async fn topologies_are_sent_to_a_plugin_that_supports_them() {
    let mut settings = PluginSettings::default();
    settings.plugin.volume_accessibility_constraints = true;
    let agent = FakeAgent::start(settings).await.unwrap();
    let sent = record(&agent);
    for (id, topology) in
        [("a", None), ("b", Some(TopologyRequest::default())), ("c", Some(in_zones(&["z"])))]
    {
        let request = VolumeRequest { topology_request: topology, ..FakeAgent::request(id) };
        agent.create(request).await.unwrap();
    }
    let sent: Vec<_> = sent.creates.lock().iter().map(|request| request.topology.clone()).collect();
    assert_eq!(sent, [None, None, Some(in_zones(&["z"]))]);
}

/// The context of the request is neither sent nor stored.
#[tokio::test(start_paused = true)]
async fn a_context_in_a_create_is_ignored() {
    let agent = agent().await;
    let request = VolumeRequest {
        context: Some([("mine".to_owned(), "1".to_owned())].into()),
        ..FakeAgent::request("db")
    };
    for _ in 0..2 {
        let result = agent.create(request.clone()).await.unwrap();
        let context = result.volumes[0].volume().context;
        assert_eq!(context.keys().collect::<Vec<_>>(), ["made-by"]);
        assert_eq!(
            result.warnings,
            [
                "volume `db`: the context of the request was ignored; the plugin gives a new volume its context"
            ]
        );
    }
}

/// Nomad's texts for what the plugin does not support.
#[tokio::test(start_paused = true)]
async fn an_unsupported_create_is_refused_without_a_call() {
    let agent = agent().await;
    let request = FakeAgent::request("db");
    for (request, expected) in [
        (
            VolumeRequest { clone_id: Some("fake-1".into()), ..request.clone() },
            "plugin does not support creating volumes from a volume",
        ),
        (
            VolumeRequest { snapshot_id: Some("snap-1".into()), ..request.clone() },
            "plugin does not support creating volumes from a snapshot",
        ),
    ] {
        assert_eq!(text(agent.create(request).await), expected);
    }
    agent.backend.update_settings(|settings| settings.controller = Some(Default::default()));
    agent.observe(true).await;
    assert_eq!(text(agent.create(request).await), "plugin does not support creating volumes");
    assert_eq!((agent.calls(), agent.record("db")), ((0, 0, 0), None));
}

/// B94: successes stay, and failures are reported together.
#[tokio::test(start_paused = true)]
async fn each_of_several_volumes_is_created_independently() {
    let agent = agent().await;
    let script = [None, Some(StatusCode::OutOfRange), Some(StatusCode::NotFound)];
    for code in script.into_iter().flatten() {
        agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Fail(code)]);
    }
    let three = ["a", "b", "c"].map(|id| FakeAgent::request(id).into());
    assert_eq!(
        text(agent.volumes.create(three.to_vec()).await),
        "2 errors occurred:\n\t\
         * controller create volume: CSI.ControllerCreateVolume: unsupported capacity_range for \
         volume \"a-name\": rpc error: code = OutOfRange desc = scripted OutOfRange\n\t\
         * controller create volume: CSI.ControllerCreateVolume: volume \"b-name\" content source \
         does not exist: rpc error: code = NotFound desc = scripted NotFound\n\n"
    );
    assert_eq!(agent.phase("a"), None);
    assert_eq!(agent.phase("c"), Some(Phase::Registered));
}

/// A refusal without effect leaves nothing on record.
#[tokio::test(start_paused = true)]
async fn a_refusal_without_effect_abandons_the_intent() {
    for code in [
        StatusCode::InvalidArgument,
        StatusCode::AlreadyExists,
        StatusCode::OutOfRange,
        StatusCode::ResourceExhausted,
        StatusCode::PermissionDenied,
        StatusCode::Unauthenticated,
        StatusCode::FailedPrecondition,
        StatusCode::NotFound,
    ] {
        let agent = agent().await;
        agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Fail(code); 6]);
        agent.create(FakeAgent::request("db")).await.unwrap_err();
        assert_eq!(agent.phase("db"), None, "{code:?}");
        agent.backend.clear_faults();
        agent.create(FakeAgent::request("db")).await.unwrap();
    }
}

/// W14: a call with unknown effect stays on record, and the same request completes it.
#[tokio::test(start_paused = true)]
async fn a_pending_creation_is_continued_under_the_same_name() {
    for fault in [
        Fault::FailAfterEffect(StatusCode::Internal),
        Fault::FailAfterEffect(StatusCode::Unknown),
        Fault::Fail(StatusCode::Internal),
        Fault::Fail(StatusCode::DataLoss),
    ] {
        let agent = agent().await;
        agent.backend.inject_faults(Rpc::CreateVolume, [fault]);
        let error = agent.create(FakeAgent::request("db")).await.unwrap_err();
        assert_eq!(error.code_and_status().0.as_str(), "volume/pending", "{fault:?}");
        assert!(error.message().ends_with("the call may still have taken effect"));
        assert_eq!(agent.phase("db"), Some(Phase::Creating));
        agent.create(FakeAgent::request("db")).await.unwrap();
        assert_eq!(agent.external_volumes(), ["fake-1"], "{fault:?}");
    }
}

/// A wrong token can be corrected while the creation is pending.
#[tokio::test(start_paused = true)]
async fn a_pending_creation_takes_new_secrets() {
    let agent = agent().await;
    let sent = record(&agent);
    let with = |value: &str| VolumeRequest {
        secrets: Some(Secrets::from_iter([("token", value)])),
        ..FakeAgent::request("db")
    };
    agent.backend.inject_faults(
        Rpc::CreateVolume,
        [Fault::Fail(StatusCode::Internal), Fault::Fail(StatusCode::Unauthenticated)],
    );
    for value in ["old", "wrong"] {
        agent.create(with(value)).await.unwrap_err();
        assert_eq!(agent.phase("db"), Some(Phase::Creating), "{value}");
    }
    agent.create(with("right")).await.unwrap();
    let creates = sent.creates.lock();
    let tokens: Vec<_> = creates
        .iter()
        .flat_map(|request| request.secrets.expose().map(|(_, value)| value.to_owned()))
        .collect();
    assert_eq!(tokens, ["old", "wrong", "right"]);
}

/// The pending request created nothing, so the changed one is created, once.
#[tokio::test(start_paused = true)]
async fn a_changed_request_replaces_one_without_effect() {
    let agent = agent().await;
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Fail(StatusCode::Internal)]);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let larger = VolumeRequest { capacity: sized(20, 0), ..FakeAgent::request("db") };
    let result = agent.create(larger).await.unwrap();
    assert_eq!(result.volumes[0].volume().capacity, sized(20, 0).min);
    assert_eq!(agent.external_volumes(), ["fake-1"]);
}

/// The pending request created a volume, so the changed one updates it.
#[tokio::test(start_paused = true)]
async fn a_changed_request_updates_the_volume_of_the_pending_one() {
    let agent = agent().await;
    let lost = Fault::FailAfterEffect(StatusCode::Internal);
    agent.backend.inject_faults(Rpc::CreateVolume, [lost]);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let other = VolumeRequest {
        parameters: Some([("p".to_owned(), "v".to_owned())].into()),
        ..FakeAgent::request("db")
    };
    assert_eq!(
        text(agent.create(other).await),
        "1 error occurred:\n\t* 1 error occurred:\n\t* volume parameters cannot be updated\n\n\n\n"
    );
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    assert_eq!(agent.external_volumes(), ["fake-1"]);
}

/// W14: every request that may have created the volume is remembered, so each later request, in any order, and
/// a delete find the one that did.
#[tokio::test(start_paused = true)]
async fn every_request_that_was_sent_is_remembered() {
    let sizes: Vec<u64> = (1..=3).map(|n| 10 * n).collect();
    let of_size =
        |size: u64| VolumeRequest { capacity: sized(size, size), ..FakeAgent::request("db") };
    // Each of the requests in turn has created the volume, and each of them is sent again.
    for effective in 0..sizes.len() {
        for again in 0..sizes.len() {
            let agent = agent().await;
            for (at, size) in sizes.iter().enumerate() {
                let fault = if at == effective {
                    Fault::FailAfterEffect(StatusCode::Internal)
                } else {
                    Fault::Fail(StatusCode::Internal)
                };
                agent.backend.inject_faults(Rpc::CreateVolume, [fault]);
                agent.create(of_size(*size)).await.unwrap_err();
            }
            let case = format!("request {effective} created it, {again} is sent again");
            let result = agent.create(of_size(sizes[again])).await;
            assert_eq!(agent.phase("db"), Some(Phase::Registered), "{case}: {result:?}");
            assert_eq!(agent.external_volumes(), ["fake-1"], "{case}");
            let created = agent.record("db").unwrap().provided.capacity;
            assert!(created >= Bytes::new(sizes[effective]).unwrap(), "{case}");
            agent.delete("db").await.unwrap();
            assert!(agent.external_volumes().is_empty(), "{case}");
        }
        let agent = agent().await;
        for (at, size) in sizes.iter().enumerate() {
            let fault = if at == effective {
                Fault::FailAfterEffect(StatusCode::Internal)
            } else {
                Fault::Fail(StatusCode::Internal)
            };
            agent.backend.inject_faults(Rpc::CreateVolume, [fault]);
            agent.create(of_size(*size)).await.unwrap_err();
        }
        let agent = agent.restart(VolumeLimits::default()).await.unwrap();
        agent.delete("db").await.unwrap();
        assert!(agent.external_volumes().is_empty(), "request {effective}");
        assert_eq!(agent.phase("db"), None);
    }
}

/// The refusal of a changed request proves nothing about the pending one, which stays on record.
#[tokio::test(start_paused = true)]
async fn a_refused_changed_request_keeps_the_pending_one() {
    let agent = agent().await;
    agent.backend.inject_faults(
        Rpc::CreateVolume,
        [Fault::FailAfterEffect(StatusCode::Internal), Fault::Fail(StatusCode::InvalidArgument)],
    );
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let open = agent.record("db").unwrap();
    let larger = VolumeRequest { capacity: sized(20, 0), ..FakeAgent::request("db") };
    let error = agent.create(larger).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "volume/pending");
    let now = agent.record("db").unwrap();
    assert_eq!((now.definition, now.phase), (open.definition, open.phase));
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!(agent.external_volumes(), ["fake-1"]);
}

/// CreateVolume is called once, and both requests return the same volume.
#[tokio::test(start_paused = true)]
async fn two_concurrent_creates_make_one_volume() {
    let agent = agent().await;
    let (one, two) = tokio::join!(
        agent.create(FakeAgent::request("db")),
        agent.create(FakeAgent::request("db"))
    );
    let volume =
        |result: Result<VolumeWriteResult, ServerError>| result.unwrap().volumes[0].volume();
    assert_eq!(volume(one), volume(two));
    assert_eq!(agent.calls(), (1, 0, 0));
}

/// B53: temporary failures are retried within the request, with the same name.
#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried_within_the_request() {
    let agent = agent().await;
    agent.backend.inject_faults(
        Rpc::CreateVolume,
        [
            Fault::Fail(StatusCode::Unavailable),
            Fault::LoseReply,
            Fault::Fail(StatusCode::Aborted),
            Fault::ApplyTwice,
        ],
    );
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!((agent.calls().0, agent.external_volumes().len()), (4, 1));
}

/// W05, B53: a plugin without room is asked a few more times, with growing pauses, and then the client hears of it.
#[tokio::test(start_paused = true)]
async fn a_plugin_without_room_is_asked_a_few_more_times() {
    let full = Fault::Fail(StatusCode::ResourceExhausted);
    for (refusals, calls) in [(1, 2), (5, 6), (6, 6), (100, 6)] {
        let agent = agent().await;
        agent.backend.inject_faults(Rpc::CreateVolume, vec![full; refusals]);
        let start = tokio::time::Instant::now();
        let result = agent.create(FakeAgent::request("db")).await;
        assert_eq!(agent.calls().0, calls, "{refusals} refusals");
        assert_eq!(result.is_ok(), refusals < 6, "{refusals} refusals: {result:?}");
        let elapsed = start.elapsed();
        assert!(elapsed < Duration::from_secs(5), "{elapsed:?}");
        if refusals >= 5 {
            assert!(elapsed > Duration::from_secs(1), "the pauses grow: {elapsed:?}");
        }
        if let Err(error) = result {
            assert_eq!(error.code_and_status().0.as_str(), "plugin/exhausted");
            assert_eq!(agent.phase("db"), None);
        }
    }
}

/// B54: a pending operation is awaited up to the deadline of the request, with growing pauses, and not longer.
#[tokio::test(start_paused = true)]
async fn a_pending_operation_is_awaited_up_to_the_deadline() {
    let pending = Fault::Fail(StatusCode::Aborted);
    let deadline = ForwardLimits::default().deadline;
    for (refusals, is_done) in [(30, true), (100_000, false)] {
        let agent = agent().await;
        agent.backend.inject_faults(Rpc::CreateVolume, vec![pending; refusals]);
        let start = tokio::time::Instant::now();
        let result = agent.create(FakeAgent::request("db")).await;
        assert_eq!(result.is_ok(), is_done, "{result:?}");
        let calls = agent.calls().0;
        if is_done {
            assert_eq!(calls, refusals + 1);
            assert!(start.elapsed() < deadline);
        } else {
            assert_eq!(start.elapsed(), deadline);
            assert!((50..200).contains(&calls), "{calls} calls in five minutes");
        }
    }
}

/// The call is retried after the restart of the plugin, or fails at the deadline and the next request
/// completes it.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_crashes_during_a_create_is_awaited() {
    for restarts in [true, false] {
        let agent = agent().await;
        agent.backend.inject_faults(Rpc::CreateVolume, [Fault::CrashAfterEffect]);
        let start = tokio::time::Instant::now();
        let restart = async {
            agent.backend.wait_for_calls(1).await;
            if restarts {
                tokio::time::sleep(Duration::from_secs(30)).await;
                agent.backend.restart();
            }
        };
        let (result, ()) = tokio::join!(agent.create(FakeAgent::request("db")), restart);
        if restarts {
            result.unwrap();
        } else {
            let error = result.unwrap_err();
            assert_eq!(error.code_and_status().0.as_str(), "volume/pending");
            assert_eq!(start.elapsed(), ForwardLimits::default().deadline);
            agent.backend.restart();
            agent.create(FakeAgent::request("db")).await.unwrap();
        }
        assert_eq!(agent.external_volumes(), ["fake-1"]);
    }
}

/// The registration resolves the pending creation first.
#[tokio::test(start_paused = true)]
async fn registering_over_a_pending_creation_settles_it_first() {
    let agent = agent().await;
    let lost = Fault::FailAfterEffect(StatusCode::Internal);
    agent.backend.inject_faults(Rpc::CreateVolume, [lost]);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    assert_eq!(
        text(agent.register(agent.add_external_volume("vol-1", "db")).await),
        "unable to update volume: 1 error occurred:\n\t* volume external ID cannot be updated\n\n"
    );
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    agent.register(FakeAgent::request("db")).await.unwrap();
}

/// The process is ended after every journal entry, with and without the effect of the call. Each time
/// the next run has one volume, and deletes it.
#[tokio::test(start_paused = true)]
async fn a_creation_interrupted_anywhere_is_completed_by_the_next_run() {
    const STARTED: usize = 4;
    for fault in [
        None,
        Some(Fault::FailAfterEffect(StatusCode::Internal)),
        Some(Fault::Fail(StatusCode::Internal)),
    ] {
        for written in 1..=2 {
            let run = agent().await;
            run.backend.inject_faults(Rpc::CreateVolume, fault);
            let finished = run.create(FakeAgent::request("db")).await.is_ok();
            let mut events = run.journal.replay().events;
            assert_eq!(events.len(), STARTED + if finished { 2 } else { 1 });
            events.truncate(STARTED + written);
            let left = Replay { snapshot: None, accepts_changes: false, events };
            let next = FakeAgent::on(
                run.backend.clone(),
                MemoryJournal::with_content(left),
                FakeClock::default(),
                CountingIds::default(),
                VolumeLimits::default(),
            );
            let next = next.await.unwrap();
            next.create(FakeAgent::request("db")).await.unwrap();
            assert_eq!(next.external_volumes(), ["fake-1"], "{fault:?} {written}");
            next.delete("db").await.unwrap();
            assert_eq!(next.external_volumes(), Vec::<String>::new());
        }
    }
}

/// Each write of the journal fails once, before or after it was stored; the next run completes.
#[tokio::test(start_paused = true)]
async fn a_journal_failure_at_any_write_neither_loses_nor_duplicates_a_volume() {
    for fault in
        [AppendFault::NotWritten(JournalErrorKind::Unavailable), AppendFault::WrittenButFailed]
    {
        for skip in 0..2 {
            let agent = agent().await;
            agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
            if skip == 0 {
                agent.journal.fail_next([fault]);
                agent.backend.release();
            }
            let fail = async {
                if skip == 1 {
                    agent.backend.wait_for_calls(1).await;
                    agent.journal.fail_next([fault]);
                    agent.backend.release();
                }
            };
            let (result, ()) = tokio::join!(agent.create(FakeAgent::request("db")), fail);
            let error = result.unwrap_err();
            assert_eq!(error.code_and_status().0.as_str(), "journal/unavailable");
            let agent = agent.restart(VolumeLimits::default()).await.unwrap();
            if skip == 0 {
                agent.backend.inject_faults(Rpc::CreateVolume, []);
                let release = async {
                    agent.backend.wait_for_calls(1).await;
                    agent.backend.release();
                };
                let (again, ()) = tokio::join!(agent.create(FakeAgent::request("db")), release);
                again.unwrap();
            } else {
                agent.create(FakeAgent::request("db")).await.unwrap();
            }
            assert_eq!(agent.external_volumes(), ["fake-1"], "{fault:?} {skip}");
        }
    }
}

/// B71: calls go to the newest allocation of a plugin on a node. When its connection is gone, they go to
/// the one before it, even before its end is on record.
#[tokio::test(start_paused = true)]
async fn an_older_allocation_takes_over_without_a_gap() {
    let agent = agent().await;
    let newer = FakeBackend::new(PluginSettings::default());
    let connection = FakePlugin::new(newer.clone()).connection();
    agent.add_alloc("newer", connection).await;
    agent.create(FakeAgent::request("first")).await.unwrap();
    let created = || [newer.count(Rpc::CreateVolume), agent.backend.count(Rpc::CreateVolume)];
    assert_eq!(created(), [1, 0]);

    agent.directory.remove(&FakeAgent::PLUGIN.into(), &"newer".into());
    let begun = tokio::time::Instant::now();
    let second = VolumeRequest {
        // Both fake plugins call their first volume the same.
        share: true,
        ..FakeAgent::request("second")
    };
    agent.create(second).await.unwrap();
    assert_eq!(created(), [1, 1]);
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// A node would refuse what the plugin refuses, and every job that uses the volume would wait.
#[tokio::test(start_paused = true)]
async fn a_change_of_how_nodes_use_a_volume_is_shown_to_its_plugin_first() {
    let agent = agent().await;
    let request = VolumeRequest { mount_options: Some(ext4()), ..FakeAgent::request("db") };
    agent.create(request.clone()).await.unwrap();
    let validations = || agent.backend.count(Rpc::ValidateVolumeCapabilities);
    let before = (agent.record("db"), validations());
    let xfs = VolumeRequest {
        mount_options: Some(MountOptions { fs_type: "xfs".into(), ..ext4() }),
        ..request.clone()
    };
    let refusal = Fault::Fail(StatusCode::InvalidArgument);
    agent.backend.inject_faults(Rpc::ValidateVolumeCapabilities, [refusal]);
    agent.create(xfs.clone()).await.unwrap_err();
    assert_eq!(agent.record("db"), before.0);
    assert_eq!(validations(), before.1 + 1);

    agent.create(xfs).await.unwrap();
    let options = agent.record("db").unwrap().definition.mount_options;
    assert_eq!(options.unwrap().fs_type, "xfs");
    assert_eq!(validations(), before.1 + 2);
}
