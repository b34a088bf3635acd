//! Applies plans for a set, on a server and a ledger that fail.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::ports::fake::{CallFault, FakeServer, LedgerFault, MemoryLedger};
use crate::ports::{LedgerError, ResolvedSecret, SecretProblem, SecretSource, VolumeReader as _};
use crate::reconcile::execution::{ProgressObserver, StepWait};
use crate::reconcile::ledger_writer::{LedgerWriter, RecordedScope};
use crate::reconcile::lock_renewal::LockState;
use crate::reconcile::observe::{ObserveRequest, observe};
use crate::reconcile::outcome::Status;
use crate::reconcile::reconnect::Reconnect;
use crate::reconcile::resolve::{Unresolved, resolve};
use crate::reconcile::secret_variables::SecretVariables;
use nomad_csi_model::diagnostic::{Code, Diagnostics, SourceMap};
use nomad_csi_model::{Namespace, NamespacedId, Secrets, SetName, VolumeId};
use nomad_csi_plan::{
    Action, Actor, AppliedValues, HiddenField, MergeRules, OwnedSet, PlanInputs, PlanOptions,
    StoredValue, build_plan, interrupted_step_warnings,
};
use nomad_csi_spec::{Defaults, Purpose, Syntax, VolumeSpec, parse};
use nomad_csi_testing::{CountingIds, FakeClock};

/// A server and a ledger.
struct Scene {
    server: FakeServer,
    ledger: MemoryLedger,
}

struct NoProgress;

impl ProgressObserver for NoProgress {
    fn started(&self, _: usize) {}
    fn finished(&self, _: usize, _: &Outcome) {}
    fn plugin_unreachable(&self, _: std::time::Duration) {}
}

struct NoSecrets;

impl SecretSource for NoSecrets {
    fn resolve(
        &self,
        _: &nomad_csi_model::SecretRef,
        _: &Path,
    ) -> Result<ResolvedSecret, SecretProblem> {
        Err(SecretProblem { code: Code::SecretUnset, message: "there is none".into() })
    }
}

