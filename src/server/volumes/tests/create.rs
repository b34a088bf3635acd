//! Creating, and going on with a creation that did not end.

use std::collections::BTreeSet;
use std::time::Duration;

use super::recording::record;
use super::*;
use crate::model::{Namespace, Secrets};
use crate::ports::fake::{AppendFault, CountingIds, FakeClock, Fault, MemoryJournal};
use crate::ports::{JournalErrorKind, Replay, StatusCode};
use crate::server::forward::ForwardLimits;
use crate::server::volumes::VolumeLimits;
use crate::state::provider_name;

/// B01, B13, B20.
#[tokio::test(start_paused = true)]
async fn a_created_volume_has_the_providers_answer_and_is_not_created_again() {
    let agent = agent().await;
    let request = VolumeRequest {
        capacity: sized(100, 200),
        parameters: Some([("p".to_owned(), "v".to_owned())].into()),
        ..FakeAgent::request("db")
    };
    let outcome = agent.create(request.clone()).await.unwrap();
    let volume = outcome.volumes[0].volume();
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

/// W13: the name that the provider sees is this volume's alone.
#[tokio::test(start_paused = true)]
async fn the_same_name_in_two_namespaces_is_two_volumes() {
    let agent = agent().await;
    let sent = record(&agent);
    for namespace in ["default", "prod"] {
        let request = VolumeRequest {
            namespace: Namespace::new(namespace),
            ..FakeAgent::request("db")
        };
        agent.create(request).await.unwrap();
    }
    agent.delete("db").await.unwrap();
    agent.create(FakeAgent::request("db")).await.unwrap();
    let names: BTreeSet<_> = sent
        .creates
        .lock()
        .unwrap()
        .iter()
        .map(|request| request.name.clone())
        .collect();
    assert_eq!(names.len(), 3);
    assert_eq!(agent.external_volumes(), ["fake-2", "fake-3"]);
}

/// W14, W27: the intent stands before the call; topologies go only to who understands them.
#[tokio::test(start_paused = true)]
async fn the_intent_is_on_record_before_the_plugin_is_called() {
    let agent = agent().await;
    agent.backend.script(Rpc::CreateVolume, [Fault::Hang]);
    let request = VolumeRequest {
        topology_request: Some(in_zones(&["a"])),
        ..FakeAgent::request("db")
    };
    let look = async {
        agent.backend.arrived(1).await;
        assert_eq!(agent.phase("db"), Some(Phase::Creating));
        let state = agent.state();
        let record = state.record(&FakeAgent::key("db")).unwrap();
        let calls = agent.backend.calls();
        assert_eq!(calls[0].subject, provider_name(&state, record));
        agent.backend.release();
    };
    let (outcome, ()) = tokio::join!(agent.create(request), look);
    let volume = outcome.unwrap().volumes[0].volume();
    assert_eq!(volume.topology_request, Some(in_zones(&["a"])));
}

#[tokio::test(start_paused = true)]
async fn topologies_are_sent_to_a_plugin_that_has_them() {
    let mut settings = Settings::default();
    settings.plugin.volume_accessibility_constraints = true;
    let agent = FakeAgent::start(settings).await.unwrap();
    let sent = record(&agent);
    for (id, topology) in [
        ("a", None),
        ("b", Some(TopologyRequest::default())),
        ("c", Some(in_zones(&["z"]))),
    ] {
        let request = VolumeRequest {
            topology_request: topology,
            ..FakeAgent::request(id)
        };
        agent.create(request).await.unwrap();
    }
    let sent: Vec<_> = sent
        .creates
        .lock()
        .unwrap()
        .iter()
        .map(|request| request.topology.clone())
        .collect();
    assert_eq!(sent, [None, None, Some(in_zones(&["z"]))]);
}

/// The context is the plugin's; what a user says of it is neither sent nor kept.
#[tokio::test(start_paused = true)]
async fn a_context_in_a_create_is_not_kept() {
    let agent = agent().await;
    let request = VolumeRequest {
        context: Some([("mine".to_owned(), "1".to_owned())].into()),
        ..FakeAgent::request("db")
    };
    for _ in 0..2 {
        let outcome = agent.create(request.clone()).await.unwrap();
        let context = outcome.volumes[0].volume().context;
        assert_eq!(context.keys().collect::<Vec<_>>(), ["made-by"]);
        assert_eq!(
            outcome.warnings,
            [
                "volume db: the context is the plugin's to give, so the one in the request was not kept"
            ]
        );
    }
}

/// `nomad-http-api` 3.4, and what the plugin's capabilities forbid to send.
#[tokio::test(start_paused = true)]
async fn what_the_plugin_cannot_create_is_refused_at_once() {
    let agent = agent().await;
    let request = FakeAgent::request("db");
    for (request, expected) in [
        (
            VolumeRequest {
                clone_id: Some("fake-1".into()),
                ..request.clone()
            },
            "plugin does not support creating volumes from a volume",
        ),
        (
            VolumeRequest {
                snapshot_id: Some("snap-1".into()),
                ..request.clone()
            },
            "plugin does not support creating volumes from a snapshot",
        ),
    ] {
        assert_eq!(text(agent.create(request).await), expected);
    }
    agent
        .backend
        .change(|settings| settings.controller = Some(Default::default()));
    agent.observe(true).await;
    assert_eq!(
        text(agent.create(request).await),
        "plugin does not support creating volumes"
    );
    assert_eq!((agent.calls(), agent.record("db")), ((0, 0, 0), None));
}

/// B94: successes stay, failures are told together.
#[tokio::test(start_paused = true)]
async fn of_several_each_is_created_for_itself() {
    let agent = agent().await;
    let script = [
        None,
        Some(StatusCode::OutOfRange),
        Some(StatusCode::NotFound),
    ];
    for code in script.into_iter().flatten() {
        agent.backend.script(Rpc::CreateVolume, [Fault::Fail(code)]);
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

/// A refusal that is certain leaves nothing on record.
#[tokio::test(start_paused = true)]
async fn a_certain_refusal_abandons_the_intent() {
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
        agent.backend.script(Rpc::CreateVolume, [Fault::Fail(code)]);
        agent.create(FakeAgent::request("db")).await.unwrap_err();
        assert_eq!(agent.phase("db"), None, "{code:?}");
        agent.create(FakeAgent::request("db")).await.unwrap();
    }
}

/// W14: what may have happened stays on record, and the same request ends it.
#[tokio::test(start_paused = true)]
async fn an_open_creation_is_continued_under_the_same_name() {
    for fault in [
        Fault::FailAfterEffect(StatusCode::Internal),
        Fault::FailAfterEffect(StatusCode::Unknown),
        Fault::Fail(StatusCode::Internal),
        Fault::Fail(StatusCode::DataLoss),
    ] {
        let agent = agent().await;
        agent.backend.script(Rpc::CreateVolume, [fault]);
        let error = agent.create(FakeAgent::request("db")).await.unwrap_err();
        assert_eq!(error.class().0.as_str(), "volume/pending", "{fault:?}");
        assert!(error.message().ends_with("it may have happened or not"));
        assert_eq!(agent.phase("db"), Some(Phase::Creating));
        agent.create(FakeAgent::request("db")).await.unwrap();
        assert_eq!(agent.external_volumes(), ["fake-1"], "{fault:?}");
    }
}

/// A token that was wrong is no reason to be stuck: an open creation takes new secrets.
#[tokio::test(start_paused = true)]
async fn an_open_creation_takes_new_secrets() {
    let agent = agent().await;
    let sent = record(&agent);
    let with = |value: &str| VolumeRequest {
        secrets: Some(Secrets::from_iter([("token", value)])),
        ..FakeAgent::request("db")
    };
    agent.backend.script(
        Rpc::CreateVolume,
        [
            Fault::Fail(StatusCode::Internal),
            Fault::Fail(StatusCode::Unauthenticated),
        ],
    );
    for value in ["old", "wrong"] {
        agent.create(with(value)).await.unwrap_err();
        assert_eq!(agent.phase("db"), Some(Phase::Creating), "{value}");
    }
    agent.create(with("right")).await.unwrap();
    let creates = sent.creates.lock().unwrap();
    let tokens: Vec<_> = creates
        .iter()
        .flat_map(|request| request.secrets.expose().map(|(_, value)| value.to_owned()))
        .collect();
    assert_eq!(tokens, ["old", "wrong", "right"]);
}

/// A changed request, when the open one has made nothing: what is wanted now is made, once.
#[tokio::test(start_paused = true)]
async fn a_changed_request_takes_the_place_of_one_that_made_nothing() {
    let agent = agent().await;
    agent
        .backend
        .script(Rpc::CreateVolume, [Fault::Fail(StatusCode::Internal)]);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let larger = VolumeRequest {
        capacity: sized(20, 0),
        ..FakeAgent::request("db")
    };
    let outcome = agent.create(larger).await.unwrap();
    assert_eq!(outcome.volumes[0].volume().capacity, sized(20, 0).min);
    assert_eq!(agent.external_volumes(), ["fake-1"]);
}

/// A changed request, when the open one has made a volume: it is found, and the change is an update.
#[tokio::test(start_paused = true)]
async fn a_changed_request_is_merged_into_what_the_open_one_made() {
    let agent = agent().await;
    let lost = Fault::FailAfterEffect(StatusCode::Internal);
    agent.backend.script(Rpc::CreateVolume, [lost]);
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

/// A changed request that is refused says nothing of the open one, which stays on record as it was.
#[tokio::test(start_paused = true)]
async fn a_changed_request_that_is_refused_leaves_the_open_one() {
    let agent = agent().await;
    agent.backend.script(
        Rpc::CreateVolume,
        [
            Fault::FailAfterEffect(StatusCode::Internal),
            Fault::Fail(StatusCode::InvalidArgument),
        ],
    );
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    let open = agent.record("db").unwrap();
    let larger = VolumeRequest {
        capacity: sized(20, 0),
        ..FakeAgent::request("db")
    };
    let error = agent.create(larger).await.unwrap_err();
    assert_eq!(error.class().0.as_str(), "volume/pending");
    let now = agent.record("db").unwrap();
    assert_eq!((now.definition, now.phase), (open.definition, open.phase));
    agent.create(FakeAgent::request("db")).await.unwrap();
    assert_eq!(agent.external_volumes(), ["fake-1"]);
}

/// Two at once: one CreateVolume, and both are told of the same volume.
#[tokio::test(start_paused = true)]
async fn two_creates_at_once_are_one() {
    let agent = agent().await;
    let (one, two) = tokio::join!(
        agent.create(FakeAgent::request("db")),
        agent.create(FakeAgent::request("db"))
    );
    let volume = |outcome: Result<WriteOutcome, ServerError>| outcome.unwrap().volumes[0].volume();
    assert_eq!(volume(one), volume(two));
    assert_eq!(agent.calls(), (1, 0, 0));
}

/// B53: passing failures are repeated within the request, with the same name.
#[tokio::test(start_paused = true)]
async fn passing_failures_are_repeated_within_the_request() {
    let agent = agent().await;
    agent.backend.script(
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

/// A plugin that dies in the middle: continued after its restart within the request, or an error at
/// the deadline that the next one finishes.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_dies_in_the_middle_is_waited_for() {
    for restarts in [true, false] {
        let agent = agent().await;
        agent
            .backend
            .script(Rpc::CreateVolume, [Fault::CrashAfterEffect]);
        let start = tokio::time::Instant::now();
        let restart = async {
            agent.backend.arrived(1).await;
            if restarts {
                tokio::time::sleep(Duration::from_secs(30)).await;
                agent.backend.restart();
            }
        };
        let (outcome, ()) = tokio::join!(agent.create(FakeAgent::request("db")), restart);
        if restarts {
            outcome.unwrap();
        } else {
            let error = outcome.unwrap_err();
            assert_eq!(error.class().0.as_str(), "volume/pending");
            assert_eq!(start.elapsed(), ForwardLimits::default().deadline);
            agent.backend.restart();
            agent.create(FakeAgent::request("db")).await.unwrap();
        }
        assert_eq!(agent.external_volumes(), ["fake-1"]);
    }
}

/// A registration of an ID whose creation is open finds out what came of it first.
#[tokio::test(start_paused = true)]
async fn registering_over_an_open_creation_settles_it_first() {
    let agent = agent().await;
    let lost = Fault::FailAfterEffect(StatusCode::Internal);
    agent.backend.script(Rpc::CreateVolume, [lost]);
    agent.create(FakeAgent::request("db")).await.unwrap_err();
    assert_eq!(
        text(agent.register(agent.provided("vol-1", "db")).await),
        "unable to update volume: 1 error occurred:\n\t* volume external ID cannot be updated\n\n"
    );
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
    agent.register(FakeAgent::request("db")).await.unwrap();
}

/// The journal is the list of the points at which the process can end. At each of them, whether the
/// plugin has carried out the call or not, the next run ends with one volume, and deletes it.
#[tokio::test(start_paused = true)]
async fn a_creation_that_ends_anywhere_is_finished_by_the_next_run() {
    const STARTED: usize = 3;
    for fault in [
        None,
        Some(Fault::FailAfterEffect(StatusCode::Internal)),
        Some(Fault::Fail(StatusCode::Internal)),
    ] {
        for written in 1..=2 {
            let run = agent().await;
            run.backend.script(Rpc::CreateVolume, fault);
            let finished = run.create(FakeAgent::request("db")).await.is_ok();
            let mut events = run.journal.replay().events;
            assert_eq!(events.len(), STARTED + if finished { 2 } else { 1 });
            events.truncate(STARTED + written);
            let left = Replay {
                snapshot: None,
                events,
            };
            let next = FakeAgent::on(
                run.backend.clone(),
                MemoryJournal::holding(left),
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

/// The journal fails at each write in turn, before or after it was written; the next run finishes.
#[tokio::test(start_paused = true)]
async fn a_journal_that_fails_at_any_write_loses_and_doubles_nothing() {
    for fault in [
        AppendFault::Refused(JournalErrorKind::Unavailable),
        AppendFault::WrittenButFailed,
    ] {
        for skip in 0..2 {
            let agent = agent().await;
            agent.backend.script(Rpc::CreateVolume, [Fault::Hang]);
            if skip == 0 {
                agent.journal.fail_next([fault]);
                agent.backend.release();
            }
            let fail = async {
                if skip == 1 {
                    agent.backend.arrived(1).await;
                    agent.journal.fail_next([fault]);
                    agent.backend.release();
                }
            };
            let (outcome, ()) = tokio::join!(agent.create(FakeAgent::request("db")), fail);
            let error = outcome.unwrap_err();
            assert_eq!(error.class().0.as_str(), "journal/unavailable");
            let agent = agent.restart(VolumeLimits::default()).await.unwrap();
            if skip == 0 {
                agent.backend.script(Rpc::CreateVolume, []);
                let release = async {
                    agent.backend.arrived(1).await;
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
