//! Carries out plans on a server that changes, fails and loses replies.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ports::fake::{CallFault, FakeServer};
use crate::ports::{
    ApiError, ProviderReader, ResolvedSecret, SecretProblem, SecretSource, SnapshotApi,
    SnapshotRequest, VolumeQuery, VolumeReader as _,
};
use crate::reconcile::execution::{ProgressObserver, StepWait};
use crate::reconcile::observe::{Observation, ObserveRequest, observe};
use crate::reconcile::reconnect::Reconnect;
use crate::reconcile::record::{Record, Recorded, Unrecorded};
use crate::reconcile::resolve::{Resolved, Unresolved, resolve};
use crate::reconcile::secret_variables::SecretVariables;
use nomad_csi_model::diagnostic::SourceMap;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId,
    ExternalVolume, Namespace, NamespacedId, PluginId, Secret, SecretRef, SecretRefs, Secrets,
    Snapshot, SnapshotId, UnresolvedRequest, VolumeId,
};
use nomad_csi_plan::{
    DataIdentity, IntentStep, MergeRules, PlanInputs, PlanOptions, VolumeVersion, build_plan,
};
use nomad_csi_spec::{Purpose, VolumeSpec};

fn desired(id: &str, max: u64) -> VolumeSpec {
    let mut sources = SourceMap::default();
    let source = sources.add("volume.hcl", "");
    let key = NamespacedId::new(Namespace::default(), VolumeId::new(id));
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    VolumeSpec {
        request: UnresolvedRequest {
            name: Some(id.into()),
            capacity: CapacityRange {
                min: Bytes::new(1000).unwrap(),
                max: Bytes::new(max).unwrap(),
            },
            ..UnresolvedRequest::new(key, PluginId::new("hostpath"), vec![capability])
        },
        namespace_given: false,
        read_only: None,
        protect: None,
        ignore: vec![],
        unknown: [].into(),
        set: None,
        span: SourceMap::span(source, 0..0),
        fields: [].into(),
        capability_spans: vec![],
        secret_spans: [].into(),
        origin: None,
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
    reconnect: Reconnect,
}

impl ProgressObserver for Seen {
    fn started(&self, position: usize) {
        self.events.lock().push(format!("started {position}"));
        if self.stop_at == Some(position) {
            self.stop.cancel();
        }
    }

    fn finished(&self, position: usize, _outcome: &Outcome) {
        self.events.lock().push(format!("finished {position}"));
    }

    fn plugin_unreachable(&self, timeout: Duration) {
        let line = format!("unreachable for {timeout:?}");
        self.events.lock().push(line);
    }
}

async fn look(server: &FakeServer, desired: &[VolumeSpec]) -> Observation {
    let looking = ObserveRequest { desired, parallelism: 4, ..ObserveRequest::default() };
    observe(server, looking).await.unwrap()
}

async fn plan(server: &FakeServer, desired: Vec<VolumeSpec>) -> Plan {
    let observation = look(server, &desired).await;
    build_plan(PlanInputs {
        desired,
        purpose: Purpose::ByExternalId,
        observed: &observation.observed,
        rules: MergeRules::NOMAD,
        owned: None,
        options: &PlanOptions::default(),
    })
}

/// Nothing is referred to here.
struct NoSecrets;

impl SecretSource for NoSecrets {
    fn resolve(&self, _: &SecretRef, _: &Path) -> Result<ResolvedSecret, SecretProblem> {
        Err(SecretProblem { code: Code::SecretUnset, message: "there is none".into() })
    }
}

async fn resolved(plan: &Plan) -> Resolved {
    let unresolved = plan.volumes.iter().filter_map(|planned| {
        let (spec, request) = (planned.spec.as_ref()?, planned.request()?);
        Some(Unresolved::new(spec, request.clone(), |_| PathBuf::new()))
    });
    let resolving = resolve(unresolved.collect(), Arc::new(NoSecrets), SecretVariables::default());
    resolving.await.unwrap().0
}

async fn execute_plan(
    server: &FakeServer,
    plan: &Plan,
    seen: &Seen,
    parallelism: usize,
) -> Vec<Outcome> {
    execute_waiting(server, plan, seen, parallelism, Duration::ZERO).await
}

async fn execute_waiting(
    server: &FakeServer,
    plan: &Plan,
    seen: &Seen,
    parallelism: usize,
    wait: Duration,
) -> Vec<Outcome> {
    let resolved = resolved(plan).await;
    let reconnect = Reconnect::waiting(wait);
    let mut execution = Execution { parallelism, ..execution(server, &resolved, seen) };
    execution.wait.reconnect = &reconnect;
    execute(&execution, plan).await
}

/// One change at a time, without a wait, and with nothing known of other data.
fn execution<'a>(server: &'a FakeServer, resolved: &'a Resolved, seen: &'a Seen) -> Execution<'a> {
    Execution {
        registered: &[],
        existing: &[],
        api: server,
        snapshots: server,
        rules: MergeRules::NOMAD,
        resolved,
        parallelism: 1,
        record: Box::new(Unrecorded),
        wait: StepWait { stop: &seen.stop, progress: seen, reconnect: &seen.reconnect },
    }
}

