//! One controller and nodes on one shared directory, with the mounts of one machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use tonic::body::Body;
use tonic::{Code, Request, Status};
use tower::{Layer as _, Service as _, ServiceExt as _};

use super::attachment_files::{AttachDecision, Elsewhere, decide_attach};
use super::options::{Role, SharedConfig};
use crate::catalog::{Attachment, Backing};
use crate::config::Config;
use crate::detach_watch::watch_detachments;
use crate::error::{HostError, StorageHealthError};
use crate::plugin::{Host, OperationKey, Plugin};
use crate::profile::{DefaultBacking, PluginCapability, PluginProfile};
use crate::recovery;
use crate::serve::{ServeError, serve};
use crate::services::{CallLogLayer, ControllerService, NodeService};
use crate::volume_capability::{AccessMode, VolumeCapability};
use crate::volumes::cut_detached;
use nomad_csi_ports::{
    MountCalls as _, MountEntry, MountFlags, Mounter, NoMeasurements, RandomIds,
};
use nomad_csi_proto as proto;
use nomad_csi_proto::controller_server::{Controller as _, ControllerServer};
use nomad_csi_proto::node_server::Node as _;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode as ProtoMode, AccessType, MountVolume};
use nomad_csi_testing::{FakeBlockStorage, FakeClock, FakeMounter};

/// A machine with a shared directory.
struct Machine {
    directory: tempfile::TempDir,
    mounter: FakeMounter,
    storage: FakeBlockStorage,
    detach_cuts: bool,
}

impl Machine {
    fn new() -> Self {
        let mounter = FakeMounter::new();
        let storage = FakeBlockStorage::new(mounter.clone());
        let directory = tempfile::tempdir().unwrap();
        Self { directory, mounter, storage, detach_cuts: false }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.path("shared").join(name)
    }

    fn make(&self, name: &str) -> String {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// How many read-only mounts are on the staging paths.
    fn covers(&self) -> usize {
        let is_cover = |mount: &&MountEntry| {
            mount.flags.read_only && mount.target.starts_with(self.path("staging"))
        };
        self.mounter.mounts().iter().filter(is_cover).count()
    }

    fn host(&self) -> Host {
        Host {
            mounter: Arc::new(self.mounter.clone()),
            storage: Arc::new(self.storage.clone()),
            clock: Arc::new(FakeClock::default()),
            ids: Arc::new(RandomIds),
            measurements: Arc::new(NoMeasurements),
        }
    }

    fn config(&self, role: Role) -> SharedConfig {
        SharedConfig { directory: self.path("shared"), role, detach_cuts: self.detach_cuts }
    }

    fn try_open(&self, role: Role, node: &str) -> Result<Arc<Plugin>, HostError> {
        let state = match role {
            Role::Controller | Role::All => self.make("shared/controller"),
            Role::Node => self.make(node),
        };
        let profile = PluginProfile { attach_limit: Some(2), ..PluginProfile::default() };
        let shared = self.config(role);
        let state = Path::new(&state);
        let node = node.to_owned();
        let plugin = Plugin::open_placed(state, Some(&shared), node, profile, self.host())?;
        let plugin = Arc::new(plugin);
        recovery::recover(&plugin)?;
        Ok(plugin)
    }

    fn controller(&self) -> ControllerService {
        ControllerService(self.try_open(Role::Controller, "c").unwrap())
    }

    fn node(&self, name: &str) -> NodeService {
        NodeService(self.try_open(Role::Node, name).unwrap())
    }
}

fn mount(mode: Mode) -> Option<proto::VolumeCapability> {
    Some(proto::VolumeCapability {
        access_mode: Some(ProtoMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    })
}

async fn create(controller: &ControllerService, name: &str, mode: Mode, bytes: i64) -> String {
    let request = proto::CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: mount(mode).into_iter().collect(),
        capacity_range: (bytes > 0)
            .then_some(proto::CapacityRange { required_bytes: bytes, limit_bytes: 0 }),
        ..Default::default()
    };
    let answer = controller.create_volume(Request::new(request)).await.unwrap();
    answer.into_inner().volume.unwrap().volume_id
}

async fn attach(
    controller: &ControllerService,
    id: &str,
    node: &str,
    mode: Mode,
) -> Result<(), Status> {
    let request = proto::ControllerPublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        volume_capability: mount(mode),
        ..Default::default()
    };
    controller.controller_publish_volume(Request::new(request)).await.map(drop)
}

