use std::time::Duration;

use super::*;
use crate::fake_host::{ALLOC, FakeHost, STEPS, name, settings, volume};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AttachmentMode, Condition, NodeCapabilities, ReportedQuantity, StatsUnit, Term, record_beside,
};
use nomad_csi_ports::{Rpc, StatusCode, verdict_of};
use nomad_csi_testing::{Fault, PluginSettings, ReportedStats};

const FILES: AttachmentMode = AttachmentMode::FileSystem;

/// B74: a volume is staged once per node and published once per allocation; it is unstaged after the
/// last unpublish (W03). W48: all use one staging path. B24 and B93: the fake checks secrets and publish
/// context. B34: paths are the agent's own, and the plugin gets the external ID.
#[tokio::test]
async fn two_allocations_share_a_staging() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodePublishVolume).await;
    let publish = |host: &FakeHost, alloc| {
        let (order, request) = (host.order(3), host.publish_request(alloc));
        let manager = host.manager.clone();
        async move { manager.publish(order, request).await.unwrap() }
    };
    let mut paths = vec![publish(&host, ALLOC).await];
    let host = host.restart("session-2").await;
    paths.push(publish(&host, "alloc-2").await);
    assert_ne!(paths[0].on_host(), paths[1].on_host());
    assert_eq!(host.mounter.mounts().len(), 3);
    assert_eq!(host.backend.count(Rpc::NodeStageVolume), 1);
    for (index, alloc) in [(4, ALLOC), (5, "alloc-2")] {
        let unstaged = host.manager.unstage(host.order(index), FakeHost::unstage_request());
        let refused = unstaged.await.unwrap_err();
        assert!(matches!(refused, HostError::InUse { .. }), "{refused}");
        let request = FakeHost::unpublish_request(alloc);
        host.manager.unpublish(host.order(index), request).await.unwrap();
        host.manager
            .unpublish(host.order(index), FakeHost::unpublish_request(alloc))
            .await
            .unwrap();
    }
    host.take(Rpc::NodeUnstageVolume, 6).await.unwrap();
    host.take(Rpc::ControllerUnpublishVolume, 6).await.unwrap();
    host.check_nothing_left("").await;
}

/// B27: an undo that is repeated after a lost reply succeeds, although its paths are gone.
#[tokio::test]
async fn an_undo_is_repeated_after_a_lost_reply() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    for step in [Rpc::NodeUnpublishVolume, Rpc::NodeUnstageVolume, Rpc::ControllerUnpublishVolume] {
        host.backend.inject_faults(step, [Fault::LoseReply]);
        let lost = host.take(step, 2).await.unwrap_err();
        assert!(lost.may_have_taken_effect(), "{lost}");
        // The plugin might still work on it.
        let busy = host.take(step, 2).await.unwrap_err();
        assert!(matches!(busy, HostError::Busy { .. }), "{busy}");
        host.restart_plugin().await;
        host.take(step, 2).await.unwrap();
        host.take(step, 2).await.unwrap();
    }
    host.check_nothing_left("").await;
}

/// B75: no stage calls, and no staging path in the publish, or the fake refuses it.
#[tokio::test]
async fn a_plugin_that_does_not_stage_is_not_asked_to() {
    let plain = PluginSettings { node: Some(NodeCapabilities::default()), ..settings() };
    let host = FakeHost::with(plain, FILES);
    host.take(Rpc::ControllerPublishVolume, 1).await.unwrap();
    for step in [Rpc::NodeStageVolume, Rpc::NodeUnstageVolume] {
        let refused = host.take(step, 1).await.unwrap_err();
        assert!(!refused.is_permanent() && refused.was_not_sent(), "decided again: {refused}");
    }
    host.take(Rpc::NodePublishVolume, 1).await.unwrap();
    let volumes = host.manager.left_behind(Term::default()).await;
    assert_eq!(volumes, Ok(vec![volume()]), "a target alone is found too");
    host.take(Rpc::NodeUnpublishVolume, 1).await.unwrap();
    host.take(Rpc::ControllerUnpublishVolume, 1).await.unwrap();
    assert_eq!(host.backend.count(Rpc::NodeStageVolume), 0);
    host.check_nothing_left("").await;
}

