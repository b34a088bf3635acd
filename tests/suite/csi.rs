//! The gRPC adapter against the strict fake plugin over a real socket.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nomad_csi::csi::GrpcConnector;
use nomad_csi::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    ExternalId, ExternalNodeId, MountOptions, NodeCapabilities, Secrets, Topology, TopologyRequest,
};
use nomad_csi::ports::fake::{FakeBackend, Fault, Settings};
use nomad_csi::ports::{
    Connector as _, CreateVolume, CreatedVolume, NodeDescription, PluginCapabilities,
    PluginConnection, PluginError, PublishVolume, Rpc, StageVolume, StatusCode, ValidateVolume,
};
use nomad_csi::retry::Verdict;

use crate::support::fake_plugin::FakePluginServer;

const CAPABILITY: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

/// A plugin on a socket, and the ports to it.
struct World {
    _directory: tempfile::TempDir,
    server: FakePluginServer,
    plugin: PluginConnection,
}

fn world(settings: Settings) -> World {
    let directory = tempfile::tempdir().unwrap();
    let backend = FakeBackend::new(settings);
    let server = FakePluginServer::start(backend, &directory.path().join("csi.sock"));
    let plugin = GrpcConnector::new().connect(server.socket());
    World {
        _directory: directory,
        server,
        plugin,
    }
}

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn options() -> MountOptions {
    MountOptions {
        fs_type: "ext4".to_owned(),
        mount_flags: vec!["noatime".to_owned()],
    }
}

fn create(name: &str) -> CreateVolume {
    CreateVolume {
        name: name.to_owned(),
        capacity: CapacityRange::default(),
        capabilities: vec![CAPABILITY],
        mount_options: options(),
        parameters: BTreeMap::new(),
        secrets: secrets(),
        source: None,
        topology: Some(TopologyRequest::default()),
    }
}

fn validate(volume: &CreatedVolume) -> ValidateVolume {
    ValidateVolume {
        external_id: volume.external_id.clone(),
        capabilities: vec![CAPABILITY],
        mount_options: options(),
        parameters: BTreeMap::new(),
        context: volume.context.clone(),
        secrets: secrets(),
    }
}

fn stage(volume: &CreatedVolume) -> StageVolume {
    StageVolume {
        external_id: volume.external_id.clone(),
        publish_context: BTreeMap::new(),
        staging_path: "/staging".into(),
        capability: CAPABILITY,
        mount_options: options(),
        secrets: secrets(),
        context: volume.context.clone(),
    }
}

fn publish(volume: &CreatedVolume) -> PublishVolume {
    PublishVolume {
        external_id: volume.external_id.clone(),
        publish_context: BTreeMap::new(),
        staging_path: Some("/staging".into()),
        target_path: "/target".into(),
        capability: CAPABILITY,
        mount_options: options(),
        read_only: true,
        secrets: secrets(),
        context: volume.context.clone(),
    }
}

/// What a plugin says of itself arrives; what this program does not know (the fake sends unknown
/// capabilities too) is passed over. B57: a Probe without `ready` is ready. B58: name and version.
#[tokio::test]
async fn a_plugin_is_asked_about_itself() {
    let place = Topology {
        segments: [("zone".to_owned(), "a".to_owned())].into(),
    };
    let settings = Settings {
        plugin: PluginCapabilities {
            controller_service: true,
            volume_accessibility_constraints: true,
        },
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            get_volume: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            volume_condition: true,
            ..NodeCapabilities::default()
        }),
        description: NodeDescription {
            external_node_id: ExternalNodeId::new("i-1"),
            max_volumes: Some(7),
            accessible_topology: Some(place),
        },
        ..Settings::default()
    };
    let world = world(settings.clone());
    let (identity, controller, node) = (
        &world.plugin.identity,
        &world.plugin.controller,
        &world.plugin.node,
    );
    assert_eq!(identity.plugin_info().await.unwrap(), settings.info);
    assert_eq!(
        identity.plugin_capabilities().await.unwrap(),
        settings.plugin
    );
    assert!(identity.probe().await.unwrap());
    world
        .server
        .backend
        .change(|settings| settings.ready = false);
    assert!(!identity.probe().await.unwrap());
    let capabilities = controller.controller_capabilities().await;
    assert_eq!(capabilities.ok(), settings.controller);
    assert_eq!(node.node_capabilities().await.ok(), settings.node);
    assert_eq!(node.node_info().await.unwrap(), settings.description);
}