async fn detach(controller: &ControllerService, id: &str, node: &str) {
    let request = proto::ControllerUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        node_id: node.to_owned(),
        ..Default::default()
    };
    controller.controller_unpublish_volume(Request::new(request)).await.unwrap();
}

async fn delete(controller: &ControllerService, id: &str) -> Result<(), Status> {
    let request = proto::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() };
    controller.delete_volume(Request::new(request)).await.map(drop)
}

async fn stage(node: &NodeService, id: &str, path: &str, mode: Mode) -> Result<(), Status> {
    let request = proto::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: path.to_owned(),
        volume_capability: mount(mode),
        ..Default::default()
    };
    node.node_stage_volume(Request::new(request)).await.map(drop)
}

async fn unstage(node: &NodeService, id: &str, path: &str) -> Result<(), Status> {
    let request = proto::NodeUnstageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: path.to_owned(),
    };
    node.node_unstage_volume(Request::new(request)).await.map(drop)
}

async fn publish(
    node: &NodeService,
    id: &str,
    paths: (&str, &str),
    mode: Mode,
) -> Result<(), Status> {
    let request = proto::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: paths.0.to_owned(),
        target_path: paths.1.to_owned(),
        volume_capability: mount(mode),
        ..Default::default()
    };
    node.node_publish_volume(Request::new(request)).await.map(drop)
}

fn assert_refused(result: Result<(), Status>, code: Code, parts: &[&str]) {
    let refused = result.unwrap_err();
    assert_eq!(refused.code(), code, "{refused}");
    for part in parts {
        assert!(refused.message().contains(part), "{part}: {refused}");
    }
}

const ONE: Mode = Mode::SingleNodeWriter;
const MANY: Mode = Mode::MultiNodeMultiWriter;

#[test]
fn a_volume_is_attached_to_a_second_node_only_if_both_modes_and_its_data_allow_it() {
    let by = |access_mode| {
        let capability = VolumeCapability::plain(access_mode);
        Attachment { capability, read_only: false }
    };
    let (one, many) = (by(AccessMode::SingleNodeMultiWriter), by(AccessMode::MultiNodeMultiWriter));
    let at = |attachment: &Attachment| BTreeMap::from([("n1".to_owned(), attachment.clone())]);
    let elsewhere = |why| AttachDecision::Elsewhere("n1".to_owned(), why);
    let (directory, image) = (Backing::Directory, Backing::Image);
    for (node, requested, backing, attached, expected) in [
        ("n1", &one, directory, BTreeMap::new(), AttachDecision::Attach),
        ("n1", &one, directory, at(&one), AttachDecision::IsAttached),
        ("n1", &many, directory, at(&one), AttachDecision::Differs),
        ("n2", &one, directory, at(&one), elsewhere(Elsewhere::OtherMode)),
        ("n2", &many, directory, at(&one), elsewhere(Elsewhere::OtherMode)),
        ("n2", &one, directory, at(&many), elsewhere(Elsewhere::RequestedMode)),
        ("n2", &many, directory, at(&many), AttachDecision::Attach),
        ("n2", &many, image, at(&many), elsewhere(Elsewhere::Backing)),
    ] {
        assert_eq!(decide_attach(node, requested, backing, &attached), expected, "{node}");
    }
}

#[tokio::test]
async fn a_volume_for_one_node_moves_only_after_it_is_detached() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 0).await;
    let file = |node: &str| machine.shared("attached").join(&id).join(node);
    attach(&controller, &id, "n1", ONE).await.unwrap();
    attach(&controller, &id, "n1", ONE).await.unwrap();
    assert!(file("n1").is_file());
    let refused = attach(&controller, &id, "n2", ONE).await;
    assert_refused(refused, Code::FailedPrecondition, &[&id, "`n1`", "detach it"]);
    assert!(!file("n2").exists());
    assert_refused(delete(&controller, &id).await, Code::FailedPrecondition, &["n1"]);
    detach(&controller, &id, "n2").await;
    assert!(file("n1").is_file(), "only the named node loses the volume");
    detach(&controller, &id, "n1").await;
    assert!(!file("n1").exists());
    attach(&controller, &id, "n2", ONE).await.unwrap();
    assert!(file("n2").is_file());
    let path = proto::ControllerGetVolumeRequest { volume_id: id.clone() };
    let found = controller.controller_get_volume(Request::new(path)).await.unwrap();
    assert_eq!(found.into_inner().status.unwrap().published_node_ids, ["n2"]);
    detach(&controller, &id, "").await;
    assert!(!file("n2").exists());
    for node in ["../n", ".n", "a/b"] {
        assert_refused(attach(&controller, &id, node, ONE).await, Code::InvalidArgument, &[node]);
    }
    delete(&controller, &id).await.unwrap();
    assert!(!file("n2").parent().unwrap().exists());
}