/// Rule 18: what was decided for the plugin as it was before it started again is refused, and not sent.
#[tokio::test]
async fn a_request_that_was_decided_for_another_plugin_is_refused() {
    for (attaches, stages) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut plugin = settings();
        if let Some(controller) = &mut plugin.controller {
            controller.publish_unpublish_volume = attaches;
        }
        plugin.node =
            Some(NodeCapabilities { stage_unstage_volume: stages, ..NodeCapabilities::default() });
        let host = FakeHost::with(plugin, FILES);
        let other_staging = PublishRequest { stages: !stages, ..host.publish_request(ALLOC) };
        let unattached = PublishRequest { attaches: false, ..host.publish_request(ALLOC) };
        let unattached_stage = StageRequest { attaches: false, ..host.stage_request() };
        let sent = host.backend.calls().len();
        let mut refused = vec![host.manager.publish(host.order(1), other_staging).await.err()];
        if attaches {
            refused.push(host.manager.publish(host.order(2), unattached).await.err());
        }
        if attaches && stages {
            refused.push(host.manager.stage(host.order(3), unattached_stage).await.err());
        }
        for refused in refused {
            let refused = refused.unwrap();
            assert!(matches!(refused, HostError::Changed { .. }), "{refused}");
            assert!(refused.was_not_sent() && !refused.is_permanent());
        }
        assert_eq!(host.backend.calls().len(), sent, "{attaches}, {stages}");
    }
}

/// W04: a time-out is an error and never success. The call lock stays busy, because the plugin may go on.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_an_error() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodePublishVolume).await;
    for (index, step) in [(2, Rpc::NodePublishVolume), (4, Rpc::NodeUnpublishVolume)] {
        host.backend.inject_faults(step, [Fault::OutliveCaller]);
        let late = host.take(step, index).await.unwrap_err();
        assert!(late.may_have_taken_effect(), "{late}");
        for other in [step, Rpc::NodeUnpublishVolume, Rpc::NodeUnstageVolume] {
            let busy = host.take(other, index + 1).await.unwrap_err();
            assert!(matches!(busy, HostError::Busy { .. }), "{busy}");
        }
        let swept = host.manager.sweep(host.order(index + 1), volume()).await;
        assert!(matches!(swept, Err(HostError::Busy { .. })), "{swept:?}");
        host.restart_plugin().await;
        host.take(step, index + 1).await.unwrap();
    }
    host.take(Rpc::NodeUnstageVolume, 6).await.unwrap();
    host.take(Rpc::ControllerUnpublishVolume, 6).await.unwrap();
    host.check_nothing_left("").await;
}

/// B30: an answer that comes after the server's patience is still the answer of a caller that waits.
#[tokio::test(start_paused = true)]
async fn a_late_answer_is_the_answer() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodePublishVolume).await;
    let hang = [Fault::Hang];
    host.backend.inject_faults(Rpc::NodePublishVolume, hang);
    let publish = host.take(Rpc::NodePublishVolume, 2);
    tokio::pin!(publish);
    let given_up = tokio::time::timeout(Duration::from_secs(150), &mut publish).await;
    assert!(given_up.is_err());
    host.backend.release();
    publish.await.unwrap();
    assert_eq!(host.backend.targets().len(), 1);
}

/// The caller gives up; the step ends all the same, with its event.
#[tokio::test(start_paused = true)]
async fn a_step_goes_on_without_its_caller() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodePublishVolume).await;
    host.backend.inject_faults(Rpc::NodePublishVolume, [Fault::Hang]);
    let publish = host.take(Rpc::NodePublishVolume, 2);
    let given_up = tokio::time::timeout(Duration::from_secs(120), publish).await;
    assert!(given_up.is_err());
    host.backend.release();
    host.registry.call_locks().drain().await;
    assert_eq!(host.backend.targets().len(), 1);
    assert_eq!(host.events.take().len(), 1);
}

