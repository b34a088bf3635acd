//! The fake detects what CSI forbids on the way from attach to publish and back, on several nodes.

use super::*;
use crate::Fault;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Capability, CapacityRange, MountOptions, PublishContext,
};

const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};
const SHARED: Capability = Capability { access_mode: AccessMode::MultiNodeMultiWriter, ..WRITER };

/// A plugin with a volume `v` and two nodes.
struct Fixture {
    backend: Arc<FakeBackend>,
    nodes: [FakePlugin; 2],
}

fn fixture() -> Fixture {
    let backend = FakeBackend::new(PluginSettings {
        controller: Some(ControllerCapabilities {
            publish_unpublish_volume: true,
            expand_volume: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            expand_volume: true,
            ..NodeCapabilities::default()
        }),
        ..PluginSettings::default()
    });
    backend.add_volume("v".into(), BTreeMap::new());
    let nodes = ["a", "b"].map(|name| {
        backend.add_node(name.into(), None);
        FakePlugin::on_node(backend.clone(), name.into())
    });
    Fixture { backend, nodes }
}

fn attach(node: &str, capability: Capability) -> ControllerPublishVolume {
    ControllerPublishVolume {
        external_id: "v".into(),
        node_id: node.into(),
        capability,
        mount_options: MountOptions::default(),
        read_only: false,
        secrets: Secrets::default(),
        context: BTreeMap::new(),
    }
}

fn detach(node: &str) -> ControllerUnpublishVolume {
    ControllerUnpublishVolume {
        external_id: "v".into(),
        node_id: node.into(),
        secrets: Secrets::default(),
    }
}

fn stage(context: &PublishContext, capability: Capability) -> StageVolume {
    StageVolume {
        external_id: "v".into(),
        publish_context: context.clone(),
        staging_path: "/staging".into(),
        capability,
        mount_options: MountOptions::default(),
        secrets: Secrets::default(),
        context: BTreeMap::new(),
    }
}

fn publish(context: &PublishContext, capability: Capability) -> PublishVolume {
    PublishVolume {
        external_id: "v".into(),
        publish_context: context.clone(),
        staging_path: Some("/staging".into()),
        target_path: "/target".into(),
        capability,
        mount_options: MountOptions::default(),
        read_only: false,
        secrets: Secrets::default(),
        context: BTreeMap::new(),
    }
}

fn expand(path: &str, min: u64) -> NodeExpandVolume {
    NodeExpandVolume {
        external_id: "v".into(),
        volume_path: path.into(),
        capacity: CapacityRange { min: Bytes::new(min).unwrap(), max: Bytes::ZERO },
        staging_path: Some("/staging".into()),
        capability: None,
        mount_options: MountOptions::default(),
        secrets: Secrets::default(),
    }
}

impl Fixture {
    /// Checks that there was one violation with this text.
    fn violated(&self, what: &str) {
        let violations = self.backend.take_violations();
        let is_it = violations.len() == 1 && violations[0].contains(what);
        assert!(is_it, "{what}: {violations:?}");
    }
}

#[tokio::test]
async fn a_shared_volume_goes_to_two_nodes_and_back() {
    let fixture = fixture();
    for (name, plugin) in ["a", "b"].into_iter().zip(&fixture.nodes) {
        for _ in 0..2 {
            let context = plugin.controller_publish_volume(attach(name, SHARED)).await;
            let context = context.unwrap();
            plugin.stage_volume(stage(&context, SHARED)).await.unwrap();
            let published = plugin.publish_volume(publish(&context, SHARED)).await;
            published.unwrap();
        }
    }
    let backend = &fixture.backend;
    assert_eq!(backend.attachments().len(), 2);
    assert_eq!(backend.stagings().len() + backend.targets().len(), 4);
    for (name, plugin) in ["a", "b"].into_iter().zip(&fixture.nodes) {
        for _ in 0..2 {
            let target = "/target".into();
            plugin.unpublish_volume("v".into(), target).await.unwrap();
            let staging = "/staging".into();
            plugin.unstage_volume("v".into(), staging).await.unwrap();
            let detached = plugin.controller_unpublish_volume(detach(name)).await;
            detached.unwrap();
        }
    }
    assert_eq!(backend.attachments(), BTreeMap::new());
}