#[tokio::test]
async fn a_node_has_a_limited_number_of_volumes_and_each_node_its_own() {
    let machine = Machine::new();
    let controller = machine.controller();
    let mut ids = vec![];
    for name in ["a", "b", "c"] {
        ids.push(create(&controller, name, MANY, 0).await);
    }
    attach(&controller, &ids[0], "n1", MANY).await.unwrap();
    attach(&controller, &ids[1], "n1", MANY).await.unwrap();
    let refused = attach(&controller, &ids[2], "n1", MANY).await;
    assert_refused(refused, Code::ResourceExhausted, &["`n1`", "(2)"]);
    attach(&controller, &ids[2], "n2", MANY).await.unwrap();
    attach(&controller, &ids[0], "n2", MANY).await.unwrap();
    detach(&controller, &ids[0], "n1").await;
    attach(&controller, &ids[2], "n1", MANY).await.unwrap();
}

#[tokio::test]
async fn a_node_uses_only_a_volume_that_is_attached_to_it() {
    let machine = Machine::new();
    let controller = machine.controller();
    let (first, second) = (machine.node("n1"), machine.node("n2"));
    let id = create(&controller, "a", ONE, 0).await;
    let (staging, target) = (machine.make("s1"), machine.path("t1"));
    let target = target.to_str().unwrap();
    let refused = stage(&first, &id, &staging, ONE).await;
    assert_refused(refused, Code::FailedPrecondition, &[&id, "not attached"]);
    attach(&controller, &id, "n1", ONE).await.unwrap();
    let other = machine.make("s2");
    let refused = stage(&second, &id, &other, ONE).await;
    assert_refused(refused, Code::FailedPrecondition, &[&id, "not attached"]);
    stage(&first, &id, &staging, ONE).await.unwrap();
    assert_eq!(machine.mounter.mounts().len(), 1);
    detach(&controller, &id, "n1").await;
    let refused = publish(&first, &id, (&staging, target), ONE).await;
    assert_refused(refused, Code::FailedPrecondition, &[&id, "not attached"]);
    attach(&controller, &id, "n1", ONE).await.unwrap();
    publish(&first, &id, (&staging, target), ONE).await.unwrap();
    for path in ["shared/x", "shared/volumes/x"] {
        let inside = machine.make(path);
        let refused = stage(&first, &id, &inside, ONE).await;
        assert_refused(
            refused,
            Code::FailedPrecondition,
            &["inside the plugin's shared directory"],
        );
    }
}

#[tokio::test]
async fn a_node_does_not_look_outside_the_records() {
    let machine = Machine::new();
    let controller = machine.controller();
    let node = machine.node("n1");
    let id = create(&controller, "a", ONE, 0).await;
    let record = machine.shared("records").join(format!("{id}.json"));
    std::fs::copy(&record, machine.shared("a.json")).unwrap();
    std::fs::copy(&record, machine.shared("records/a.json")).unwrap();
    let staging = machine.make("s1");
    let upper = id.to_uppercase();
    for other in ["../a", "a", &upper, &format!("{{{id}}}")] {
        if other == id {
            continue;
        }
        assert_refused(stage(&node, other, &staging, ONE).await, Code::NotFound, &[]);
    }
}