fn key(id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

fn actor() -> Actor {
    Actor { user: "ada".into(), host: "build-7".into(), process: 7, command: "apply".into() }
}

/// A specification with more in it.
fn volume(id: &str, more: &str) -> String {
    format!(
        "volume \"{id}\" {{\n type = \"csi\"\n name = \"{id}\"\n plugin_id = \"hostpath\"\n capability {{\n access_mode = \"single-node-writer\"\n attachment_mode = \"file-system\"\n }}\n{more}\n}}\n"
    )
}

fn specs(volumes: &[String]) -> Vec<VolumeSpec> {
    let (mut sources, mut diagnostics) = (SourceMap::default(), Diagnostics::default());
    if volumes.is_empty() {
        return vec![];
    }
    let text = volumes.concat();
    let source = sources.add("volumes.hcl", text.as_str());
    let defaults = Defaults { namespace: Namespace::default() };
    let specs = parse(&mut sources, source, Syntax::Hcl, &defaults, &mut diagnostics);
    assert!(!diagnostics.has_errors(), "{diagnostics:?}");
    specs
}

/// One apply: its plan and how it ended.
struct Ended {
    actions: Vec<Action>,
    unfinished: usize,
    outcomes: Result<Vec<Outcome>, LedgerError>,
}

impl Ended {
    fn words(&self) -> Vec<&str> {
        self.actions.iter().map(Action::as_str).collect()
    }

    fn ending(&self) -> &Status {
        &self.outcomes.as_ref().unwrap()[0].status
    }
}

impl Scene {
    fn new() -> Self {
        let server = FakeServer::new(MergeRules::NOMAD);
        server.add_plugin("hostpath");
        Self { server, ledger: MemoryLedger::default() }
    }

    async fn set(&self) -> SetLedger {
        let ledger = Arc::new(self.ledger.clone());
        let name = SetName::parse("web").unwrap();
        let ids = Arc::new(CountingIds::default());
        SetLedger::open(ledger, name, ids).await.unwrap()
    }

    async fn apply(&self, volumes: &[String]) -> Ended {
        self.apply_with(volumes, &PlanOptions::default()).await
    }

    async fn apply_with(&self, volumes: &[String], requests: &PlanOptions) -> Ended {
        self.apply_in(self.set().await, volumes, requests).await
    }

    async fn apply_in(
        &self,
        mut set: SetLedger,
        volumes: &[String],
        requests: &PlanOptions,
    ) -> Ended {
        let desired = specs(volumes);
        let intents = set.set().intents().map(|(key, _)| key.clone());
        let owned = set.set().owned().map(|(key, _)| key.clone());
        let looking = ObserveRequest {
            desired: &desired,
            other_volumes: intents.chain(owned).collect(),
            parallelism: 4,
            ..ObserveRequest::default()
        };
        let observed = observe(&self.server, looking).await.unwrap().observed;
        let literal = |spec: &VolumeSpec| {
            let secrets = spec.request.secrets.as_ref()?;
            secrets
                .resolve(|_, secret| {
                    secret.literal().map(|text| nomad_csi_model::Secret::new(text.into())).ok_or(())
                })
                .ok()
        };
        let owned = OwnedSet::of(set.set(), &desired, literal);
        let plan = build_plan(PlanInputs {
            desired,
            purpose: Purpose::ByExternalId,
            observed: &observed,
            rules: MergeRules::NOMAD,
            owned: Some(&owned),
            options: requests,
        });
        let sent = plan.volumes.iter().filter_map(|planned| {
            let (spec, request) = (planned.spec.as_ref()?, planned.request()?);
            Some(Unresolved::new(spec, request.clone(), |_| PathBuf::new()))
        });
        let (resolved, _) =
            resolve(sent.collect(), Arc::new(NoSecrets), SecretVariables::default()).await.unwrap();
        let unfinished = interrupted_step_warnings(set.set(), &observed).len();
        let (rules, scope) = (MergeRules::NOMAD, RecordedScope::WholeRequest);
        let clock = Arc::new(FakeClock::at(5));
        let (writer, updates) = LedgerWriter::new(&plan, 1, rules, scope, actor(), clock);
        let outcomes =
            match writer.begin(&mut set, &plan, &observed, &resolved, Some("plan-1")).await {
                Ok(writer) => {
                    let execution = Execution {
                        registered: &[],
                        existing: &[],
                        api: &self.server,
                        snapshots: &self.server,
                        rules,
                        resolved: &resolved,
                        parallelism: 1,
                        record: Box::new(writer),
                        wait: StepWait {
                            stop: &CancellationToken::new(),
                            progress: &NoProgress,
                            reconnect: &Reconnect::default(),
                        },
                    };
                    Ok(apply_for_set(execution, &plan, &mut set, updates).await)
                }
                Err(error) => Err(error),
            };
        Ended {
            actions: plan.volumes.into_iter().map(|one| one.action).collect(),
            unfinished,
            outcomes,
        }
    }
}

const SECRET: &str = "secrets { token = \"canary-secret\" }";
const OTHER: &str = "secrets { token = \"canary-other\" }";
const FLAGS: &str = "mount_options {\n mount_flags = [\"canary-flag\"]\n}";

/// The ledger detects changes of its own volumes that no server shows.
#[tokio::test]
async fn applied_volumes_are_owned_and_only_changed_secrets_differ() {
    let scene = Scene::new();
    let with = |secret: &str| [volume("db", &format!("{secret}\n{FLAGS}")), volume("logs", "")];
    for (secret, expected) in [
        (SECRET, ["create", "create"]),
        (SECRET, ["unchanged", "unchanged"]),
        (OTHER, ["update", "unchanged"]),
        (OTHER, ["unchanged", "unchanged"]),
        ("", ["unchanged", "unchanged"]),
        ("secrets {}", ["update", "unchanged"]),
        ("secrets {}", ["unchanged", "unchanged"]),
    ] {
        let applied = scene.apply(&with(secret)).await;
        assert_eq!(applied.words(), expected, "{secret}");
    }
    let set = scene.set().await;
    let owned: Vec<_> = set.set().owned().map(|(key, _)| key.clone()).collect();
    assert_eq!(owned, [key("db"), key("logs")]);
    assert_eq!(set.set().intents().count(), 0);
    let seen = set.set().ownership(&key("db")).unwrap().last_verified.unwrap();
    assert_eq!(seen.at, 5);
    for text in scene.ledger.texts() {
        assert!(!text.contains("canary"), "{text}");
    }
}

/// Another command may be changing the volumes of the set.
#[tokio::test]
async fn nothing_is_changed_once_the_lock_is_lost() {
    let scene = Scene::new();
    let (_state, lock) = watch::channel(LockState::Lost);
    let mut set = scene.set().await;
    set.hold(lock);
    let applied = scene.apply_in(set, &[volume("db", "")], &PlanOptions::default()).await;
    assert_eq!(*applied.ending(), Status::NotStarted);
    assert_eq!(scene.server.writes(), Vec::<String>::new());
    assert_eq!(scene.set().await.set().intents().count(), 0);
}

/// Secrets that an update leaves out are gone on Nomad (W20), and the ledger knows that.
#[tokio::test]
async fn secrets_cleared_with_consent_are_recorded_as_none() {
    let scene = Scene::new();
    scene.apply(&[volume("db", SECRET)]).await;
    let renamed = [volume("db", "capacity_max = \"2GiB\"")];
    let refused = scene.apply(&renamed).await;
    assert_eq!(refused.words(), ["blocked"]);
    let requests = PlanOptions {
        accept_loss: [(HiddenField::Secrets, key("db"))].into(),
        ..PlanOptions::default()
    };
    let applied = scene.apply_with(&renamed, &requests).await;
    assert_eq!(applied.words(), ["update"]);
    let set = scene.set().await;
    assert_eq!(applied_values(&set).secrets(), StoredValue::Empty);
}

#[tokio::test(start_paused = true)]
async fn an_interrupted_run_leaves_an_intent_and_the_next_run_continues() {
    for fault in [CallFault::RequestLost, CallFault::ReplyLost] {
        let scene = Scene::new();
        let desired = [volume("db", SECRET)];
        scene.server.fail_next("create", fault);
        // The read after it fails too, so the outcome is unknown.
        scene.server.pass_next("read");
        scene.server.pass_next("read");
        (0..4).for_each(|_| scene.server.fail_next("read", CallFault::Refused));
        let cut_short = scene.apply(&desired).await;
        assert!(matches!(cut_short.ending(), Status::Failed(_)));
        assert_eq!(scene.set().await.set().intents().count(), 1, "{fault:?}");
        assert_eq!(scene.set().await.set().owned().count(), 0);
        let next = scene.apply(&desired).await;
        assert_eq!(next.unfinished, 1);
        assert!(next.ending().is_success(), "{:?}", next.ending());
        let set = scene.set().await;
        assert_eq!(set.set().intents().count(), 0);
        assert_eq!(set.set().owned().count(), 1);
        let secrets = applied_values(&set).secrets();
        assert_eq!(secrets, StoredValue::Given, "{fault:?}");
    }
}

/// The old secret stands in the ledger, and the new one may be with the server.
#[tokio::test(start_paused = true)]
async fn secrets_of_an_interrupted_write_are_written_again() {
    let scene = Scene::new();
    scene.apply(&[volume("db", SECRET)]).await;
    scene.server.fail_next("register", CallFault::RequestLost);
    let lost = scene.apply(&[volume("db", OTHER)]).await;
    assert!(matches!(lost.ending(), Status::Failed(_)));
    let back = scene.apply(&[volume("db", SECRET)]).await;
    assert_eq!(back.words(), ["update"]);
    assert!(back.ending().is_success());
    let again = scene.apply(&[volume("db", SECRET)]).await;
    assert_eq!((again.words(), again.unfinished), (vec!["unchanged"], 0));
}

#[tokio::test]
async fn matching_volumes_join_the_set_with_unknown_hidden_values() {
    let scene = Scene::new();
    scene.apply(&[volume("db", SECRET)]).await;
    let stranger = Scene { server: scene.server.clone(), ledger: MemoryLedger::default() };
    let protected = [volume("db", &format!("{SECRET}\nprotect = true"))];
    assert_eq!(stranger.apply(&protected).await.words(), ["unchanged"]);
    let set = stranger.set().await;
    assert!(set.set().ownership(&key("db")).unwrap().protect);
    assert_eq!(applied_values(&set).secrets(), StoredValue::Unknown);
    assert_eq!(applied_values(&set).mount_flags(), StoredValue::Unknown);
    assert_eq!(stranger.server.writes(), ["create db"]);
}

fn prune() -> PlanOptions {
    PlanOptions { prune: true, ..PlanOptions::default() }
}

#[tokio::test]
async fn owned_undeclared_volumes_are_pruned_unless_protected() {
    let scene = Scene::new();
    let protected = |protect: bool| volume("db", &format!("protect = {protect}"));
    let both = [protected(true), volume("logs", "")];
    scene.apply(&both).await;
    let other = specs(&[volume("other", "")]);
    let stranger = other[0].request.resolve(|_, _| Err(())).unwrap();
    crate::ports::VolumeApi::create_volume(&scene.server, &stranger).await.unwrap();
    let pruned = scene.apply_with(&[], &prune()).await;
    assert_eq!(pruned.words(), ["blocked", "deregister"]);
    assert_eq!(scene.server.writes().last().unwrap(), "deregister logs");
    let set = scene.set().await;
    let owned: Vec<_> = set.set().owned().map(|(key, _)| key.clone()).collect();
    assert_eq!(owned, [key("db")]);
    scene.apply(&[protected(false)]).await;
    let pruned = scene.apply_with(&[], &prune()).await;
    assert_eq!(pruned.words(), ["deregister"]);
    assert_eq!(scene.set().await.set().owned().count(), 0);
}

/// Losing the ledger is safe.
#[tokio::test]
async fn without_its_ledger_a_set_prunes_nothing() {
    let scene = Scene::new();
    scene.apply(&[volume("db", "")]).await;
    let lost = Scene { server: scene.server.clone(), ledger: MemoryLedger::default() };
    assert!(lost.apply_with(&[], &prune()).await.actions.is_empty());
    assert_eq!(scene.server.writes(), ["create db"]);
}

/// A removed volume is no longer owned, so a new one of the same name is not pruned.
#[tokio::test]
async fn volumes_that_are_gone_leave_the_set() {
    let scene = Scene::new();
    scene.apply(&[volume("db", "")]).await;
    scene.server.remove(&key("db"));
    let pruned = scene.apply_with(&[], &prune()).await;
    assert_eq!(pruned.words(), ["unchanged"]);
    assert_eq!(scene.set().await.set().owned().count(), 0);
}

#[tokio::test]
async fn a_replacement_increments_the_generation_and_stays_owned() {
    let scene = Scene::new();
    let desired = [volume("db", "")];
    scene.apply(&desired).await;
    let requests = PlanOptions { replace: [key("db")].into(), ..PlanOptions::default() };
    scene.server.fail_next("create", CallFault::Refused);
    let cut_short = scene.apply_with(&desired, &requests).await;
    assert!(matches!(cut_short.ending(), Status::Failed(_)));
    let set = scene.set().await;
    assert_eq!(set.set().ownership(&key("db")).unwrap().generation, 1);
    let next = scene.apply(&desired).await;
    assert_eq!(next.words(), ["create"]);
    let set = scene.set().await;
    assert_eq!(set.set().ownership(&key("db")).unwrap().generation, 1);
    assert_eq!(set.set().intents().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_ledger_prevents_all_changes() {
    let scene = Scene::new();
    scene.ledger.fail_next(&[LedgerFault::Unavailable]);
    let refused = scene.apply(&[volume("db", "")]).await;
    assert_eq!(refused.outcomes.unwrap_err().failure, crate::ports::LedgerFailure::Unavailable);
    assert_eq!(scene.server.writes(), Vec::<String>::new());
}

/// A step is noted before it is taken; what was done and could not be noted is said.
#[tokio::test(start_paused = true)]
async fn a_step_that_cannot_be_recorded_is_not_taken() {
    let scene = Scene::new();
    scene.apply(&[]).await;
    scene.ledger.fail_next(&[LedgerFault::Unavailable; 5]);
    let refused = scene.apply(&[volume("db", "")]).await;
    assert!(matches!(refused.ending(), Status::ServerUnreachable(_)));
    assert_eq!(scene.server.writes(), Vec::<String>::new());
}

/// The change is done, and the intent stays for the next run. The reply to the write before is lost, which is
/// repaired.
#[tokio::test(start_paused = true)]
async fn a_result_that_cannot_be_recorded_is_a_warning() {
    let scene = Scene::new();
    scene.apply(&[]).await;
    let faults = [LedgerFault::ReplyLost, LedgerFault::Unavailable];
    scene.ledger.fail_next(&faults);
    let applied = scene.apply(&[volume("db", "")]).await;
    let outcomes = applied.outcomes.unwrap();
    assert!(outcomes[0].status.is_success(), "{outcomes:?}");
    let warnings: Vec<&str> = outcomes[0].warnings.iter().map(|one| &*one.message).collect();
    assert_eq!(warnings, ["the result for volume `db` is not recorded in the ledger"]);
    assert_eq!(scene.set().await.set().intents().count(), 1);
}

/// Concurrent writes and records are both kept.
#[tokio::test(start_paused = true)]
async fn records_are_repeated_after_concurrent_writes() {
    let scene = Scene::new();
    scene.ledger.fail_next(&[
        LedgerFault::ConflictAfterFirst,
        LedgerFault::ReplyLost,
        LedgerFault::ConflictAfterFirst,
        LedgerFault::ReplyLost,
    ]);
    let applied = scene.apply(&[volume("a", ""), volume("b", "")]).await;
    assert!(applied.outcomes.unwrap().iter().all(|one| one.status.is_success()));
    let set = scene.set().await;
    assert_eq!(set.set().owned().count(), 2);
    assert_eq!(set.set().intents().count(), 0);
}

/// Fields that a request does not name are remembered as far as they are known.
#[tokio::test]
async fn a_new_volume_without_secrets_is_recorded_as_having_none() {
    let scene = Scene::new();
    scene.apply(&[volume("db", "")]).await;
    let set = scene.set().await;
    assert_eq!(applied_values(&set).secrets(), StoredValue::Empty);
    assert_eq!(applied_values(&set).mount_flags(), StoredValue::Empty);
    assert_eq!(applied_values(&set).are_secrets(&Secrets::default()), Some(true));
    let larger = scene.apply(&[volume("db", "capacity_max = \"2GiB\"")]).await;
    assert_eq!(larger.words(), ["update"]);
}

/// Returns the hidden values that the set recorded for volume `db`.
fn applied_values(set: &SetLedger) -> AppliedValues<'_> {
    let (volume, owned) = set.set().owned().next().unwrap();
    assert_eq!(*volume, key("db"));
    set.set().applied_values(volume, owned)
}

/// Returns the external ID that the set recorded for volume `db`.
async fn recorded(scene: &Scene) -> Option<String> {
    let set = scene.set().await;
    let data = set.set().ownership(&key("db"))?.data.identity().cloned();
    Some(data?.external_id.to_string())
}

/// A set that an earlier version wrote has no record of the data. A read fills it in, and never again.
#[tokio::test]
async fn a_read_records_the_data_of_an_owned_volume_once() {
    let scene = Scene::new();
    let desired = [volume("db", "")];
    scene.apply(&desired).await;
    let first = recorded(&scene).await.expect("a create records the data");
    let forgets = |set: &mut nomad_csi_plan::LedgerSet| {
        set.replace_data(&key("db"), nomad_csi_plan::RecordedData::Unrecorded);
    };
    scene.set().await.update(forgets).await.unwrap();
    assert_eq!(recorded(&scene).await, None);
    assert_eq!(scene.apply(&desired).await.words(), ["unchanged"]);
    assert_eq!(recorded(&scene).await, Some(first.clone()));
    let other =
        |volume: &mut nomad_csi_model::Volume| volume.external_id = Some("vol-other".into());
    scene.server.change(&key("db"), other);
    assert_eq!(scene.apply(&desired).await.words(), ["blocked"]);
    assert_eq!(recorded(&scene).await, Some(first));
}

/// The registration is gone, and no provider was asked: an empty volume is planned as such, and its data
/// is recorded in place of the old data.
#[tokio::test]
async fn a_recreated_volume_has_the_new_data_on_record() {
    let scene = Scene::new();
    let desired = [volume("db", "")];
    scene.apply(&desired).await;
    scene.server.remove(&key("db"));
    let named = [volume("db", "external_id = \"vol-kept\"")];
    assert_eq!(scene.apply(&named).await.words(), ["blocked"], "other data");
    assert_eq!(scene.apply(&desired).await.words(), ["recreate"]);
    let now = scene.server.read_volume(&key("db")).await.unwrap();
    let now = now.expect("it exists").value.remote_id().to_string();
    assert_eq!(recorded(&scene).await, Some(now));
}
