//! Every step of a claim over gRPC: attach, stage, publish, expand, and what undoes them.

use std::collections::BTreeMap;

use nomad_csi_csi::{GrpcConnector, deadline};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    MountOptions, NodeCapabilities, PublishContext, Secrets,
};
use nomad_csi_ports::{
    Connector as _, ControllerPublishVolume, ControllerUnpublishVolume, Delivery, NodeExpandVolume,
    PluginConnection, PluginError, PublishVolume, Rpc, SentSecrets, StageVolume, StatusCode,
    verdict_of,
};
use nomad_csi_testing::{FakeBackend, Fault, PluginSettings};

use crate::support::fake_plugin::FakePluginServer;

/// The steps in the order in which they can be taken.
const STEPS: [Rpc; 7] = [
    Rpc::ControllerPublishVolume,
    Rpc::NodeStageVolume,
    Rpc::NodePublishVolume,
    Rpc::NodeExpandVolume,
    Rpc::NodeUnpublishVolume,
    Rpc::NodeUnstageVolume,
    Rpc::ControllerUnpublishVolume,
];
const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

struct Fixture {
    _directory: tempfile::TempDir,
    server: FakePluginServer,
    plugin: PluginConnection,
}

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn options() -> MountOptions {
    MountOptions { fs_type: "ext4".to_owned(), mount_flags: vec!["noatime".to_owned()] }
}

fn volume_context() -> BTreeMap<String, String> {
    [("pool".to_owned(), "fast".to_owned())].into()
}

fn size() -> CapacityRange {
    CapacityRange { min: Bytes::new(1 << 30).unwrap(), max: Bytes::ZERO }
}

/// A plugin that needs every step, on the node `i-42`, with secrets and a volume `vol-1`.
fn start_plugin() -> Fixture {
    let settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            publish_unpublish_volume: true,
            publish_readonly: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            expand_volume: true,
            ..NodeCapabilities::default()
        }),
        secrets: secrets(),
        default_capacity: Bytes::new(1 << 30).unwrap(),
        ..PluginSettings::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let backend = FakeBackend::new(settings);
    backend.add_volume("vol-1".into(), volume_context());
    backend.add_node("i-42".into(), None);
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start_on(backend, &socket, Some("i-42".into()));
    let plugin = GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
    Fixture { _directory: directory, server, plugin }
}

fn attach() -> ControllerPublishVolume {
    ControllerPublishVolume {
        external_id: "vol-1".into(),
        node_id: "i-42".into(),
        capability: WRITER,
        mount_options: options(),
        read_only: true,
        secrets: secrets(),
        context: volume_context(),
    }
}

impl Fixture {
    /// The publish context of the attachment.
    fn context(&self) -> PublishContext {
        let attachments = self.server.backend.attachments();
        let first = attachments.into_values().next();
        first.map(|it| it.publish_context).unwrap_or_default()
    }

    async fn take(&self, step: Rpc) -> Result<(), PluginError> {
        let (controller, node) = (&self.plugin.controller, &self.plugin.node);
        let (staging, target) = ("/staging", "/target");
        match step {
            Rpc::ControllerPublishVolume => {
                let context = controller.controller_publish_volume(attach()).await?;
                // B93: the plugin's own words, unchanged.
                assert_eq!(context, self.context());
                Ok(())
            }
            Rpc::ControllerUnpublishVolume => {
                let request = ControllerUnpublishVolume {
                    external_id: "vol-1".into(),
                    node_id: "i-42".into(),
                    secrets: secrets(),
                };
                controller.controller_unpublish_volume(request).await
            }
            Rpc::NodeStageVolume => {
                let request = StageVolume {
                    external_id: "vol-1".into(),
                    publish_context: self.context(),
                    staging_path: staging.into(),
                    capability: WRITER,
                    mount_options: options(),
                    secrets: secrets(),
                    context: volume_context(),
                };
                node.stage_volume(request).await
            }
            Rpc::NodePublishVolume => {
                let request = PublishVolume {
                    external_id: "vol-1".into(),
                    publish_context: self.context(),
                    staging_path: Some(staging.into()),
                    target_path: target.into(),
                    capability: WRITER,
                    mount_options: options(),
                    read_only: true,
                    secrets: secrets(),
                    context: volume_context(),
                };
                node.publish_volume(request).await
            }
            Rpc::NodeExpandVolume => {
                let request = NodeExpandVolume {
                    external_id: "vol-1".into(),
                    volume_path: target.into(),
                    capacity: size(),
                    staging_path: Some(staging.into()),
                    capability: Some(WRITER),
                    mount_options: options(),
                    secrets: secrets(),
                };
                let expanded = node.node_expand_volume(request).await?;
                assert_eq!(expanded, size().min);
                Ok(())
            }
            Rpc::NodeUnpublishVolume => node.unpublish_volume("vol-1".into(), target.into()).await,
            Rpc::NodeUnstageVolume => node.unstage_volume("vol-1".into(), staging.into()).await,
            other => panic!("{other} is no step"),
        }
    }
}