/// B76: each mount and each unmount has one event, with the error if it failed; a refusal before the
/// plugin is called has none.
#[tokio::test]
async fn mounts_and_unmounts_have_events() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    let expected = |action, alloc: Option<&str>, error: Option<&str>| MountEvent {
        volume: name(),
        alloc: alloc.map(Into::into),
        action,
        error: error.map(ToOwned::to_owned),
    };
    let mounted = expected(MountAction::Mount, Some(ALLOC), None);
    assert_eq!(host.events.take(), [mounted]);
    let full = Fault::Fail(StatusCode::ResourceExhausted);
    host.backend.inject_faults(Rpc::NodeUnstageVolume, [full]);
    host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap();
    host.take(Rpc::NodeUnstageVolume, 2).await.unwrap_err();
    host.take(Rpc::NodeUnstageVolume, 1).await.unwrap_err();
    host.take(Rpc::NodeUnstageVolume, 2).await.unwrap();
    let why = "NodeUnstageVolume failed with ResourceExhausted: scripted ResourceExhausted";
    let unmounted = [
        expected(MountAction::Unmount, Some(ALLOC), None),
        expected(MountAction::Unmount, None, Some(why)),
    ];
    assert_eq!(host.events.take(), unmounted);
}

/// The plugin's word is compared with the mount table.
#[tokio::test]
async fn success_without_a_mount_is_an_error() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodePublishVolume).await;
    host.connect_machine(false);
    let missing = host.take(Rpc::NodePublishVolume, 2).await.unwrap_err();
    assert!(matches!(missing, HostError::NotThere { .. }), "{missing}");
    assert!(missing.may_have_taken_effect());
    host.take(Rpc::NodeUnpublishVolume, 3).await.unwrap();
    host.connect_machine(true);
    host.take(Rpc::NodePublishVolume, 4).await.unwrap();
    host.connect_machine(false);
    let still = host.take(Rpc::NodeUnpublishVolume, 5).await.unwrap_err();
    assert!(matches!(still, HostError::StillThere { .. }), "{still}");
    let unstaged = host.take(Rpc::NodeUnstageVolume, 5).await.unwrap_err();
    assert!(matches!(unstaged, HostError::InUse { .. }), "{unstaged}");
    host.connect_machine(true);
    for step in [Rpc::NodeUnpublishVolume, Rpc::NodeUnstageVolume, Rpc::ControllerUnpublishVolume] {
        host.take(step, 6).await.unwrap();
    }
    host.check_nothing_left("").await;
}

/// A volume is not given back while a process keeps its file system, and the next attempt asks again.
#[tokio::test]
async fn a_volume_whose_files_are_open_elsewhere_is_not_given_back() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    host.mounter.keep_by(Some(vec![7, 12]));
    let kept = host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap_err();
    let expected = "a process outside of the task still has files of volume";
    assert!(kept.to_string().starts_with(expected), "{kept}");
    assert!(kept.to_string().ends_with("open: PID 7, 12"), "{kept}");
    assert!(kept.may_have_taken_effect() && !kept.is_permanent());
    assert!(kept.help().is_some());
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![volume()]));
    host.mounter.keep_by(None);
    host.take(Rpc::NodeUnpublishVolume, 3).await.unwrap();
    host.mounter.keep_by(Some(vec![]));
    let kept = host.take(Rpc::NodeUnstageVolume, 3).await.unwrap_err();
    assert!(matches!(kept, HostError::StillOpen { .. }), "{kept}");
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![volume()]));
    host.mounter.keep_by(None);
    host.take(Rpc::NodeUnstageVolume, 4).await.unwrap();
    host.take(Rpc::ControllerUnpublishVolume, 4).await.unwrap();
    host.check_nothing_left("").await;
}

/// A sector that went bad in the record of a target, or of a staging.
#[tokio::test]
async fn a_damaged_record_does_not_keep_a_mounted_volume() {
    for damage in [&[0; 4][..], b"{\"volume\"", b"[]"] {
        let host = FakeHost::start();
        host.take_until(Rpc::NodeUnpublishVolume).await;
        let mounts = host.mounter.mounts();
        assert_eq!(mounts.len(), 2);
        for mount in &mounts {
            let record = record_beside(&mount.target);
            assert!(record.exists());
            std::fs::write(record, damage).unwrap();
        }
        // What is still open is found by what the repaired record says of the mount.
        host.mounter.keep_by(Some(vec![7]));
        for _ in 0..2 {
            let kept = host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap_err();
            assert!(matches!(kept, HostError::StillOpen { .. }), "{kept}");
        }
        host.mounter.keep_by(None);
        for step in &STEPS[4..] {
            host.take(*step, 3).await.unwrap();
        }
        host.check_nothing_left("").await;
    }
}