#[tokio::test]
async fn forbidden_steps_are_recorded_as_violations() {
    let fixture = fixture();
    let [a, b] = &fixture.nodes;
    let none = PublishContext::new();
    a.stage_volume(stage(&none, WRITER)).await.unwrap_err();
    fixture.violated("v is not attached to a");
    let attached = a.controller_publish_volume(attach("a", WRITER)).await;
    let context = attached.unwrap();
    a.stage_volume(stage(&none, WRITER)).await.unwrap_err();
    fixture.violated("the publish context is not that of v on a");
    a.publish_volume(publish(&context, WRITER)).await.unwrap_err();
    fixture.violated("v is not staged");
    let elsewhere = b.controller_publish_volume(attach("b", WRITER)).await;
    assert_eq!(elsewhere.unwrap_err().code, StatusCode::FailedPrecondition);
    fixture.violated("v is attached to a");
    let unnamed = a.controller_publish_volume(attach("nomad-node", WRITER));
    assert_eq!(unnamed.await.unwrap_err().code, StatusCode::NotFound);
    fixture.violated("never named a node nomad-node");
    let mut read_only = attach("a", WRITER);
    read_only.read_only = true;
    a.controller_publish_volume(read_only).await.unwrap_err();
    fixture.violated("PUBLISH_READONLY");
    a.stage_volume(stage(&context, WRITER)).await.unwrap();
    a.controller_unpublish_volume(detach("a")).await.unwrap_err();
    fixture.violated("still staged or published on a");
    a.node_expand_volume(expand("/elsewhere", 1)).await.unwrap_err();
    fixture.violated("v is not at /elsewhere");
    a.node_expand_volume(expand("/staging", 1)).await.unwrap_err();
    fixture.violated("was not expanded by the controller");
    a.delete_volume("v".into(), Secrets::default()).await.unwrap_err();
    fixture.violated("does not advertise");
}

/// A request without a required field is not sent.
#[tokio::test]
async fn an_incomplete_request_does_not_reach_the_plugin() {
    let fixture = fixture();
    let [a, _] = &fixture.nodes;
    let mut without_node = detach("");
    without_node.external_id = "v".into();
    let refused = a.controller_unpublish_volume(without_node).await;
    assert_eq!(refused.unwrap_err().message, "missing NodeID");
    let refused = a.controller_publish_volume(attach("", WRITER)).await;
    assert_eq!(refused.unwrap_err().message, "missing NodeID");
    a.node_expand_volume(expand("", 0)).await.unwrap_err();
    assert_eq!(fixture.backend.calls(), []);
}

/// One call at a time: on each node, and for the controller over all nodes.
#[tokio::test]
async fn each_call_lock_has_one_call_for_a_volume() {
    let fixture = fixture();
    let [a, b] = &fixture.nodes;
    let context = a.controller_publish_volume(attach("a", SHARED)).await;
    let context = context.unwrap();
    let other = b.controller_publish_volume(attach("b", SHARED)).await;
    let other = other.unwrap();
    let backend = &fixture.backend;
    backend.inject_faults(Rpc::NodeStageVolume, [Fault::Hang]);
    backend.inject_faults(Rpc::ControllerUnpublishVolume, [Fault::Hang]);
    let staging = a.stage_volume(stage(&context, SHARED));
    let detaching = b.controller_unpublish_volume(detach("b"));
    let others = async {
        backend.wait_for_calls(4).await;
        b.stage_volume(stage(&other, SHARED)).await.unwrap();
        assert_eq!(backend.take_violations(), Vec::<String>::new());
        a.stage_volume(stage(&context, SHARED)).await.unwrap_err();
        fixture.violated("NodeStageVolume for v is still running");
        a.controller_publish_volume(attach("a", SHARED)).await.unwrap_err();
        fixture.violated("ControllerUnpublishVolume for v is still running");
        b.unstage_volume("v".into(), "/staging".into()).await.unwrap();
        backend.release();
    };
    let (staged, detached, ()) = tokio::join!(staging, detaching, others);
    staged.unwrap();
    detached.unwrap();
}

/// An effect that outlives its caller happens later, and occupies the call lock until then; a crash of the
/// plugin prevents it.
#[tokio::test(start_paused = true)]
async fn an_effect_can_outlive_its_caller() {
    let fixture = fixture();
    let ([a, _], backend) = (&fixture.nodes, &fixture.backend);
    let outlive = [Fault::OutliveCaller, Fault::OutliveCaller];
    backend.inject_faults(Rpc::ControllerPublishVolume, outlive);
    let late = a.controller_publish_volume(attach("a", WRITER)).await;
    assert_eq!(late.unwrap_err().code, StatusCode::DeadlineExceeded);
    a.controller_unpublish_volume(detach("a")).await.unwrap_err();
    fixture.violated("ControllerPublishVolume for v is still running");
    assert_eq!(backend.attachments().len(), 0);
    backend.release();
    backend.wait_until_idle().await;
    assert_eq!(backend.attachments().len(), 1);
    a.controller_unpublish_volume(detach("a")).await.unwrap();

    let lost = a.controller_publish_volume(attach("a", WRITER));
    let crash = async {
        backend.wait_for_calls(4).await;
        backend.crash();
        backend.restart();
    };
    let (lost, ()) = tokio::join!(lost, crash);
    assert_eq!(lost.unwrap_err().code, StatusCode::Unavailable);
    backend.release();
    a.controller_unpublish_volume(detach("a")).await.unwrap();
    assert_eq!(backend.attachments().len(), 0);
}
