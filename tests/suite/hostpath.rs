//! The embedded plugin over its socket, without privileges: CSI's rules, one by one.
//!
//! Mounts are a table in memory here; `tests/e2e/hostpath.rs` makes real ones.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use nomad_csi::csi::proto::volume_capability::{AccessType, BlockVolume, MountVolume};
use nomad_csi::hostpath::{ServeError, serve};
use nomad_csi::ports::RandomIds;
use nomad_csi::ports::fake::FakeMounter;
use tonic::{Code, Status};

use crate::support::hostpath::{Client, Publish, Running, config, mount, named};

/// A running plugin with its directory.
struct World {
    directory: tempfile::TempDir,
    running: Running,
    client: Client,
}

impl World {
    async fn new() -> Self {
        Self::over(FakeMounter::new()).await
    }

    async fn over(mounter: FakeMounter) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running = Running::start(directory.path(), mounter).await;
        let client = running.client();
        Self {
            directory,
            running,
            client,
        }
    }

    /// Stops the plugin and starts it again on the same state.
    async fn restart(self) -> Self {
        let mounter = self.running.mounter.clone();
        drop(self.client);
        self.running.stop().await;
        let running = Running::start(self.directory.path(), mounter).await;
        let client = running.client();
        Self {
            directory: self.directory,
            running,
            client,
        }
    }

    /// A directory that the orchestrator made.
    fn made(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn data(&self, id: &str) -> PathBuf {
        self.path("state/volumes").join(id)
    }

    fn targets(&self) -> Vec<PathBuf> {
        let mounts = self.running.mounter.mounts();
        mounts.into_iter().map(|mount| mount.target).collect()
    }
}

fn writer() -> proto::VolumeCapability {
    mount(Mode::SingleNodeWriter, &[])
}

fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.unwrap_err().code()
}

#[tokio::test]
async fn it_says_who_it_is_and_advertises_what_it_has() {
    use proto::controller_service_capability::{Type as ControllerArm, rpc::Type as Controller};
    use proto::node_service_capability::{Type as NodeArm, rpc::Type as Node};
    let mut world = World::new().await;
    let client = &mut world.client;
    let info = client
        .identity
        .get_plugin_info(proto::GetPluginInfoRequest {})
        .await;
    let info = info.unwrap().into_inner();
    assert_eq!(info.name, "hostpath.nomad-csi.internal");
    assert_eq!(info.vendor_version, env!("CARGO_PKG_VERSION"));
    let probe = client.identity.probe(proto::ProbeRequest {}).await.unwrap();
    assert_eq!(probe.into_inner().ready, Some(true));
    let answer = client
        .controller
        .controller_get_capabilities(proto::ControllerGetCapabilitiesRequest {})
        .await
        .unwrap();
    let controller: Vec<_> = answer
        .into_inner()
        .capabilities
        .iter()
        .map(|capability| match &capability.r#type {
            Some(ControllerArm::Rpc(rpc)) => rpc.r#type(),
            None => panic!("a capability without a type"),
        })
        .collect();
    let expected = [
        Controller::CreateDeleteVolume,
        Controller::ListVolumes,
        Controller::GetCapacity,
        Controller::GetVolume,
        Controller::SingleNodeMultiWriter,
    ];
    assert_eq!(controller, expected);
    let answer = client
        .node
        .node_get_capabilities(proto::NodeGetCapabilitiesRequest {})
        .await
        .unwrap();
    let node: Vec<_> = answer
        .into_inner()
        .capabilities
        .iter()
        .map(|capability| match &capability.r#type {
            Some(NodeArm::Rpc(rpc)) => rpc.r#type(),
            None => panic!("a capability without a type"),
        })
        .collect();
    let expected = [
        Node::StageUnstageVolume,
        Node::GetVolumeStats,
        Node::SingleNodeMultiWriter,
    ];
    assert_eq!(node, expected);
    let info = client
        .node
        .node_get_info(proto::NodeGetInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.into_inner().node_id, "node-1");
    let snapshot = client
        .controller
        .create_snapshot(proto::CreateSnapshotRequest::default());
    assert_eq!(code(snapshot.await), Code::Unimplemented);
}