/// Who may have its files open is not known then.
#[tokio::test]
async fn a_damaged_record_of_a_mount_that_is_gone_is_an_error() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    let mounts = host.mounter.mounts();
    let target = mounts.iter().find(|one| one.target.to_string_lossy().contains("targets"));
    let target = &target.unwrap().target;
    std::fs::write(record_beside(target), [0; 4]).unwrap();
    host.mounter.unmount_all(target).unwrap();
    let refused = host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap_err();
    assert!(matches!(refused, HostError::NotPrepared(_)), "{refused}");
    assert!(refused.to_string().contains("volume.json"), "{refused}");
    let help = refused.help().unwrap();
    let (_, command) = help.split_once("run `").unwrap();
    let mut words = command.trim_end_matches('`').split(' ');
    let program = words.next().unwrap();
    let ended = std::process::Command::new(program).args(words).status();
    assert!(ended.unwrap().success(), "{help}");
    for step in &STEPS[4..] {
        host.take(*step, 3).await.unwrap();
    }
    host.check_nothing_left("").await;
}

#[tokio::test]
async fn a_device_is_published_as_a_file() {
    let host = FakeHost::with(settings(), AttachmentMode::BlockDevice);
    host.take_until(Rpc::NodeUnpublishVolume).await;
    assert_eq!(host.mounter.mounts().len(), 1, "a staged device shows no mount");
    let found = host.manager.left_behind(Term::default()).await;
    assert_eq!(found, Ok(vec![volume()]));
    for step in &STEPS[4..] {
        host.take(*step, 2).await.unwrap();
    }
    host.check_nothing_left("").await;
}

/// The world has moved on, and nothing is mounted: the plugin may say so by NOT_FOUND. Any other error is one, and the
/// volume is unpublished again.
#[tokio::test]
async fn an_unpublish_of_what_is_gone_succeeds_only_if_the_plugin_says_so() {
    for code in StatusCode::ALL {
        if code == StatusCode::Ok {
            continue;
        }
        for is_absent in [false, true] {
            let host = FakeHost::start();
            host.take_until(Rpc::NodeUnpublishVolume).await;
            let target = host.mounter.mounts().remove(1).target;
            let fault = [Fault::Fail(code)];
            host.backend.reboot(&"i-42".into());
            if is_absent {
                std::fs::remove_dir(&target).unwrap();
            }
            host.backend.inject_faults(Rpc::NodeUnpublishVolume, fault);
            let undone = host.take(Rpc::NodeUnpublishVolume, 2).await;
            let is_gone = code == StatusCode::NotFound;
            assert_eq!(undone.is_ok(), is_gone, "{code:?}: {undone:?}");
            host.restart_plugin().await;
            let calls = host.backend.count(Rpc::NodeUnpublishVolume);
            host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap();
            assert_eq!(host.backend.count(Rpc::NodeUnpublishVolume), calls + 1);
            host.take(Rpc::NodeUnstageVolume, 2).await.unwrap();
            host.take(Rpc::ControllerUnpublishVolume, 2).await.unwrap();
            host.check_nothing_left(code.as_str()).await;
        }
    }
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    let fault = [Fault::Fail(StatusCode::Internal)];
    host.backend.inject_faults(Rpc::NodeUnpublishVolume, fault);
    let mounted = host.take(Rpc::NodeUnpublishVolume, 2).await;
    assert!(mounted.is_err(), "it is still mounted");
    host.manager.sweep(host.order(3), volume()).await.unwrap();
}

/// A plugin unmounts a volume, and fails to close its session: it is called until it has done that too.
#[tokio::test]
async fn an_unpublish_that_unmounts_and_fails_is_repeated() {
    for code in [StatusCode::Internal, StatusCode::Unknown, StatusCode::InvalidArgument] {
        let host = FakeHost::start();
        host.take_until(Rpc::NodeUnpublishVolume).await;
        let fails = [Fault::FailAfterEffect(code), Fault::Fail(code)];
        host.backend.inject_faults(Rpc::NodeUnpublishVolume, fails);
        for _ in 0..2 {
            let failed = host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap_err();
            assert!(matches!(failed, HostError::Plugin(_)), "{failed}");
            assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![volume()]));
        }
        assert_eq!(host.mounter.mounts().len(), 1, "only the staging is mounted");
        host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap();
        host.take(Rpc::NodeUnstageVolume, 2).await.unwrap();
        host.take(Rpc::ControllerUnpublishVolume, 2).await.unwrap();
        host.check_nothing_left(code.as_str()).await;
    }
}

