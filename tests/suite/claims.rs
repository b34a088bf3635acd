//! Claims from a request to a target path and back, over the strict fake plugin: every kind of plugin,
//! every fault of every call, a crash after every event, and seeded histories.
//!
//! The oracle is always the same. CSI is never violated, which the fake plugin checks; the state keeps
//! its invariants; and once every claim is released, nothing is left: no claim, target, staging or
//! attachment.

use std::sync::Arc;
use std::time::Duration;

use nomad_csi_claims::claim::{ClaimProgress, Known, PluginSteps};
use nomad_csi_claims::state::{State, Table, Topic, violations};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, NodeId, VolumeRequest,
};
use nomad_csi_ports::{Rpc, SentSecretsReader as _, StatusCode, verdict_of};
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::{
    ClaimOutcome, MountRequest, RecordedSecrets, ServerError, VolumeLimits, VolumeSubmission,
};
use nomad_csi_testing::{FakeBackend, FakePlugin, Fault, PluginSettings};

/// Longer than every pause between attempts.
pub(super) const LONG: Duration = Duration::from_secs(3_600);

pub(super) const PLUGINS: [PluginSteps; 4] = [
    PluginSteps { attach: true, stage: true },
    PluginSteps { attach: true, stage: false },
    PluginSteps { attach: false, stage: true },
    PluginSteps { attach: false, stage: false },
];

const STEP_RPCS: [Rpc; 6] = [
    Rpc::ControllerPublishVolume,
    Rpc::NodeStageVolume,
    Rpc::NodePublishVolume,
    Rpc::NodeUnpublishVolume,
    Rpc::NodeUnstageVolume,
    Rpc::ControllerUnpublishVolume,
];

pub(super) fn settings(steps: PluginSteps) -> PluginSettings {
    let mut settings = PluginSettings::default();
    if let Some(controller) = &mut settings.controller {
        controller.publish_unpublish_volume = steps.attach;
    }
    if let Some(node) = &mut settings.node {
        node.stage_unstage_volume = steps.stage;
    }
    settings
}

/// An agent with a volume `db` that many may write.
pub(super) async fn agent_with(steps: PluginSteps, mode: AccessMode) -> FakeAgent {
    agent_on(settings(steps), mode).await
}

pub(super) async fn agent_on(settings: PluginSettings, mode: AccessMode) -> FakeAgent {
    let agent = FakeAgent::start(settings).await.unwrap();
    agent.record_start().await;
    let submission = VolumeSubmission { request: request(mode), problems: vec![] };
    agent.volumes.create(vec![submission]).await.unwrap();
    agent
}

pub(super) fn request(mode: AccessMode) -> VolumeRequest {
    let mut request = FakeAgent::request("db");
    request.capabilities =
        vec![Capability { access_mode: mode, attachment_mode: AttachmentMode::FileSystem }];
    request
}

pub(super) fn mount(alloc: &str) -> MountRequest {
    MountRequest {
        volume: FakeAgent::key("db"),
        alloc: AllocId::new(alloc),
        node: Some(NodeId::new(FakeAgent::NODE)),
        alias: None,
        read_only: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
    }
}

pub(super) async fn claim(agent: &FakeAgent, alloc: &str) -> Result<ClaimOutcome, ServerError> {
    agent.services.claims.claim(&mount(alloc), LONG).await
}

pub(super) async fn release(agent: &FakeAgent, alloc: &str) -> Result<usize, ServerError> {
    let (key, alloc) = (FakeAgent::key("db"), AllocId::new(alloc));
    let released = agent.services.claims.release(&key, &alloc, None, LONG);
    Ok(released.await?.0)
}

pub(super) fn is_published(outcome: &ClaimOutcome) -> bool {
    let claim = outcome.claim.as_ref();
    claim.is_some_and(|claim| claim.progress == ClaimProgress::Published)
}

/// Lets time pass in which nothing may happen, on the paused clock.
pub(super) async fn pass(time: Duration) {
    let nothing = tokio::time::timeout(time, std::future::pending::<()>());
    nothing.await.unwrap_err();
}