#[tokio::test]
async fn a_record_appears_with_its_volume_follows_it_and_goes_with_it() {
    let machine = Machine::new();
    let controller = machine.controller();
    let names = |directory: &str| {
        let mut names = super::files::names(&machine.shared(directory)).unwrap();
        names.sort();
        names
    };
    let id = create(&controller, "a", ONE, 64 << 20).await;
    assert_eq!(names("records"), [format!("{id}.json")]);
    let node = machine.node("n1");
    let read = || node.0.ready_volume(&id).unwrap();
    assert!(read().unwrap().content.is_blank);
    attach(&controller, &id, "n1", ONE).await.unwrap();
    assert!(!read().unwrap().content.is_blank, "the controller has made the file");
    let request = proto::ControllerExpandVolumeRequest {
        volume_id: id.clone(),
        capacity_range: Some(proto::CapacityRange { required_bytes: 128 << 20, limit_bytes: 0 }),
        ..Default::default()
    };
    controller.controller_expand_volume(Request::new(request)).await.unwrap();
    assert_eq!(read().unwrap().content.bytes, 128 << 20);
    detach(&controller, &id, "n1").await;
    delete(&controller, &id).await.unwrap();
    assert_eq!(read(), None);
    for directory in ["records", "prepared", "attached"] {
        assert_eq!(names(directory), [""; 0], "{directory}");
    }
}

#[tokio::test]
async fn what_a_node_did_to_an_image_is_known_to_the_next_node() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 64 << 20).await;
    attach(&controller, &id, "n1", ONE).await.unwrap();
    let node = machine.node("n1");
    let staging = machine.make("s1");
    stage(&node, &id, &staging, ONE).await.unwrap();
    assert!(node.0.ready_volume(&id).unwrap().unwrap().content.is_prepared);
    unstage(&node, &id, &staging).await.unwrap();
    for other in [&machine.node("n2").0, &controller.0] {
        assert!(other.ready_volume(&id).unwrap().unwrap().content.is_prepared);
    }
}

#[tokio::test]
async fn a_second_controller_is_refused_and_nodes_are_not() {
    let machine = Machine::new();
    let controller = machine.controller();
    let _nodes = (machine.node("n1"), machine.node("n2"));
    for role in [Role::Controller, Role::All] {
        let endpoint = format!("unix://{}", machine.path("csi.sock").display());
        let state = machine.shared("controller");
        let config = Config::new(&endpoint, &state, Some("x".to_owned()), false);
        let config = config.unwrap().with_shared(Some(machine.config(role))).unwrap();
        let refused = serve(config, machine.host(), std::future::ready(())).await.unwrap_err();
        assert!(matches!(&refused, ServeError::StateInUse(path) if *path == state), "{refused}");
        assert!(refused.to_string().contains("stop it"), "{refused}");
    }
    drop(controller);
    drop(machine.controller());
}

#[tokio::test]
async fn each_role_has_its_part_of_the_capabilities() {
    let machine = Machine::new();
    for (role, controller, node) in
        [(Role::Controller, true, false), (Role::Node, false, true), (Role::All, true, true)]
    {
        let plugin = machine.try_open(role, "n1").unwrap();
        let capabilities = &plugin.profile.capabilities;
        assert_eq!(plugin.has(PluginCapability::Controller), controller, "{role:?}");
        assert_eq!(capabilities.supports_rpc("CreateVolumeGroupSnapshot"), controller, "{role:?}");
        assert_eq!(capabilities.supports_rpc("GetMetadataAllocated"), controller, "{role:?}");
        assert_eq!(capabilities.supports_rpc("ControllerPublishVolume"), controller, "{role:?}");
        assert_eq!(capabilities.supports_rpc("NodeStageVolume"), node, "{role:?}");
    }
}

#[tokio::test]
async fn a_node_that_starts_again_finds_its_stagings() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 0).await;
    attach(&controller, &id, "n1", ONE).await.unwrap();
    let (staging, target) = (machine.make("s1"), machine.path("t1"));
    let target = target.to_str().unwrap();
    let node = machine.node("n1");
    stage(&node, &id, &staging, ONE).await.unwrap();
    drop(node);
    let node = machine.node("n1");
    stage(&node, &id, &staging, ONE).await.unwrap();
    publish(&node, &id, (&staging, target), ONE).await.unwrap();
    assert_eq!(machine.mounter.mounts().len(), 2, "nothing is mounted twice");
    drop(node);
    let node = machine.node("n1");
    let request =
        proto::NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: target.to_owned() };
    node.node_unpublish_volume(Request::new(request)).await.unwrap();
    unstage(&node, &id, &staging).await.unwrap();
    assert_eq!(machine.mounter.mounts(), []);
}

