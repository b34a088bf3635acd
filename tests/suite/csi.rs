//! The gRPC client against the strict fake plugin over a real socket.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::private::start_time_in;
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    ExternalId, ExternalNodeId, MountOptions, NodeCapabilities, Secrets, Topology, TopologyRequest,
};
use nomad_csi_ports::{
    Connector as _, CreateVolume, CreatedVolume, Delivery, NodeDescription, PeerProcess,
    PluginCapabilities, PluginConnection, PluginError, PublishVolume, Rpc, SentSecrets,
    StageVolume, StatusCode, ValidateVolume,
};
use nomad_csi_proto as proto;
use nomad_csi_testing::{FakeBackend, Fault, PluginSettings};

use crate::support::echo_plugin::EchoPlugin;
use crate::support::fake_plugin::FakePluginServer;

const CAPABILITY: Capability = Capability {
    access_mode: AccessMode::SingleNodeWriter,
    attachment_mode: AttachmentMode::FileSystem,
};

/// A plugin on a socket, and its ports.
struct FakePlugin {
    _directory: tempfile::TempDir,
    server: FakePluginServer,
    plugin: PluginConnection,
}

fn start_plugin(settings: PluginSettings) -> FakePlugin {
    let directory = tempfile::tempdir().unwrap();
    let backend = FakeBackend::new(settings);
    let server = FakePluginServer::start(backend, &directory.path().join("csi.sock"));
    let plugin = GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
    FakePlugin { _directory: directory, server, plugin }
}

fn secrets() -> Secrets {
    Secrets::from_iter([("token", "hunter2")])
}

fn options() -> MountOptions {
    MountOptions { fs_type: "ext4".to_owned(), mount_flags: vec!["noatime".to_owned()] }
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

/// Plugins pass on the output of tools. Libraries of HTTP/2 lose errors of more than 16 KiB by themselves: the volume was
/// busy until the deadline.
#[tokio::test]
async fn a_long_error_is_an_answer_and_is_cut() {
    for bytes in [100, 15_000, 17_000, 300_000, 1_000_000] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let text = "x".repeat(bytes);
        let _plugin = EchoPlugin::start(&socket, move |_| Err(tonic::Status::internal(&text)));
        let plugin = GrpcConnector::new().connect(&socket, None, &SentSecrets::default());
        let id = ExternalId::new("vol-1");
        let deleted = plugin.controller.delete_volume(id, Secrets::default());
        let refused = deleted.await.unwrap_err();
        let found = (refused.code, refused.delivery);
        assert_eq!(found, (StatusCode::Internal, Delivery::Answered), "{bytes}");
        assert!(refused.message.starts_with("xxx"), "{bytes}");
        assert!(refused.message.len() <= 4096, "{bytes}");
    }
}

/// The plugin has done what it was asked, and its answer is refused here: the effect is unknown.
#[tokio::test]
async fn an_answer_that_is_too_long_is_no_refusal_of_the_plugin() {
    use prost::Message as _;
    for megabytes in [5, 70] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("csi.sock");
        let volume = proto::Volume {
            volume_id: "vol-1".to_owned(),
            volume_context: [("long".to_owned(), "x".repeat(megabytes << 20))].into(),
            ..proto::Volume::default()
        };
        let answer = proto::CreateVolumeResponse { volume: Some(volume) };
        let answer = answer.encode_to_vec();
        let _plugin = EchoPlugin::start(&socket, move |_| Ok(answer.clone()));
        let plugin = GrpcConnector::new().connect(&socket, None, &SentSecrets::default());
        let refused = plugin.controller.create_volume(create("db")).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code, StatusCode::Internal, "{refused}");
        assert_eq!(
            refused.verdict,
            nomad_csi_ports::verdict_of(Rpc::CreateVolume, StatusCode::Internal)
        );
        assert!(refused.message.len() < 4096, "{}", refused.message.len());
    }
}

/// The client reads what a plugin reports about itself and ignores unknown capabilities, which the
/// fake sends. A Probe response without `ready` means ready (B57). Name and version are kept (B58).
#[tokio::test]
async fn a_plugin_is_probed() {
    let place = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
    let settings = PluginSettings {
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
        ..PluginSettings::default()
    };
    let fake = start_plugin(settings.clone());
    let (identity, controller, node) =
        (&fake.plugin.identity, &fake.plugin.controller, &fake.plugin.node);
    assert_eq!(identity.plugin_info().await.unwrap(), settings.info);
    assert_eq!(identity.plugin_capabilities().await.unwrap(), settings.plugin);
    assert!(identity.probe().await.unwrap());
    fake.server.backend.update_settings(|settings| settings.ready = false);
    assert!(!identity.probe().await.unwrap());
    let capabilities = controller.controller_capabilities().await;
    assert_eq!(capabilities.ok(), settings.controller);
    assert_eq!(node.node_capabilities().await.ok(), settings.node);
    assert_eq!(node.node_info().await.unwrap(), settings.description);
}

