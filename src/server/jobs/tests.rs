//! Jobs from submission to the end, with a node that reports what the test says.

mod children;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::StateLimits;
use crate::error::{JobError, ServerError};
use crate::fake::{AppendFault, FakeAgent};
use crate::jobs::LocalControlPlane;
use crate::jobs::forgetting::forgotten;
use crate::journal::JournalErrorKind;
use crate::sealer::Sealer as _;
use nomad_csi_claims::place::Decision;
use nomad_csi_claims::state::samples::jobs::{alloc_placed, job, job_key, job_registered};
use nomad_csi_claims::state::{
    EvaluationRecord, EvaluationStatus, EventKind, JobEvent, State, Table, Topic,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    AccessMode, AllocId, AllocReport, AttachmentMode, ClientStatus, CsiPluginConfig, CsiPluginType,
    EvaluationId, Job, JobKey, JobType, JobVolume, JobVolumeKind, Namespace, Node, NodeId,
    ReschedulePolicy, SecretOwner, TaskEnvironment, VolumeAlias,
};
use nomad_csi_ports::{AssignedAlloc, Clock as _, ControlPlane as _, Rpc, StatusCode};
use nomad_csi_testing::{Fault, PluginSettings};

async fn agent() -> FakeAgent {
    FakeAgent::start(PluginSettings::default()).await.unwrap()
}

fn node(agent: &FakeAgent) -> LocalControlPlane {
    agent.services.control_plane(NodeId::new(FakeAgent::NODE))
}

/// Job `web`, whose task has a secret in its environment.
fn web() -> Job {
    let mut job = job(&job_key("web"));
    let task = &mut job.groups[0].tasks[0];
    task.environment = TaskEnvironment::from_iter([("PASSWORD", "hunter2")]);
    job
}

/// Job `web` with volume `data`.
fn writer(id: &str) -> Job {
    let mut job = web();
    job.id = id.into();
    job.name = id.to_owned();
    let volume = JobVolume {
        source: "data".to_owned(),
        read_only: false,
        per_alloc: false,
        sticky: false,
        kind: JobVolumeKind::Csi {
            access_mode: Some(AccessMode::SingleNodeWriter),
            attachment_mode: Some(AttachmentMode::FileSystem),
            mount_options: None,
        },
    };
    job.groups[0].volumes.insert(alias(), volume);
    job
}

fn alias() -> VolumeAlias {
    VolumeAlias::new("data")
}

/// Waits until the state is as the test needs it.
async fn until(agent: &FakeAgent, is_ready: impl Fn(&State) -> bool) {
    assert!(is_reached(agent, is_ready).await, "the state is never reached");
}

/// Returns whether the state becomes like this in ten minutes.
async fn is_reached(agent: &FakeAgent, is_ready: impl Fn(&State) -> bool) -> bool {
    let tables = [Table::Jobs, Table::Allocs, Table::Claims, Table::Nodes];
    let topics = |_: &State| tables.map(Topic::all).into();
    let reached = agent.cell.wait_until(topics, is_ready);
    let reached = tokio::time::timeout(Duration::from_secs(600), reached).await;
    reached.is_ok()
}

/// Waits until an allocation must stop.
async fn until_stopping(agent: &FakeAgent, alloc: &AllocId) {
    until(agent, |state| {
        let record = state.alloc(alloc).unwrap();
        record.placement.as_ref().unwrap().stop_reason.is_some()
    })
    .await;
}

async fn assigned_of(agent: &FakeAgent, id: &str) -> AssignedAlloc {
    let key = job_key(id);
    until(agent, |state| {
        let mut allocs = state.allocs_of_job(&key);
        allocs.any(|(_, alloc, _)| !alloc.has_ended)
    })
    .await;
    let all = node(agent).assigned(None).await.unwrap().allocs;
    let of_job = all.into_iter().find(|one| one.job.id == key.id);
    of_job.unwrap()
}

async fn report(agent: &FakeAgent, alloc: &AllocId, status: ClientStatus) {
    let report = AllocReport { status, description: String::new(), tasks: Default::default() };
    node(agent).report(alloc, report).await.unwrap();
}

fn evaluation(agent: &FakeAgent, id: &EvaluationId) -> EvaluationRecord {
    let found = agent.cell.read(|state| state.evaluation(id).map(|(_, record)| record.clone()));
    found.unwrap()
}

async fn evaluated(agent: &FakeAgent, id: &EvaluationId) -> EvaluationRecord {
    until(agent, |state| {
        let found = state.evaluation(id);
        found.is_some_and(|(_, one)| one.result.status != EvaluationStatus::Pending)
    })
    .await;
    evaluation(agent, id)
}

