//! The strict fakes of a host and a plugin behind a connection: a life of a volume.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::connection::Connection;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    ExternalNodeId, MountOptions, NamespacedId, NodeCapabilities, RemoteVolume, Secrets, Term,
    Usage,
};
use nomad_csi_ports::{
    CallOrder, ConnectedNode, ControllerPublishRequest, ControllerUnpublishRequest, CreateVolume,
    HostError, NodeHost as _, PluginDirectory as _, PublishRequest, Rpc, StageRequest, StatusCode,
    UnpublishRequest, UnstageRequest,
};
use nomad_csi_testing::{Call, FakeBackend, FakeDirectory, FakeStepHost, Fault, PluginSettings};

const TERM: Term = Term { epoch: 0, revision: 3 };
const WRITER: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

fn secrets() -> Secrets {
    let mut secrets = Secrets::default();
    secrets.insert("password", super::samples::CANARY);
    secrets
}

/// A host whose plugin demands its secrets with every call.
fn host() -> (Arc<FakeBackend>, FakeStepHost, ConnectedNode) {
    let settings = PluginSettings {
        secrets: secrets(),
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            publish_unpublish_volume: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities { stage_unstage_volume: true, ..NodeCapabilities::default() }),
        ..PluginSettings::default()
    };
    let backend = FakeBackend::new(settings);
    let host = FakeStepHost::new(backend.clone(), "ebs".into(), None, "now");
    let plugins = FakeDirectory::default();
    plugins.insert("ebs".into(), "a".into(), host.serialized_plugin().connection());
    let shared = Arc::new(host.clone());
    let node = ConnectedNode {
        host: shared.clone(),
        controllers: shared,
        plugins: Arc::new(plugins),
        logs: None,
        allocs: None,
    };
    (backend, host, node)
}

/// Numbers the requests of a life.
struct Orders(u64);

impl Orders {
    fn next(&mut self) -> CallOrder {
        self.0 += 1;
        CallOrder { term: TERM, number: self.0, session: "now".into(), instance: "a".into() }
    }
}

/// Creates, attaches, stages, publishes, and undoes all of it, with a failure of the plugin and a refused request. Returns
/// every answer.
async fn live(node: &ConnectedNode, backend: &FakeBackend) -> Vec<String> {
    let mut answers = vec![];
    let mut orders = Orders(0);
    let plugin = node.plugins.instance(&"ebs".into(), &"a".into()).await.unwrap();
    let created = plugin.controller.create_volume(CreateVolume {
        name: "db".to_owned(),
        capacity: CapacityRange { min: Bytes::new(1024).unwrap(), max: Bytes::ZERO },
        capabilities: vec![WRITER],
        mount_options: MountOptions::default(),
        parameters: BTreeMap::new(),
        secrets: secrets(),
        source: None,
        topology: None,
    });
    let created = created.await;
    answers.push(format!("{created:?}"));
    let created = created.unwrap();
    let volume = RemoteVolume { plugin_id: "ebs".into(), external_id: created.external_id.clone() };
    let name = NamespacedId::new("default".into(), "db".into());
    let usage = Usage { capability: WRITER, mount_options: MountOptions::default() };
    let alloc = AllocId::new("web");
    let attach = ControllerPublishRequest {
        volume: volume.clone(),
        name: name.clone(),
        node: ExternalNodeId::new("fake-node"),
        usage: usage.clone(),
        read_only: false,
        volume_context: created.context.clone(),
        secrets: secrets(),
    };
    backend.inject_faults(
        Rpc::ControllerPublishVolume,
        [Fault::Fail(StatusCode::ResourceExhausted), Fault::LoseReply],
    );
    for _ in 0..2 {
        let attached = node.controllers.publish(orders.next(), attach.clone()).await;
        answers.push(format!("{attached:?}"));
    }
    let attached = node.controllers.publish(orders.next(), attach).await;
    answers.push(format!("{attached:?}"));
    let publish_context = attached.unwrap();
    let stage = StageRequest {
        volume: volume.clone(),
        name: name.clone(),
        usage: usage.clone(),
        attaches: true,
        publish_context: publish_context.clone(),
        volume_context: created.context.clone(),
        secrets: secrets(),
    };
    let other = CallOrder { session: "before".into(), ..orders.next() };
    answers.push(format!("{:?}", node.host.stage(other, stage.clone()).await));
    answers.push(format!("{:?}", node.host.stage(orders.next(), stage).await));
    let publish = PublishRequest {
        volume: volume.clone(),
        name: name.clone(),
        alloc: alloc.clone(),
        alias: "data".into(),
        usage,
        attaches: true,
        stages: true,
        read_only: false,
        publish_context,
        volume_context: created.context,
        secrets: secrets(),
    };
    answers.push(format!("{:?}", node.host.publish(orders.next(), publish).await));
    answers.push(format!("{:?}", node.host.left_behind(TERM).await));
    let unpublish = UnpublishRequest {
        volume: volume.clone(),
        name: name.clone(),
        alloc,
        alias: "data".into(),
    };
    answers.push(format!("{:?}", node.host.unpublish(orders.next(), unpublish).await));
    let unstage = UnstageRequest { volume: volume.clone(), name: name.clone() };
    answers.push(format!("{:?}", node.host.unstage(orders.next(), unstage).await));
    answers.push(format!("{:?}", node.host.sweep(orders.next(), volume.clone()).await));
    answers.push(format!("{:?}", node.host.left_behind(TERM).await));
    let detach = ControllerUnpublishRequest {
        volume: volume.clone(),
        name,
        node: ExternalNodeId::new("fake-node"),
        secrets: secrets(),
    };
    answers.push(format!("{:?}", node.controllers.unpublish(orders.next(), detach).await));
    let deleted = plugin.controller.delete_volume(volume.external_id, secrets()).await;
    answers.push(format!("{deleted:?}"));
    answers
}

#[tokio::test]
async fn a_volume_lives_behind_a_connection_as_without_one() {
    let (direct, _, local) = host();
    let expected = live(&local, &direct).await;
    let (behind, host, node) = host();
    let connection = Connection::to(node, Arc::new(host)).await;
    let remote = connection.remote(TERM).connected();
    assert_eq!(live(&remote, &behind).await, expected);
    let calls: Vec<Call> = behind.calls();
    assert_eq!(calls, direct.calls());
    assert!(calls.len() >= 9, "{calls:?}");
    assert!(behind.volumes().is_empty() && behind.stagings().is_empty());
    assert!(expected.iter().any(|answer| answer.contains("ResourceExhausted")), "{expected:?}");
    assert!(expected.iter().any(|answer| answer.contains("Unanswered")), "{expected:?}");
    assert!(expected.iter().any(|answer| answer.contains("OtherSession")), "{expected:?}");
}

/// The host that obeys a new leader refuses the steps of the one before.
#[tokio::test]
async fn a_host_behind_a_connection_obeys_the_newest_leader() {
    let (_backend, host, node) = host();
    let connection = Connection::to(node, Arc::new(host)).await;
    let newer = Term { epoch: 0, revision: 9 };
    connection.remote(newer).left_behind(newer).await.unwrap();
    let old = connection.remote(TERM);
    let expected = HostError::OldTerm { desired: TERM, newest: newer };
    assert_eq!(old.left_behind(TERM).await, Err(expected.clone()));
    let plugin = old.instance(&"ebs".into(), &"a".into()).await.unwrap();
    let refused = plugin.controller.delete_volume("v".into(), secrets()).await.unwrap_err();
    assert_eq!(refused.message, expected.to_string());
}
