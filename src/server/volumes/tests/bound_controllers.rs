//! A call whose outcome is not known keeps its controller, and every other controller call of the volume goes there too
//! (rule 4 of the claims machine).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::claims::{ClaimOutcome, MountRequest};
use crate::volumes::SnapshotRequest;
use nomad_csi_claims::claim::{ClaimEvent, Step};
use nomad_csi_claims::state::{ControllerCall, EventKind, VolumeIntent, bound_controller};
use nomad_csi_model::{AllocId, ControllerCapabilities, NodeId, Secrets};
use nomad_csi_ports::{PluginDirectory as _, StatusCode};
use nomad_csi_testing::{FakeBackend, FakePlugin, Fault};

/// The allocation that starts later.
const NEWER: &str = "77777777-2222-4333-8444-555555555555";
/// One that starts after it.
const NEWEST: &str = "88888888-2222-4333-8444-555555555555";
/// Longer than every pause between attempts.
const LONG: Duration = Duration::from_secs(3600);

/// A call of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Delete,
    Expand,
    Modify,
}

const ALL: [Operation; 4] =
    [Operation::Create, Operation::Delete, Operation::Expand, Operation::Modify];

impl Operation {
    fn rpc(self) -> Rpc {
        match self {
            Self::Create => Rpc::CreateVolume,
            Self::Delete => Rpc::DeleteVolume,
            Self::Expand => Rpc::ControllerExpandVolume,
            Self::Modify => Rpc::ControllerModifyVolume,
        }
    }

    async fn run(self, agent: &FakeAgent) -> Result<(), ServerError> {
        self.run_for(agent, "db").await
    }

    async fn run_for(self, agent: &FakeAgent, id: &str) -> Result<(), ServerError> {
        let of_size = |size| VolumeRequest { capacity: sized(size, 0), ..FakeAgent::request(id) };
        match self {
            Self::Create => agent.create(of_size(10)).await.map(drop),
            Self::Delete => agent.delete(id).await.map(drop),
            Self::Expand => agent.create(of_size(20)).await.map(drop),
            Self::Modify => {
                let parameters = [("iops".to_owned(), "100".to_owned())].into();
                let modified = agent.volumes.modify(FakeAgent::key(id), parameters).await;
                agent.assert_consistent();
                modified.map(drop)
            }
        }
    }
}

fn settings() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            expand_volume: true,
            modify_volume: true,
            publish_unpublish_volume: true,
            create_delete_snapshot: true,
            ..ControllerCapabilities::default()
        }),
        ..PluginSettings::default()
    }
}

async fn with_volume() -> FakeAgent {
    let agent = FakeAgent::start(settings()).await.unwrap();
    Operation::Create.run(&agent).await.unwrap();
    agent
}

/// Leaves a call without a known outcome at the only instance.
async fn leave_open(agent: &FakeAgent, operation: Operation) {
    agent.backend.inject_faults(operation.rpc(), [Fault::Fail(StatusCode::Internal)]);
    let error = operation.run(agent).await.unwrap_err();
    assert_eq!(error.code_and_status().0.as_str(), "volume/pending", "{operation:?}");
}

async fn with_open(operation: Operation) -> FakeAgent {
    let agent = match operation {
        Operation::Create => FakeAgent::start(settings()).await.unwrap(),
        Operation::Delete | Operation::Expand | Operation::Modify => with_volume().await,
    };
    leave_open(&agent, operation).await;
    agent
}

/// Starts a newer instance, which the agent prefers.
async fn start_newer(agent: &FakeAgent) -> Arc<FakeBackend> {
    let newer = FakeBackend::new(settings());
    for volume in agent.backend.volumes() {
        newer.add_volume(volume.external_id, volume.context);
    }
    agent.add_alloc(NEWER, FakePlugin::new(newer.clone()).connection()).await;
    newer
}

fn mount() -> MountRequest {
    MountRequest {
        volume: FakeAgent::key("db"),
        alloc: AllocId::new("a1"),
        node: Some(NodeId::new(FakeAgent::NODE)),
        alias: None,
        read_only: false,
        access_mode: None,
        attachment_mode: None,
        mount_options: None,
    }
}

async fn claim(agent: &FakeAgent) -> ClaimOutcome {
    agent.services.claims.claim(&mount(), LONG).await.unwrap()
}

/// Returns the instances of all steps of this kind that were started.
async fn instances(agent: &FakeAgent, is_meant: fn(&Step) -> bool) -> Vec<AllocId> {
    let events = agent.cell.read_events(1, 1000).await.unwrap();
    let started = events.into_iter().filter_map(|(_, event)| match event.kind {
        EventKind::Claim { event, .. } => match *event {
            ClaimEvent::StepStarted { step, instance, .. } => is_meant(&step).then_some(instance),
            _ => None,
        },
        _ => None,
    });
    started.collect()
}