/// Something else at a path is not touched.
#[tokio::test]
async fn a_foreign_mount_is_not_used_and_not_forgotten() {
    let host = FakeHost::start();
    host.take(Rpc::ControllerPublishVolume, 1).await.unwrap();
    let foreign = host.directory.path().join("fake/vol%2f1/staging/mount");
    std::fs::create_dir_all(&foreign).unwrap();
    host.mounter.mount_foreign(&foreign);
    let refused = host.take(Rpc::NodeStageVolume, 1).await.unwrap_err();
    let expected = format!("`{}` is already mounted for something else", foreign.display());
    assert_eq!(refused.to_string(), expected);
    assert!(refused.was_not_sent());
    let unknown = host.manager.left_behind(Term::default()).await.unwrap_err();
    assert_eq!(unknown, HostError::Unidentified { path: foreign.clone() });
    host.mounter.unmount(&foreign).await.unwrap();
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![]));
    // The directory of a plugin that is a task is a shared mount.
    let shared = host.directory.path().join("fake");
    host.mounter.share(&shared).await.unwrap();
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![]));
    assert_eq!(host.backend.count(Rpc::NodeStageVolume), 0);
}

/// Rule 7: a call that still runs may leave something, so the node is not clean before it ends.
#[tokio::test(start_paused = true)]
async fn a_volume_with_a_running_call_is_left_behind() {
    let host = FakeHost::start();
    let hang = [Fault::Hang];
    host.backend.inject_faults(Rpc::NodeUnpublishVolume, hang);
    let undo = host.take(Rpc::NodeUnpublishVolume, 1);
    tokio::pin!(undo);
    tokio::select! {
        undone = &mut undo => panic!("{undone:?}"),
        () = host.backend.wait_for_calls(1) => {}
    }
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![volume()]));
    host.backend.release();
    undo.await.ok();
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![]));
}

/// A refusal without effect leaves no directory behind.
#[tokio::test]
async fn a_refused_stage_leaves_nothing() {
    let host = FakeHost::start();
    host.take(Rpc::ControllerPublishVolume, 1).await.unwrap();
    let refused = [Fault::Fail(StatusCode::InvalidArgument)];
    host.backend.inject_faults(Rpc::NodeStageVolume, refused);
    let error = host.take(Rpc::NodeStageVolume, 1).await.unwrap_err();
    assert!(error.is_permanent());
    host.take(Rpc::ControllerUnpublishVolume, 2).await.unwrap();
    host.check_nothing_left("").await;
}

/// A sweep undoes what the next process of the agent finds, targets before the staging, until nothing
/// is found; it needs no memory of the requests.
#[tokio::test]
async fn a_sweep_undoes_what_an_earlier_process_left() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    let request = host.publish_request("alloc-2");
    host.manager.publish(host.order(3), request).await.unwrap();
    let host = host.restart("session-2").await;
    assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![volume()]));
    assert_eq!(host.events.take(), []);
    let sweep = |index| host.manager.sweep(host.order(index), volume());
    let crash = [Fault::CrashAfterEffect];
    host.backend.inject_faults(Rpc::NodeUnstageVolume, crash);
    sweep(1).await.unwrap_err();
    host.restart_plugin().await;
    assert_eq!(sweep(1).await, Ok(SweepOutcome::UndidSomething));
    assert_eq!(sweep(1).await, Ok(SweepOutcome::NothingLeft));
    let events = host.events.take();
    let allocs: Vec<_> = events.iter().filter_map(|event| event.alloc.as_ref()).collect();
    assert_eq!(allocs, [&AllocId::new(ALLOC), &AllocId::new("alloc-2")]);
    host.take(Rpc::ControllerUnpublishVolume, 2).await.unwrap();
    host.check_nothing_left("").await;
    let mut old = host.order(9);
    old.session = "session-1".into();
    let refused = host.manager.stage(old, host.stage_request()).await;
    assert!(matches!(refused, Err(HostError::OtherSession { .. })));
}