/// The whole way up and down. B20, B21, B24: parameters, context and secrets arrive on every call
/// that has them (the fake refuses anything else). W27, GH-11238: nothing empty is sent.
#[tokio::test]
async fn a_volume_goes_all_the_way_up_and_down() {
    let world = world(Settings {
        secrets: secrets(),
        ..Settings::default()
    });
    let (controller, node) = (&world.plugin.controller, &world.plugin.node);
    let request = CreateVolume {
        capacity: CapacityRange {
            min: Bytes::new(1 << 30).unwrap(),
            max: Bytes::ZERO,
        },
        parameters: [("tier".to_owned(), "fast".to_owned())].into(),
        ..create("db")
    };
    let volume = controller.create_volume(request.clone()).await.unwrap();
    assert_eq!(volume.capacity.get(), 1 << 30);
    assert_eq!(controller.create_volume(request).await.unwrap(), volume);
    controller.validate_volume(validate(&volume)).await.unwrap();
    node.stage_volume(stage(&volume)).await.unwrap();
    node.publish_volume(publish(&volume)).await.unwrap();
    let targets = world.server.backend.targets();
    let target = targets.values().next().unwrap();
    assert!(target.read_only);
    assert_eq!(target.mount_options, options());
    let id = volume.external_id;
    node.unpublish_volume(id.clone(), "/target".into())
        .await
        .unwrap();
    node.unstage_volume(id.clone(), "/staging".into())
        .await
        .unwrap();
    controller.delete_volume(id, secrets()).await.unwrap();
    assert_eq!(world.server.backend.volumes(), []);
}

/// W28: what is to go and is not there counts as done, also for plugins that say NOT_FOUND; what is
/// to be used and is not there does not.
#[tokio::test]
async fn an_unknown_volume_is_gone_only_on_the_way_down() {
    let world = world(Settings {
        unknown_is_not_found: true,
        ..Settings::default()
    });
    let (controller, node) = (&world.plugin.controller, &world.plugin.node);
    let id = ExternalId::new("nobody");
    controller
        .delete_volume(id.clone(), Secrets::default())
        .await
        .unwrap();
    node.unpublish_volume(id.clone(), "/target".into())
        .await
        .unwrap();
    node.unstage_volume(id.clone(), "/staging".into())
        .await
        .unwrap();
    let unknown = CreatedVolume {
        external_id: id,
        capacity: Bytes::ZERO,
        context: BTreeMap::new(),
        topologies: vec![],
    };
    for error in [
        controller
            .validate_volume(validate(&unknown))
            .await
            .unwrap_err(),
        node.stage_volume(stage(&unknown)).await.unwrap_err(),
    ] {
        assert_eq!(error.code, StatusCode::NotFound, "{error}");
        assert_eq!(error.verdict, Verdict::RetryLater, "{error}");
    }
}

/// `csi-spec` 8.8, GH-12359: the authority is `localhost`; and each call carries its deadline.
#[tokio::test]
async fn every_call_carries_its_deadline_and_a_plain_authority() {
    let world = world(Settings::default());
    world.plugin.identity.probe().await.unwrap();
    world.plugin.identity.plugin_info().await.unwrap();
    world
        .plugin
        .controller
        .create_volume(create("a"))
        .await
        .unwrap();
    let seen: Vec<_> = world
        .server
        .envelopes()
        .into_iter()
        .map(|envelope| {
            assert_eq!(envelope.authority, "localhost", "{envelope:?}");
            (envelope.path, envelope.timeout.unwrap())
        })
        .collect();
    let expected = [
        ("/csi.v1.Identity/Probe", "5000000u"),
        ("/csi.v1.Identity/GetPluginInfo", "1000000u"),
        ("/csi.v1.Controller/CreateVolume", "120000m"),
    ];
    let expected = expected.map(|(path, timeout)| (path.to_owned(), timeout.to_owned()));
    assert_eq!(seen, expected);
}