/// A node must not touch what only the controller knows.
#[tokio::test]
async fn the_start_of_a_node_removes_nothing_of_the_controller() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 0).await;
    attach(&controller, &id, "n1", ONE).await.unwrap();
    let kept = [
        machine.shared("volumes").join(&id),
        machine.shared("images/unfinished-1"),
        machine.shared("snapshots/unfinished-1"),
        machine.shared("records/.nomad-csi-1"),
        machine.shared("attached").join(&id).join(".nomad-csi-1"),
    ];
    for file in &kept[1..] {
        std::fs::write(file, "half").unwrap();
    }
    let node = machine.node("n1");
    for path in &kept {
        assert!(path.exists(), "{}", path.display());
    }
    assert_eq!(node.0.attached_nodes(&node.0.ready_volume(&id).unwrap().unwrap()).unwrap(), ["n1"]);
}

#[tokio::test]
async fn a_controller_that_starts_again_writes_what_a_crash_kept_from_the_nodes() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 0).await;
    attach(&controller, &id, "n1", ONE).await.unwrap();
    drop(controller);
    let gone = "00000000-0000-4000-8000-000000000001";
    let record = |id: &str| machine.shared("records").join(format!("{id}.json"));
    let before = std::fs::read(record(&id)).unwrap();
    std::fs::rename(record(&id), record(gone)).unwrap();
    std::fs::create_dir(machine.shared("attached").join(gone)).unwrap();
    let left = [
        record(gone),
        machine.shared("prepared").join(format!("{gone}.json")),
        machine.shared("attached").join(gone).join("n1"),
        machine.shared("records/.nomad-csi-1"),
        machine.shared("attached").join(&id).join(".nomad-csi-1"),
    ];
    for file in &left {
        std::fs::write(file, "{}").unwrap();
    }
    let controller = machine.controller();
    assert_eq!(std::fs::read(record(&id)).unwrap(), before);
    for path in &left {
        assert!(!path.exists(), "{}", path.display());
    }
    assert!(machine.shared("attached").join(&id).join("n1").exists(), "the attachment stays");
    assert_refused(attach(&controller, &id, "n2", ONE).await, Code::FailedPrecondition, &["`n1`"]);
}

/// A damaged record is written again with the next change, and a node reports it.
#[tokio::test]
async fn a_damaged_record_is_an_error_and_not_a_missing_volume() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 0).await;
    let record = machine.shared("records").join(format!("{id}.json"));
    std::fs::write(&record, "{").unwrap();
    let node = machine.node("n1");
    let staging = machine.make("s1");
    assert_refused(stage(&node, &id, &staging, ONE).await, Code::Internal, &["is damaged"]);
    attach(&controller, &id, "n1", ONE).await.unwrap();
    stage(&node, &id, &staging, ONE).await.unwrap();
}

#[tokio::test]
async fn a_volume_that_is_detached_while_it_is_staged_is_covered_read_only() {
    let machine = Machine { detach_cuts: true, ..Machine::new() };
    let controller = machine.controller();
    let (first, second) = (machine.node("n1"), machine.node("n2"));
    let id = create(&controller, "a", MANY, 0).await;
    let (staging, target, other) = (machine.make("s1"), machine.path("t1"), machine.make("s2"));
    let target = target.to_str().unwrap();
    for (node, name, staging) in [(&first, "n1", &staging), (&second, "n2", &other)] {
        attach(&controller, &id, name, MANY).await.unwrap();
        stage(node, &id, staging, MANY).await.unwrap();
    }
    publish(&first, &id, (&staging, target), MANY).await.unwrap();
    let cut = |node: &NodeService| assert_eq!(cut_detached(&node.0).unwrap(), BTreeMap::new());
    for path in [&staging, &other] {
        assert!(machine.mounter.has_own_peer_group(Path::new(path)), "{path}");
    }
    cut(&first);
    assert_eq!(machine.mounter.mounts().len(), 3, "nothing is detached");
    // What a crash between two steps of an earlier cut left.
    let cover = machine.make("n1/cut");
    let read_only = MountFlags { read_only: true, ..MountFlags::default() };
    let data = machine.shared("volumes").join(&id);
    machine.mounter.bind(&data, Path::new(&cover), read_only).unwrap();
    cut(&first);
    assert_eq!(machine.mounter.mounts().len(), 3, "it is removed");
    detach(&controller, &id, "n1").await;
    let under_way = first.0.begin_operation(OperationKey::Volume(id.clone())).unwrap();
    cut(&first);
    assert_eq!(machine.mounter.mounts().len(), 3, "a call works on the volume");
    drop(under_way);
    for _ in 0..2 {
        cut(&first);
        cut(&second);
    }
    let is_read_only = |path: &str| {
        let mounts = machine.mounter.mounts();
        let top = mounts.iter().rev().find(|mount| mount.target == Path::new(path));
        top.map(|mount| mount.flags.read_only)
    };
    for (path, expected) in [(&*staging, true), (target, true), (&*other, false)] {
        assert_eq!(is_read_only(path), Some(expected), "{path}");
    }
    assert_eq!(machine.mounter.mounts().len(), 5, "one cover for each");
    let lines = lines(&machine);
    let events = lines.iter().map(|line| (&line["event"], &line["rpc"], &line["node_id"]));
    let (rpc, node) = ("detach-cut".into(), "n1".into());
    let expected = [(&"begin".into(), &rpc, &node), (&"end".into(), &rpc, &node)];
    assert!(events.eq(expected), "{lines:?}");
    // The volume comes back.
    attach(&controller, &id, "n1", MANY).await.unwrap();
    stage(&first, &id, &staging, MANY).await.unwrap();
    publish(&first, &id, (&staging, target), MANY).await.unwrap();
    for path in [&*staging, target] {
        assert_eq!(is_read_only(path), Some(false), "{path}");
    }
    let request =
        proto::NodeUnpublishVolumeRequest { volume_id: id.clone(), target_path: target.to_owned() };
    first.node_unpublish_volume(Request::new(request)).await.unwrap();
    unstage(&first, &id, &staging).await.unwrap();
    unstage(&second, &id, &other).await.unwrap();
    assert_eq!(machine.mounter.mounts(), []);
}