/// The step that follows one that met a fault.
#[derive(Clone, Copy, Debug)]
enum Reaction {
    /// The step is repeated, then everything is undone.
    Repeat,
    /// Everything is undone at once.
    Undo,
    /// The agent is restarted, and the node is swept.
    Sweep,
}

fn faults() -> Vec<Fault> {
    let codes = StatusCode::ALL.into_iter();
    let codes = codes.filter(|code| *code != StatusCode::Ok);
    let lost_effect = |step| codes.clone().map(move |code| (step, code));
    let refused = codes.clone().map(Fault::Fail);
    // A plugin may work and then report a failure that does not exclude it.
    let failed = lost_effect(Rpc::NodeStageVolume)
        .filter(|(step, code)| verdict_of(*step, *code).may_have_taken_effect())
        .map(|(_, code)| Fault::FailAfterEffect(code));
    let others = [
        Fault::Hang,
        Fault::OutliveCaller,
        Fault::LoseReply,
        Fault::ApplyTwice,
        Fault::DelayReply,
        Fault::Crash,
        Fault::CrashAfterEffect,
    ];
    refused.chain(failed).chain(others).collect()
}

/// Every fault in every step, with every reaction: nothing is left, nothing is forbidden, and a
/// failure is never reported as success.
#[tokio::test(start_paused = true)]
async fn every_fault_of_every_step_is_resolved() {
    for step in STEPS {
        for fault in faults() {
            for reaction in [Reaction::Repeat, Reaction::Undo, Reaction::Sweep] {
                resolve(step, fault, reaction).await;
            }
        }
    }
}

async fn resolve(step: Rpc, fault: Fault, reaction: Reaction) {
    let what = format!("{step}, {fault:?}, {reaction:?}");
    let host = FakeHost::start();
    host.take_until(step).await;
    host.backend.inject_faults(step, [fault]);
    let met = host.take(step, 10).await;
    let is_done = match fault {
        Fault::ApplyTwice => true,
        Fault::Fail(code) => verdict_of(step, code) == Verdict::AlreadyDone,
        _ => false,
    };
    // NOT_FOUND means that there is nothing to undo; if there is, the mount table shows it.
    let is_honest = met.is_ok() == is_done || fault == Fault::Fail(StatusCode::NotFound);
    assert!(is_honest, "{what}: {met:?}");
    host.restart_plugin().await;
    let host = match reaction {
        Reaction::Repeat => {
            host.take(step, 10).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            host
        }
        Reaction::Undo => host,
        Reaction::Sweep => {
            let host = host.restart("session-2").await;
            for left in host.manager.left_behind(Term::default()).await.unwrap() {
                let order = host.order(11);
                let swept = host.manager.sweep(order, left).await;
                assert_eq!(swept, Ok(SweepOutcome::UndidSomething), "{what}");
            }
            host
        }
    };
    for undo in &STEPS[4..] {
        let undone = host.take(*undo, 12).await;
        undone.unwrap_or_else(|error| panic!("{what}, {undo}: {error}"));
    }
    host.check_nothing_left(&what).await;
}

/// B23: secrets are in the calls, and in no file, event or debug text.
#[tokio::test]
async fn no_file_event_or_debug_text_contains_a_secret() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    let mut texts = vec![
        format!("{:?}", host.attach_request()),
        format!("{:?}", FakeHost::detach_request()),
        format!("{:?}", host.stage_request()),
        format!("{:?}", host.publish_request(ALLOC)),
        format!("{:?}", host.events.take()),
    ];
    let root = host.directory.path().join("fake");
    for file in ["vol%2f1/staging/volume.json", "vol%2f1/targets/alloc-1/data/volume.json"] {
        texts.push(std::fs::read_to_string(root.join(file)).unwrap());
    }
    for text in texts {
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("db"), "{text}");
    }
    host.manager.sweep(host.order(9), volume()).await.unwrap();
}