async fn run_one(server: &FakeServer, plan: &Plan) -> Outcome {
    execute_plan(server, plan, &Seen::default(), 1).await.remove(0)
}

fn failure(outcome: &Outcome) -> &Diagnostic {
    match &outcome.status {
        Status::Failed(diagnostic) | Status::Stale(diagnostic) => diagnostic,
        other => panic!("{other:?}"),
    }
}

/// A second run after a success changes nothing.
#[tokio::test]
async fn applied_volumes_are_read_back_and_then_unchanged() {
    let server = server();
    let plan_one = plan(&server, vec![desired("db", 2000)]).await;
    let outcome = run_one(&server, &plan_one).await;
    let Status::Done(Some(reading)) = &outcome.status else { panic!("{outcome:?}") };
    assert_eq!(reading.value.external_id, Some(ExternalId::new("ext-db")));
    assert!(outcome.warnings.is_empty());
    let again = plan(&server, vec![desired("db", 2000)]).await;
    assert_eq!(run_one(&server, &again).await.status, Status::Unchanged);
    assert_eq!(server.writes(), ["create db"]);
}

#[tokio::test]
async fn volumes_that_changed_since_the_plan_are_skipped() {
    let created = server();
    let absent = plan(&created, vec![desired("db", 2000)]).await;
    run_one(&created, &absent).await;
    let update = plan(&created, vec![desired("db", 3000)]).await;
    created.change(&key("db"), |volume| volume.name = "other".into());
    let gone = server();
    let seen = plan(&gone, vec![desired("db", 2000)]).await;
    run_one(&gone, &seen).await;
    let change_gone = plan(&gone, vec![desired("db", 3000)]).await;
    gone.remove(&key("db"));
    for (server, plan, why) in [
        (&created, &absent, "it did not exist and now exists"),
        (&created, &update, "it was at index 11 and is now at index 12"),
        (&gone, &change_gone, "it no longer exists"),
    ] {
        let outcome = run_one(server, plan).await;
        assert!(matches!(outcome.status, Status::Stale(_)), "{outcome:?}");
        assert_eq!(failure(&outcome).notes, [why]);
        assert_eq!(server.writes().len(), 1, "only the creation was sent");
    }
}