#[tokio::test]
async fn a_node_that_cuts_uses_no_volume_that_it_cannot_cut() {
    let machine = Machine { detach_cuts: true, ..Machine::new() };
    let controller = machine.controller();
    let node = machine.node("n1");
    let id = create(&controller, "a", ONE, 64 << 20).await;
    attach(&controller, &id, "n1", ONE).await.unwrap();
    let refused = stage(&node, &id, &machine.make("s1"), ONE).await;
    assert_refused(refused, Code::FailedPrecondition, &[&id, "--detach-cuts", "backing=directory"]);
    assert_eq!(machine.storage.devices(), []);
}

/// The node looks by itself, and again.
#[tokio::test]
async fn a_node_looks_for_detached_volumes_by_itself() {
    let machine = Machine { detach_cuts: true, ..Machine::new() };
    let controller = machine.controller();
    let node = machine.node("n1");
    let staging = machine.make("staging/1");
    let id = create(&controller, "a", ONE, 0).await;
    let mut changes = Mounter::follow(&machine.mounter).await.unwrap();
    let watch = tokio::spawn(watch_detachments(node.0.clone()));
    for round in 0..2 {
        attach(&controller, &id, "n1", ONE).await.unwrap();
        while let Err(refused) = stage(&node, &id, &staging, ONE).await {
            assert_eq!(refused.code(), Code::Aborted, "the cut has not ended: {refused}");
            tokio::task::yield_now().await;
        }
        assert_eq!(machine.covers(), 0, "round {round}");
        detach(&controller, &id, "n1").await;
        let cut = async {
            while machine.covers() == 0 {
                changes.next().await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(60), cut).await.expect("the volume is cut");
    }
    watch.abort();
}

/// The lines of the log, without the times.
fn lines(machine: &Machine) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(machine.shared("calls.jsonl")).unwrap();
    assert!(!text.contains("s3cret"), "{text}");
    let mut earlier = 0;
    let mut lines = vec![];
    for line in text.lines() {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let time = line.as_object_mut().unwrap().remove("monotonic_ns").unwrap();
        let time = time.as_u64().unwrap();
        assert!(time >= earlier && time > 0, "{text}");
        earlier = time;
        lines.push(line);
    }
    lines
}

fn request(rpc: &str, message: &impl prost::Message) -> http::Request<Body> {
    let message = message.encode_to_vec();
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    body.extend(message);
    http::Request::builder()
        .method("POST")
        .uri(format!("http://localhost/csi.v1.Controller/{rpc}"))
        .header("content-type", "application/grpc")
        .body(Body::new(Full::from(body)))
        .unwrap()
}