/// Waits until no claim is left.
pub(super) async fn wait_until_released(agent: &FakeAgent) {
    let topics = |_: &State| vec![Topic::all(Table::Claims)];
    let is_empty = |state: &State| state.all_claims().len() == 0;
    let released = agent.cell.wait_until(topics, is_empty);
    let released = tokio::time::timeout(24 * LONG, released).await;
    assert!(released.is_ok(), "{:#?}", agent.state().all_claims().collect::<Vec<_>>());
}

pub(super) fn assert_nothing_is_left(agent: &FakeAgent, context: &str) {
    let state = agent.state();
    assert_eq!(violations(&state), Vec::<String>::new(), "{context}");
    let claims: Vec<_> = state.all_claims().collect();
    assert!(claims.is_empty(), "{context}: {claims:#?}");
    assert_eq!(state.allocs().len(), 0, "{context}");
    let backend = &agent.backend;
    assert!(backend.targets().is_empty(), "{context}: {:?}", backend.targets());
    assert!(backend.stagings().is_empty(), "{context}: {:?}", backend.stagings());
    assert!(backend.attachments().is_empty(), "{context}: {:?}", backend.attachments());
}

/// Returns what an operator does about a plugin that hangs or died: it is released or started again, over and
/// over.
pub(super) async fn look_after_plugin(backend: &Arc<FakeBackend>) {
    let mut rounds = tokio::time::interval(Duration::from_secs(200));
    let identity = FakePlugin::new(backend.clone()).connection().identity;
    loop {
        rounds.tick().await;
        if !backend.is_alive() {
            backend.restart();
        }
        backend.release();
        identity.probe().await.ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_published_once_and_leaves_nothing_with_every_kind_of_plugin() {
    for steps in PLUGINS {
        let agent = agent_with(steps, AccessMode::SingleNodeWriter).await;
        let first = claim(&agent, "a1").await.unwrap();
        assert!(is_published(&first), "{steps:?}: {first:?}");
        let calls = agent.backend.calls().len();
        let again = claim(&agent, "a1").await.unwrap();
        assert_eq!(again.claim, first.claim, "{steps:?}");
        assert_eq!(agent.backend.calls().len(), calls, "{steps:?}: it was published already");
        let expected = [usize::from(steps.attach), usize::from(steps.stage), 1];
        let counts = [Rpc::ControllerPublishVolume, Rpc::NodeStageVolume, Rpc::NodePublishVolume]
            .map(|rpc| agent.backend.count(rpc));
        assert_eq!(counts, expected, "{steps:?}");
        assert_eq!(release(&agent, "a1").await.unwrap(), 0, "{steps:?}");
        assert_nothing_is_left(&agent, &format!("{steps:?}"));
    }
}

/// A grant and the start of the first call share a durable write, and so do the end of a step and the start
/// of the next one in its call lock, and the last end and the end of the claim.
#[tokio::test(start_paused = true)]
async fn a_claim_takes_three_durable_writes_and_its_release_four() {
    let steps = PluginSteps { attach: false, stage: true };
    let agent = agent_with(steps, AccessMode::SingleNodeWriter).await;
    let writes = || agent.journal.append_sizes().len();
    let before = writes();
    assert!(is_published(&claim(&agent, "a1").await.unwrap()));
    let claimed = writes();
    assert_eq!(claimed - before, 3);
    assert_eq!(release(&agent, "a1").await.unwrap(), 0);
    assert_eq!(writes() - claimed, 4);
    assert_nothing_is_left(&agent, "");
}

/// A stop waits for the calls that run, and not for those that would follow.
#[tokio::test(start_paused = true)]
async fn a_stopping_agent_starts_no_other_step() {
    let steps = PluginSteps { attach: false, stage: true };
    let agent = agent_with(steps, AccessMode::SingleNodeWriter).await;
    let hang = [Fault::Hang];
    agent.backend.inject_faults(Rpc::NodeStageVolume, hang);
    let calls = agent.backend.calls().len() as u64;
    let claims = &agent.services.claims;
    claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
    agent.backend.wait_for_calls(calls + 1).await;
    let answer = async { agent.backend.release() };
    tokio::join!(agent.services.drain(LONG), answer);
    let record = agent.state().all_claims().next().unwrap().clone();
    assert_eq!(record.claims.staged(&FakeAgent::NODE.into()), Known::Yes);
    let claim = record.claims.claims.values().next().unwrap();
    assert_eq!(claim.published, Known::No);
    assert_eq!(agent.backend.count(Rpc::NodePublishVolume), 0);
}

/// B42, B44, W37: the node keeps staging and attachment while another allocation uses the volume; the last
/// one ends both, once. B73: the volume manager is a fake behind its port.
#[tokio::test(start_paused = true)]
async fn the_last_user_on_a_node_ends_staging_and_attachment() {
    let agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
    for alloc in ["a1", "a2"] {
        assert!(is_published(&claim(&agent, alloc).await.unwrap()));
    }
    assert_eq!(agent.backend.count(Rpc::NodeStageVolume), 1);
    release(&agent, "a1").await.unwrap();
    assert_eq!(agent.backend.count(Rpc::NodeUnstageVolume), 0);
    assert_eq!(agent.backend.targets().len(), 1);
    release(&agent, "a2").await.unwrap();
    assert_eq!(agent.backend.count(Rpc::NodeUnstageVolume), 1);
    assert_eq!(agent.backend.count(Rpc::ControllerUnpublishVolume), 1);
    assert_nothing_is_left(&agent, "");
}

/// B45, W62: a single writer keeps its place until its volume is detached, and the denial names it.
#[tokio::test(start_paused = true)]
async fn a_second_writer_is_denied_until_the_first_one_is_detached() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let denied = claim(&agent, "a2").await.unwrap_err();
    let expected = "cannot claim volume `db`: volume max claims reached: allocation `a1` writes on node \
                    `11111111-2222-4333-8444-555555555555` (published)";
    assert_eq!(denied.text(), expected);
    agent.backend.inject_faults(Rpc::NodeUnpublishVolume, [Fault::Fail(StatusCode::Internal)]);
    let claims = &agent.services.claims;
    let (left, _) =
        claims.release(&FakeAgent::key("db"), &"a1".into(), None, Duration::ZERO).await.unwrap();
    assert_eq!(left, 1);
    let denied = claim(&agent, "a2").await.unwrap_err();
    assert!(denied.text().ends_with("(unpublishing)"), "{denied:?}");
    wait_until_released(&agent).await;
    assert!(is_published(&claim(&agent, "a2").await.unwrap()));
    release(&agent, "a2").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// B09, W09: a volume with claims is neither deleted nor deregistered.
#[tokio::test(start_paused = true)]
async fn a_claimed_volume_is_neither_deleted_nor_deregistered() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let key = FakeAgent::key("db");
    let deleted = agent.volumes.delete(key.clone(), Default::default()).await;
    assert!(matches!(deleted, Err(ServerError::VolumeInUse { .. })), "{deleted:?}");
    let deregistered = agent.volumes.deregister(key.clone(), false).await;
    assert!(matches!(deregistered, Err(ServerError::VolumeInUse { .. })));
    assert_eq!(agent.backend.count(Rpc::DeleteVolume), 0);
    release(&agent, "a1").await.unwrap();
    agent.volumes.delete(key, Default::default()).await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// B40, B41, W01, W02: while the node's plugin is away, the controller is not called; the release
/// completes when the plugin is back.
#[tokio::test(start_paused = true)]
async fn the_controller_is_not_called_before_the_node_is_done() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    agent.observe(false).await;
    let claims = &agent.services.claims;
    let key = FakeAgent::key("db");
    let (left, _) = claims.release(&key, &"a1".into(), None, LONG).await.unwrap();
    assert_eq!(left, 1);
    assert_eq!(agent.backend.count(Rpc::ControllerUnpublishVolume), 0);
    let record = agent.state();
    let record = record.all_claims().next().unwrap().clone();
    let problem = record.claims.claims.values().next().unwrap().problem.clone();
    let problem = problem.unwrap();
    assert_eq!(problem.step, "NodeUnpublishVolume");
    assert_eq!(problem.error, "no healthy instance of plugin `fake` can be called");
    assert_eq!(problem.help.unwrap(), "check the plugin with `nomad-csi plugin status fake`");
    agent.observe(true).await;
    let back = tokio::time::Instant::now();
    wait_until_released(&agent).await;
    assert!(back.elapsed() < Duration::from_secs(1), "W34: it waits for no pause");
    assert_nothing_is_left(&agent, "");
}

/// A step that was never sent shows why, too.
#[tokio::test(start_paused = true)]
async fn a_claim_shows_why_its_first_step_is_not_sent() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    let (hang, rpc) = (Fault::Hang, Rpc::ControllerPublishVolume);
    agent.backend.inject_faults(rpc, [hang]);
    let claims = &agent.services.claims;
    claims.claim(&mount("a1"), Duration::ZERO).await.unwrap();
    agent.backend.wait_for_calls(1).await;
    agent.observe(false).await;
    agent.backend.release();
    let waited = claims.claim(&mount("a1"), Duration::from_secs(10)).await;
    let problem = waited.unwrap().claim.unwrap().problem.unwrap();
    assert_eq!(problem.step, "NodeStageVolume");
    assert_eq!(problem.error, "no healthy instance of plugin `fake` can be called");
    agent.observe(true).await;
    assert!(is_published(&claim(&agent, "a1").await.unwrap()));
    release(&agent, "a1").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// W16: an operator's detach completes what an ended allocation left, names who still uses the volume,
/// and says what it waits for.
#[tokio::test(start_paused = true)]
async fn a_detach_completes_or_says_what_it_waits_for() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let (key, node) = (FakeAgent::key("db"), NodeId::new(FakeAgent::NODE));
    let claims = &agent.services.claims;
    let refused = claims.detach(&key, &node, LONG).await.unwrap_err();
    assert_eq!(refused.claiming_allocs(), ["a1"]);
    agent.observe(false).await;
    let alloc = AllocId::new("a1");
    claims.release(&key, &alloc, None, Duration::ZERO).await.unwrap();
    let late = claims.detach(&key, &node, Duration::from_secs(1)).await;
    let late = late.unwrap_err();
    let expected =
        "volume `db` is still being detached from node `11111111-2222-4333-8444-555555555555`";
    assert_eq!(late.message(), expected);
    assert_eq!(late.help(), ["check the plugin with `nomad-csi plugin status fake`"]);
    agent.observe(true).await;
    claims.detach(&key, &node, LONG).await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// Rules 6 to 8 of the claims machine: a fenced node is not called, its volume is detached, and what
/// is left there is swept before the node is used again.
#[tokio::test(start_paused = true)]
async fn a_fenced_node_is_swept_before_it_is_used_again() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    agent.add_node().await;
    let there = MountRequest { node: Some(NodeId::new(FakeAgent::SECOND_NODE)), ..mount("a1") };
    let claims = &agent.services.claims;
    assert!(is_published(&claims.claim(&there, LONG).await.unwrap()));
    let node = NodeId::new(FakeAgent::SECOND_NODE);
    agent.backend.lose_node(FakeAgent::second_external_node());
    claims.fence(&node, None).await.unwrap();
    wait_until_released(&agent).await;
    assert_eq!(agent.backend.count(Rpc::NodeUnpublishVolume), 0, "a lost node is not called");
    assert_eq!(agent.backend.attachments().len(), 0);
    assert_eq!(agent.backend.targets().len(), 1, "what was mounted there stays");
    let denied = claims.claim(&there, LONG).await.unwrap_err();
    assert!(denied.message().contains("is lost or not swept yet"), "{denied:?}");
    assert!(is_published(&claim(&agent, "a2").await.unwrap()), "another node gets the volume");
    release(&agent, "a2").await.unwrap();
    claims.unfence(&node).await.unwrap();
    let topics = |_: &State| vec![Topic::all(Table::Nodes)];
    let is_swept = |state: &State| state.node_loss(&node).is_none();
    agent.cell.wait_until(topics, is_swept).await.unwrap();
    assert_nothing_is_left(&agent, "");
    agent.backend.find_node(&FakeAgent::second_external_node());
    assert!(is_published(&claims.claim(&there, LONG).await.unwrap()));
    release(&agent, "a1").await.unwrap();
    assert_nothing_is_left(&agent, "");
}