/// A call whose reply was lost is not repeated.
#[tokio::test(start_paused = true)]
async fn a_lost_reply_is_resolved_without_a_second_call() {
    for (fault, done) in [(CallFault::ReplyLost, true), (CallFault::RequestLost, false)] {
        let server = server();
        let plan = plan(&server, vec![desired("db", 2000)]).await;
        server.fail_next("create", fault);
        let outcome = run_one(&server, &plan).await;
        assert_eq!(server.writes(), ["create db"], "{fault:?}");
        if done {
            assert!(matches!(outcome.status, Status::Done(Some(_))), "{outcome:?}");
            assert_eq!(outcome.warnings[0].code, Code::ApiOutcomeUnknown);
        } else {
            assert_eq!(failure(&outcome).code, Code::ApiOutcomeUnknown);
            assert!(failure(&outcome).notes[0].contains("does not exist after 7 seconds"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_reply_of_an_update_is_resolved_from_the_volume() {
    for (fault, done) in [(CallFault::ReplyLost, true), (CallFault::RequestLost, false)] {
        let server = server();
        let first = plan(&server, vec![desired("db", 2000)]).await;
        run_one(&server, &first).await;
        let update = plan(&server, vec![desired("db", 3000)]).await;
        server.fail_next("register", fault);
        let outcome = run_one(&server, &update).await;
        assert_eq!(matches!(outcome.status, Status::Done(Some(_))), done, "{outcome:?}");
        assert_eq!(server.writes(), ["create db", "register db"]);
    }
}

/// A removal is sent again if the server went away in the meantime, unless the volume has changed.
#[tokio::test(start_paused = true)]
async fn a_removal_that_a_server_took_with_it_is_sent_again() {
    for (recovers, changes, writes) in [(true, false, 2), (false, false, 1), (true, true, 1)] {
        let server = server();
        let create = plan(&server, vec![desired("db", 2000)]).await;
        run_one(&server, &create).await;
        let planned = PlannedVolume {
            action: Action::DeleteData,
            spec: None,
            expected_version: VolumeVersion::At(11),
            ..create.volumes[0].clone()
        };
        let plan = Plan { volumes: vec![planned], remarks: vec![], undeclared: vec![] };
        server.fail_next("delete", CallFault::RequestLost);
        if recovers {
            server.recover();
        }
        let seen = Seen::default();
        let running = execute_plan(&server, &plan, &seen, 1);
        let changing = async {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            if changes {
                server.change(&key("db"), |volume| volume.name = "other".into());
            }
        };
        let (outcomes, ()) = tokio::join!(running, changing);
        let deletes = server.writes().into_iter().filter(|one| one == "delete db");
        assert_eq!(deletes.count(), writes, "{recovers} {changes}");
        let is_removed = matches!(outcomes[0].status, Status::Removed);
        assert_eq!(is_removed, recovers && !changes, "{outcomes:?}");
    }
}

/// After a restart, Nomad answers before its clients are connected. All volumes wait together.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_unreachable_for_a_moment_is_waited_for() {
    let server = server();
    let plan = plan(&server, vec![desired("a", 2000), desired("b", 2000)]).await;
    for _ in 0..6 {
        server.fail_next("create", CallFault::PluginUnreachable);
    }
    server.recover();
    let (seen, wait) = (Seen::default(), Duration::from_secs(60));
    let start = tokio::time::Instant::now();
    let outcomes = execute_waiting(&server, &plan, &seen, 2, wait).await;
    let all_done = outcomes.iter().all(|one| one.status.is_success());
    assert!(all_done, "{outcomes:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
    let lines = seen.events.lock().join("\n");
    assert_eq!(lines.matches("unreachable for 60s").count(), 1, "{lines}");
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_plugin_is_bounded_for_all_volumes_together() {
    let server = server();
    let specs = ["a", "b", "c"].map(|id| desired(id, 2000)).to_vec();
    let plan = plan(&server, specs).await;
    for _ in 0..1000 {
        server.fail_next("create", CallFault::PluginUnreachable);
    }
    let (seen, wait) = (Seen::default(), Duration::from_secs(60));
    let start = tokio::time::Instant::now();
    for (recovers, seconds) in [(false, 0), (true, 60)] {
        if recovers {
            server.recover();
        }
        let outcomes = execute_waiting(&server, &plan, &seen, 1, wait).await;
        for outcome in &outcomes {
            assert_eq!(failure(outcome).code, Code::PluginUnreachable);
        }
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
}

#[tokio::test]
async fn a_failure_does_not_stop_other_volumes() {
    let server = server();
    let specs = ["a", "b", "c"].map(|id| desired(id, 2000)).to_vec();
    let plan = plan(&server, specs).await;
    server.fail_next("create", CallFault::Refused);
    let outcomes = execute_plan(&server, &plan, &Seen::default(), 1).await;
    assert_eq!(failure(&outcomes[0]).code, Code::ApiServerError);
    for outcome in &outcomes[1..] {
        assert!(matches!(outcome.status, Status::Done(_)), "{outcome:?}");
    }
}

#[tokio::test]
async fn after_an_interrupt_running_calls_finish_and_nothing_starts() {
    let server = server();
    let specs = ["a", "b", "c"].map(|id| desired(id, 2000)).to_vec();
    let plan = plan(&server, specs).await;
    let seen = Seen { stop_at: Some(1), ..Seen::default() };
    let outcomes = execute_plan(&server, &plan, &seen, 1).await;
    assert!(matches!(outcomes[0].status, Status::Done(_)));
    assert_eq!(outcomes[1].status, Status::NotStarted);
    assert_eq!(outcomes[2].status, Status::NotStarted);
    assert_eq!(server.writes(), ["create a"]);
    let events = seen.events.lock().clone();
    assert_eq!(events, ["started 0", "finished 0", "started 1", "finished 1"]);
}

#[tokio::test]
async fn a_volume_that_cannot_be_read_right_before_is_not_changed() {
    let server = server();
    let plan = plan(&server, vec![desired("db", 2000)]).await;
    server.fail_next("read", CallFault::Refused);
    let outcome = run_one(&server, &plan).await;
    assert_eq!(failure(&outcome).code, Code::ApiServerError);
    assert!(server.writes().is_empty());
}

#[tokio::test]
async fn a_volume_that_cannot_be_read_back_is_done_with_a_warning() {
    let server = server();
    let plan = plan(&server, vec![desired("db", 2000)]).await;
    server.pass_next("read");
    server.fail_next("read", CallFault::Refused);
    let outcome = run_one(&server, &plan).await;
    assert_eq!(outcome.status, Status::Done(None));
    assert!(outcome.warnings[0].message.contains("cannot be read back"));
}

fn requests(asked: impl FnOnce(&mut PlanOptions)) -> PlanOptions {
    let mut requests = PlanOptions::default();
    asked(&mut requests);
    requests
}

/// A plan of what is desired, and of what shall go although no file names it.
async fn plan_with(server: &FakeServer, desired: Vec<VolumeSpec>, requests: &PlanOptions) -> Plan {
    let mut observed = look(server, &desired).await.observed;
    for key in &requests.delete_data {
        let found = server.read_volume(key).await.unwrap();
        observed.volumes.extend(found.map(|reading| (key.clone(), reading.value)));
    }
    build_plan(PlanInputs {
        desired,
        purpose: Purpose::ByExternalId,
        observed: &observed,
        rules: MergeRules::NOMAD,
        owned: None,
        options: requests,
    })
}

async fn created(ids: &[&str]) -> FakeServer {
    let server = server();
    let specs = ids.iter().map(|id| desired(id, 2000)).collect();
    let plan = plan(&server, specs).await;
    execute_plan(&server, &plan, &Seen::default(), 1).await;
    server
}

#[tokio::test]
async fn a_copy_starts_after_its_source_succeeds() {
    for (fails, second) in [(false, "create copy"), (true, "")] {
        let server = server();
        let mut copy = desired("copy", 2000);
        copy.request.clone_id = Some("db".into());
        let plan = plan(&server, vec![copy, desired("db", 2000)]).await;
        if fails {
            server.fail_next("create", CallFault::Refused);
        }
        let outcomes = execute_plan(&server, &plan, &Seen::default(), 8).await;
        let writes = server.writes();
        assert_eq!(writes[0], "create db");
        assert_eq!(writes.get(1).map_or("", String::as_str), second);
        if let Status::DependencyFailed(why) = &outcomes[0].status {
            assert_eq!(why.code, Code::ApplyHeldBack);
            assert!(fails);
        } else {
            assert!(!fails, "{outcomes:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn data_is_deleted_once_and_a_lost_reply_is_resolved() {
    for (fault, ends_well) in
        [(None, true), (Some(CallFault::ReplyLost), true), (Some(CallFault::RequestLost), false)]
    {
        let server = created(&["db"]).await;
        let asked = requests(|requests| {
            requests.delete_data.insert(key("db"));
        });
        let plan = plan_with(&server, vec![], &asked).await;
        if let Some(fault) = fault {
            server.fail_next("delete", fault);
        }
        let outcome = run_one(&server, &plan).await;
        assert_eq!(outcome.status == Status::Removed, ends_well, "{outcome:?}");
        assert_eq!(server.writes(), ["create db", "delete db"]);
    }
}

/// Claims and shared data since the plan prevent a removal.
#[tokio::test]
async fn newly_claimed_or_shared_data_is_not_deleted() {
    let asked = requests(|requests| {
        requests.delete_data.insert(key("db"));
    });
    let shared = created(&["db"]).await;
    let plan_shared = plan_with(&shared, vec![], &asked).await;
    let mut other = desired("other", 2000);
    other.request.external_id = Some(ExternalId::new("ext-db"));
    let other = plan(&shared, vec![other]).await;
    run_one(&shared, &other).await;
    let outcome = run_one(&shared, &plan_shared).await;
    assert_eq!(failure(&outcome).code, Code::VolumeShared);

    let gone = created(&["db"]).await;
    let plan_gone = plan_with(&gone, vec![], &asked).await;
    gone.remove(&key("db"));
    assert_eq!(run_one(&gone, &plan_gone).await.status, Status::Removed);
    for server in [shared, gone] {
        assert!(!server.writes().contains(&"delete db".to_owned()));
    }
}

/// A plugin answers a creation with the volume that it has of that name (W13).
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_created_with_the_data_of_another_one_is_not_kept() {
    let server = server();
    let refused = plan(&server, vec![desired("db", 2000)]).await;
    // Another user registers the data at the same moment, after the plan.
    let mut other = desired("other", 2000);
    other.request.external_id = Some(ExternalId::new("ext-db"));
    let other = plan(&server, vec![other]).await;
    assert!(run_one(&server, &other).await.status.is_success());

    let outcome = run_one(&server, &refused).await;
    assert_eq!(failure(&outcome).code, Code::VolumeShared);
    let notes = &failure(&outcome).notes;
    assert!(notes.iter().any(|note| note.contains("removed again")), "{notes:?}");
    assert_eq!(server.read_volume(&key("db")).await.unwrap(), None);
    assert!(server.read_volume(&key("other")).await.unwrap().is_some());
    assert!(!server.writes().contains(&"delete db".to_owned()));

    server.fail_next("create", CallFault::ReplyLost);
    let outcome = run_one(&server, &refused).await;
    assert_eq!(failure(&outcome).code, Code::VolumeShared, "also if the reply is lost");
    assert_eq!(server.read_volume(&key("db")).await.unwrap(), None);

    // The ID of a volume without external ID is that of its data.
    server.remove(&key("other"));
    let unnamed = plan(&server, vec![desired("ext-db", 2000)]).await;
    assert!(run_one(&server, &unnamed).await.status.is_success());
    server.change(&key("ext-db"), |volume| volume.external_id = None);
    let outcome = run_one(&server, &refused).await;
    assert_eq!(failure(&outcome).code, Code::VolumeShared, "{outcome:?}");
    server.alias(&key("ext-db"), &key("other"));

    let mut shared = desired("db", 2000);
    shared.request.share = true;
    let mut shared = plan(&server, vec![shared]).await;
    let Action::Create(request) = &mut shared.volumes[0].action else {
        panic!("{:?}", shared.volumes[0].action);
    };
    request.share = true;
    assert!(run_one(&server, &shared).await.status.is_success());
}

/// The list for the plan counts if the list after the creation fails; a creation of which nothing is known stays.
#[tokio::test(start_paused = true)]
async fn a_creation_is_compared_with_what_is_known() {
    for (others, is_kept) in [(&["other"][..], false), (&[], true)] {
        let server = server();
        let planned = plan(&server, vec![desired("db", 2000)]).await;
        let mut registered = vec![];
        for other in others {
            let mut spec = desired(other, 2000);
            spec.request.external_id = Some(ExternalId::new("ext-db"));
            let other = plan(&server, vec![spec]).await;
            assert!(run_one(&server, &other).await.status.is_success());
            let everywhere = VolumeQuery::of_namespace(Namespace::new(Namespace::ALL));
            let listed = server.list_volumes(&everywhere).await.unwrap();
            registered.extend(listed.into_iter().map(|one| one.value));
        }
        server.fail_next("list", CallFault::Refused);
        let resolved = resolved(&planned).await;
        let seen = Seen::default();
        let execution =
            Execution { registered: &registered, ..execution(&server, &resolved, &seen) };
        let outcome = execute(&execution, &planned).await.remove(0);
        assert_eq!(outcome.status.is_success(), is_kept, "{outcome:?}");
        let helps = outcome.warnings.iter().flat_map(|warning| &warning.help);
        assert_eq!(
            helps.collect::<Vec<_>>(),
            [
                "before a job uses it, run `nomad-csi volume doctor db --namespace default`: it names other volumes with the same data, unless both are for many writers"
            ]
        );
    }
}

/// While an allocation may write to data of the provider that is registered nowhere.
#[tokio::test]
async fn a_volume_that_is_created_with_data_that_the_provider_had_is_not_kept() {
    let server = server();
    let plan = plan(&server, vec![desired("db", 2000), desired("new", 2000)]).await;
    let resolved = resolved(&plan).await;
    let seen = Seen::default();
    let execution = Execution {
        existing: &[DataIdentity {
            plugin_id: PluginId::new("hostpath"),
            external_id: ExternalId::new("ext-db"),
        }],
        ..execution(&server, &resolved, &seen)
    };
    let outcomes = execute(&execution, &plan).await;
    assert_eq!(failure(&outcomes[0]).code, Code::VolumeShared);
    assert!(failure(&outcomes[0]).message.contains("had before"));
    assert_eq!(server.read_volume(&key("db")).await.unwrap(), None);
    assert!(outcomes[1].status.is_success());
    assert!(!server.writes().contains(&"delete db".to_owned()));
}

#[tokio::test]
async fn an_incomplete_replacement_is_reported_and_the_next_run_completes_it() {
    let server = created(&["db"]).await;
    let asked = requests(|requests| {
        requests.replace.insert(key("db"));
    });
    let mut replacement = desired("db", 2000);
    replacement.request.name = Some("another".into());
    let plan_one = plan_with(&server, vec![replacement.clone()], &asked).await;
    server.fail_next("create", CallFault::Refused);
    let outcome = run_one(&server, &plan_one).await;
    let notes = failure(&outcome).notes.join(" ");
    assert!(notes.contains("the old volume `db` was removed"), "{notes}");
    let plan_two = plan_with(&server, vec![replacement], &asked).await;
    let outcome = run_one(&server, &plan_two).await;
    assert!(matches!(outcome.status, Status::Done(Some(_))), "{outcome:?}");
    assert_eq!(server.writes(), ["create db", "delete db", "create db", "create db"]);
}

/// Records nothing, and is interrupted when a removal begins.
struct InterruptedRemoval(CancellationToken);

#[async_trait::async_trait]
impl Record for InterruptedRemoval {
    async fn begin(&self, _: &NamespacedId, step: IntentStep) -> Result<(), Diagnostic> {
        if step == IntentStep::Delete {
            self.0.cancel();
        }
        Ok(())
    }

    async fn end(&self, _: &NamespacedId, _: Recorded<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
}

/// Without its second step the volume would be missing until someone runs the command again.
#[tokio::test]
async fn a_replacement_is_completed_after_an_interrupt_of_its_removal() {
    let server = created(&["db"]).await;
    let asked = requests(|requests| {
        requests.replace.insert(key("db"));
    });
    let mut replacement = desired("db", 2000);
    replacement.request.name = Some("another".into());
    let plan = plan_with(&server, vec![replacement], &asked).await;
    let (seen, resolved) = (Seen::default(), resolved(&plan).await);
    let record = InterruptedRemoval(seen.stop.clone());
    let execution = Execution { record: Box::new(record), ..execution(&server, &resolved, &seen) };
    let outcome = execute(&execution, &plan).await.remove(0);
    assert!(seen.stop.is_cancelled());
    assert!(matches!(outcome.status, Status::Done(Some(_))), "{outcome:?}");
    assert_eq!(server.writes(), ["create db", "delete db", "create db"]);
}

struct Notes(Mutex<Vec<String>>, bool);

#[async_trait::async_trait]
impl Record for &Notes {
    async fn begin(&self, volume: &NamespacedId, step: IntentStep) -> Result<(), Diagnostic> {
        if self.1 {
            return Err(Diagnostic::error(Code::Internal, "no room for notes"));
        }
        let note = format!("begin {} {}", step.as_str(), volume.id);
        self.0.lock().push(note);
        Ok(())
    }

    async fn end(&self, volume: &NamespacedId, what: Recorded<'_>) -> Result<(), Diagnostic> {
        let what = match what {
            Recorded::Applied { .. } => "applied",
            Recorded::Removed => "removed",
            Recorded::Nothing => "nothing",
        };
        self.0.lock().push(format!("{what} {}", volume.id));
        Ok(())
    }
}

/// The intent is recorded before the call and its result after it. An unknown result keeps the intent.
#[tokio::test(start_paused = true)]
async fn every_step_is_recorded_before_and_after() {
    for (fault, refuses, expected, writes) in [
        (None, false, &["begin create db", "applied db"][..], 1),
        (Some(CallFault::Refused), false, &["begin create db", "nothing db"], 1),
        (Some(CallFault::ReplyLost), false, &["begin create db", "applied db"], 1),
        (Some(CallFault::RequestLost), false, &["begin create db"], 1),
        (None, true, &[], 0),
    ] {
        let server = server();
        let plan = plan(&server, vec![desired("db", 2000)]).await;
        if let Some(fault) = fault {
            server.fail_next("create", fault);
        }
        let notes = Notes(Mutex::default(), refuses);
        let seen = Seen::default();
        let resolved = resolved(&plan).await;
        let execution =
            Execution { record: Box::new(&notes), ..execution(&server, &resolved, &seen) };
        let outcome = execute(&execution, &plan).await.remove(0);
        assert_eq!(*notes.0.lock(), expected, "{fault:?}");
        assert_eq!(server.writes().len(), writes, "{outcome:?}");
    }
}

/// The snapshot exists before the old volume is removed. Without it nothing is removed.
#[tokio::test]
async fn a_requested_snapshot_is_taken_before_the_replacement() {
    for fails in [false, true] {
        let server = created(&["db"]).await;
        let asked = requests(|requests| {
            requests.replace.insert(key("db"));
            requests.snapshot_first = true;
        });
        let plan = plan_with(&server, vec![desired("db", 2000)], &asked).await;
        if fails {
            server.fail_next("snapshot", CallFault::Refused);
        }
        let outcome = run_one(&server, &plan).await;
        let writes = server.writes();
        assert_eq!(writes[1], "snapshot nomad-csi-db-11");
        if fails {
            assert_eq!(writes.len(), 2, "{writes:?}");
            let notes = failure(&outcome).notes.join(" ");
            assert!(notes.contains("was not changed"), "{notes}");
        } else {
            assert_eq!(writes[2..], ["delete db", "create db"]);
            let warning = &outcome.warnings[0];
            assert_eq!(warning.code, Code::ApplySnapshotTaken);
            assert!(warning.message.contains("snap-nomad-csi-db-11"), "{warning:?}");
        }
    }
}

/// A provider whose snapshots become ready or not, and what happens while one is cut.
struct Provider<F> {
    is_ready: bool,
    in_between: F,
    asked: Mutex<Vec<SnapshotRequest>>,
}

impl<F: Fn() + Sync> Provider<F> {
    fn new(is_ready: bool, in_between: F) -> Self {
        Self { is_ready, in_between, asked: Mutex::default() }
    }
}

#[async_trait::async_trait]
impl<F: Fn() + Send + Sync> ProviderReader for Provider<F> {
    async fn list_external_volumes(
        &self,
        _: &PluginId,
        _: &Namespace,
    ) -> Result<Vec<ExternalVolume>, ApiError> {
        Ok(vec![])
    }

    async fn list_snapshots(
        &self,
        _: &PluginId,
        _: &Namespace,
        _: &Secrets,
    ) -> Result<Vec<Snapshot>, ApiError> {
        Ok(vec![])
    }
}

#[async_trait::async_trait]
impl<F: Fn() + Send + Sync> SnapshotApi for Provider<F> {
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshot, ApiError> {
        self.asked.lock().push(request.clone());
        (self.in_between)();
        Ok(Snapshot {
            id: SnapshotId::new(format!("snap-{}", request.name)),
            source: ExternalId::new("ext-db"),
            size: Bytes::ZERO,
            create_time: 0,
            is_ready: self.is_ready,
        })
    }

    async fn delete_snapshot(
        &self,
        _: &PluginId,
        _: &Namespace,
        _: &SnapshotId,
        _: &Secrets,
    ) -> Result<(), ApiError> {
        Ok(())
    }
}

/// Replaces `db` by what is desired, with a snapshot first.
async fn replace_with(
    server: &FakeServer,
    desired: VolumeSpec,
    snapshots: &dyn SnapshotApi,
    stop: &CancellationToken,
) -> Outcome {
    let asked = requests(|requests| {
        requests.replace.insert(key("db"));
        requests.snapshot_first = true;
    });
    let plan = plan_with(server, vec![desired], &asked).await;
    let (resolved, seen) = (resolved(&plan).await, Seen::default());
    let mut execution = Execution { snapshots, ..execution(server, &resolved, &seen) };
    execution.wait.stop = stop;
    execute(&execution, &plan).await.remove(0)
}

/// The one warning, which names the snapshot that exists.
fn assert_told(outcome: &Outcome) {
    let [warning] = outcome.warnings.as_slice() else { panic!("{outcome:?}") };
    assert_eq!(warning.code, Code::ApplySnapshotTaken);
    assert!(warning.message.contains("snap-nomad-csi-db-11"), "{warning:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_replaced_until_its_snapshot_is_ready() {
    let server = created(&["db"]).await;
    let slow = Provider::new(false, || {});
    let stop = CancellationToken::new();
    let outcome = replace_with(&server, desired("db", 2000), &slow, &stop).await;
    assert_eq!(failure(&outcome).code, Code::ApplySnapshotNotReady);
    assert_told(&outcome);
    assert_eq!(server.writes(), ["create db"]);
}

/// A snapshot takes minutes, so the checks before it are repeated after it.
#[tokio::test(start_paused = true)]
async fn changes_during_a_snapshot_prevent_the_replacement() {
    let claim: fn(&FakeServer) = |server| {
        server.change(&key("db"), |volume| {
            volume.write_allocs.insert(AllocId::new("a1"));
        });
    };
    let share: fn(&FakeServer) = |server| server.alias(&key("db"), &key("other"));
    let remove: fn(&FakeServer) = |server| server.remove(&key("db"));
    for (in_between, code) in
        [(claim, Some(Code::PlanStale)), (share, Some(Code::VolumeShared)), (remove, None)]
    {
        let server = created(&["db"]).await;
        let provider = Provider::new(true, || in_between(&server));
        let stop = CancellationToken::new();
        let outcome = replace_with(&server, desired("db", 2000), &provider, &stop).await;
        assert_told(&outcome);
        let writes = server.writes();
        match code {
            Some(code) => {
                assert!(matches!(outcome.status, Status::Stale(_)), "{outcome:?}");
                assert_eq!(failure(&outcome).code, code);
                assert_eq!(writes, ["create db"]);
            }
            None => assert_eq!(writes, ["create db", "create db"], "{outcome:?}"),
        }
    }
}

/// A job may claim the volume, write and end while its snapshot is made: what it wrote is in no snapshot.
#[tokio::test(start_paused = true)]
async fn a_snapshot_of_a_volume_that_is_used_in_the_meantime_is_taken_again() {
    for (uses, is_replaced) in [(1, true), (2, true), (3, false)] {
        let server = created(&["db"]).await;
        let left = Mutex::new(uses);
        let in_between = || {
            let mut left = left.lock();
            if *left > 0 {
                *left -= 1;
                server.use_and_release(&key("db"));
            }
        };
        let provider = Provider::new(true, in_between);
        let stop = CancellationToken::new();
        let outcome = replace_with(&server, desired("db", 2000), &provider, &stop).await;
        let asked = provider.asked.lock();
        let names: BTreeSet<_> = asked.iter().map(|request| &request.name).collect();
        assert_eq!(names.len(), asked.len(), "each has a name of its own");
        assert_eq!(outcome.warnings.len(), asked.len(), "each is reported");
        let writes = server.writes();
        if is_replaced {
            assert_eq!(asked.len(), uses + 1);
            assert_eq!(writes[1..], ["delete db", "create db"]);
        } else {
            assert_eq!(failure(&outcome).code, Code::PlanStale);
            assert_eq!(writes, ["create db"]);
        }
    }
}

/// The snapshot of a run that was interrupted is that of the next one only if the volume was not used between.
#[tokio::test(start_paused = true)]
async fn an_earlier_snapshot_counts_until_the_volume_is_used() {
    for is_used in [false, true] {
        let server = created(&["db"]).await;
        let stop = CancellationToken::new();
        let interrupted = Provider::new(true, || stop.cancel());
        replace_with(&server, desired("db", 2000), &interrupted, &stop).await;
        if is_used {
            server.use_and_release(&key("db"));
        }
        let provider = Provider::new(true, || {});
        let again = CancellationToken::new();
        let outcome = replace_with(&server, desired("db", 2000), &provider, &again).await;
        assert!(outcome.status.is_success(), "{outcome:?}");
        let first = interrupted.asked.lock()[0].name.clone();
        let second = provider.asked.lock()[0].name.clone();
        assert_eq!(first != second, is_used, "{first} {second}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_during_a_snapshot_prevents_the_replacement() {
    for is_ready in [true, false] {
        let server = created(&["db"]).await;
        let stop = CancellationToken::new();
        let provider = Provider::new(is_ready, || stop.cancel());
        let outcome = replace_with(&server, desired("db", 2000), &provider, &stop).await;
        assert_eq!(outcome.status, Status::NotStarted);
        assert_told(&outcome);
        assert_eq!(provider.asked.lock().len(), 1);
        assert_eq!(server.writes(), ["create db"]);
    }
}

/// The plugin that has the data cuts its snapshot, and is shown no secrets of another.
#[tokio::test(start_paused = true)]
async fn a_snapshot_uses_the_old_plugin_and_its_secrets() {
    for (plugin, secrets) in [("hostpath", 1), ("another", 0)] {
        let server = created(&["db"]).await;
        server.add_plugin("another");
        let mut replacement = desired("db", 2000);
        replacement.request.plugin_id = PluginId::new(plugin);
        let secret = SecretRef::Literal(Secret::new("hunter2".into()));
        replacement.request.secrets = Some(SecretRefs::from_iter([("token", secret)]));
        let provider = Provider::new(true, || {});
        let stop = CancellationToken::new();
        let outcome = replace_with(&server, replacement, &provider, &stop).await;
        assert!(matches!(outcome.status, Status::Done(_)), "{outcome:?}");
        assert!(outcome.warnings[0].message.contains("of plugin `hostpath`"));
        let asked = provider.asked.lock().remove(0);
        assert_eq!(asked.plugin_id, PluginId::new("hostpath"));
        assert_eq!(asked.secrets.expose().count(), secrets, "{plugin}");
        assert_eq!(server.delete_secrets(), [secrets], "{plugin}");
    }
}