/// `csi-spec` 5.2 and 5.3.
#[tokio::test]
async fn one_name_is_one_volume_until_it_is_deleted() {
    let mut world = World::new().await;
    let sized = |required_bytes| proto::CreateVolumeRequest {
        capacity_range: Some(proto::CapacityRange {
            required_bytes,
            limit_bytes: 0,
        }),
        ..named("db")
    };
    let id = world.client.try_create(sized(1 << 20)).await.unwrap();
    assert_eq!(world.client.try_create(sized(1 << 20)).await.unwrap(), id);
    assert!(world.data(&id).is_dir());
    let other_capability = proto::CreateVolumeRequest {
        volume_capabilities: vec![mount(Mode::MultiNodeMultiWriter, &[])],
        ..sized(1 << 20)
    };
    for (request, differs) in [
        (sized(2 << 20), "capacity"),
        (other_capability, "capabilities"),
    ] {
        let refused = world.client.try_create(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::AlreadyExists);
        assert!(refused.message().contains(differs), "{refused}");
    }
    let spelled_twice = proto::CreateVolumeRequest {
        volume_capabilities: vec![writer(), writer()],
        ..sized(1 << 20)
    };
    assert_eq!(world.client.try_create(spelled_twice).await.unwrap(), id);
    std::fs::write(world.data(&id).join("file"), "data").unwrap();
    for _ in 0..2 {
        world.client.delete(&id).await.unwrap();
    }
    assert!(!world.data(&id).exists());
    assert_ne!(world.client.try_create(sized(1)).await.unwrap(), id);
    world.client.delete("never-was").await.unwrap();
}

fn one(key: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), "x".to_owned())].into()
}

fn capable(access_type: AccessType) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        volume_capabilities: vec![proto::VolumeCapability {
            access_type: Some(access_type),
            ..writer()
        }],
        ..named("a")
    }
}

fn sized(required_bytes: i64, limit_bytes: i64) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        capacity_range: Some(proto::CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..named("a")
    }
}

fn placed(requisite: Vec<proto::Topology>) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        accessibility_requirements: Some(proto::TopologyRequirement {
            requisite,
            preferred: vec![],
        }),
        ..named("a")
    }
}

fn cloned(volume_id: &str) -> proto::CreateVolumeRequest {
    use proto::volume_content_source::{Type, VolumeSource};
    let volume_id = volume_id.to_owned();
    proto::CreateVolumeRequest {
        volume_content_source: Some(proto::VolumeContentSource {
            r#type: Some(Type::Volume(VolumeSource { volume_id })),
        }),
        ..named("a")
    }
}

/// Requests that cannot be, and a part of what is said to each.
fn wrong_requests() -> Vec<(proto::CreateVolumeRequest, &'static str)> {
    let formatted = |fs_type: &str| MountVolume {
        fs_type: fs_type.to_owned(),
        ..Default::default()
    };
    let mut incapable = named("a");
    incapable.volume_capabilities.clear();
    let mut with_parameter = named("a");
    with_parameter.parameters = one("skuname");
    let mut with_mutable = named("a");
    with_mutable.mutable_parameters = one("iops");
    let mut with_secrets = named("a");
    with_secrets.secrets = one(&"k".repeat(4096));
    let mut with_flag = named("a");
    with_flag.volume_capabilities = vec![mount(Mode::SingleNodeWriter, &["discard"])];
    vec![
        (named(""), "name is missing"),
        (named(&"n".repeat(129)), "129 bytes"),
        (named("a\u{7}b"), "control character"),
        (named("a\u{85}b"), "control character"),
        (incapable, "capabilities are missing"),
        (capable(AccessType::Block(BlockVolume {})), "file-system"),
        (
            capable(AccessType::Mount(formatted("ext4"))),
            "leave fs_type out",
        ),
        (with_flag, "mount_flags"),
        (sized(-1, 0), "negative"),
        (sized(2, 1), "above limit_bytes"),
        (placed(vec![proto::Topology::default()]), "no topology"),
        (with_parameter, "\"skuname\""),
        (with_mutable, "\"iops\""),
        (cloned("x"), "neither snapshots nor clones"),
        (with_secrets, "4097 bytes"),
    ]
}

