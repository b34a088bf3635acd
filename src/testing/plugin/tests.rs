//! The fake detects every violation that the tests rely on.

use super::*;
use crate::{FakeBackend, Fault};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, MountOptions, TopologyRequest,
};

const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

fn fake() -> (Arc<FakeBackend>, FakePlugin) {
    let backend = FakeBackend::new(PluginSettings::default());
    (backend.clone(), FakePlugin::new(backend))
}

fn create(name: &str) -> CreateVolume {
    CreateVolume {
        name: name.to_owned(),
        capacity: CapacityRange::default(),
        capabilities: vec![WRITER],
        mount_options: MountOptions::default(),
        parameters: BTreeMap::new(),
        secrets: Secrets::default(),
        source: None,
        topology: None,
    }
}

fn stage(volume: &CreatedVolume, path: &str) -> StageVolume {
    StageVolume {
        external_id: volume.external_id.clone(),
        publish_context: BTreeMap::new(),
        staging_path: path.into(),
        capability: WRITER,
        mount_options: MountOptions::default(),
        secrets: Secrets::default(),
        context: volume.context.clone(),
    }
}

fn publish(volume: &CreatedVolume, target: &str) -> PublishVolume {
    PublishVolume {
        external_id: volume.external_id.clone(),
        publish_context: BTreeMap::new(),
        staging_path: Some("/staging".into()),
        target_path: target.into(),
        capability: WRITER,
        mount_options: MountOptions::default(),
        read_only: false,
        secrets: Secrets::default(),
        context: volume.context.clone(),
    }
}

fn code<T: std::fmt::Debug>(answer: Result<T, PluginError>) -> StatusCode {
    answer.unwrap_err().code
}

#[tokio::test]
async fn a_name_identifies_one_volume() {
    let (backend, plugin) = fake();
    let first = plugin.create_volume(create("a")).await.unwrap();
    assert_eq!(plugin.create_volume(create("a")).await, Ok(first.clone()));
    let mut larger = create("a");
    larger.capacity.min = Bytes::new(1 << 30).unwrap();
    assert_eq!(code(plugin.create_volume(larger).await), StatusCode::AlreadyExists);
    assert_eq!(backend.volumes().len(), 1);
    let id = first.external_id;
    let no_secrets = Secrets::default;
    assert_eq!(plugin.delete_volume(id.clone(), no_secrets()).await, Ok(()));
    assert_eq!(plugin.delete_volume(id, no_secrets()).await, Ok(()));
    assert_eq!(backend.volumes(), []);
}

#[tokio::test]
async fn stage_publish_unpublish_unstage_in_order_is_no_violation() {
    let (backend, plugin) = fake();
    let volume = plugin.create_volume(create("a")).await.unwrap();
    let id = &volume.external_id;
    for _ in 0..2 {
        plugin.stage_volume(stage(&volume, "/staging")).await.unwrap();
        plugin.publish_volume(publish(&volume, "/target")).await.unwrap();
    }
    assert_eq!(backend.stagings().len() + backend.targets().len(), 2);
    let second = plugin.publish_volume(publish(&volume, "/other")).await;
    assert_eq!(code(second), StatusCode::FailedPrecondition);
    for _ in 0..2 {
        let target = "/target".into();
        plugin.unpublish_volume(id.clone(), target).await.unwrap();
    }
    for _ in 0..2 {
        plugin.unstage_volume(id.clone(), "/staging".into()).await.unwrap();
    }
    assert_eq!(backend.stagings().len() + backend.targets().len(), 0);
}