#[tokio::test]
async fn each_call_has_two_lines_with_its_volume_and_node_and_nothing_of_its_secrets() {
    let machine = Machine::new();
    let controller = machine.controller();
    let id = create(&controller, "a", ONE, 0).await;
    let log = controller.0.shared.as_ref().unwrap().calls.clone();
    let service = ControllerServer::new(ControllerService(controller.0.clone()));
    let mut service = CallLogLayer(Some(log)).layer(service);
    let attaching = proto::ControllerPublishVolumeRequest {
        volume_id: id.clone(),
        node_id: "n1".to_owned(),
        volume_capability: mount(ONE),
        secrets: [("password".to_owned(), "s3cret".to_owned())].into(),
        ..Default::default()
    };
    let deleting = proto::DeleteVolumeRequest {
        volume_id: id.clone(),
        secrets: [("password".to_owned(), "s3cret".to_owned())].into(),
    };
    let creating = proto::CreateVolumeRequest {
        name: "s3cret".to_owned(),
        parameters: [("s3cret".to_owned(), "s3cret".to_owned())].into(),
        ..Default::default()
    };
    for request in [
        request("ControllerPublishVolume", &attaching),
        request("DeleteVolume", &deleting),
        request("CreateVolume", &creating),
    ] {
        service.ready().await.unwrap().call(request).await.unwrap();
    }
    let expected = [
        ("ControllerPublishVolume", id.as_str(), "n1", "OK"),
        ("DeleteVolume", id.as_str(), "", "FAILED_PRECONDITION"),
        ("CreateVolume", "", "", "INVALID_ARGUMENT"),
    ];
    let mut expected_lines = vec![];
    for (number, (rpc, volume, node, code)) in expected.into_iter().enumerate() {
        let line = serde_json::json!({
            "event": "begin",
            "call": format!("{}-{number}", std::process::id()),
            "role": "controller",
            "rpc": rpc,
            "node_id": node,
            "volume_id": volume,
        });
        let mut end = line.clone();
        end["event"] = "end".into();
        end["code"] = code.into();
        expected_lines.extend([line, end]);
    }
    assert_eq!(lines(&machine), expected_lines);
}

/// The work of a call outlives its caller, and its effect comes before the second line.
#[tokio::test]
async fn a_call_ends_with_its_work_also_if_its_caller_is_gone() {
    let machine = Machine::new();
    let node = machine.node("n1");
    let plugin = node.0.clone();
    let log = plugin.shared.as_ref().unwrap().calls.clone();
    let (started, mut has_started) = tokio::sync::mpsc::channel::<()>(1);
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = Arc::new(parking_lot::Mutex::new(wait));
    let worker = plugin.clone();
    let service = tower::service_fn(move |_: http::Request<Body>| {
        let (plugin, started, wait) = (worker.clone(), started.clone(), wait.clone());
        async move {
            let work = move |_: &Arc<Plugin>| {
                started.blocking_send(()).unwrap();
                wait.lock().recv().unwrap();
                Ok::<_, StorageHealthError>(())
            };
            plugin.call(work).await.unwrap();
            Ok::<_, std::convert::Infallible>(http::Response::new(Body::empty()))
        }
    });
    let mut service = CallLogLayer(Some(log)).layer(service);
    let message = proto::NodeStageVolumeRequest { volume_id: "v".to_owned(), ..Default::default() };
    let call = tokio::spawn(service.call(request("NodeStageVolume", &message)));
    has_started.recv().await.unwrap();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(lines(&machine).len(), 1, "its work still runs");
    go.send(()).unwrap();
    plugin.wait_for_work().await;
    let lines = lines(&machine);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert_eq!(lines[0]["node_id"], "n1");
    assert_eq!((&lines[1]["event"], &lines[1]["code"]), (&"end".into(), &"OK".into()));
}

/// The default of `--backing` decides nothing here: the log is only for a shared directory.
#[tokio::test]
async fn a_plugin_alone_has_no_shared_directory() {
    let machine = Machine::new();
    let profile = PluginProfile { backing: DefaultBacking::Directory, ..PluginProfile::default() };
    let state = machine.make("state");
    let plugin = Plugin::open(Path::new(&state), "n1".to_owned(), profile, machine.host()).unwrap();
    assert!(plugin.shared.is_none() && plugin.has_controller());
    let mut names = super::files::names(Path::new(&state)).unwrap();
    names.sort();
    assert_eq!(names, ["catalog.redb", "images", "snapshots", "volumes"]);
}