/// What each fault means once it has gone over the wire, and that what it leaves behind can always
/// be finished by the identical call (B53, B54, W05). The same table as `ports::fake` has for the
/// ports themselves, so that a test over one front says something about the other.
#[tokio::test(start_paused = true)]
async fn each_fault_reads_the_same_over_grpc() {
    use Verdict::{FailedUnknownOutcome, Permanent, RetryLater, RetryUnknownOutcome};
    let fail = |code| Fault::Fail(code);
    for (fault, verdict, volumes) in [
        (fail(StatusCode::Aborted), Some(RetryUnknownOutcome), 0),
        (fail(StatusCode::Internal), Some(FailedUnknownOutcome), 0),
        (fail(StatusCode::Unknown), Some(FailedUnknownOutcome), 0),
        (fail(StatusCode::InvalidArgument), Some(Permanent), 0),
        (fail(StatusCode::ResourceExhausted), Some(RetryLater), 0),
        (
            Fault::FailAfterEffect(StatusCode::Unavailable),
            Some(RetryUnknownOutcome),
            1,
        ),
        (Fault::Hang, Some(RetryUnknownOutcome), 0),
        (Fault::LoseReply, Some(RetryUnknownOutcome), 1),
        (Fault::ApplyTwice, None, 1),
        (Fault::AnswerLate, Some(RetryUnknownOutcome), 1),
        (Fault::Crash, Some(RetryUnknownOutcome), 0),
        (Fault::CrashAfterEffect, Some(RetryUnknownOutcome), 1),
    ] {
        let world = world(Settings::default());
        let (backend, controller) = (&world.server.backend, &world.plugin.controller);
        backend.script(Rpc::CreateVolume, [fault]);
        let answer = controller.create_volume(create("a")).await;
        assert_eq!(
            answer.err().map(|error| error.verdict),
            verdict,
            "{fault:?}"
        );
        assert_eq!(backend.volumes().len(), volumes, "{fault:?}");
        backend.restart();
        backend.release();
        finish(|| controller.create_volume(create("a"))).await;
        assert_eq!(backend.volumes().len(), 1, "{fault:?}");
    }
}

/// Repeats a call while it says that it may be repeated.
async fn finish<T, F: Future<Output = Result<T, PluginError>>>(call: impl Fn() -> F) -> T {
    for _ in 0..100 {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.verdict.is_repeated(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
    panic!("a hundred attempts were not enough");
}

/// B56: an attempt ends at its deadline, whatever the plugin does.
#[tokio::test(start_paused = true)]
async fn a_plugin_that_never_answers_is_given_up_at_the_deadline() {
    let world = world(Settings::default());
    world.server.backend.script(Rpc::Probe, [Fault::Hang]);
    world
        .server
        .backend
        .script(Rpc::CreateVolume, [Fault::Hang]);
    let begin = tokio::time::Instant::now();
    let error = world.plugin.identity.probe().await.unwrap_err();
    assert_eq!(error.code, StatusCode::DeadlineExceeded);
    assert_eq!(begin.elapsed().as_secs(), 5);
    let begin = tokio::time::Instant::now();
    let error = world
        .plugin
        .controller
        .create_volume(create("a"))
        .await
        .unwrap_err();
    assert_eq!(error.code, StatusCode::DeadlineExceeded);
    assert_eq!(begin.elapsed().as_secs(), 120);
}

/// A connection may be had before the plugin listens, and outlives its restarts. As long as nobody
/// listens nothing was sent, and the message says where it was looked for.
#[tokio::test]
async fn a_connection_waits_for_its_plugin_and_outlives_it() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let connector = GrpcConnector::new();
    let plugin = connector.connect(&socket);
    let unsent = |error: PluginError| {
        assert_eq!(error.code, StatusCode::Unavailable, "{error}");
        assert_eq!(error.verdict, Verdict::Retry, "{error}");
        let said = format!("cannot connect to {}", socket.display());
        assert!(error.message.starts_with(&said), "{error}");
    };
    unsent(
        plugin
            .controller
            .create_volume(create("a"))
            .await
            .unwrap_err(),
    );
    let server = FakePluginServer::start(FakeBackend::new(Settings::default()), &socket);
    plugin.controller.create_volume(create("a")).await.unwrap();
    server.backend.crash();
    let error = finish_with_error(|| plugin.controller.create_volume(create("b"))).await;
    unsent(error);
    server.backend.restart();
    finish(|| plugin.controller.create_volume(create("b"))).await;
    assert_eq!(server.backend.volumes().len(), 2);
    let same = connector.connect(&socket);
    same.controller.create_volume(create("c")).await.unwrap();
}

/// Repeats a call until it finds nobody; before that its connection may break under way.
async fn finish_with_error<T, F: Future<Output = Result<T, PluginError>>>(
    call: impl Fn() -> F,
) -> PluginError {
    for _ in 0..100 {
        match call().await {
            Err(error) if error.verdict == Verdict::Retry => return error,
            Ok(_) | Err(_) => tokio::task::yield_now().await,
        }
    }
    panic!("the plugin did not die");
}

/// B55: what a plugin says of itself is asked once per fingerprint, so a failure there is never one
/// to repeat at once.
#[tokio::test]
async fn information_is_not_repeated_when_nobody_listens() {
    let plugin = GrpcConnector::new().connect(Path::new("/nowhere/csi.sock"));
    let error = plugin.identity.plugin_info().await.unwrap_err();
    assert_eq!(
        (error.code, error.verdict),
        (StatusCode::Unavailable, Verdict::RetryLater)
    );
    let waited = tokio::time::timeout(Duration::from_secs(60), plugin.identity.probe()).await;
    assert!(waited.unwrap().is_err());
}