#[tokio::test(start_paused = true)]
async fn a_submitted_job_is_placed_and_its_settings_reach_the_node_only() {
    let agent = agent().await;
    let written = agent.services.jobs.register(web(), None).await.unwrap();
    let done = evaluated(&agent, &written.evaluation.unwrap()).await;
    assert_eq!(done.result.status, EvaluationStatus::Complete);
    let assigned = assigned_of(&agent, "web").await;
    assert_eq!(assigned.name(), "web.g[0]");
    let task = &assigned.task_group().unwrap().tasks[0];
    assert_eq!(task.environment.get("PASSWORD"), Some("hunter2"));
    let state = agent.state();
    let record = state.job(&job_key("web")).unwrap();
    let recorded = &record.current.job.groups[0].tasks[0].environment;
    assert_eq!(recorded.get("PASSWORD"), None);
    let owner = SecretOwner::Job(job_key("web"));
    let opened = agent.sealer.open(&owner, &record.current.settings);
    assert_eq!(opened.unwrap().keys().collect::<Vec<_>>(), ["0/0"]);
}

#[tokio::test(start_paused = true)]
async fn the_same_job_again_changes_nothing_but_is_evaluated() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    let first = jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    let again = jobs.register(web(), None).await.unwrap();
    assert_eq!(again.job_modify_index, first.job_modify_index);
    assert_ne!(again.evaluation, first.evaluation);
    evaluated(&agent, &again.evaluation.unwrap()).await;
    assert_eq!(assigned_of(&agent, "web").await.id, alloc);
    let mut changed = web();
    let task = &mut changed.groups[0].tasks[0];
    task.environment = TaskEnvironment::from_iter([("PASSWORD", "other")]);
    let plan = jobs.plan(&changed).unwrap();
    assert!(plan.is_changed && plan.exists);
    assert_eq!(plan.decision.stop.len(), 1);
    let updated = jobs.register(changed, None).await.unwrap();
    assert!(updated.job_modify_index > first.job_modify_index);
    evaluated(&agent, &updated.evaluation.unwrap()).await;
    let version = |state: &State| state.job(&job_key("web")).unwrap().current.version;
    assert_eq!(agent.cell.read(version), 1);
}