/// `csi-spec` 3.2, 3.3, 3.6, 5.2: what is wrong is refused in words; what the specification allows,
/// or harmless older orchestrators send (GH-11238, W27), is taken.
#[tokio::test]
async fn wrong_requests_are_refused_before_anything_is_made() {
    let mut world = World::new().await;
    for (request, said) in wrong_requests() {
        let refused = world.client.try_create(request.clone()).await.unwrap_err();
        assert_eq!(
            refused.code(),
            Code::InvalidArgument,
            "{request:?}: {refused}"
        );
        assert!(refused.message().contains(said), "{request:?}: {refused}");
    }
    let too_large = world.client.try_create(sized(i64::MAX, 0)).await;
    assert_eq!(code(too_large), Code::OutOfRange);
    assert_eq!(
        world.client.list(0, "").await.unwrap().0,
        Vec::<String>::new()
    );
    let mut with_secrets = named("b");
    with_secrets.secrets = one("token");
    let mut nowhere = placed(vec![]);
    nowhere.name = "c".to_owned();
    let mut sizeless = sized(0, 0);
    sizeless.name = "d".to_owned();
    let longest = named(&"n".repeat(128));
    let strange = named("tab\tand\nline and 日本");
    for request in [longest, strange, with_secrets, nowhere, sizeless] {
        world.client.try_create(request).await.unwrap();
    }
}

/// `csi-sanity` 5.5: what is missing in a request is said before it is looked whether its volume
/// exists; a volume that does not exist is NOT_FOUND on every call but a deletion.
#[tokio::test]
async fn arguments_are_checked_before_existence() {
    let mut world = World::new().await;
    let staging = world.made("staging");
    let target = world.path("target");
    let client = &mut world.client;
    let relative = Path::new("relative/path");
    let dots = staging.join("../x");
    let publish = |id, staging, target| Publish {
        id,
        staging,
        target,
        capability: writer(),
        read_only: false,
    };
    let long = "v".repeat(129);
    for id in ["", long.as_str()] {
        assert_eq!(code(client.delete(id).await), Code::InvalidArgument);
        assert_eq!(
            code(client.stage(id, &staging, writer()).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unstage(id, &staging).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unpublish(id, &target).await),
            Code::InvalidArgument
        );
        let published = client.publish(publish(id, &staging, &target)).await;
        assert_eq!(code(published), Code::InvalidArgument);
    }
    for path in [Path::new(""), relative, Path::new("/"), &dots] {
        assert_eq!(
            code(client.stage("no", path, writer()).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unstage("no", path).await),
            Code::InvalidArgument
        );
        assert_eq!(
            code(client.unpublish("no", path).await),
            Code::InvalidArgument
        );
        let published = client.publish(publish("no", &staging, path)).await;
        assert_eq!(code(published), Code::InvalidArgument, "{}", path.display());
    }
    assert_eq!(
        code(client.stage("no", &staging, writer()).await),
        Code::NotFound
    );
    assert_eq!(code(client.unstage("no", &staging).await), Code::NotFound);
    assert_eq!(code(client.unpublish("no", &target).await), Code::NotFound);
    assert_eq!(
        code(client.publish(publish("no", &staging, &target)).await),
        Code::NotFound
    );
    let without_capability = proto::NodeStageVolumeRequest {
        volume_id: "no".to_owned(),
        staging_target_path: staging.to_str().unwrap().to_owned(),
        ..Default::default()
    };
    let staged = client
        .node
        .node_stage_volume(without_capability.clone())
        .await;
    assert_eq!(code(staged), Code::InvalidArgument);
    let foreign_context = proto::NodeStageVolumeRequest {
        volume_capability: Some(writer()),
        volume_context: [("k".to_owned(), "v".to_owned())].into(),
        ..without_capability
    };
    let staged = client.node.node_stage_volume(foreign_context).await;
    assert_eq!(code(staged), Code::InvalidArgument);
    let stats = |id: &str, path: &str| proto::NodeGetVolumeStatsRequest {
        volume_id: id.to_owned(),
        volume_path: path.to_owned(),
        staging_target_path: String::new(),
    };
    for (request, expected) in [
        (stats("", "/x"), Code::InvalidArgument),
        (stats("no", ""), Code::InvalidArgument),
        (stats("no", "some/path"), Code::NotFound),
    ] {
        assert_eq!(
            code(client.node.node_get_volume_stats(request).await),
            expected
        );
    }
}