/// B58: a plugin without a name is refused, by an error that says what is wrong.
#[tokio::test]
async fn a_plugin_without_a_name_is_refused() {
    for version in ["", "1.0"] {
        let mut settings = PluginSettings::default();
        settings.info.name = String::new();
        settings.info.vendor_version = version.to_owned();
        let fake = start_plugin(settings);
        let error = fake.plugin.identity.plugin_info().await.unwrap_err();
        assert_eq!(error.rpc, Rpc::GetPluginInfo);
        assert!(error.to_string().contains("the name is empty"), "{error}");
        assert_eq!(fake.server.backend.count(Rpc::GetPluginInfo), 1);
    }
}

/// The whole lifecycle of a volume. Every call carries its parameters, context and secrets, or the
/// fake refuses it (B20, B21, B24). Empty ranges and requirements are not sent (W27, GH-11238).
#[tokio::test]
async fn a_volume_passes_through_its_whole_lifecycle() {
    let fake = start_plugin(PluginSettings { secrets: secrets(), ..PluginSettings::default() });
    let (controller, node) = (&fake.plugin.controller, &fake.plugin.node);
    let request = CreateVolume {
        capacity: CapacityRange { min: Bytes::new(1 << 30).unwrap(), max: Bytes::ZERO },
        parameters: [("tier".to_owned(), "fast".to_owned())].into(),
        ..create("db")
    };
    let volume = controller.create_volume(request.clone()).await.unwrap();
    assert_eq!(volume.capacity.get(), 1 << 30);
    assert_eq!(controller.create_volume(request).await.unwrap(), volume);
    controller.validate_volume(validate(&volume)).await.unwrap();
    node.stage_volume(stage(&volume)).await.unwrap();
    node.publish_volume(publish(&volume)).await.unwrap();
    let targets = fake.server.backend.targets();
    let target = targets.values().next().unwrap();
    assert!(target.read_only);
    assert_eq!(target.mount_options, options());
    let id = volume.external_id;
    node.unpublish_volume(id.clone(), "/target".into()).await.unwrap();
    node.unstage_volume(id.clone(), "/staging".into()).await.unwrap();
    controller.delete_volume(id, secrets()).await.unwrap();
    assert_eq!(fake.server.backend.volumes(), []);
}

/// Removing an unknown volume succeeds, also if the plugin returns NOT_FOUND (W28). Using an unknown
/// volume fails.
#[tokio::test]
async fn an_unknown_volume_counts_as_removed_but_cannot_be_used() {
    let fake =
        start_plugin(PluginSettings { unknown_is_not_found: true, ..PluginSettings::default() });
    let (controller, node) = (&fake.plugin.controller, &fake.plugin.node);
    let id = ExternalId::new("unknown");
    controller.delete_volume(id.clone(), Secrets::default()).await.unwrap();
    node.unpublish_volume(id.clone(), "/target".into()).await.unwrap();
    node.unstage_volume(id.clone(), "/staging".into()).await.unwrap();
    let unknown = CreatedVolume {
        external_id: id,
        capacity: Bytes::ZERO,
        context: BTreeMap::new(),
        topologies: vec![],
    };
    for error in [
        controller.validate_volume(validate(&unknown)).await.unwrap_err(),
        node.stage_volume(stage(&unknown)).await.unwrap_err(),
    ] {
        assert_eq!(error.code, StatusCode::NotFound, "{error}");
        assert_eq!(error.verdict, Verdict::RetryLater, "{error}");
    }
}

/// The `:authority` is `localhost` (GH-12359), and each call carries its deadline.
#[tokio::test]
async fn every_call_carries_its_deadline_and_a_plain_authority() {
    let fake = start_plugin(PluginSettings::default());
    fake.plugin.identity.probe().await.unwrap();
    fake.plugin.identity.plugin_info().await.unwrap();
    fake.plugin.controller.create_volume(create("a")).await.unwrap();
    let seen: Vec<_> = fake
        .server
        .call_headers()
        .into_iter()
        .map(|envelope| {
            assert_eq!(envelope.authority, "localhost", "{envelope:?}");
            (envelope.path, envelope.timeout.unwrap())
        })
        .collect();
    let expected = [
        ("/csi.v1.Identity/Probe", "5000000u"),
        ("/csi.v1.Identity/GetPluginInfo", "1000000u"),
        ("/csi.v1.Controller/CreateVolume", "1800000m"),
    ];
    let expected = expected.map(|(path, timeout)| (path.to_owned(), timeout.to_owned()));
    assert_eq!(seen, expected);
}