/// W59: a volume that is deregistered by force is still detached, with its secrets, and nothing is left.
#[tokio::test(start_paused = true)]
async fn a_forced_deregistration_still_detaches_the_volume() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    agent.observe(false).await;
    let key = FakeAgent::key("db");
    let alloc = AllocId::new("a1");
    let claims = &agent.services.claims;
    let released = claims.release(&key, &alloc, None, Duration::ZERO).await;
    assert_eq!(released.unwrap().0, 1);
    let refused = agent.volumes.deregister(key.clone(), false).await;
    assert!(matches!(refused, Err(ServerError::VolumeInUse { .. })));
    agent.volumes.deregister(key, true).await.unwrap();
    assert_eq!(violations(&agent.state()), Vec::<String>::new());
    assert_eq!(agent.backend.targets().len(), 1, "it is still mounted");
    agent.observe(true).await;
    wait_until_released(&agent).await;
    assert_nothing_is_left(&agent, "");
}

/// W17: after an expansion at the provider, the node that uses the volume expands it too, once; an
/// unused volume is expanded when it is used next.
#[tokio::test(start_paused = true)]
async fn an_expansion_is_completed_on_the_nodes() {
    for is_used in [true, false] {
        let mut settings = settings(PLUGINS[0]);
        settings.node_expansion_required = true;
        if let Some(controller) = &mut settings.controller {
            controller.expand_volume = true;
        }
        if let Some(node) = &mut settings.node {
            node.expand_volume = true;
        }
        let agent = agent_on(settings, AccessMode::SingleNodeWriter).await;
        if is_used {
            claim(&agent, "a1").await.unwrap();
        }
        let mut request = request(AccessMode::SingleNodeWriter);
        request.capacity.min = Bytes::new(2 << 30).unwrap();
        let problems = vec![];
        let submission = VolumeSubmission { request, problems };
        agent.volumes.create(vec![submission]).await.unwrap();
        let is_pending = |state: &State| {
            let record = state.record(&FakeAgent::key("db"));
            record.is_some_and(|record| record.node_expansion_pending)
        };
        if !is_used {
            assert!(is_pending(&agent.state()));
            claim(&agent, "a1").await.unwrap();
        }
        let topics = |_: &State| vec![Topic::all(Table::Claims)];
        let expanded = agent.cell.wait_until(topics, |state| !is_pending(state));
        let expanded = tokio::time::timeout(LONG, expanded).await;
        assert!(expanded.is_ok(), "used {is_used}: {:#?}", agent.state());
        assert_eq!(agent.backend.count(Rpc::NodeExpandVolume), 1, "used {is_used}");
        release(&agent, "a1").await.unwrap();
        assert_nothing_is_left(&agent, "");
    }
}