#[tokio::test(start_paused = true)]
async fn an_enforced_index_must_be_that_of_the_job() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    let written = jobs.register(web(), Some(0)).await.unwrap();
    let index = written.job_modify_index;
    for (expected, text) in [
        (0, "Enforcing job modify index 0: job already exists".to_owned()),
        (
            7,
            format!(
                "Enforcing job modify index 7: job exists with conflicting job modify index: {index}"
            ),
        ),
    ] {
        let refused = jobs.register(web(), Some(expected)).await.unwrap_err();
        assert_eq!(refused.text(), text);
    }
    jobs.register(web(), Some(index)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_invalid_job_is_refused_with_all_reasons() {
    let agent = agent().await;
    let mut job = web();
    job.groups[0].tasks[0].driver = String::new();
    let refused = agent.services.jobs.register(job, None).await.unwrap_err();
    assert!(matches!(refused, ServerError::Job(JobError::Invalid { .. })), "{refused:?}");
    assert!(agent.cell.read(|state| state.jobs().len() == 0));
}

/// Nomad's clients refuse it as well (`user.denylist`), when the task starts.
#[tokio::test(start_paused = true)]
async fn a_task_of_root_is_refused_unless_the_operator_allows_it() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    for (user, driver, is_refused) in [
        ("root", "exec", true),
        ("0", "exec", true),
        ("00", "exec", true),
        ("nobody", "exec", false),
        ("10", "exec", false),
        ("", "exec", false),
        ("root", "raw_exec", false),
    ] {
        let mut job = web();
        let task = &mut job.groups[0].tasks[0];
        user.clone_into(&mut task.user);
        driver.clone_into(&mut task.driver);
        let planned = jobs.register(job.clone(), None).await;
        let text = planned.err().map(|refused| refused.text());
        let says_why =
            |text: &String| text.contains("Task") && text.contains("`--allow-root-tasks`");
        assert_eq!(text.is_some(), is_refused, "{user} {driver}: {text:?}");
        assert!(text.iter().all(says_why), "{text:?}");
        let codes: Vec<_> = jobs.problems(&job).iter().map(|one| one.code).collect();
        let expected = is_refused.then_some(Code::JobRootTask);
        assert_eq!(codes, Vec::from_iter(expected), "{user} {driver}");
        let allowing = jobs.clone().with_root_tasks(true);
        allowing.register(job.clone(), None).await.unwrap();
        let plugin = CsiPluginConfig::new("p".into(), CsiPluginType::Monolith);
        job.groups[0].tasks[0].csi_plugin = Some(plugin);
        jobs.register(job, None).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_too_large_is_refused() {
    let agent = agent().await;
    let mut many = web();
    many.groups[0].count = 1_001;
    let mut long = web();
    long.groups[0].count = 1_000;
    let task = &mut long.groups[0].tasks[0];
    task.environment = TaskEnvironment::from_iter([("A", "a".repeat(70_000))]);
    let refused = async |job| {
        let refused = agent.services.jobs.register(job, None).await.unwrap_err();
        refused.text()
    };
    let text = refused(many).await;
    assert!(text.contains("1001 allocations"), "{text}");
    let text = refused(long.clone()).await;
    assert!(text.contains("with 1000 allocations"), "{text}");
    long.groups[0].count = 1;
    agent.services.jobs.register(long, None).await.unwrap();
}

/// A drain ends by itself, one of an empty node at once, and a change of an operator is not lost.
#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_nothing_is_left() {
    let agent = agent().await;
    let id = NodeId::new(FakeAgent::NODE);
    let drain = async || {
        let start = |node: &mut Node| (node.is_eligible, node.is_draining) = (false, true);
        agent.services.jobs.set_node(&id, start).await.unwrap()
    };
    let is_draining = |state: &State| state.node(&id).unwrap().is_draining;
    let started = drain().await;
    until(&agent, |state| !is_draining(state)).await;
    assert!(agent.cell.read(State::nodes_index) > started);
    assert!(!agent.state().node(&id).unwrap().is_eligible);
    let accept = |node: &mut Node| node.is_eligible = true;
    agent.services.jobs.set_node(&id, accept).await.unwrap();
    agent.services.jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    report(&agent, &alloc, ClientStatus::Running).await;
    drain().await;
    until_stopping(&agent, &alloc).await;
    assert!(agent.cell.read(is_draining), "it still runs");
    report(&agent, &alloc, ClientStatus::Complete).await;
    until(&agent, |state| !is_draining(state)).await;
}

/// A full disk does not keep a node draining until something else happens.
#[tokio::test(start_paused = true)]
async fn a_drain_whose_end_was_not_recorded_ends_later() {
    let agent = agent().await;
    let id = NodeId::new(FakeAgent::NODE);
    let start = |node: &mut Node| (node.is_eligible, node.is_draining) = (false, true);
    agent.services.jobs.set_node(&id, start).await.unwrap();
    let full = AppendFault::NotWritten(JournalErrorKind::DiskFull);
    agent.journal.fail_next([full, full]);
    until(&agent, |state| !state.node(&id).unwrap().is_draining).await;
    assert_eq!(agent.journal.faults_left(), 0);
}

/// The stop returns at once; the volume is given back when the node reports the end (B31).
#[tokio::test(start_paused = true)]
async fn a_stopped_job_gives_its_volume_back_when_its_tasks_have_ended() {
    let agent = agent().await;
    agent.volumes.create(vec![FakeAgent::request("data").into()]).await.unwrap();
    agent.services.jobs.register(writer("web"), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    let target = node(&agent).mount(&alloc, &alias()).await.unwrap();
    assert_eq!(node(&agent).mount(&alloc, &alias()).await, Ok(target));
    report(&agent, &alloc, ClientStatus::Running).await;
    agent.services.jobs.stop(&job_key("web"), false).await.unwrap();
    until_stopping(&agent, &alloc).await;
    assert!(assigned_of(&agent, "web").await.wants_stop);
    assert!(agent.cell.read(|state| state.claims_of(&alloc).next().is_some()));
    report(&agent, &alloc, ClientStatus::Complete).await;
    until(&agent, |state| state.claims_of(&alloc).next().is_none()).await;
    assert_eq!(agent.backend.take_violations(), Vec::<String>::new());
}

/// Rule 16: tasks that may write keep their volume, whatever they are doing, unless an operator cuts them
/// off by name.
#[tokio::test(start_paused = true)]
async fn a_volume_is_not_released_under_running_tasks() {
    for status in [None, Some(ClientStatus::Pending), Some(ClientStatus::Running)] {
        for stops in [false, true] {
            for is_detach in [false, true] {
                let context = format!("{status:?}, stops {stops}, detach {is_detach}");
                release_of_running_tasks(status.clone(), stops, is_detach, &context).await;
            }
        }
    }
}

async fn release_of_running_tasks(
    status: Option<ClientStatus>,
    stops: bool,
    is_detach: bool,
    context: &str,
) {
    let agent = agent().await;
    let created = agent.volumes.create(vec![FakeAgent::request("data").into()]);
    created.await.unwrap();
    let jobs = &agent.services.jobs;
    jobs.register(writer("web"), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    node(&agent).mount(&alloc, &alias()).await.unwrap();
    if let Some(status) = status {
        report(&agent, &alloc, status).await;
    }
    if stops {
        jobs.stop(&job_key("web"), false).await.unwrap();
    }
    let (claims, key) = (&agent.services.claims, FakeAgent::key("data"));
    let wait = Duration::from_secs(60);
    if is_detach {
        let at = NodeId::new(FakeAgent::NODE);
        let refused = claims.detach(&key, &at, wait).await.unwrap_err();
        assert_eq!(refused.claiming_allocs(), [alloc.to_string()], "{context}");
    } else {
        let refused = claims.release(&key, &alloc, None, wait).await.unwrap_err();
        let expected = format!(
            "cannot release volume `data`: tasks that use it may still run: allocation `{alloc}` of job \
             `web` may still write on node `{}`",
            FakeAgent::NODE
        );
        assert_eq!(refused.text(), expected, "{context}");
        let help = refused.help();
        assert!(help[0].contains("nomad-csi job stop web"), "{context}: {help:?}");
        assert!(help[1].contains(&format!("--approve cuts-off:{alloc}")), "{context}: {help:?}");
    }
    assert_eq!(agent.backend.targets().len(), 1, "{context}");
    let forced = agent.volumes.deregister(key.clone(), true).await.unwrap_err();
    assert!(matches!(forced, ServerError::VolumeInUse { .. }), "{context}: {forced:?}");
    if stops {
        report(&agent, &alloc, ClientStatus::Failed).await;
        until(&agent, |state| state.claims_of(&alloc).next().is_none()).await;
        return;
    }
    let cut_off = claims.cut_off(&key, &alloc, None, wait).await.unwrap();
    assert_eq!(cut_off.0, 1, "{context}: its tasks are killed first");
    assert_eq!(agent.backend.targets().len(), 1, "{context}");
    let forced = agent.volumes.deregister(key.clone(), true).await.unwrap_err();
    assert!(matches!(forced, ServerError::VolumeInUse { .. }), "{context}: {forced:?}");
    let again = node(&agent).mount(&alloc, &alias()).await.unwrap_err();
    assert!(again.is_final, "{context}: {again:?}");
    node(&agent).note_cut_off(&alloc, &alias()).await.unwrap();
    until(&agent, |state| state.claims_of(&alloc).next().is_none()).await;
    assert!(agent.backend.targets().is_empty(), "{context}");
    // The allocation lives on without its volume, and its end is reported as ever.
    report(&agent, &alloc, ClientStatus::Complete).await;
    assert_eq!(agent.backend.take_violations(), Vec::<String>::new(), "{context}");
}

/// Rule 19: whatever the node reports, and whether the plugin is there, what is mounted stays until the allocation has ended. What
/// the sweep waits for is shown.
#[tokio::test(start_paused = true)]
async fn a_returned_node_is_swept_after_its_allocations_have_ended() {
    for status in [None, Some(ClientStatus::Pending), Some(ClientStatus::Running)] {
        let agent = agent().await;
        let created = agent.volumes.create(vec![FakeAgent::request("data").into()]);
        created.await.unwrap();
        let jobs = &agent.services.jobs;
        jobs.register(writer("web"), None).await.unwrap();
        let alloc = assigned_of(&agent, "web").await.id;
        node(&agent).mount(&alloc, &alias()).await.unwrap();
        if let Some(status) = status.clone() {
            report(&agent, &alloc, status).await;
        }
        jobs.stop(&job_key("web"), false).await.unwrap();
        let (claims, id) = (&agent.services.claims, NodeId::new(FakeAgent::NODE));
        assert!(claims.check_unheard(&id).is_err(), "{status:?}");
        claims.fence(&id, None).await.unwrap();
        claims.unfence(&id).await.unwrap();
        let is_swept = |state: &State| state.node_loss(&id).is_none();
        assert!(!is_reached(&agent, is_swept).await, "{status:?}");
        assert_eq!(agent.backend.targets().len(), 1, "{status:?}");
        let waits = format!("waits for the end of allocation `{alloc}`");
        let shown = claims.sweep_progress(&id);
        assert!(shown.contains(&waits), "{shown}");
        agent.observe(false).await;
        report(&agent, &alloc, ClientStatus::Complete).await;
        assert!(!is_reached(&agent, is_swept).await, "{status:?}");
        let shown = claims.sweep_progress(&id);
        assert!(shown.contains("waits for plugin `"), "{shown}");
        agent.observe(true).await;
        until(&agent, is_swept).await;
        assert!(agent.backend.targets().is_empty(), "{status:?}");
        let violations = agent.backend.take_violations();
        assert_eq!(violations, Vec::<String>::new(), "{status:?}");
    }
}

/// Also by force, and also while its plugin is away.
#[tokio::test(start_paused = true)]
async fn an_ended_allocation_gives_its_volume_back_without_an_approval() {
    let agent = agent().await;
    let created = agent.volumes.create(vec![FakeAgent::request("data").into()]);
    created.await.unwrap();
    let jobs = &agent.services.jobs;
    jobs.register(writer("web"), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    node(&agent).mount(&alloc, &alias()).await.unwrap();
    agent.observe(false).await;
    report(&agent, &alloc, ClientStatus::Failed).await;
    let (claims, key) = (&agent.services.claims, FakeAgent::key("data"));
    let wait = Duration::from_secs(1);
    let released = claims.release(&key, &alloc, None, wait).await.unwrap();
    assert_eq!(released.0, 1, "it waits for its plugin");
    agent.volumes.deregister(key, true).await.unwrap();
    agent.observe(true).await;
    until(&agent, |state| state.claims_of(&alloc).next().is_none()).await;
    assert_eq!(agent.backend.take_violations(), Vec::<String>::new());
}

/// One job whose settings cannot be opened stops no other one.
#[tokio::test(start_paused = true)]
async fn a_job_that_cannot_be_opened_freezes_no_other_allocation() {
    let agent = agent().await;
    agent.services.jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    let EventKind::Job { job: bad, mut event } = job_registered(&job_key("bad")) else {
        panic!("another event")
    };
    let JobEvent::Registered { job, .. } = &mut *event else { panic!("another event") };
    let plugin = CsiPluginConfig::new("ebs".into(), CsiPluginType::Monolith);
    job.groups[0].tasks[0].csi_plugin = Some(plugin);
    agent.record_event(EventKind::Job { job: bad, event }).await;
    let placed = alloc_placed(&job_key("bad"), "a-bad", FakeAgent::NODE);
    agent.record_event(placed).await;
    let assigned = node(&agent).assigned(None).await.unwrap();
    let readable: Vec<_> = assigned.allocs.iter().map(|one| &one.id).collect();
    assert_eq!(readable, [&alloc]);
    let bad = assigned.unreadable.iter().find(|one| one.id.as_str() == "a-bad");
    let bad = bad.unwrap();
    assert!(!bad.wants_stop);
    assert!(!bad.reason.is_empty());
    assert_eq!(bad.plugins, ["ebs".into()].into(), "they are gone when it has ended");
}

/// Only the node knows when its process is gone.
#[tokio::test(start_paused = true)]
async fn an_ended_allocation_stays_while_it_is_an_instance_of_a_plugin() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    agent.observe_alloc(alloc.as_str(), true).await;
    let left = async || node(&agent).assigned(None).await.unwrap().left_plugins;
    assert_eq!(left().await, [], "it has not ended");
    jobs.stop(&job_key("web"), true).await.unwrap();
    report(&agent, &alloc, ClientStatus::Failed).await;
    assert_eq!(left().await, [(alloc.clone(), FakeAgent::PLUGIN.into())]);
    let is_forgotten = |state: &State| state.alloc(&alloc).is_none();
    assert!(!is_reached(&agent, is_forgotten).await);
    agent.end_alloc(alloc.as_str()).await;
    assert_eq!(left().await, []);
    until(&agent, is_forgotten).await;
}

/// A volume waits for the instance that may carry out its call.
#[tokio::test(start_paused = true)]
async fn what_is_advised_for_an_instance_ends_the_wait_for_it() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    agent.volumes.create(vec![FakeAgent::request("data").into()]).await.unwrap();
    jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    agent.observe_alloc(alloc.as_str(), true).await;
    let key = FakeAgent::key("data");
    let bind = async |instance: &str| {
        let expanding = EventKind::VolumeExpandIntended {
            key: key.clone(),
            to: Default::default(),
            instance: Some(AllocId::new(instance)),
            request: None,
        };
        agent.record_event(expanding).await;
    };
    let help = async || {
        let refused = agent.volumes.deregister(key.clone(), false).await.unwrap_err();
        refused.help().join("\n")
    };
    bind(alloc.as_str()).await;
    let stop = format!("`nomad-csi alloc stop {alloc}`");
    assert!(help().await.contains(&stop), "{}", help().await);
    jobs.stop_alloc(&alloc).await.unwrap();
    until_stopping(&agent, &alloc).await;
    report(&agent, &alloc, ClientStatus::Complete).await;
    // It has ended, and only its node knows whether its process has.
    let ended = help().await;
    assert!(!ended.contains("alloc stop"), "{ended}");
    assert!(ended.contains(&format!("the agent on node `{}`", FakeAgent::NODE)), "{ended}");
    let left = node(&agent).assigned(None).await.unwrap().left_plugins;
    assert_eq!(left, [(alloc.clone(), FakeAgent::PLUGIN.into())], "that agent is asked");
    agent.end_alloc(alloc.as_str()).await;
    bind(FakeAgent::ALLOC).await;
    let unknown = help().await;
    assert!(!unknown.contains("alloc stop"), "{unknown}");
    for part in ["without its `--plugin-endpoint`", "restart the machine", FakeAgent::NODE] {
        assert!(unknown.contains(part), "{unknown}");
    }
    agent.end_alloc(FakeAgent::ALLOC).await;
    agent.volumes.deregister(key, false).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_names_the_plugin_instances_that_its_deletion_waits_for() {
    let agent = agent().await;
    agent.add_namespaces(&["ops"]).await;
    let ops = Namespace::new("ops");
    let job = Job { namespace: ops.clone(), ..web() };
    let key = JobKey::new(ops.clone(), job.id.clone());
    agent.services.jobs.register(job, None).await.unwrap();
    until(&agent, |state| state.allocs_of_job(&key).next().is_some()).await;
    let first = |state: &State| state.allocs_of_job(&key).next().map(|(id, ..)| id.clone());
    let alloc = agent.cell.read(first).unwrap();
    agent.observe_alloc(alloc.as_str(), true).await;
    agent.services.jobs.stop(&key, true).await.unwrap();
    until_stopping(&agent, &alloc).await;
    let running = agent.services.namespaces.delete(&ops).await.unwrap_err();
    assert_eq!(running.notes(), Vec::<String>::new(), "it runs");
    report(&agent, &alloc, ClientStatus::Complete).await;
    let refused = agent.services.namespaces.delete(&ops).await.unwrap_err();
    let expected = format!(
        "allocation `{alloc}` of job `web` has ended, and node `{}` has not reported that the process of its plugin `{}` is gone",
        FakeAgent::NODE,
        FakeAgent::PLUGIN
    );
    assert_eq!(refused.notes(), [expected]);
    let help = refused.help().join("\n");
    assert!(help.contains(&format!("the agent on node `{}`", FakeAgent::NODE)), "{help}");
    agent.end_alloc(alloc.as_str()).await;
    agent.services.namespaces.delete(&ops).await.unwrap();
}

/// A step that fails is repeated, and the mount is neither refused nor done.
#[tokio::test(start_paused = true)]
async fn a_mount_whose_step_fails_tells_the_step_and_its_error_once_for_all_attempts() {
    let agent = agent().await;
    agent.volumes.create(vec![FakeAgent::request("data").into()]).await.unwrap();
    agent.backend.inject_faults(Rpc::NodeStageVolume, [Fault::Fail(StatusCode::Unavailable); 50]);
    agent.services.jobs.register(writer("first"), None).await.unwrap();
    let alloc = assigned_of(&agent, "first").await.id;
    let control = node(&agent);
    let name = alias();
    let mut mount = std::pin::pin!(control.mount(&alloc, &name));
    let delay = async {
        let mut known = None;
        loop {
            let delay = control.wait_for_mount_delay(&alloc, &name, known.as_ref()).await.unwrap();
            if delay.message.contains(" fails: ") {
                return delay;
            }
            known = Some(delay);
        }
    };
    let delay = tokio::select! {
        delay = delay => delay,
        mounted = &mut mount => panic!("the mount ended: {mounted:?}"),
    };
    assert!(delay.message.starts_with("volume `data`: NodeStageVolume fails: "), "{delay:?}");
    assert!(delay.message.contains("scripted Unavailable"), "{delay:?}");
    let again = control.wait_for_mount_delay(&alloc, &name, Some(&delay));
    let again = tokio::select! {
        again = tokio::time::timeout(Duration::from_secs(600), again) => again,
        mounted = &mut mount => panic!("the mount ended: {mounted:?}"),
    };
    assert!(again.is_err(), "another attempt is no news: {again:?}");
    agent.backend.clear_faults();
    mount.await.unwrap();
}

/// A second writer waits for the first, and continues by itself.
#[tokio::test(start_paused = true)]
async fn a_job_waits_for_a_volume_and_starts_by_itself() {
    let agent = agent().await;
    let first = agent.services.jobs.register(writer("first"), None).await.unwrap();
    assert!(first.warnings[0].contains("missing CSI volume(s) data"), "{first:?}");
    let done = evaluated(&agent, first.evaluation.as_ref().unwrap()).await;
    let waiting = evaluation(&agent, done.result.blocked.as_ref().unwrap());
    assert_eq!(waiting.result.status, EvaluationStatus::Blocked);
    agent.volumes.create(vec![FakeAgent::request("data").into()]).await.unwrap();
    let alloc = assigned_of(&agent, "first").await.id;
    node(&agent).mount(&alloc, &alias()).await.unwrap();
    let second = agent.services.jobs.register(writer("second"), None).await.unwrap();
    let done = evaluated(&agent, second.evaluation.as_ref().unwrap()).await;
    let reasons: Vec<_> = done.result.failures["g"].nodes.values().flatten().collect();
    let node_name = agent.cell.read(|state| {
        let node = state.node(&NodeId::new(FakeAgent::NODE));
        node.map(|node| node.name.clone()).unwrap()
    });
    let reason = format!(
        "CSI volume data has exhausted its available writer claims: allocation {alloc} of job `first` holds it on node \
         `{node_name}`"
    );
    assert_eq!(reasons, [reason.as_str()]);
    report(&agent, &alloc, ClientStatus::Complete).await;
    agent.services.jobs.stop(&job_key("first"), false).await.unwrap();
    let alloc = assigned_of(&agent, "second").await.id;
    node(&agent).mount(&alloc, &alias()).await.unwrap();
}

/// The replacement of a stopped allocation waits for the claim, and is woken by its end (W38).
#[tokio::test(start_paused = true)]
async fn a_refused_mount_is_woken_by_the_release() {
    let agent = agent().await;
    agent.volumes.create(vec![FakeAgent::request("data").into()]).await.unwrap();
    agent.services.jobs.register(writer("web"), None).await.unwrap();
    let old = assigned_of(&agent, "web").await.id;
    let node = node(&agent);
    node.mount(&old, &alias()).await.unwrap();
    agent.services.jobs.stop_alloc(&old).await.unwrap();
    until(&agent, |state| state.allocs_of_job(&job_key("web")).count() == 2).await;
    let all = node.assigned(None).await.unwrap().allocs;
    let new = all.into_iter().find(|one| one.id != old).unwrap().id;
    let refused = node.mount(&new, &alias()).await.unwrap_err();
    assert!(!refused.is_final, "{refused}");
    let holder = format!("allocation `{old}` writes on node");
    assert!(refused.message.contains(&holder), "{refused}");
    let alias = alias();
    let mut woken = std::pin::pin!(node.wait_for_claim_change(&new, &alias));
    assert!(is_pending(woken.as_mut()).await);
    report(&agent, &old, ClientStatus::Complete).await;
    woken.await.unwrap();
    let mounted = async {
        while node.mount(&new, &alias).await.is_err() {
            node.wait_for_claim_change(&new, &alias).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), mounted).await.unwrap();
}

async fn is_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
    tokio::time::timeout(Duration::from_millis(1), future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn a_purged_job_disappears_at_once_and_is_forgotten_after_its_allocations() {
    let agent = agent().await;
    let key = job_key("web");
    agent.services.jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    let stopped = agent.services.jobs.stop(&key, true).await.unwrap();
    assert!(agent.services.jobs.job(&key).is_err());
    report(&agent, &alloc, ClientStatus::Complete).await;
    until(&agent, |state| state.alloc(&alloc).is_none()).await;
    let evaluation = stopped.evaluation.unwrap();
    assert!(agent.cell.read(|state| state.evaluation(&evaluation).is_some()));
    agent.clock.advance(Duration::from_secs(61));
    until(&agent, |state| state.job(&key).is_none()).await;
    let nothing = agent.services.jobs.stop(&key, false).await.unwrap();
    assert_eq!(nothing.evaluation, None);
}

/// A job that is over is kept for a day. One whose allocation can run again stays.
#[tokio::test(start_paused = true)]
async fn a_job_that_is_over_is_forgotten_after_a_day() {
    let agent = agent().await;
    let mut batch = web();
    batch.job_type = JobType::Batch;
    batch.id = "batch".into();
    let mut idle = web();
    idle.id = "idle".into();
    let ids = ["batch", "web", "idle"];
    for job in [batch, web(), idle] {
        agent.services.jobs.register(job, None).await.unwrap();
    }
    let mut allocs = vec![];
    for id in ids {
        allocs.push(assigned_of(&agent, id).await.id);
    }
    agent.services.jobs.stop(&job_key("web"), false).await.unwrap();
    for alloc in &allocs[..2] {
        report(&agent, alloc, ClientStatus::Complete).await;
    }
    let has_ended = |state: &State, id: &AllocId| state.alloc(id).is_some_and(|a| a.has_ended);
    until(&agent, |state| allocs[..2].iter().all(|id| has_ended(state, id))).await;
    let day = 24 * 3_600 * 1_000_000_000;
    let now = agent.clock.now();
    let forgotten_at = |at: i64| {
        agent.cell.read(|state| {
            let record = state.job(&job_key("batch")).unwrap();
            forgotten(state, record, &Decision::default(), at)
        })
    };
    assert_eq!(forgotten_at(now + day - 1).look_again_at, Some(now + day));
    assert!(forgotten_at(now + day - 1).events.is_empty());
    assert_eq!(forgotten_at(now + day).events.len(), 1);
    agent.clock.advance(Duration::from_nanos(day.unsigned_abs()));
    let known = |state: &State| ids.map(|id| state.job(&job_key(id)).is_some());
    until(&agent, |state| known(state) == [false, false, true]).await;
    assert!(agent.cell.read(|state| state.alloc(&allocs[0]).is_none()));
}

/// The policy counts more ends than people are shown.
#[tokio::test(start_paused = true)]
async fn a_failing_job_is_placed_as_often_as_its_policy_says() {
    for attempts in [0, 9, 10, 13] {
        let agent = agent().await;
        let mut job = web();
        job.job_type = JobType::Batch;
        job.groups[0].reschedule = Some(ReschedulePolicy {
            attempts,
            interval: Duration::from_secs(24 * 3600),
            delay: Duration::from_secs(5),
            ..ReschedulePolicy::of_type(JobType::Batch)
        });
        agent.services.jobs.register(job, None).await.unwrap();
        let mut seen = BTreeSet::new();
        for _ in 0..=attempts {
            let alloc = assigned_of(&agent, "web").await.id;
            report(&agent, &alloc, ClientStatus::Failed).await;
            until(&agent, |state| state.alloc(&alloc).is_none_or(|it| it.has_ended)).await;
            assert!(seen.insert(alloc));
            agent.clock.advance(Duration::from_secs(6));
        }
        let again = agent.services.jobs.evaluate(&job_key("web")).await.unwrap();
        evaluated(&agent, &again.evaluation.unwrap()).await;
        let runs = agent.cell.read(|state| {
            let mut allocs = state.allocs_of_job(&job_key("web"));
            allocs.any(|(_, alloc, _)| !alloc.has_ended)
        });
        assert!(!runs, "{attempts} attempts");
    }
}

/// What was recorded with a later time waits for nothing.
#[tokio::test(start_paused = true)]
async fn a_job_is_placed_again_although_the_clock_was_set_back() {
    let agent = agent().await;
    agent.services.jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    report(&agent, &alloc, ClientStatus::Failed).await;
    until(&agent, |state| state.alloc(&alloc).is_some_and(|it| it.has_ended)).await;
    agent.clock.set_back(Duration::from_secs(10 * 365 * 24 * 3600));
    let next = assigned_of(&agent, "web").await.id;
    assert_ne!(next, alloc);
}

/// Nothing more is placed and the job says why, the plugin is placed all the same, and what is forgotten makes room.
#[tokio::test(start_paused = true)]
async fn a_full_state_is_the_reason_that_a_job_waits() {
    let limits = StateLimits { allocations: 1, ..StateLimits::default() };
    let agent = agent().await.restart_within(limits).await.unwrap();
    let jobs = &agent.services.jobs;
    jobs.register(web(), None).await.unwrap();
    let first = assigned_of(&agent, "web").await.id;
    let mut api = web();
    (api.id, api.name) = ("api".into(), "api".to_owned());
    let written = jobs.register(api, None).await.unwrap();
    let waiting = evaluated(&agent, &written.evaluation.unwrap()).await.result;
    let failure = &waiting.failures["g"];
    assert_eq!(failure.queued, 1);
    assert_eq!(
        failure.nodes[&NodeId::new(FakeAgent::NODE)],
        ["the limit `allocations` of 1 is reached"]
    );
    let index = || agent.cell.read(State::index);
    let recorded = index();
    for _ in 0..60 {
        agent.clock.advance(Duration::from_secs(1));
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(index(), recorded, "the same reason is recorded once");
    let mut plugin = web();
    (plugin.id, plugin.name) = ("ebs".into(), "ebs".to_owned());
    let config = CsiPluginConfig::new("ebs".into(), CsiPluginType::Monolith);
    plugin.groups[0].tasks[0].csi_plugin = Some(config);
    jobs.register(plugin, None).await.unwrap();
    let of_plugin = assigned_of(&agent, "ebs").await.id;

    for (job, alloc) in [("web", first), ("ebs", of_plugin)] {
        jobs.stop(&job_key(job), true).await.unwrap();
        report(&agent, &alloc, ClientStatus::Complete).await;
    }
    agent.clock.advance(Duration::from_secs(60));
    assigned_of(&agent, "api").await;
}

/// Clients do not see the settings of a version, so only the agent can submit it again.
#[tokio::test(start_paused = true)]
async fn a_job_returns_to_an_earlier_version_with_its_settings() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    jobs.register(web(), None).await.unwrap();
    let first = assigned_of(&agent, "web").await.id;
    let mut other = web();
    other.groups[0].tasks[0].environment = TaskEnvironment::from_iter([("PASSWORD", "swordfish")]);
    jobs.register(other, None).await.unwrap();
    until_stopping(&agent, &first).await;
    report(&agent, &first, ClientStatus::Complete).await;
    let second = assigned_of(&agent, "web").await.id;
    let agent = {
        let limits = agent.limits();
        agent.restart(limits).await.unwrap()
    };
    let jobs = &agent.services.jobs;
    jobs.revert(&job_key("web"), 0, Some(1)).await.unwrap();
    until_stopping(&agent, &second).await;
    report(&agent, &second, ClientStatus::Complete).await;
    let assigned = assigned_of(&agent, "web").await;
    let task = &assigned.task_group().unwrap().tasks[0];
    assert_eq!(task.environment.get("PASSWORD"), Some("hunter2"));
}

#[tokio::test(start_paused = true)]
async fn nothing_comes_back_that_a_submission_would_not_bring() {
    let agent = agent().await;
    let jobs = &agent.services.jobs;
    let mut as_root = web();
    let task = &mut as_root.groups[0].tasks[0];
    (task.driver, task.user) = ("exec".to_owned(), "root".to_owned());
    jobs.clone().with_root_tasks(true).register(as_root, None).await.unwrap();
    jobs.register(web(), None).await.unwrap();
    let refused = jobs.revert(&job_key("web"), 0, None).await.unwrap_err();
    assert_eq!(refused.code_and_status().0, Code::JobInvalid, "{refused:?}");
    assert_eq!(jobs.job(&job_key("web")).unwrap().current.version, 1);
}

/// The earlier versions give way: a job can be changed as long as its newest version has room.
#[tokio::test(start_paused = true)]
async fn earlier_versions_take_no_room_that_a_job_needs() {
    let agent = agent().await;
    let padded = |fill: char| {
        let mut job = web();
        let fill = fill.to_string().repeat(400 << 10);
        job.groups[0].tasks[0].environment = TaskEnvironment::from_iter([("FILL", fill)]);
        job
    };
    for fill in ['a', 'b', 'c'] {
        agent.services.jobs.register(padded(fill), None).await.unwrap();
    }
    let versions = |agent: &FakeAgent| {
        let record = agent.services.jobs.job(&job_key("web")).unwrap();
        record.versions().map(|one| one.version.version).collect::<Vec<_>>()
    };
    assert_eq!(versions(&agent), [2, 1], "two of them have more than a megabyte");
    let limits = StateLimits { job_bytes: 2 << 20, ..StateLimits::default() };
    let agent = agent.restart_within(limits).await.unwrap();
    let written = agent.services.jobs.register(padded('d'), None).await.unwrap();
    assert_eq!(versions(&agent), [3]);
    assert_eq!(
        written.warnings.first().map(String::as_str),
        Some(
            "the earlier versions of the job are forgotten: the limit `job-bytes` of 2097152 is reached"
        )
    );
}

/// A decision survives the agent: nothing is placed twice.
#[tokio::test(start_paused = true)]
async fn a_restarted_agent_keeps_its_allocations() {
    let agent = agent().await;
    agent.services.jobs.register(web(), None).await.unwrap();
    let alloc = assigned_of(&agent, "web").await.id;
    let limits = agent.limits();
    let agent = agent.restart(limits).await.unwrap();
    let again = agent.services.jobs.evaluate(&job_key("web")).await.unwrap();
    evaluated(&agent, &again.evaluation.unwrap()).await;
    let key: JobKey = job_key("web");
    let allocs = agent.cell.read(|state| {
        let allocs = state.allocs_of_job(&key).map(|(id, ..)| id.clone());
        allocs.collect::<Vec<_>>()
    });
    assert_eq!(allocs, [alloc]);
}