/// `csi-spec` 5.6: what cannot be is an answer and no error.
#[tokio::test]
async fn capabilities_are_confirmed_or_the_reason_is_said() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let request = |capability: proto::VolumeCapability| proto::ValidateVolumeCapabilitiesRequest {
        volume_id: id.clone(),
        volume_capabilities: vec![writer(), capability],
        ..Default::default()
    };
    let block = proto::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..writer()
    };
    let with_parameters = proto::ValidateVolumeCapabilitiesRequest {
        parameters: [("p".to_owned(), "v".to_owned())].into(),
        ..request(writer())
    };
    let controller = &mut world.client.controller;
    let good = request(mount(Mode::MultiNodeReaderOnly, &["noexec"]));
    let answer = controller.validate_volume_capabilities(good.clone()).await;
    let confirmed = answer.unwrap().into_inner().confirmed.unwrap();
    assert_eq!(confirmed.volume_capabilities, good.volume_capabilities);
    for (request, said) in [
        (request(block), "block devices"),
        (with_parameters, "\"p\""),
    ] {
        let answer = controller.validate_volume_capabilities(request).await;
        let answer = answer.unwrap().into_inner();
        assert_eq!(answer.confirmed, None);
        assert!(answer.message.contains(said), "{}", answer.message);
    }
    let unknown = proto::ValidateVolumeCapabilitiesRequest {
        volume_id: "no".to_owned(),
        ..good.clone()
    };
    let nothing = proto::ValidateVolumeCapabilitiesRequest {
        volume_capabilities: vec![],
        ..good
    };
    for (request, expected) in [(unknown, Code::NotFound), (nothing, Code::InvalidArgument)] {
        let answer = controller.validate_volume_capabilities(request).await;
        assert_eq!(code(answer), expected);
    }
}

/// `csi-spec` 5.7.
#[tokio::test]
async fn volumes_are_listed_in_pages_that_survive_changes() {
    let mut world = World::new().await;
    let client = &mut world.client;
    let mut ids = vec![];
    for name in ["a", "b", "c", "d", "e"] {
        ids.push(client.create(name).await);
    }
    ids.sort();
    let (first, token) = client.list(2, "").await.unwrap();
    assert_eq!(first, ids[..2]);
    // The token names the last volume of its page; that volume may go.
    client.delete(&ids[1]).await.unwrap();
    let (second, token) = client.list(2, &token).await.unwrap();
    assert_eq!(second, ids[2..4]);
    let (last, token) = client.list(2, &token).await.unwrap();
    assert_eq!((last.as_slice(), token.as_str()), (&ids[4..], ""));
    let (exactly_all, token) = client.list(4, "").await.unwrap();
    assert_eq!((exactly_all.len(), token.as_str()), (4, ""));
    assert_eq!(client.list(0, "").await.unwrap().0.len(), 4);
    assert_eq!(code(client.list(0, "invalid-token").await), Code::Aborted);
    assert_eq!(code(client.list(-1, "").await), Code::InvalidArgument);
}

#[tokio::test]
async fn a_directory_has_no_size_of_its_own() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let controller = &mut world.client.controller;
    let request = |volume_id: &str| proto::ControllerGetVolumeRequest {
        volume_id: volume_id.to_owned(),
    };
    let answer = controller
        .controller_get_volume(request(&id))
        .await
        .unwrap();
    let answer = answer.into_inner();
    let volume = answer.volume.unwrap();
    assert_eq!((volume.volume_id, volume.capacity_bytes), (id, 0));
    assert!(answer.status.is_some());
    assert_eq!(
        code(controller.controller_get_volume(request("no")).await),
        Code::NotFound
    );
    let capacity = controller
        .get_capacity(proto::GetCapacityRequest::default())
        .await;
    let capacity = capacity.unwrap().into_inner();
    assert!(capacity.available_capacity > 0);
    assert!(capacity.maximum_volume_size.unwrap() >= capacity.available_capacity);
}

