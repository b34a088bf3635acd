use std::collections::BTreeMap;

use super::*;
use crate::fake_host::{FakeHost, settings, volume};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{AttachmentMode, MountOptions};
use nomad_csi_ports::{PluginDirectory as _, Rpc, StatusCode, ValidateVolume};
use nomad_csi_testing::{Fault, PluginSettings};

/// Attach and detach carry the secrets (B24, B25, W06) and the plugin's own ID of the node (B36), or the
/// fake refuses them. The publish context is the plugin's (B93).
#[tokio::test]
async fn a_volume_is_attached_and_detached() {
    let host = FakeHost::start();
    for _ in 0..2 {
        let context = host.controller.publish(host.order(1), host.attach_request());
        let attachments = context.await.map(|context| (context, host.backend.attachments()));
        let (context, attachments) = attachments.unwrap();
        let ((_, node), attachment) = attachments.first_key_value().unwrap();
        assert_eq!(node.as_str(), "i-42");
        assert_eq!(context, attachment.publish_context);
    }
    for _ in 0..2 {
        let detached = host.controller.unpublish(host.order(2), FakeHost::detach_request());
        detached.await.unwrap();
    }
    assert_eq!(host.backend.attachments(), BTreeMap::new());
}

/// W26: `readonly` is sent only where PUBLISH_READONLY is advertised.
#[tokio::test]
async fn read_only_is_sent_where_the_plugin_knows_it() {
    for publish_readonly in [false, true] {
        let mut settings = settings();
        let controller = settings.controller.as_mut().unwrap();
        controller.publish_readonly = publish_readonly;
        let host = FakeHost::with(settings, AttachmentMode::FileSystem);
        let mut request = host.attach_request();
        request.read_only = true;
        let attached = host.controller.publish(host.order(1), request).await;
        attached.unwrap();
        let attachments = host.backend.attachments();
        let attachment = attachments.into_values().next().unwrap();
        assert_eq!(attachment.read_only, publish_readonly);
    }
}

#[tokio::test]
async fn a_plugin_without_the_capability_is_not_called() {
    let plain =
        PluginSettings { controller: Some(ControllerCapabilities::default()), ..settings() };
    let host = FakeHost::with(plain, AttachmentMode::FileSystem);
    let refused = host.controller.publish(host.order(1), host.attach_request());
    let refused = refused.await.unwrap_err();
    assert!(!refused.is_permanent() && refused.was_not_sent(), "{refused}");
    let mut order = host.order(2);
    order.instance = "other".into();
    let refused = host.controller.unpublish(order, FakeHost::detach_request());
    assert!(matches!(refused.await, Err(HostError::NoPlugin { .. })));
    assert_eq!(host.backend.calls(), []);
}

/// B105: attach and detach find their plugin, wait for it, and are repeated by the same rules.
#[tokio::test]
async fn attach_and_detach_have_the_same_rules() {
    for step in [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume] {
        let host = FakeHost::start();
        host.take_until(step).await;
        let send = async |order| match step {
            Rpc::ControllerPublishVolume => {
                let request = host.attach_request();
                host.controller.publish(order, request).await.map(drop)
            }
            _ => {
                let request = FakeHost::detach_request();
                host.controller.unpublish(order, request).await
            }
        };
        let earlier = host.backend.count(step);
        let mut order = host.order(8);
        order.instance = "other".into();
        let refused = send(order).await;
        assert!(matches!(refused, Err(HostError::NoPlugin { .. })), "{step}");
        let mut order = host.order(8);
        order.session = "earlier".into();
        let refused = send(order).await;
        assert!(matches!(refused, Err(HostError::OtherSession { .. })), "{step}");
        assert_eq!(host.backend.count(step), earlier, "{step}: nothing was sent");
        host.backend.inject_faults(step, [Fault::LoseReply]);
        let lost = send(host.order(9)).await.unwrap_err();
        assert!(lost.may_have_taken_effect(), "{step}: {lost}");
        let busy = send(host.order(9)).await;
        assert!(matches!(busy, Err(HostError::Busy { .. })), "{step}");
        host.restart_plugin().await;
        for _ in 0..2 {
            send(host.order(9)).await.unwrap();
        }
        let overtaken = send(host.order(8)).await;
        assert!(matches!(overtaken, Err(HostError::Overtaken { .. })), "{step}");
    }
}

fn validation(host: &FakeHost) -> ValidateVolume {
    ValidateVolume {
        external_id: volume().external_id,
        capabilities: vec![host.usage().capability],
        mount_options: MountOptions::default(),
        parameters: BTreeMap::new(),
        context: BTreeMap::new(),
        secrets: settings().secrets,
    }
}

/// Deletes, expansions, snapshots and validations of the controller caller run under the same call lock as attach and detach.
#[tokio::test]
async fn a_delete_does_not_run_into_an_attach() {
    let host = FakeHost::start();
    let backend = host.backend.clone();
    backend.inject_faults(Rpc::ControllerPublishVolume, [Fault::Hang]);
    let (plugin, alloc) = (volume().plugin_id, host.order(1).instance);
    let connection = host.registry.instance(&plugin, &alloc);
    let controller = connection.await.unwrap().controller;
    let attaching = host.controller.publish(host.order(1), host.attach_request());
    let deleting = async {
        backend.wait_for_calls(1).await;
        let deleted = controller.delete_volume(volume().external_id, settings().secrets);
        let refused = deleted.await.unwrap_err();
        assert_eq!((refused.code, refused.verdict), (StatusCode::Aborted, Verdict::Retry));
        assert!(refused.message.contains("attach"), "{refused}");
        let refused = controller.validate_volume(validation(&host)).await.unwrap_err();
        assert_eq!((refused.code, refused.verdict), (StatusCode::Aborted, Verdict::Retry));
        backend.release();
    };
    let (attached, ()) = tokio::join!(attaching, deleting);
    attached.unwrap();
    assert_eq!(backend.count(Rpc::DeleteVolume), 0);
    assert_eq!(backend.count(Rpc::ValidateVolumeCapabilities), 0);
    controller.validate_volume(validation(&host)).await.unwrap();
    let detached = host.controller.unpublish(host.order(2), FakeHost::detach_request());
    detached.await.unwrap();
    let deleted = controller.delete_volume(volume().external_id, settings().secrets);
    deleted.await.unwrap();
    assert_eq!(backend.volumes(), []);
}

/// The controller's calls for one volume are one call lock, whichever node they are for.
#[tokio::test]
async fn an_attach_to_another_node_waits_for_the_first() {
    let host = FakeHost::start();
    let backend = host.backend.clone();
    backend.add_node("i-43".into(), None);
    backend.inject_faults(Rpc::ControllerPublishVolume, [Fault::Hang]);
    let other = || {
        let mut request = host.attach_request();
        request.node = "i-43".into();
        host.controller.publish(host.order(2), request)
    };
    let first = host.controller.publish(host.order(1), host.attach_request());
    let second = async {
        backend.wait_for_calls(1).await;
        let refused = other().await.unwrap_err();
        assert!(matches!(refused, HostError::Busy { .. }), "{refused}");
        backend.release();
    };
    let (first, ()) = tokio::join!(first, second);
    first.unwrap();
    other().await.unwrap();
    assert_eq!(backend.attachments().len(), 2);
}