/// What covers a volume is not the volume, and may belong to anything.
#[tokio::test]
async fn another_file_system_over_a_place_is_neither_taken_nor_unmounted() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    for (step, part) in [(Rpc::NodeStageVolume, "staging"), (Rpc::NodePublishVolume, "targets")] {
        let mounts = host.mounter.mounts();
        let mount = mounts.iter().find(|mount| mount.target.to_string_lossy().contains(part));
        let target = mount.unwrap().target.clone();
        host.mounter.mount_foreign(&target);
        let refused = host.take(step, 2).await.unwrap_err();
        let expected =
            format!("`{}` is already mounted for something else (`foreign`)", target.display());
        assert_eq!(refused.to_string(), expected);
        assert!(refused.was_not_sent() && !refused.is_permanent());
        assert_eq!(host.mounter.mounts().len(), mounts.len() + 1);
        nomad_csi_ports::MountCalls::unmount(&host.mounter, &target).unwrap();
        host.take(step, 2).await.unwrap();
    }
}

/// A plugin would publish the bare directory.
#[tokio::test]
async fn nothing_is_published_from_a_staging_that_lost_its_mount() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodePublishVolume).await;
    let staging = host.mounter.mounts().remove(0).target;
    host.mounter.unmount_all(&staging).unwrap();
    let calls = host.backend.count(Rpc::NodePublishVolume);
    let refused = host.take(Rpc::NodePublishVolume, 2).await.unwrap_err();
    let expected = format!(
        "the volume is no longer mounted at `{}`: nothing is mounted there",
        staging.display()
    );
    assert_eq!(refused.to_string(), expected);
    assert_eq!(host.backend.count(Rpc::NodePublishVolume), calls);
    // The plugin believes that its staging is whole, and mounts nothing.
    let refused = host.take(Rpc::NodeStageVolume, 3).await.unwrap_err();
    assert!(matches!(refused, HostError::NotThere { .. }), "{refused}");
    host.mounter.mount_volume(&staging, "vol/1");
    host.take(Rpc::NodeStageVolume, 4).await.unwrap();
    host.take(Rpc::NodePublishVolume, 5).await.unwrap();
}

/// Also when a sweep undoes what is left.
#[tokio::test]
async fn files_beside_a_volume_are_kept_and_do_not_block_its_release() {
    for is_swept in [false, true] {
        let host = FakeHost::start();
        host.take_until(Rpc::NodeUnpublishVolume).await;
        for mount in host.mounter.mounts() {
            host.mounter.unmount_all(&mount.target).unwrap();
            std::fs::create_dir_all(&mount.target).unwrap();
            std::fs::write(mount.target.join("file"), "precious").unwrap();
        }
        host.events.take();
        if is_swept {
            let swept = host.manager.sweep(host.order(2), volume()).await;
            assert_eq!(swept, Ok(nomad_csi_ports::SweepOutcome::UndidSomething));
        } else {
            host.take(Rpc::NodeUnpublishVolume, 2).await.unwrap();
            host.take(Rpc::NodeUnstageVolume, 2).await.unwrap();
        }
        let kept = host.manager.kept_files(&volume()).await.unwrap();
        assert_eq!(kept.len(), 2, "{kept:?}");
        let events = host.events.take();
        for directory in &kept {
            let file = std::fs::read_to_string(directory.join("file"));
            assert_eq!(file.unwrap(), "precious");
            let directory = directory.display().to_string();
            let is_meant = |event: &MountEvent| {
                let text = event.error.as_deref().unwrap_or_default();
                event.action == MountAction::Keep && text.contains(&directory)
            };
            assert!(events.iter().any(is_meant), "{events:?}");
        }
        assert_eq!(host.manager.left_behind(Term::default()).await, Ok(vec![]));
    }
}

/// The fake plugin cannot remove a sealed target.
#[tokio::test]
async fn a_target_is_sealed_while_it_is_published() {
    let host = FakeHost::start();
    host.take_until(Rpc::NodeUnpublishVolume).await;
    let mounts = host.mounter.mounts();
    let target = &mounts.last().unwrap().target;
    assert!(host.mounter.is_sealed(target), "{}", target.display());
    let host = host.restart("session-2").await;
    host.take(Rpc::NodePublishVolume, 2).await.unwrap();
    assert!(host.mounter.is_sealed(target));
    host.take(Rpc::NodeUnpublishVolume, 3).await.unwrap();
    assert!(!host.mounter.is_sealed(target));
    host.take(Rpc::NodeUnstageVolume, 4).await.unwrap();
    host.take(Rpc::ControllerUnpublishVolume, 5).await.unwrap();
    host.check_nothing_left("").await;
}