/// Every fault that CSI allows a plugin in a step.
fn faults(rpc: Rpc) -> Vec<Fault> {
    let verdict = |code: &StatusCode| verdict_of(rpc, *code);
    let failures = StatusCode::ALL.into_iter().filter(|code| *code != StatusCode::Ok);
    let refusals = failures.clone().filter(|code| verdict(code) != Verdict::AlreadyDone);
    let denials = failures.filter(|code| verdict(code).may_have_taken_effect());
    let others = [
        Fault::Hang,
        Fault::OutliveCaller,
        Fault::LoseReply,
        Fault::ApplyTwice,
        Fault::DelayReply,
        Fault::Crash,
        Fault::CrashAfterEffect,
    ];
    refusals.map(Fault::Fail).chain(denials.map(Fault::FailAfterEffect)).chain(others).collect()
}

/// B27, B30, B53, B54: one fault in one call. The claim is published, or fails for good and says
/// why; in the end nothing is left.
#[tokio::test(start_paused = true)]
async fn no_fault_of_a_step_leaks_a_claim() {
    let mut cases = 0;
    for rpc in STEP_RPCS {
        for fault in faults(rpc) {
            let context = format!("{rpc} {fault:?}");
            let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
            agent.backend.inject_faults(rpc, [fault]);
            let story = async {
                let claimed = claim(&agent, "a1").await;
                let is_permanent = matches!(fault, Fault::Fail(code) if verdict_of(rpc, code) == Verdict::Permanent);
                let is_setup = STEP_RPCS[..3].contains(&rpc);
                match claimed {
                    Ok(outcome) => {
                        assert!(is_published(&outcome), "{context}: {outcome:?}");
                        assert!(!(is_permanent && is_setup), "{context}");
                        release(&agent, "a1").await.unwrap();
                    }
                    Err(error) => {
                        assert!(is_permanent && is_setup, "{context}: {error:?}");
                    }
                }
                wait_until_released(&agent).await;
            };
            tokio::select! {
                () = story => {}
                () = look_after_plugin(&agent.backend) => {}
            }
            assert_nothing_is_left(&agent, &context);
            cases += 1;
        }
    }
    assert!(cases > 100, "{cases}");
}

