//! Plans carried out on a server that moves, fails and loses answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::*;
use crate::diagnostic::SourceMap;
use crate::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, Namespace,
    NamespacedId, PluginId, SecretRef, VolumeId, WantedRequest,
};
use crate::plan::{Inputs, Requests, build};
use crate::ports::fake::{CallFault, FakeServer};
use crate::ports::{FoundSecret, SecretRemark, SecretSource};
use crate::reconcile::observe::observe;
use crate::reconcile::resolve::{Unresolved, resolve};
use crate::spec::{Purpose, VolumeSpec};

fn wanted(id: &str, max: u64) -> VolumeSpec {
    let mut sources = SourceMap::default();
    let source = sources.add("volume.hcl", "");
    VolumeSpec {
        request: WantedRequest {
            namespace: Namespace::default(),
            id: VolumeId::new(id),
            name: Some(id.into()),
            external_id: None,
            plugin_id: PluginId::new("hostpath"),
            capabilities: vec![Capability {
                access_mode: AccessMode::SingleNodeWriter,
                attachment_mode: AttachmentMode::FileSystem,
            }],
            capacity: CapacityRange {
                min: Bytes::new(1000).unwrap(),
                max: Bytes::new(max).unwrap(),
            },
            topology_request: None,
            clone_id: None,
            snapshot_id: None,
            mount_options: None,
            secrets: None,
            parameters: None,
            context: None,
        },
        namespace_given: false,
        read_only: None,
        protect: None,
        ignore: vec![],
        set: None,
        span: SourceMap::span(source, 0..0),
        fields: [].into(),
        capability_spans: vec![],
        secret_spans: [].into(),
    }
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

fn server() -> FakeServer {
    let server = FakeServer::new(MergeRules::NOMAD);
    server.add_plugin("hostpath");
    server
}

#[derive(Default)]
struct Seen {
    events: Mutex<Vec<String>>,
    stop_at: Option<usize>,
    stop: CancellationToken,
}

impl Watch for Seen {
    fn began(&self, position: usize) {
        self.events
            .lock()
            .unwrap()
            .push(format!("began {position}"));
        if self.stop_at == Some(position) {
            self.stop.cancel();
        }
    }

    fn ended(&self, position: usize, _outcome: &Outcome) {
        self.events
            .lock()
            .unwrap()
            .push(format!("ended {position}"));
    }
}

async fn plan(server: &FakeServer, wanted: Vec<VolumeSpec>) -> Plan {
    let observation = observe(server, &wanted, 4).await.unwrap();
    build(Inputs {
        wanted,
        purpose: Purpose::ByExternalId,
        observed: &observation.observed,
        rules: MergeRules::NOMAD,
        owned: None,
        requests: &Requests::default(),
    })
}

/// Nothing is referred to here.
struct NoSecrets;

impl SecretSource for NoSecrets {
    fn find(&self, _: &SecretRef, _: &Path) -> Result<FoundSecret, SecretRemark> {
        Err(SecretRemark {
            code: Code::SecretUnset,
            clause: "there is none".into(),
        })
    }
}

async fn run(server: &FakeServer, plan: &Plan, seen: &Seen, parallelism: usize) -> Vec<Outcome> {
    let unresolved = plan.volumes.iter().filter_map(|planned| {
        let (spec, request) = (planned.spec.as_ref()?, planned.request()?);
        Some(Unresolved::new(spec, request.clone(), PathBuf::new()))
    });
    let (resolved, _) = resolve(unresolved.collect(), Arc::new(NoSecrets))
        .await
        .unwrap();
    let execution = Execution {
        api: server,
        rules: MergeRules::NOMAD,
        resolved: &resolved,
        parallelism,
        stop: &seen.stop,
        watch: seen,
    };
    execute(&execution, plan).await
}

async fn run_one(server: &FakeServer, plan: &Plan) -> Outcome {
    run(server, plan, &Seen::default(), 1).await.remove(0)
}

fn failure(outcome: &Outcome) -> &Diagnostic {
    match &outcome.ending {
        Ending::Failed(diagnostic) | Ending::Stale(diagnostic) => diagnostic,
        other => panic!("{other:?}"),
    }
}

/// `users` 12: after a run there is nothing left to do.
#[tokio::test]
async fn what_was_applied_is_read_back_and_then_unchanged() {
    let server = server();
    let plan_one = plan(&server, vec![wanted("db", 2000)]).await;
    let outcome = run_one(&server, &plan_one).await;
    let Ending::Done(Some(reading)) = &outcome.ending else {
        panic!("{outcome:?}")
    };
    assert_eq!(reading.value.external_id, Some(ExternalId::new("ext-db")));
    assert!(outcome.warnings.is_empty());
    let again = plan(&server, vec![wanted("db", 2000)]).await;
    assert_eq!(run_one(&server, &again).await.ending, Ending::Unchanged);
    assert_eq!(server.writes(), ["create db"]);
}

#[tokio::test]
async fn what_has_moved_since_the_plan_is_left_alone() {
    let created = server();
    let absent = plan(&created, vec![wanted("db", 2000)]).await;
    run_one(&created, &absent).await;
    let update = plan(&created, vec![wanted("db", 3000)]).await;
    created.change(&key("db"), |volume| volume.name = "other".into());
    let gone = server();
    let seen = plan(&gone, vec![wanted("db", 2000)]).await;
    run_one(&gone, &seen).await;
    let change_gone = plan(&gone, vec![wanted("db", 3000)]).await;
    gone.remove(&key("db"));
    for (server, plan, why) in [
        (&created, &absent, "it did not exist, and now it does"),
        (&created, &update, "it was at index 11, and now it is at 12"),
        (&gone, &change_gone, "it existed, and now it does not"),
    ] {
        let outcome = run_one(server, plan).await;
        assert!(matches!(outcome.ending, Ending::Stale(_)), "{outcome:?}");
        assert_eq!(failure(&outcome).notes, [why]);
        assert_eq!(server.writes().len(), 1, "only the creation was sent");
    }
}

/// `nomad-http-api` 10.1, item 11.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_found_out_and_not_repeated() {
    for (fault, done) in [
        (CallFault::AnswerLost, true),
        (CallFault::RequestLost, false),
    ] {
        let server = server();
        let plan = plan(&server, vec![wanted("db", 2000)]).await;
        server.fail("create", fault);
        let outcome = run_one(&server, &plan).await;
        assert_eq!(server.writes(), ["create db"], "{fault:?}");
        if done {
            assert!(
                matches!(outcome.ending, Ending::Done(Some(_))),
                "{outcome:?}"
            );
            assert_eq!(outcome.warnings[0].code, Code::ApiOutcomeUnknown);
        } else {
            assert_eq!(failure(&outcome).code, Code::ApiOutcomeUnknown);
            assert!(failure(&outcome).notes[0].contains("does not have the volume"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_an_update_is_judged_by_what_is_there() {
    for (fault, done) in [
        (CallFault::AnswerLost, true),
        (CallFault::RequestLost, false),
    ] {
        let server = server();
        let first = plan(&server, vec![wanted("db", 2000)]).await;
        run_one(&server, &first).await;
        let update = plan(&server, vec![wanted("db", 3000)]).await;
        server.fail("register", fault);
        let outcome = run_one(&server, &update).await;
        assert_eq!(
            matches!(outcome.ending, Ending::Done(Some(_))),
            done,
            "{outcome:?}"
        );
        assert_eq!(server.writes(), ["create db", "register db"]);
    }
}

#[tokio::test]
async fn a_failure_stops_none_of_the_others() {
    let server = server();
    let specs = ["a", "b", "c"].map(|id| wanted(id, 2000)).to_vec();
    let plan = plan(&server, specs).await;
    server.fail("create", CallFault::Refused);
    let outcomes = run(&server, &plan, &Seen::default(), 1).await;
    assert_eq!(failure(&outcomes[0]).code, Code::ApiServerError);
    for outcome in &outcomes[1..] {
        assert!(matches!(outcome.ending, Ending::Done(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn after_an_interrupt_what_runs_is_finished_and_nothing_begins() {
    let server = server();
    let specs = ["a", "b", "c"].map(|id| wanted(id, 2000)).to_vec();
    let plan = plan(&server, specs).await;
    let seen = Seen {
        stop_at: Some(1),
        ..Seen::default()
    };
    let outcomes = run(&server, &plan, &seen, 1).await;
    assert!(matches!(outcomes[0].ending, Ending::Done(_)));
    assert_eq!(outcomes[1].ending, Ending::NotBegun);
    assert_eq!(outcomes[2].ending, Ending::NotBegun);
    assert_eq!(server.writes(), ["create a"]);
    let events = seen.events.lock().unwrap().clone();
    assert_eq!(events, ["began 0", "ended 0", "began 1", "ended 1"]);
}

#[tokio::test]
async fn a_volume_that_cannot_be_read_right_before_is_not_changed() {
    let server = server();
    let plan = plan(&server, vec![wanted("db", 2000)]).await;
    server.fail("read", CallFault::Refused);
    let outcome = run_one(&server, &plan).await;
    assert_eq!(failure(&outcome).code, Code::ApiServerError);
    assert!(server.writes().is_empty());
}

#[tokio::test]
async fn what_cannot_be_read_back_is_done_with_a_warning() {
    let server = server();
    let plan = plan(&server, vec![wanted("db", 2000)]).await;
    server.pass("read");
    server.fail("read", CallFault::Refused);
    let outcome = run_one(&server, &plan).await;
    assert_eq!(outcome.ending, Ending::Done(None));
    assert!(
        outcome.warnings[0]
            .message
            .contains("could not be read back")
    );
}