/// Each fault has the same verdict over gRPC as in the table of the fake plugin, and the identical call
/// always completes the work afterwards (B53, B54: transient errors can be retried).
#[tokio::test(start_paused = true)]
async fn each_fault_has_the_same_verdict_over_grpc() {
    use Verdict::{FailedUnknownOutcome, Permanent, RetryBriefly, RetryUnknownOutcome};
    let fail = |code| Fault::Fail(code);
    for (fault, verdict, volumes) in [
        (fail(StatusCode::Aborted), Some(RetryUnknownOutcome), 0),
        (fail(StatusCode::Internal), Some(FailedUnknownOutcome), 0),
        (fail(StatusCode::Unknown), Some(FailedUnknownOutcome), 0),
        (fail(StatusCode::InvalidArgument), Some(Permanent), 0),
        (fail(StatusCode::ResourceExhausted), Some(RetryBriefly), 0),
        (Fault::FailAfterEffect(StatusCode::Unavailable), Some(RetryUnknownOutcome), 1),
        (Fault::Hang, Some(RetryUnknownOutcome), 0),
        (Fault::LoseReply, Some(RetryUnknownOutcome), 1),
        (Fault::ApplyTwice, None, 1),
        (Fault::DelayReply, Some(RetryUnknownOutcome), 1),
        (Fault::Crash, Some(RetryUnknownOutcome), 0),
        (Fault::CrashAfterEffect, Some(RetryUnknownOutcome), 1),
    ] {
        let fake = start_plugin(PluginSettings::default());
        let (backend, controller) = (&fake.server.backend, &fake.plugin.controller);
        backend.inject_faults(Rpc::CreateVolume, [fault]);
        let answer = controller.create_volume(create("a")).await;
        assert_eq!(answer.err().map(|error| error.verdict), verdict, "{fault:?}");
        assert_eq!(backend.volumes().len(), volumes, "{fault:?}");
        backend.restart();
        backend.release();
        retry_until_ok(|| controller.create_volume(create("a"))).await;
        assert_eq!(backend.volumes().len(), 1, "{fault:?}");
    }
}

/// Repeats a call while its verdict allows a retry.
async fn retry_until_ok<T, F: Future<Output = Result<T, PluginError>>>(call: impl Fn() -> F) -> T {
    for _ in 0..100 {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.verdict.is_retried(), "{error}"),
        }
        tokio::task::yield_now().await;
    }
    panic!("the call failed a hundred times");
}

/// An attempt ends at its deadline, whatever the plugin does (B56: a probe has a time limit).
#[tokio::test(start_paused = true)]
async fn a_call_without_a_response_ends_at_its_deadline() {
    let fake = start_plugin(PluginSettings::default());
    fake.server.backend.inject_faults(Rpc::Probe, [Fault::Hang]);
    fake.server.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    let begin = tokio::time::Instant::now();
    let error = fake.plugin.identity.probe().await.unwrap_err();
    assert_eq!(error.code, StatusCode::DeadlineExceeded);
    assert_eq!(begin.elapsed().as_secs(), 5);
    let begin = tokio::time::Instant::now();
    let error = fake.plugin.controller.create_volume(create("a")).await.unwrap_err();
    assert_eq!(error.code, StatusCode::DeadlineExceeded);
    assert_eq!(begin.elapsed().as_secs(), 1800);
}

/// W58: all calls of all services share one connection, also those of a caller that connects again.
#[tokio::test]
async fn a_plugin_has_one_connection() {
    let plugin = start_plugin(PluginSettings::default());
    let calls = (0..8).map(|at| plugin.plugin.controller.create_volume(create(&at.to_string())));
    for created in futures_util::future::join_all(calls).await {
        created.unwrap();
    }
    plugin.plugin.node.node_info().await.unwrap();
    plugin.plugin.identity.plugin_info().await.unwrap();
    assert_eq!(plugin.server.connections(), 1);
}

/// A connection can exist before the plugin listens, and survives its restarts. While no process
/// listens, nothing is sent, and the message names the socket.
#[tokio::test]
async fn a_connection_survives_restarts_of_the_plugin() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let connector = GrpcConnector::new();
    let plugin = connector.connect(&socket, None, &SentSecrets::default());
    let unsent = |error: PluginError| {
        assert_eq!(error.code, StatusCode::Unavailable, "{error}");
        assert_eq!(error.verdict, Verdict::Retry, "{error}");
        let expected = format!("cannot connect to `{}`", socket.display());
        assert!(error.message.starts_with(&expected), "{error}");
    };
    unsent(plugin.controller.create_volume(create("a")).await.unwrap_err());
    let server = FakePluginServer::start(FakeBackend::new(PluginSettings::default()), &socket);
    plugin.controller.create_volume(create("a")).await.unwrap();
    server.backend.crash();
    let error = retry_until_refused(|| plugin.controller.create_volume(create("b"))).await;
    unsent(error);
    server.backend.restart();
    retry_until_ok(|| plugin.controller.create_volume(create("b"))).await;
    assert_eq!(server.backend.volumes().len(), 2);
    let connections = server.connections();
    let same = connector.connect(&socket, None, &SentSecrets::default());
    same.controller.create_volume(create("c")).await.unwrap();
    assert_eq!(server.connections(), connections, "it is shared");
}