/// The table of `csi-spec` 5.18, row by row.
#[tokio::test]
async fn a_second_publish_is_answered_by_the_table() {
    let one = [
        Mode::SingleNodeWriter,
        Mode::SingleNodeReaderOnly,
        Mode::SingleNodeSingleWriter,
    ];
    let many = [
        Mode::SingleNodeMultiWriter,
        Mode::MultiNodeReaderOnly,
        Mode::MultiNodeSingleWriter,
        Mode::MultiNodeMultiWriter,
    ];
    let mut world = World::new().await;
    for mode in one.into_iter().chain(many) {
        let name = mode.as_str_name();
        let id = world.client.create(name).await;
        let (staging, target, second) = (
            world.made(&format!("{name}-staging")),
            world.path(&format!("{name}-target")),
            world.path(&format!("{name}-second")),
        );
        let capability = mount(mode, &[]);
        let publish = Publish {
            id: &id,
            staging: &staging,
            target: &target,
            capability: capability.clone(),
            read_only: false,
        };
        let client = &mut world.client;
        client
            .stage(&id, &staging, capability.clone())
            .await
            .unwrap();
        client.publish(publish.clone()).await.unwrap();
        // T same, P same.
        client.publish(publish.clone()).await.unwrap();
        // T same, P differs.
        let read_only = Publish {
            read_only: true,
            ..publish.clone()
        };
        assert_eq!(
            code(client.publish(read_only).await),
            Code::AlreadyExists,
            "{name}"
        );
        // T differs.
        let elsewhere = client
            .publish(Publish {
                target: &second,
                ..publish
            })
            .await;
        if one.contains(&mode) {
            let refused = elsewhere.unwrap_err();
            assert_eq!(refused.code(), Code::FailedPrecondition, "{name}");
            assert!(
                refused.message().contains(target.to_str().unwrap()),
                "{refused}"
            );
            assert!(!second.exists());
        } else {
            elsewhere.unwrap();
            client.unpublish(&id, &second).await.unwrap();
        }
        client.unpublish(&id, &target).await.unwrap();
        client.unstage(&id, &staging).await.unwrap();
        client.delete(&id).await.unwrap();
    }
    assert_eq!(world.targets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn a_volume_goes_up_and_down_and_every_step_may_be_repeated() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: true,
    };
    let refused = world.client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("stage it first"), "{refused}");
    for _ in 0..2 {
        world.client.stage(&id, &staging, writer()).await.unwrap();
        world.client.publish(publish.clone()).await.unwrap();
    }
    let mounts = world.running.mounter.mounts();
    assert_eq!(world.targets(), [staging.clone(), target.clone()]);
    assert_eq!(
        mounts.iter().map(|m| m.flags.read_only).collect::<Vec<_>>(),
        [false, true]
    );
    assert!(mounts.iter().all(|mount| mount.root == world.data(&id)));
    let other = mount(Mode::SingleNodeReaderOnly, &[]);
    let staged = world.client.stage(&id, &staging, other).await;
    assert_eq!(code(staged), Code::AlreadyExists);
    let refused = world.client.delete(&id).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains(staging.to_str().unwrap()),
        "{refused}"
    );
    let stats = proto::NodeGetVolumeStatsRequest {
        volume_id: id.clone(),
        volume_path: target.to_str().unwrap().to_owned(),
        staging_target_path: String::new(),
    };
    let usage = world.client.node.node_get_volume_stats(stats.clone()).await;
    let usage = usage.unwrap().into_inner().usage;
    assert_eq!(usage.len(), 2);
    assert!(usage.iter().all(|usage| usage.total > 0));
    for _ in 0..2 {
        world.client.unpublish(&id, &target).await.unwrap();
        assert!(!target.exists());
    }
    let gone = world.client.node.node_get_volume_stats(stats).await;
    assert_eq!(code(gone), Code::NotFound);
    for _ in 0..2 {
        world.client.unstage(&id, &staging).await.unwrap();
        assert!(staging.is_dir(), "the orchestrator's");
    }
    world.client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn reader_modes_are_mounted_read_only_whatever_is_asked() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    let capability = mount(Mode::MultiNodeReaderOnly, &["nosuid"]);
    world
        .client
        .stage(&id, &staging, capability.clone())
        .await
        .unwrap();
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability,
        read_only: false,
    };
    world.client.publish(publish).await.unwrap();
    let mounted = world.running.mounter.mounts();
    assert!(
        mounted[1].flags.read_only && mounted[1].flags.no_suid,
        "{mounted:?}"
    );
}