#[tokio::test]
async fn forbidden_calls_are_recorded_as_violations() {
    let (backend, plugin) = fake();
    let volume = plugin.create_volume(create("a")).await.unwrap();
    let id = &volume.external_id;
    let assert_violation = |what: &str| {
        let violations = backend.take_violations();
        assert!(violations.len() == 1 && violations[0].contains(what), "{violations:?}");
    };
    plugin.publish_volume(publish(&volume, "/t")).await.unwrap_err();
    assert_violation("NodePublishVolume: fake-1 is not staged");
    plugin.stage_volume(stage(&volume, "/staging")).await.unwrap();
    plugin.stage_volume(stage(&volume, "/second")).await.unwrap_err();
    assert_violation("is already staged at /staging");
    let mut without_context = stage(&volume, "/staging");
    without_context.context.clear();
    plugin.stage_volume(without_context).await.unwrap_err();
    assert_violation("context does not belong to");
    plugin.publish_volume(publish(&volume, "/t")).await.unwrap();
    plugin.unstage_volume(id.clone(), "/staging".into()).await.unwrap_err();
    assert_violation("still published");
    let deleted = plugin.delete_volume(id.clone(), Secrets::default()).await;
    assert_eq!(code(deleted), StatusCode::FailedPrecondition);
    assert_violation("still attached, staged or published");
    let mut topology = create("b");
    topology.topology = Some(TopologyRequest {
        required: vec![nomad_csi_model::Topology::default()],
        preferred: vec![],
    });
    plugin.create_volume(topology).await.unwrap_err();
    assert_violation("VOLUME_ACCESSIBILITY_CONSTRAINTS");
    backend.update_settings(|settings| settings.secrets = Secrets::from_iter([("token", "t")]));
    plugin.create_volume(create("b")).await.unwrap_err();
    assert_violation("secrets are missing");
    backend.update_settings(|settings| settings.controller = None);
    let answer = plugin.validate_volume(ValidateVolume {
        external_id: id.clone(),
        capabilities: vec![WRITER],
        mount_options: MountOptions::default(),
        parameters: BTreeMap::new(),
        context: volume.context.clone(),
        secrets: Secrets::default(),
    });
    assert_eq!(code(answer.await), StatusCode::Unimplemented);
    assert_violation("does not advertise");
}

#[tokio::test]
async fn concurrent_calls_for_one_volume_are_a_violation() {
    let (backend, plugin) = fake();
    backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    let first = plugin.create_volume(create("a"));
    let second = async {
        backend.wait_for_calls(1).await;
        let second = plugin.create_volume(create("a")).await;
        backend.release();
        second
    };
    let (first, second) = tokio::join!(first, second);
    assert!(first.is_ok());
    assert_eq!(code(second), StatusCode::Aborted);
    assert_eq!(backend.take_violations().len(), 1);
}

#[tokio::test]
#[should_panic(expected = "the orchestrator violated CSI")]
async fn an_untaken_violation_fails_the_test() {
    let (_backend, plugin) = fake();
    drop(plugin.create_volume(create("")).await);
}

/// The effect of each fault, and the verdict that the caller gets.
#[tokio::test(start_paused = true)]
async fn each_fault_has_its_effect_and_its_verdict() {
    use Verdict::{FailedUnknownOutcome, Retry, RetryUnknownOutcome};
    for (fault, verdict, volumes) in [
        (Fault::Fail(StatusCode::Internal), Some(FailedUnknownOutcome), 0),
        (Fault::FailAfterEffect(StatusCode::Unavailable), Some(RetryUnknownOutcome), 1),
        (Fault::Hang, Some(RetryUnknownOutcome), 0),
        (Fault::LoseReply, Some(RetryUnknownOutcome), 1),
        (Fault::ApplyTwice, None, 1),
        (Fault::DelayReply, Some(RetryUnknownOutcome), 1),
        (Fault::Crash, Some(RetryUnknownOutcome), 0),
        (Fault::CrashAfterEffect, Some(RetryUnknownOutcome), 1),
    ] {
        let (backend, plugin) = fake();
        backend.inject_faults(Rpc::CreateVolume, [fault]);
        let answer = plugin.create_volume(create("a")).await;
        assert_eq!(answer.err().map(|error| error.verdict), verdict, "{fault:?}");
        assert_eq!(backend.volumes().len(), volumes, "{fault:?}");
        if !backend.is_alive() {
            let error = plugin.create_volume(create("a")).await.unwrap_err();
            assert_eq!(error.verdict, Retry, "{fault:?}");
            backend.restart();
        }
        plugin.create_volume(create("a")).await.unwrap();
        assert_eq!(backend.volumes().len(), 1, "{fault:?}");
    }
}