/// Every step carries secrets, contexts and modes, or the fake refuses it: attach (B24), detach (B25,
/// W06), stage and publish with the publish context of the attachment (B93). The controller gets the ID
/// that NodeGetInfo returned (B36), and `readonly` (W26). Each step can be repeated.
#[tokio::test]
async fn every_step_carries_what_its_rpc_requires() {
    let fixture = start_plugin();
    let backend = &fixture.server.backend;
    let description = fixture.plugin.node.node_info().await.unwrap();
    assert_eq!(description.external_node_id.as_str(), "i-42");
    for step in STEPS {
        for _ in 0..2 {
            fixture.take(step).await.unwrap();
        }
        match step {
            Rpc::ControllerPublishVolume => {
                let attachments = backend.attachments();
                let ((volume, node), attachment) = attachments.first_key_value().unwrap();
                assert_eq!((volume.as_str(), node.as_str()), ("vol-1", "i-42"));
                assert!(attachment.read_only);
                assert_eq!(attachment.mount_options, options());
            }
            Rpc::NodeExpandVolume => {
                assert_eq!(backend.expanded().into_values().next(), Some(size().min));
            }
            _ => {}
        }
    }
    assert_eq!(backend.attachments(), BTreeMap::new());
    let headers = fixture.server.call_headers();
    let limit = format!("{}m", deadline::for_rpc(Rpc::NodeStageVolume).as_millis());
    for step in STEPS {
        let mut calls = headers.iter();
        let call = calls.find(|call| call.path.ends_with(step.as_str()));
        assert_eq!(call.unwrap().timeout.as_deref(), Some(limit.as_str()), "{step}");
    }
}

/// A request without a required field is refused before it is sent: an empty node ID would detach the
/// volume from every node.
#[tokio::test]
async fn an_incomplete_step_is_not_sent() {
    let fixture = start_plugin();
    let controller = &fixture.plugin.controller;
    let request = ControllerUnpublishVolume {
        external_id: "vol-1".into(),
        node_id: "".into(),
        secrets: secrets(),
    };
    let refused = controller.controller_unpublish_volume(request).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.message.as_str(), refused.verdict), ("missing NodeID", Verdict::Permanent));
    let mut request = attach();
    request.external_id = "".into();
    let refused = controller.controller_publish_volume(request).await;
    assert_eq!(refused.unwrap_err().message, "missing volume ID");
    let request = NodeExpandVolume {
        external_id: "vol-1".into(),
        volume_path: "".into(),
        capacity: CapacityRange::default(),
        staging_path: None,
        capability: None,
        mount_options: MountOptions::default(),
        secrets: Secrets::default(),
    };
    let refused = fixture.plugin.node.node_expand_volume(request).await;
    assert_eq!(
        refused.unwrap_err().message,
        "TargetPath is required\neither RequiredBytes or LimitBytes must be set"
    );
    assert_eq!(fixture.server.call_headers(), []);
}

/// Every fault of every step has the verdict of the table, and the same step succeeds afterwards
/// (B53, B54).
#[tokio::test(start_paused = true)]
async fn every_fault_of_every_step_has_its_verdict() {
    let codes = StatusCode::ALL.into_iter().filter(|code| *code != StatusCode::Ok);
    let mut faults: Vec<_> = codes.map(Fault::Fail).collect();
    faults.extend([
        Fault::FailAfterEffect(StatusCode::Unavailable),
        Fault::Hang,
        Fault::OutliveCaller,
        Fault::LoseReply,
        Fault::ApplyTwice,
        Fault::DelayReply,
        Fault::Crash,
        Fault::CrashAfterEffect,
    ]);
    for step in STEPS {
        for fault in &faults {
            let what = format!("{step}, {fault:?}");
            let fixture = start_plugin();
            let backend = fixture.server.backend.clone();
            for earlier in STEPS.into_iter().take_while(|earlier| *earlier != step) {
                fixture.take(earlier).await.unwrap();
            }
            backend.inject_faults(step, [*fault]);
            let error = fixture.take(step).await.err();
            let delivery = error.as_ref().map(|error| error.delivery);
            let is_answer = matches!(fault, Fault::Fail(_) | Fault::FailAfterEffect(_));
            let expected = if is_answer { Delivery::Answered } else { Delivery::Unanswered };
            assert!(delivery.is_none_or(|it| it == expected), "{what}: {error:?}");
            let verdict = error.map(|error| error.verdict);
            let expected = match fault {
                Fault::ApplyTwice => None,
                Fault::Fail(code) => Some(verdict_of(step, *code)),
                _ => Some(Verdict::RetryUnknownOutcome),
            };
            let expected = expected.filter(|verdict| *verdict != Verdict::AlreadyDone);
            assert_eq!(verdict, expected, "{what}");
            backend.crash();
            backend.restart();
            retry_until_done(&fixture, step).await;
        }
    }
}

/// Repeats a step until the connection is there again.
async fn retry_until_done(fixture: &Fixture, step: Rpc) {
    for _ in 0..100 {
        match fixture.take(step).await {
            Ok(()) => return,
            Err(error) => assert!(error.verdict.is_retried(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
    panic!("{step} failed a hundred times");
}