#[tokio::test]
async fn paths_that_are_somebody_elses_are_left_alone() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    let client = &mut world.client;
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    let missing = target.join("below");
    assert_eq!(
        code(client.stage(&id, &missing, writer()).await),
        Code::FailedPrecondition
    );
    client.stage(&id, &staging, writer()).await.unwrap();
    // A file, a link, a directory with something in it.
    std::fs::write(&target, "").unwrap();
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    std::fs::remove_file(&target).unwrap();
    std::os::unix::fs::symlink(&staging, &target).unwrap();
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    std::fs::remove_file(&target).unwrap();
    std::fs::create_dir_all(target.join("full")).unwrap();
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    std::fs::remove_dir(target.join("full")).unwrap();
    // Another mount.
    world.running.mounter.mount_foreign(&target);
    assert_eq!(
        code(client.publish(publish.clone()).await),
        Code::FailedPrecondition
    );
    client.unpublish(&id, &target).await.unwrap();
    assert_eq!(
        world.running.mounter.mounts().len(),
        2,
        "the foreign mount stays"
    );
    world.running.mounter.reboot();
    // An empty directory will do, and is not the plugin's to remove.
    client.stage(&id, &staging, writer()).await.unwrap();
    client.publish(publish).await.unwrap();
    client.unpublish(&id, &target).await.unwrap();
    assert!(target.is_dir());
    // The plugin's own directory is no place to mount on.
    let own = world.directory.path().join("state/volumes").join(&id);
    assert_eq!(
        code(client.stage(&id, &own, writer()).await),
        Code::FailedPrecondition
    );
}

#[tokio::test]
async fn a_mount_that_is_in_use_stays_and_the_caller_is_told() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let staging = world.made("staging");
    world.client.stage(&id, &staging, writer()).await.unwrap();
    world.running.mounter.set_busy(&staging, true);
    let refused = world.client.unstage(&id, &staging).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(
        refused.message().contains("a process still uses it"),
        "{refused}"
    );
    world.running.mounter.set_busy(&staging, false);
    world.client.unstage(&id, &staging).await.unwrap();
    assert_eq!(world.targets(), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn without_privileges_it_is_healthy_and_creates_and_says_what_staging_needs() {
    let mut world = World::over(FakeMounter::unprivileged()).await;
    let id = world.client.create("a").await;
    let staging = world.made("staging");
    let refused = world
        .client
        .stage(&id, &staging, writer())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("CAP_SYS_ADMIN"), "{refused}");
    world.client.unstage(&id, &staging).await.unwrap();
    world.client.delete(&id).await.unwrap();
}