/// The statistics of the volume for one allocation.
async fn stats(host: &FakeHost, target: &Path) -> Result<VolumeStats, HostError> {
    let request = StatsRequest { volume: volume(), target: target.to_owned(), is_staged: true };
    host.manager.stats(&host.order(0).instance, request).await
}

fn reporting() -> PluginSettings {
    PluginSettings {
        node: Some(NodeCapabilities { get_volume_stats: true, ..settings().node.unwrap() }),
        ..settings()
    }
}

/// W56: the plugin gets the paths that were recorded, under its own names: the fake refuses others. A path that is no
/// target of the volume is not sent.
#[tokio::test]
async fn statistics_are_read_at_the_recorded_paths() {
    let host = FakeHost::with(reporting(), FILES);
    host.take_until(Rpc::NodePublishVolume).await;
    let publish = host.manager.publish(host.order(2), host.publish_request(ALLOC));
    let target = publish.await.unwrap();
    let target = target.on_host();
    let used = ReportedQuantity { unit: StatsUnit::Inodes, total: 8, used: 3, available: 5 };
    let condition = Condition { abnormal: true, message: "slow".to_owned() };
    let reported = ReportedStats { quantities: vec![used], condition: Some(condition) };
    host.backend.set_stats("i-42".into(), "vol/1".into(), reported);
    let read = stats(&host, target).await.unwrap();
    assert_eq!(read.inodes.unwrap().used, Some(3));
    assert_eq!(read.condition, None, "without VOLUME_CONDITION");
    let calls = host.backend.count(Rpc::NodeGetVolumeStats);
    let root = host.directory.path();
    for wrong in [
        root.join("fake/vol%2f1/staging/mount"),
        root.join("fake/vol-2/targets/a/b/mount"),
        target.with_file_name("other"),
        target.join(".."),
        Path::new("/etc").to_owned(),
        Path::new("").to_owned(),
    ] {
        let refused = stats(&host, &wrong).await.unwrap_err();
        assert!(refused.was_not_sent(), "{}: {refused}", wrong.display());
    }
    assert_eq!(host.backend.count(Rpc::NodeGetVolumeStats), calls);
}

/// W56: statistics that hang delay no step of the volume; while a step runs, none are asked for.
#[tokio::test]
async fn statistics_and_steps_do_not_wait_for_each_other() {
    let host = FakeHost::with(reporting(), FILES);
    host.take_until(Rpc::NodePublishVolume).await;
    let publish = host.manager.publish(host.order(2), host.publish_request(ALLOC));
    let target = publish.await.unwrap().on_host().to_owned();
    let rpc = Rpc::NodeGetVolumeStats;
    host.backend.inject_faults(rpc, [Fault::Hang]);
    let reading = {
        let (manager, instance) = (host.manager.clone(), host.order(0).instance);
        let request = StatsRequest { volume: volume(), target: target.clone(), is_staged: true };
        tokio::spawn(async move { manager.stats(&instance, request).await })
    };
    while host.backend.count(rpc) == 0 {
        tokio::task::yield_now().await;
    }
    let second = host.publish_request("alloc-2");
    host.manager.publish(host.order(3), second).await.unwrap();
    let second = FakeHost::unpublish_request("alloc-2");
    host.manager.unpublish(host.order(4), second).await.unwrap();
    assert!(!reading.is_finished());
    host.backend.release();
    reading.await.unwrap().unwrap();

    host.backend.inject_faults(Rpc::NodeUnpublishVolume, [Fault::Hang]);
    let undoing = {
        let (manager, order) = (host.manager.clone(), host.order(5));
        let request = FakeHost::unpublish_request(ALLOC);
        tokio::spawn(async move { manager.unpublish(order, request).await })
    };
    let unpublishes = host.backend.count(Rpc::NodeUnpublishVolume);
    while host.backend.count(Rpc::NodeUnpublishVolume) == unpublishes {
        tokio::task::yield_now().await;
    }
    let asked = host.backend.count(rpc);
    let refused = stats(&host, &target).await.unwrap_err();
    assert!(matches!(refused, HostError::Busy { .. }), "{refused}");
    assert_eq!(host.backend.count(rpc), asked);
    host.backend.release();
    undoing.await.unwrap().unwrap();
}