/// Repeats a call until the connection is refused. Before that the connection may break.
async fn retry_until_refused<T, F: Future<Output = Result<T, PluginError>>>(
    call: impl Fn() -> F,
) -> PluginError {
    for _ in 0..100 {
        match call().await {
            Err(error) if error.verdict == Verdict::Retry => return error,
            Ok(_) | Err(_) => tokio::task::yield_now().await,
        }
    }
    panic!("the plugin still listens");
}

/// B55: each information call is sent once, whatever the plugin answers, and its failure says that the next round is soon
/// enough.
#[tokio::test]
async fn information_calls_are_sent_once() {
    for code in [StatusCode::Unavailable, StatusCode::Aborted, StatusCode::Internal] {
        let fake = start_plugin(PluginSettings::default());
        let (backend, plugin) = (&fake.server.backend, &fake.plugin);
        for rpc in [
            Rpc::GetPluginInfo,
            Rpc::GetPluginCapabilities,
            Rpc::Probe,
            Rpc::ControllerGetCapabilities,
            Rpc::NodeGetCapabilities,
            Rpc::NodeGetInfo,
        ] {
            backend.inject_faults(rpc, [Fault::Fail(code)]);
            let error = match rpc {
                Rpc::GetPluginInfo => plugin.identity.plugin_info().await.err(),
                Rpc::GetPluginCapabilities => plugin.identity.plugin_capabilities().await.err(),
                Rpc::Probe => plugin.identity.probe().await.err(),
                Rpc::ControllerGetCapabilities => {
                    plugin.controller.controller_capabilities().await.err()
                }
                Rpc::NodeGetCapabilities => plugin.node.node_capabilities().await.err(),
                _ => plugin.node.node_info().await.err(),
            };
            let error = error.unwrap_or_else(|| panic!("{rpc} {code:?}: it succeeded"));
            assert_eq!((error.rpc, error.code), (rpc, code));
            assert_eq!(error.verdict, Verdict::RetryLater, "{rpc} {code:?}");
            assert_eq!(backend.count(rpc), 1, "{rpc} {code:?}");
        }
    }
}

/// Without a listener, an information call fails and is not retried.
#[tokio::test]
async fn information_calls_are_not_retried_without_a_listener() {
    let plugin =
        GrpcConnector::new().connect(Path::new("/nowhere/csi.sock"), None, &SentSecrets::default());
    let error = plugin.identity.plugin_info().await.unwrap_err();
    assert_eq!((error.code, error.verdict), (StatusCode::Unavailable, Verdict::RetryLater));
    let waited = tokio::time::timeout(Duration::from_secs(60), plugin.identity.probe()).await;
    assert!(waited.unwrap().is_err());
}

/// Calls reach only the process that is required, also on a connector that already has a channel to the
/// socket.
#[tokio::test]
async fn a_socket_of_another_process_gets_no_calls() {
    let fixture = start_plugin(PluginSettings::default());
    let connector = GrpcConnector::new();
    let socket = fixture.server.socket();
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let own = PeerProcess {
        pid: i32::try_from(std::process::id()).unwrap(),
        start_time: start_time_in(&stat).unwrap(),
    };
    let connected =
        |required| connector.connect(socket, required, &SentSecrets::default()).identity;
    connected(Some(own)).plugin_info().await.unwrap();
    let before = fixture.server.backend.count(Rpc::GetPluginInfo);
    let first = PeerProcess { pid: 1, ..own };
    // The process that was meant has ended, and this one has its number.
    let earlier = PeerProcess { start_time: own.start_time - 1, ..own };
    for (required, found) in [
        (first, format!("process {}", own.pid)),
        (earlier, "another process with its number".to_owned()),
    ] {
        let refused = connected(Some(required)).plugin_info().await.unwrap_err();
        assert_eq!(refused.code, StatusCode::Unavailable);
        assert_eq!(refused.delivery, Delivery::NotSent);
        let why = format!("{found} listens on the socket now, and not process {}", required.pid);
        assert!(refused.message.contains(&why), "{refused}");
    }
    assert_eq!(fixture.server.backend.count(Rpc::GetPluginInfo), before);

    connected(None).plugin_info().await.unwrap();
    connected(Some(own)).plugin_info().await.unwrap();
}