fn is_attach(step: &Step) -> bool {
    matches!(step, Step::ControllerPublish(_))
}

fn is_detach(step: &Step) -> bool {
    matches!(step, Step::ControllerUnpublish(_))
}

#[tokio::test(start_paused = true)]
async fn an_open_call_is_repeated_by_its_own_controller() {
    for operation in ALL {
        let agent = with_open(operation).await;
        let newer = start_newer(&agent).await;
        operation.run(&agent).await.unwrap();
        assert_eq!(newer.calls().len(), 0, "{operation:?}");
        assert_eq!(agent.backend.count(operation.rpc()), 2, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_call_waits_for_its_own_controller_until_that_is_gone() {
    for operation in ALL {
        let agent = with_open(operation).await;
        let newer = start_newer(&agent).await;
        agent.observe(false).await;
        let error = operation.run(&agent).await.unwrap_err();
        assert_eq!(newer.calls().len(), 0, "{operation:?}");
        assert_eq!(error.code_and_status().0.as_str(), "volume/pending", "{operation:?}");
        let text = error.message();
        assert!(text.contains(FakeAgent::ALLOC) && text.contains("no other"), "{text}");
        let help = error.help().join("\n");
        assert!(
            help.contains(FakeAgent::ALLOC) && help.contains("without its `--plugin-endpoint`"),
            "{help}"
        );
        agent.end_alloc(FakeAgent::ALLOC).await;
        operation.run(&agent).await.unwrap();
        assert_eq!(newer.count(operation.rpc()), 1, "{operation:?}");
        assert_eq!(agent.backend.count(operation.rpc()), 1, "{operation:?}");
    }
}

/// An agent that starts again knows nothing of what the one before it sent.
#[tokio::test(start_paused = true)]
async fn a_restarted_agent_keeps_the_controller_of_an_open_call() {
    for operation in ALL {
        let agent = with_open(operation).await;
        agent.observe_alloc(NEWER, true).await;
        let agent = agent.restart(Default::default()).await.unwrap();
        let newer = start_newer(&agent).await;
        agent.observe(false).await;
        operation.run(&agent).await.ok();
        assert_eq!(newer.calls().len(), 0, "{operation:?}");
    }
}

/// The calls of one volume are bound together, through whichever registration they are made.
#[tokio::test(start_paused = true)]
async fn other_calls_of_the_volume_go_to_the_controller_of_an_open_one() {
    for open in [Operation::Expand, Operation::Modify] {
        for next in [Operation::Delete, Operation::Expand, Operation::Modify] {
            for id in ["db", "same"] {
                let is_shared = id != "db";
                if next == open && !is_shared || next == Operation::Delete && is_shared {
                    continue;
                }
                let what = format!("{open:?} {next:?} {id}");
                let agent = with_volume().await;
                if is_shared {
                    register_again(&agent, id).await;
                }
                leave_open(&agent, open).await;
                let newer = start_newer(&agent).await;
                agent.observe(false).await;
                next.run_for(&agent, id).await.expect_err(&what);
                assert_eq!(newer.calls().len(), 0, "{what}");
                agent.observe(true).await;
                next.run_for(&agent, id).await.expect(&what);
                assert_eq!(newer.calls().len(), 0, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attach_and_a_detach_go_to_the_controller_of_an_open_call() {
    for open in [Operation::Expand, Operation::Modify] {
        let agent = with_volume().await;
        leave_open(&agent, open).await;
        start_newer(&agent).await;
        claim(&agent).await;
        let (key, alloc) = (FakeAgent::key("db"), AllocId::new("a1"));
        agent.services.claims.release(&key, &alloc, None, LONG).await.unwrap();
        for kind in [is_attach, is_detach] {
            assert_eq!(instances(&agent, kind).await, [AllocId::new(FakeAgent::ALLOC)], "{open:?}");
        }
    }
}

/// With the registration the agent would forget the call, and the next registration of the data would go to another instance.
#[tokio::test(start_paused = true)]
async fn a_volume_with_an_open_call_is_deregistered_by_force_or_when_its_instance_is_gone() {
    for operation in [Operation::Delete, Operation::Expand, Operation::Modify] {
        for forces in [true, false] {
            let agent = with_open(operation).await;
            start_newer(&agent).await;
            let error = agent.deregister("db", false).await.unwrap_err();
            assert_eq!(error.code_and_status().0.as_str(), "volume/pending", "{operation:?}");
            assert!(error.message().contains(FakeAgent::ALLOC), "{operation:?}: {error:?}");
            assert!(
                error.help().iter().any(|help| help.contains("without its `--plugin-endpoint`")),
                "{operation:?}"
            );
            assert!(agent.phase("db").is_some(), "{operation:?}");
            if !forces {
                agent.end_alloc(FakeAgent::ALLOC).await;
            }
            agent.deregister("db", forces).await.unwrap();
            assert_eq!(agent.phase("db"), None, "{operation:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attach_waits_for_the_controller_of_an_open_call_until_that_is_gone() {
    let agent = with_volume().await;
    leave_open(&agent, Operation::Expand).await;
    start_newer(&agent).await;
    agent.observe(false).await;
    let claiming = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(instances(&agent, is_attach).await, []);
        let (claims, _) = agent.services.claims.statuses(|_| true);
        let problem = claims[0].problem.clone().unwrap();
        assert!(problem.error.contains(FakeAgent::ALLOC), "{problem:?}");
        assert!(problem.help.unwrap().contains("without its `--plugin-endpoint`"));
        agent.end_alloc(FakeAgent::ALLOC).await;
    };
    tokio::join!(claim(&agent), claiming);
    assert_eq!(instances(&agent, is_attach).await, [AllocId::new(NEWER)]);
}

/// A new version of the plugin may have no controller. It is not called, however long the claim waits.
#[tokio::test(start_paused = true)]
async fn an_instance_without_a_controller_is_named_with_what_helps() {
    for operation in ALL {
        let agent = with_open(operation).await;
        start_newer(&agent).await;
        let controller = agent.backend.settings().controller;
        agent.backend.update_settings(|settings| settings.controller = None);
        agent.observe(true).await;
        let error = operation.run(&agent).await.unwrap_err();
        assert!(error.message().contains("it has no controller now"), "{operation:?}: {error:?}");
        let help = error.help().join("\n");
        assert!(
            help.contains(FakeAgent::ALLOC) && help.contains("without its `--plugin-endpoint`"),
            "{help}"
        );
        assert_eq!(agent.backend.count(operation.rpc()), 1, "{operation:?}");
        agent.backend.update_settings(|settings| settings.controller = controller);
        agent.observe(true).await;
        operation.run(&agent).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_attach_does_not_call_an_instance_without_a_controller() {
    let agent = with_volume().await;
    leave_open(&agent, Operation::Expand).await;
    start_newer(&agent).await;
    let controller = agent.backend.settings().controller;
    agent.backend.update_settings(|settings| settings.controller = None);
    agent.observe(true).await;
    let claiming = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(instances(&agent, is_attach).await, []);
        let (claims, _) = agent.services.claims.statuses(|_| true);
        let problem = claims[0].problem.clone().unwrap();
        assert!(problem.error.contains("it has no controller now"), "{problem:?}");
        assert!(problem.help.unwrap().contains("without its `--plugin-endpoint`"));
        agent.backend.update_settings(|settings| settings.controller = controller);
        agent.observe(true).await;
    };
    tokio::join!(claim(&agent), claiming);
    assert_eq!(instances(&agent, is_attach).await, [AllocId::new(FakeAgent::ALLOC)]);
}

#[tokio::test(start_paused = true)]
async fn calls_go_to_the_controller_of_an_open_attach() {
    for operation in [Operation::Expand, Operation::Modify] {
        let agent = with_volume().await;
        let unknown = [Fault::Fail(StatusCode::Internal); 1000];
        agent.backend.inject_faults(Rpc::ControllerPublishVolume, unknown);
        agent.services.claims.claim(&mount(), Duration::from_secs(1)).await.ok();
        let newer = start_newer(&agent).await;
        agent.observe(false).await;
        let error = operation.run(&agent).await.unwrap_err();
        assert!(error.message().contains(FakeAgent::ALLOC), "{error:?}");
        assert_eq!(error.code_and_status().0.as_str(), "plugin/unreachable");
        agent.observe(true).await;
        operation.run(&agent).await.unwrap();
        assert_eq!(newer.calls().len(), 0, "{operation:?}");
        assert_eq!(agent.backend.count(operation.rpc()), 1, "{operation:?}");
    }
}

/// Returns the instances that the intents of an operation named, in the order of the journal.
async fn named(agent: &FakeAgent, operation: Operation) -> Vec<Option<AllocId>> {
    let events = agent.cell.read_events(1, 1000).await.unwrap();
    let named = events.into_iter().filter_map(|(_, event)| match (operation, event.kind) {
        (Operation::Create, EventKind::VolumeCreateIntended { instance, .. })
        | (Operation::Delete, EventKind::VolumeDeleteIntended { instance, .. })
        | (Operation::Expand, EventKind::VolumeExpandIntended { instance, .. })
        | (Operation::Modify, EventKind::VolumeModifyIntended { instance, .. }) => Some(instance),
        _ => None,
    });
    named.collect()
}

/// B71: what was not sent to an instance without a connection goes to the next one, and only after that is on record.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_not_sent_moves_to_another_instance_after_that_is_on_record() {
    for operation in ALL {
        let agent = match operation {
            Operation::Create => FakeAgent::start(settings()).await.unwrap(),
            Operation::Delete | Operation::Expand | Operation::Modify => with_volume().await,
        };
        let before = named(&agent, operation).await.len();
        start_newer(&agent).await;
        agent.directory.remove(&FakeAgent::PLUGIN.into(), &NEWER.into());
        let unknown = Fault::Fail(StatusCode::Internal);
        agent.backend.inject_faults(operation.rpc(), [unknown]);
        operation.run(&agent).await.unwrap_err();
        let expected = [NEWER, FakeAgent::ALLOC].map(|alloc| Some(AllocId::new(alloc)));
        assert_eq!(named(&agent, operation).await[before..], expected, "{operation:?}");

        let newer = FakeBackend::new(settings());
        let connection = FakePlugin::new(newer.clone()).connection();
        agent.directory.insert(FakeAgent::PLUGIN.into(), NEWER.into(), connection);
        operation.run(&agent).await.unwrap();
        assert_eq!(newer.calls().len(), 0, "{operation:?}");
        assert_eq!(agent.backend.count(operation.rpc()), 2, "{operation:?}");
    }
}

/// What was sent under the name may still take effect, also if it was refused in the end.
#[tokio::test(start_paused = true)]
async fn an_earlier_request_of_a_creation_goes_to_the_instance_that_got_the_newest() {
    let agent = FakeAgent::start(settings()).await.unwrap();
    let unknown = [Fault::FailAfterEffect, Fault::Fail].map(|fault| fault(StatusCode::Internal));
    agent.backend.inject_faults(Rpc::CreateVolume, unknown);
    Operation::Create.run(&agent).await.unwrap_err();
    let changed = VolumeRequest {
        parameters: Some(parameters(&[("tier", "b")])),
        ..FakeAgent::request("db")
    };
    agent.create(changed).await.unwrap_err();
    for alloc in [NEWER, NEWEST] {
        agent.add_alloc(alloc, FakePlugin::new(agent.backend.clone()).connection()).await;
    }
    // The newest request is continued at the newest instance, which has no connection when it has refused it.
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    agent.end_alloc(FakeAgent::ALLOC).await;
    agent.backend.wait_for_calls(3).await;
    agent.directory.remove(&FakeAgent::PLUGIN.into(), &NEWEST.into());
    agent.backend.release();
    tokio::time::sleep(LONG).await;
    let instances = named(&agent, Operation::Create).await;
    assert!(instances.contains(&Some(AllocId::new(NEWEST))), "{instances:?}");
    assert!(!instances.contains(&Some(AllocId::new(NEWER))), "{instances:?}");
    assert_eq!(agent.phase("db"), Some(Phase::Creating));
}

/// A plugin behind an endpoint returns under its ID. What was asked of it before has ended, and another one got a call since.
#[tokio::test(start_paused = true)]
async fn an_instance_that_comes_back_gets_no_call_beside_an_open_one_of_another() {
    for (open, next) in [
        (Operation::Expand, Operation::Modify),
        (Operation::Modify, Operation::Expand),
        (Operation::Expand, Operation::Delete),
    ] {
        let agent = with_open(open).await;
        let newer = start_newer(&agent).await;
        agent.end_alloc(FakeAgent::ALLOC).await;
        newer.inject_faults(next.rpc(), [Fault::Fail(StatusCode::Internal)]);
        next.run(&agent).await.unwrap_err();
        agent.observe(true).await;
        let before = agent.backend.calls().len();
        let repeated = if next == Operation::Delete { next } else { open };
        repeated.run(&agent).await.unwrap();
        assert_eq!(agent.backend.calls().len(), before, "{open:?} {next:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_call_is_recorded_again_for_an_instance_that_came_back() {
    for operation in ALL {
        let agent = with_open(operation).await;
        let before = named(&agent, operation).await;
        agent.observe(true).await;
        agent.end_alloc(FakeAgent::ALLOC).await;
        agent.observe(true).await;
        agent.backend.inject_faults(operation.rpc(), [Fault::Fail(StatusCode::Internal)]);
        operation.run(&agent).await.unwrap_err();
        assert_eq!(named(&agent, operation).await.len(), before.len() + 1, "{operation:?}");
        let newer = start_newer(&agent).await;
        operation.run(&agent).await.unwrap();
        assert_eq!(newer.calls().len(), 0, "{operation:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attach_is_recorded_again_for_an_instance_that_came_back() {
    let agent = with_volume().await;
    let unknown = [Fault::Fail(StatusCode::Internal); 1000];
    agent.backend.inject_faults(Rpc::ControllerPublishVolume, unknown);
    agent.services.claims.claim(&mount(), Duration::from_secs(1)).await.ok();
    assert_eq!(instances(&agent, is_attach).await.len(), 1);
    agent.end_alloc(FakeAgent::ALLOC).await;
    agent.observe(true).await;
    agent.services.claims.claim(&mount(), LONG).await.ok();
    assert_eq!(instances(&agent, is_attach).await.len(), 2);
    let newer = start_newer(&agent).await;
    Operation::Expand.run(&agent).await.unwrap();
    assert_eq!(newer.calls().len(), 0);
}

/// Registers the external volume of `db` a second time.
async fn register_again(agent: &FakeAgent, id: &str) {
    let volume = agent.backend.volumes().remove(0);
    let request = VolumeRequest {
        external_id: Some(volume.external_id),
        context: Some(volume.context),
        share: true,
        capacity: sized(10, 0),
        ..FakeAgent::request(id)
    };
    agent.register(request).await.unwrap();
}

fn expand_intended(id: &str, instance: Option<&str>) -> EventKind {
    EventKind::VolumeExpandIntended {
        key: FakeAgent::key(id),
        to: sized(20, 0),
        instance: instance.map(AllocId::new),
        request: None,
    }
}

/// A call waits for its permit after its controller was chosen.
#[tokio::test(start_paused = true)]
async fn a_controller_is_chosen_again_if_the_volume_was_bound_in_the_meantime() {
    for operation in [Operation::Expand, Operation::Modify] {
        let agent = with_volume().await;
        register_again(&agent, "same").await;
        agent
            .create(VolumeRequest { capacity: sized(10, 0), ..FakeAgent::request("other") })
            .await
            .unwrap();
        let newer = start_newer(&agent).await;
        newer.inject_faults(Rpc::ControllerExpandVolume, [Fault::Hang]);
        let other = Operation::Expand.run_for(&agent, "other");
        let bind = async {
            newer.wait_for_calls(1).await;
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            let bound = expand_intended("same", Some(FakeAgent::ALLOC));
            agent.record_event(bound).await;
            newer.release();
        };
        let (other, one, ()) = tokio::join!(other, operation.run(&agent), bind);
        other.and(one).unwrap();
        assert_eq!(newer.calls().len(), 1, "{operation:?}");
        assert_eq!(agent.backend.count(operation.rpc()), 1, "{operation:?}");
    }
}

async fn snapshot(agent: &FakeAgent, id: &str) -> Result<(), ServerError> {
    let request = SnapshotRequest {
        source: FakeAgent::key(id),
        name: format!("{id}-1"),
        plugin: None,
        parameters: BTreeMap::new(),
        secrets: Secrets::default(),
    };
    agent.volumes.create_snapshots(vec![request]).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_taken_by_the_controller_of_an_open_call() {
    for open in [Operation::Expand, Operation::Modify] {
        let agent = with_open(open).await;
        let newer = start_newer(&agent).await;
        agent.observe(false).await;
        let error = snapshot(&agent, "db").await.unwrap_err();
        assert!(error.message().contains(FakeAgent::ALLOC), "{open:?}: {error:?}");
        agent.observe(true).await;
        snapshot(&agent, "db").await.unwrap();
        assert_eq!(newer.calls().len(), 0, "{open:?}");
        agent.end_alloc(FakeAgent::ALLOC).await;
        snapshot(&agent, "db").await.unwrap();
        assert_eq!(newer.count(Rpc::CreateSnapshot), 1, "{open:?}");
    }
}

/// It waits for its permit after its controller was chosen.
#[tokio::test(start_paused = true)]
async fn a_snapshot_is_taken_by_the_controller_that_the_volume_was_bound_to_in_the_meantime() {
    let agent = with_volume().await;
    register_again(&agent, "same").await;
    let other = VolumeRequest { capacity: sized(10, 0), ..FakeAgent::request("other") };
    agent.create(other).await.unwrap();
    let newer = start_newer(&agent).await;
    newer.inject_faults(Rpc::ControllerExpandVolume, [Fault::Hang]);
    let bind = async {
        newer.wait_for_calls(1).await;
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        agent.record_event(expand_intended("same", Some(FakeAgent::ALLOC))).await;
        newer.release();
    };
    let waiting = snapshot(&agent, "db");
    let (other, taken, ()) =
        tokio::join!(Operation::Expand.run_for(&agent, "other"), waiting, bind);
    other.and(taken).unwrap();
    assert_eq!(newer.count(Rpc::CreateSnapshot), 0);
    assert_eq!(agent.backend.count(Rpc::CreateSnapshot), 1);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_was_not_sent_waits_for_the_controller_of_a_later_call() {
    let agent = with_volume().await;
    register_again(&agent, "same").await;
    let newer = start_newer(&agent).await;
    let (plugin, own) = (FakeAgent::PLUGIN.into(), FakeAgent::ALLOC.into());
    let connected = agent.directory.instance(&plugin, &own).await.unwrap();
    for alloc in [FakeAgent::ALLOC, NEWER] {
        agent.directory.remove(&plugin, &alloc.into());
    }
    let bind = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        agent.record_event(expand_intended("same", Some(FakeAgent::ALLOC))).await;
        let connection = FakePlugin::new(newer.clone()).connection();
        agent.directory.insert(plugin.clone(), NEWER.into(), connection);
        tokio::time::sleep(Duration::from_secs(30)).await;
        agent.directory.insert(plugin.clone(), own.clone(), connected);
    };
    let (taken, ()) = tokio::join!(snapshot(&agent, "db"), bind);
    taken.unwrap();
    assert_eq!(newer.calls().len(), 0);
    assert_eq!(agent.backend.count(Rpc::CreateSnapshot), 1);
}

fn refuse_all(backend: &FakeBackend, operation: Operation, code: StatusCode) {
    backend.inject_faults(operation.rpc(), [Fault::Fail(code); 10]);
}

/// Who answers a call that the only instance got before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answering {
    SameProgram,
    /// The same instance, with another version of the plugin.
    NextVersion,
    /// The same instance, with another build of the same version.
    NextProcess,
    /// Another instance, after the end of the first.
    NextInstance,
}

const ANSWERING: [Answering; 4] = [
    Answering::SameProgram,
    Answering::NextVersion,
    Answering::NextProcess,
    Answering::NextInstance,
];

/// Lets another program answer from now on. Returns its backend.
async fn answer_by(agent: &FakeAgent, answering: Answering) -> Arc<FakeBackend> {
    match answering {
        Answering::SameProgram => agent.backend.clone(),
        Answering::NextVersion => {
            let next = |settings: &mut PluginSettings| {
                settings.info.vendor_version.push_str("-next");
            };
            agent.observe(false).await;
            agent.backend.update_settings(next);
            agent.observe(true).await;
            agent.backend.clone()
        }
        Answering::NextProcess => {
            agent.observe(false).await;
            agent.observe_process("run 2").await;
            agent.backend.clone()
        }
        Answering::NextInstance => {
            let newer = start_newer(agent).await;
            agent.end_alloc(FakeAgent::ALLOC).await;
            newer
        }
    }
}

/// Returns an agent with an open call, and the backend that refuses it for ever.
async fn with_refused(operation: Operation, answering: Answering) -> (FakeAgent, Arc<FakeBackend>) {
    let agent = with_open(operation).await;
    let backend = answer_by(&agent, answering).await;
    refuse_all(&backend, operation, StatusCode::InvalidArgument);
    (agent, backend)
}

/// Another program may have created the volume before, and it would be left at the provider.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_a_creation_only_if_no_other_program_got_it() {
    for answering in ANSWERING {
        let (agent, _) = with_refused(Operation::Create, answering).await;
        for _ in 0..2 {
            // Only an operation that needs the end of the creation ends it.
            agent.delete("db").await.ok();
            let is_open = agent.record("db").is_some();
            assert_eq!(is_open, answering != Answering::SameProgram, "{answering:?}");
        }
    }
}

/// No call runs any more: the instance before is gone, and the one that answers has refused its own.
#[tokio::test(start_paused = true)]
async fn a_refusal_ends_a_change_whose_earlier_calls_have_ended() {
    for operation in [Operation::Expand, Operation::Modify] {
        for answering in ANSWERING {
            let (agent, backend) = with_refused(operation, answering).await;
            operation.run(&agent).await.unwrap_err();
            let what = format!("{operation:?} {answering:?}");
            let record = agent.record("db").unwrap();
            assert_eq!((record.expanding, &record.modifying), (None, &None), "{what}");
            let events = agent.cell.read_events(1, 1000).await.unwrap();
            let ended = events.into_iter().find_map(|(_, event)| match event.kind {
                EventKind::VolumeExpandAbandoned { may_have_changed, .. }
                | EventKind::VolumeModifyAbandoned { may_have_changed, .. } => {
                    Some(may_have_changed)
                }
                _ => None,
            });
            let may_have_changed = answering != Answering::SameProgram;
            assert_eq!(ended, Some(may_have_changed), "{what}");
            // What is wanted then is sent as always.
            backend.clear_faults();
            operation.run(&agent).await.expect(&what);
        }
    }
}

async fn modify(agent: &FakeAgent, pairs: &[(&str, &str)]) -> Result<(), ServerError> {
    let modified = agent.volumes.modify(FakeAgent::key("db"), parameters(pairs)).await;
    agent.assert_consistent();
    modified.map(drop)
}

fn parameters(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// It may have the old value or the new one.
#[tokio::test(start_paused = true)]
async fn a_parameter_that_another_program_may_have_changed_is_not_known() {
    for answering in ANSWERING {
        let agent = with_volume().await;
        modify(&agent, &[("iops", "1"), ("tier", "a")]).await.unwrap();
        leave_open(&agent, Operation::Modify).await;
        let backend = answer_by(&agent, answering).await;
        refuse_all(&backend, Operation::Modify, StatusCode::InvalidArgument);
        Operation::Modify.run(&agent).await.unwrap_err();
        let known = match answering {
            Answering::SameProgram => parameters(&[("iops", "1"), ("tier", "a")]),
            Answering::NextVersion | Answering::NextProcess | Answering::NextInstance => {
                parameters(&[("tier", "a")])
            }
        };
        assert_eq!(agent.record("db").unwrap().mutable_parameters, known, "{answering:?}");
    }
}

/// The refusal is for the values that took its place.
#[tokio::test(start_paused = true)]
async fn a_change_that_replaced_an_open_one_is_not_ended_by_a_refusal() {
    let agent = with_volume().await;
    modify(&agent, &[("iops", "1"), ("tier", "a")]).await.unwrap();
    let unknown = [Fault::FailAfterEffect, Fault::Fail].map(|fault| fault(StatusCode::Internal));
    agent.backend.inject_faults(Rpc::ControllerModifyVolume, unknown);
    modify(&agent, &[("iops", "2")]).await.unwrap_err();
    modify(&agent, &[("iops", "3")]).await.unwrap_err();
    refuse_all(&agent.backend, Operation::Modify, StatusCode::InvalidArgument);
    modify(&agent, &[("iops", "3")]).await.unwrap_err();
    let record = agent.record("db").unwrap();
    assert_eq!(record.modifying, Some(parameters(&[("iops", "3")])));
}

/// What is in use exists, and no instance that is gone deletes it.
#[tokio::test(start_paused = true)]
async fn a_volume_in_use_ends_a_deletion_of_an_instance_that_is_gone() {
    let agent = with_open(Operation::Delete).await;
    let newer = start_newer(&agent).await;
    agent.end_alloc(FakeAgent::ALLOC).await;
    refuse_all(&newer, Operation::Delete, StatusCode::FailedPrecondition);
    agent.delete("db").await.unwrap_err();
    assert_eq!(agent.phase("db"), Some(Phase::Registered));
}

/// An earlier version recorded no instance: the call may run in any.
#[tokio::test(start_paused = true)]
async fn a_refusal_does_not_end_an_intent_that_names_no_instance() {
    let agent = with_volume().await;
    agent.record_event(expand_intended("db", None)).await;
    refuse_all(&agent.backend, Operation::Expand, StatusCode::OutOfRange);
    for _ in 0..2 {
        Operation::Expand.run(&agent).await.unwrap_err();
        assert!(agent.record("db").unwrap().expanding.is_some());
    }
    let deleting = EventKind::VolumeDeleteIntended {
        key: FakeAgent::key("db"),
        instance: None,
        request: None,
    };
    agent.record_event(deleting).await;
    refuse_all(&agent.backend, Operation::Delete, StatusCode::FailedPrecondition);
    for _ in 0..2 {
        agent.delete("db").await.unwrap_err();
        assert_eq!(agent.phase("db"), Some(Phase::Deleting));
    }
    let newest = agent.record("db").unwrap().settling_by.unwrap();
    assert_eq!(newest.instance, AllocId::new(FakeAgent::ALLOC), "from now on it names one");
}

/// Sends the call of an operation with these secrets.
async fn run_with(
    agent: &FakeAgent,
    operation: Operation,
    secrets: &Secrets,
) -> Result<(), ServerError> {
    let of_size = |size| VolumeRequest {
        capacity: sized(size, 0),
        secrets: Some(secrets.clone()),
        ..FakeAgent::request("db")
    };
    match operation {
        Operation::Create => agent.create(of_size(10)).await.map(drop),
        Operation::Delete => {
            agent.volumes.delete(FakeAgent::key("db"), secrets.clone()).await.map(drop)
        }
        Operation::Expand => agent.create(of_size(20)).await.map(drop),
        Operation::Modify => {
            agent.create(of_size(10)).await?;
            Operation::Modify.run(agent).await
        }
    }
}

/// The refusal that ends an open call.
fn final_refusal(operation: Operation) -> StatusCode {
    match operation {
        Operation::Create | Operation::Expand | Operation::Modify => StatusCode::InvalidArgument,
        Operation::Delete => StatusCode::FailedPrecondition,
    }
}

fn is_open(agent: &FakeAgent, operation: Operation) -> bool {
    let record = agent.record("db");
    record.is_some_and(|record| match operation {
        Operation::Create => record.phase == Phase::Creating,
        Operation::Delete => record.phase == Phase::Deleting,
        Operation::Expand => record.expanding.is_some(),
        Operation::Modify => record.modifying.is_some(),
    })
}

/// Lets an operation that needs the end of a creation end it, with these secrets.
async fn refuse(agent: &FakeAgent, operation: Operation, secrets: &Secrets) {
    refuse_all(&agent.backend, operation, final_refusal(operation));
    // An update that does not need the expansion is stored, whatever becomes of it.
    run_with(agent, operation, secrets).await.ok();
    if operation == Operation::Create {
        // Only an operation that needs the end of the creation ends it.
        agent.delete("db").await.ok();
    }
    agent.backend.clear_faults();
}

/// The instance refuses other secrets, and may still be working on the call that had the right ones.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_other_secrets_ends_no_open_call() {
    let (own, other) = ([("token", "a")], [("token", "b")]);
    let (own, other) = (Secrets::from_iter(own), Secrets::from_iter(other));
    for operation in ALL {
        for restarts in [false, true] {
            let what = format!("{operation:?} restarts={restarts}");
            let mut agent = FakeAgent::start(settings()).await.unwrap();
            if operation != Operation::Create {
                run_with(&agent, Operation::Create, &own).await.unwrap();
            }
            agent.backend.inject_faults(operation.rpc(), [Fault::Fail(StatusCode::Internal)]);
            run_with(&agent, operation, &own).await.unwrap_err();
            if restarts {
                // The agent continues a creation by itself.
                refuse_all(&agent.backend, operation, final_refusal(operation));
                agent = agent.restart(Default::default()).await.unwrap();
            }
            refuse(&agent, operation, &other).await;
            assert!(is_open(&agent, operation), "{what}");
            let newer = start_newer(&agent).await;
            agent.observe(false).await;
            run_with(&agent, operation, &other).await.ok();
            assert_eq!(newer.calls().len(), 0, "{what}");
            // It may still be working on either of the two.
            agent.observe(true).await;
            refuse(&agent, operation, &own).await;
            assert!(is_open(&agent, operation), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_same_request_ends_an_open_call_after_a_restart() {
    let own = Secrets::from_iter([("token", "a")]);
    for operation in ALL {
        let agent = FakeAgent::start(settings()).await.unwrap();
        if operation != Operation::Create {
            run_with(&agent, Operation::Create, &own).await.unwrap();
        }
        agent.backend.inject_faults(operation.rpc(), [Fault::Fail(StatusCode::Internal)]);
        run_with(&agent, operation, &own).await.unwrap_err();
        let agent = agent.restart(Default::default()).await.unwrap();
        refuse(&agent, operation, &own).await;
        assert!(!is_open(&agent, operation), "{operation:?}");
    }
}

/// An expansion of a volume that is claimed since then is another request.
#[tokio::test(start_paused = true)]
async fn a_refusal_of_another_capability_ends_no_open_expansion() {
    let agent = with_open(Operation::Expand).await;
    claim(&agent).await;
    refuse_all(&agent.backend, Operation::Expand, StatusCode::InvalidArgument);
    Operation::Expand.run(&agent).await.unwrap_err();
    assert!(is_open(&agent, Operation::Expand));
}

/// The instance came back while another one has a call of the volume: it must not be bound again.
#[tokio::test(start_paused = true)]
async fn a_change_that_is_pending_again_binds_no_instance_beside_another_one() {
    let agent = with_volume().await;
    register_again(&agent, "same").await;
    leave_open(&agent, Operation::Modify).await;
    // The next change is not sent.
    agent.directory.remove(&FakeAgent::PLUGIN.into(), &FakeAgent::ALLOC.into());
    let refused = modify(&agent, &[("iops", "3")]);
    let bind = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        start_newer(&agent).await;
        agent.end_alloc(FakeAgent::ALLOC).await;
        agent.record_event(expand_intended("same", Some(NEWER))).await;
        agent.observe(true).await;
    };
    let (refused, ()) = tokio::join!(refused, bind);
    refused.unwrap_err();
    let agent = agent.restart(Default::default()).await.unwrap();
    let bound = |intent| {
        let record = agent.record("db").unwrap();
        let call = ControllerCall::of_intent(&record, intent);
        let bound = agent.cell.read(|state| bound_controller(state, &call).cloned());
        bound.map(|alloc| alloc.to_string())
    };
    for intent in [VolumeIntent::Modify, VolumeIntent::Expand, VolumeIntent::Delete] {
        assert_eq!(bound(intent).as_deref(), Some(NEWER), "{intent:?}");
    }
}