/// The agent crashes after every event of a busy run, with calls under way. What was granted is not
/// lost, nothing is granted twice, and in the end nothing is left.
#[tokio::test(start_paused = true)]
async fn a_crash_after_any_event_leaks_no_claim() {
    let whole = busy_run(None).await;
    assert!(whole > 20, "{whole} events");
    for crash_at in 1..=whole {
        busy_run(Some(crash_at)).await;
    }
}

/// Claims by two allocations and their release, with a crash once this many events were committed.
/// Returns the number of events.
async fn busy_run(crash_at: Option<u64>) -> u64 {
    let mut agent = agent_with(PLUGINS[0], AccessMode::MultiNodeMultiWriter).await;
    let before = agent.cell.index();
    let story = async {
        let both = async { tokio::join!(claim(&agent, "a1"), claim(&agent, "a2")) };
        let (first, second) = both.await;
        assert!(is_published(&first.unwrap()) && is_published(&second.unwrap()));
        let (first, second) = tokio::join!(release(&agent, "a1"), release(&agent, "a2"));
        assert_eq!((first.unwrap(), second.unwrap()), (0, 0));
    };
    let Some(crash_at) = crash_at else {
        story.await;
        assert_nothing_is_left(&agent, "without a crash");
        return agent.cell.index() - before;
    };
    let topics = |_: &State| vec![Topic::all(Table::Claims), Topic::all(Table::Allocs)];
    let is_due = |state: &State| state.index() >= before + crash_at;
    tokio::select! {
        () = story => {}
        due = agent.cell.wait_until(topics, is_due) => due.unwrap(),
    }
    let context = format!("crash after {crash_at} events");
    let held = held_claims(&agent.state());
    // No plugin process with a call under way outlives its host (rule 3).
    agent.backend.crash();
    agent = agent.restart(VolumeLimits::default()).await.unwrap();
    agent.backend.restart();
    agent.observe(true).await;
    assert_eq!(held_claims(&agent.state()), held, "{context}");
    for alloc in held {
        release(&agent, alloc.as_str()).await.unwrap();
    }
    wait_until_released(&agent).await;
    assert_nothing_is_left(&agent, &context);
    agent.cell.index() - before
}

pub(super) fn held_claims(state: &State) -> Vec<AllocId> {
    let records = state.all_claims();
    let claims = records.flat_map(|record| &record.claims.claims);
    let held = claims.filter(|(_, claim)| claim.is_held());
    held.map(|(key, _)| key.alloc.clone()).collect()
}

/// A plugin outlives an agent, and the next one hides what it was sent.
#[tokio::test(start_paused = true)]
async fn publish_contexts_are_known_to_the_next_agent() {
    let agent = agent_with(PLUGINS[0], AccessMode::SingleNodeWriter).await;
    claim(&agent, "a1").await.unwrap();
    let contexts = agent.backend.attachments();
    assert!(!contexts.is_empty());
    let next = RecordedSecrets::new(agent.cell.clone(), Arc::new(agent.sealer.clone()));
    let sent = next.sent(None).await;
    let sealed: Vec<&str> = sent.sealed().collect();
    assert!(sealed.iter().any(|value| value.contains(" on ")), "{sealed:?}");
}