#[tokio::test]
async fn everything_survives_a_restart_and_mounts_a_reboot_is_told_from_it() {
    let mut world = World::new().await;
    let id = world.client.create("a").await;
    let (staging, target) = (world.made("staging"), world.path("target"));
    world.client.stage(&id, &staging, writer()).await.unwrap();
    let mut world = world.restart().await;
    assert_eq!(world.client.create("a").await, id);
    let publish = Publish {
        id: &id,
        staging: &staging,
        target: &target,
        capability: writer(),
        read_only: false,
    };
    world.client.publish(publish.clone()).await.unwrap();
    let mut world = world.restart().await;
    assert_eq!(
        code(world.client.delete(&id).await),
        Code::FailedPrecondition
    );
    // After a reboot the records are there and the mounts are not: nothing is staged.
    world.running.mounter.reboot();
    let refused = world.client.publish(publish.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    world.client.stage(&id, &staging, writer()).await.unwrap();
    world.client.publish(publish).await.unwrap();
    world.client.unpublish(&id, &target).await.unwrap();
    world.client.unstage(&id, &staging).await.unwrap();
    world.client.delete(&id).await.unwrap();
    let mut world = world.restart().await;
    assert_eq!(
        world.client.list(0, "").await.unwrap().0,
        Vec::<String>::new()
    );
}

/// `csi-spec` 3.4: a caller that lost its state may send what is under way already.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_callers_with_one_name_all_get_the_one_volume() {
    let world = World::new().await;
    let callers = (0..64).map(|_| {
        let mut client = world.client.clone();
        tokio::spawn(async move {
            loop {
                match client.try_create(named("shared")).await {
                    Err(busy) if busy.code() == Code::Aborted => tokio::task::yield_now().await,
                    answer => return answer.unwrap(),
                }
            }
        })
    });
    let mut ids = vec![];
    for caller in callers.collect::<Vec<_>>() {
        ids.push(caller.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    let mut client = world.client.clone();
    assert_eq!(client.list(0, "").await.unwrap().0, ids);
}

/// 64 volumes at once, each all the way up and down.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_callers_with_64_volumes_none_disturbs_another() {
    let world = World::new().await;
    let callers = (0..64).map(|number| {
        let mut client = world.client.clone();
        let staging = world.made(&format!("staging-{number}"));
        let target = world.path(&format!("target-{number}"));
        tokio::spawn(async move {
            let id = client.create(&format!("volume-{number}")).await;
            let publish = Publish {
                id: &id,
                staging: &staging,
                target: &target,
                capability: writer(),
                read_only: false,
            };
            client.stage(&id, &staging, writer()).await.unwrap();
            client.publish(publish).await.unwrap();
            client.unpublish(&id, &target).await.unwrap();
            client.unstage(&id, &staging).await.unwrap();
            client.delete(&id).await.unwrap();
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    assert_eq!(world.targets(), Vec::<PathBuf>::new());
    let mut client = world.client.clone();
    assert_eq!(client.list(0, "").await.unwrap().0, Vec::<String>::new());
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path)
        .unwrap()
        .permissions()
        .mode()
        & 0o777
}

#[tokio::test]
async fn the_socket_and_the_state_are_private_and_the_socket_goes_with_the_plugin() {
    let world = World::new().await;
    let socket = world.running.socket.clone();
    assert_eq!(mode(&socket), 0o600);
    for directory in ["s", "state", "state/volumes"] {
        assert_eq!(mode(&world.path(directory)), 0o700, "{directory}");
    }
    world.running.stop().await;
    assert!(!socket.exists());
}

/// Why a plugin does not start there. One that started would not be told to stop.
async fn refusal(directory: &Path) -> ServeError {
    let (config, mounter) = (config(directory), Arc::new(FakeMounter::new()));
    let running = serve(config, mounter, Arc::new(RandomIds), std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await;
    ended.expect("it does not start").unwrap_err()
}

#[tokio::test]
async fn a_socket_is_taken_over_from_the_dead_only() {
    let world = World::new().await;
    // The same state, and a socket that somebody listens on.
    let refused = refusal(world.directory.path()).await;
    assert!(matches!(refused, ServeError::StateInUse(_)), "{refused}");
    let socket = world.running.socket.clone();
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("s");
    std::fs::create_dir_all(&other).unwrap();
    std::os::unix::fs::symlink(&socket, other.join("csi.sock")).unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::NotASocket(_)), "{refused}");
    std::fs::remove_file(other.join("csi.sock")).unwrap();
    let living = std::os::unix::net::UnixListener::bind(other.join("csi.sock")).unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::SocketInUse(_)), "{refused}");
    drop(living);
    assert!(
        other
            .join("csi.sock")
            .metadata()
            .unwrap()
            .file_type()
            .is_socket()
    );
    Running::start(directory.path(), FakeMounter::new())
        .await
        .stop()
        .await;
    std::fs::write(other.join("csi.sock"), "a file").unwrap();
    let refused = refusal(directory.path()).await;
    assert!(matches!(refused, ServeError::NotASocket(_)), "{refused}");
}

/// A state directory that cannot be used is named, with the reason.
#[tokio::test]
async fn a_state_directory_that_is_a_file_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("state"), "").unwrap();
    let refused = refusal(directory.path()).await.to_string();
    assert!(
        refused.contains("cannot use the state directory"),
        "{refused}"
    );
}
