//! Random sequences of RPCs, each repeated and cut off at random, against a model of what CSI says.
//!
//! The machine is a table in memory, the catalogue and the files are real. A call that is cut off
//! ends at a random call to the machine; then the plugin starts again, and the same call is sent
//! once more: its answer, and everything that can be listed, has to be what the model says
//! (`csi-spec` 3.4, 3.5, 5). At the end of a sequence everything is taken down, and nothing is left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tonic::{Code, Request, Status};

use super::controller::ControllerService;
use super::node::NodeService;
use super::play::Play;
use super::plugin::{Host, Plugin};
use super::recovery;
use crate::csi::proto;
use crate::csi::proto::controller_server::Controller as _;
use crate::csi::proto::node_server::Node as _;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use crate::ports::RandomIds;
use crate::ports::fake::{FakeBlockStorage, FakeClock, FakeMounter};

const SEQUENCES: u64 = 10_000;
const THREADS: u64 = 4;
const STEPS: u64 = 8;
const VOLUMES: u64 = 3;
const SNAPSHOTS: u64 = 2;
const TARGETS: u64 = 2;
const MIB: i64 = 1 << 20;

/// Small numbers, the same for the same seed (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Directory,
    Image,
    Block,
}

/// One call. Volumes, snapshots and targets are told by number.
#[derive(Clone, Copy, Debug)]
enum Call {
    Create(u64, Kind, i64),
    Restore(u64, u64),
    Clone(u64, u64),
    Delete(u64),
    Expand(u64, i64),
    Cut(u64, u64),
    DeleteSnapshot(u64),
    Stage(u64),
    Unstage(u64),
    Publish(u64, u64, bool),
    Unpublish(u64, u64),
}

/// What CSI says is there.
#[derive(Clone, Debug, Default)]
struct Model {
    volumes: BTreeMap<u64, Volume>,
    snapshots: BTreeMap<u64, Snapshot>,
    /// The last ID of each, to speak of what is gone.
    ids: BTreeMap<u64, String>,
    snapshot_ids: BTreeMap<u64, String>,
}

#[derive(Clone, Debug)]
struct Volume {
    id: String,
    kind: Kind,
    bytes: i64,
    made_by: (Kind, i64, Option<String>),
    is_staged: bool,
    /// Whether it is read-only, and whether it is mounted (not after a reboot).
    targets: BTreeMap<u64, (bool, bool)>,
}

impl Volume {
    fn is_published(&self) -> bool {
        self.targets.values().any(|(_, is_mounted)| *is_mounted)
    }

    fn is_used(&self) -> bool {
        self.is_staged || self.is_published()
    }

    /// Whether it can be cut now.
    fn can_rest(&self) -> bool {
        self.kind == Kind::Image || !self.is_used()
    }
}

#[derive(Clone, Debug)]
struct Snapshot {
    id: String,
    source: String,
    kind: Kind,
    bytes: i64,
}

/// The plugin, its machine, and what should be.
struct World {
    directory: PathBuf,
    mounter: FakeMounter,
    storage: FakeBlockStorage,
    plugin: Option<Arc<Plugin>>,
    model: Model,
}

impl World {
    async fn new(directory: &Path) -> Self {
        for name in ["state", "mounts"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        let mounter = FakeMounter::new();
        let mut world = Self {
            directory: directory.to_owned(),
            storage: FakeBlockStorage::new(mounter.clone()),
            mounter,
            plugin: None,
            model: Model::default(),
        };
        world.start().await;
        world
    }

    async fn start(&mut self) {
        let host = Host {
            mounter: Arc::new(self.mounter.clone()),
            storage: Arc::new(self.storage.clone()),
            clock: Arc::new(FakeClock::default()),
            ids: Arc::new(RandomIds),
        };
        let play = Play {
            overcommit: true,
            ..Play::default()
        };
        let state = self.directory.join("state");
        let plugin = Plugin::open(&state, "node".to_owned(), play, host).unwrap();
        let plugin = Arc::new(plugin);
        recovery::recover(&plugin).await.unwrap();
        recovery::finish_removals(plugin.clone()).await;
        self.plugin = Some(plugin);
    }

    async fn restart(&mut self) {
        if let Some(plugin) = self.plugin.take() {
            plugin.finish().await;
            assert_eq!(Arc::strong_count(&plugin), 1, "nothing holds the plugin");
        }
        self.mounter.die_after(None);
        self.start().await;
    }

    /// Mounts and devices are gone; block devices that were staged come back.
    async fn reboot(&mut self) {
        self.mounter.reboot();
        self.storage.reboot();
        self.restart().await;
        for volume in self.model.volumes.values_mut() {
            volume.is_staged &= volume.kind == Kind::Block;
            for (_, is_mounted) in volume.targets.values_mut() {
                *is_mounted = false;
            }
        }
    }

    fn controller(&self) -> ControllerService {
        ControllerService(self.plugin.clone().unwrap())
    }

    fn node(&self) -> NodeService {
        NodeService(self.plugin.clone().unwrap())
    }

    fn staging(&self, volume: u64) -> String {
        let path = self.directory.join(format!("mounts/staging-{volume}"));
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn target(&self, volume: u64, target: u64) -> String {
        let path = self.directory.join(format!("mounts/{volume}-{target}"));
        path.to_str().unwrap().to_owned()
    }

    fn id(&self, volume: u64) -> String {
        let known = self.model.ids.get(&volume);
        known.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    fn snapshot_id(&self, snapshot: u64) -> String {
        let known = self.model.snapshot_ids.get(&snapshot);
        known.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    fn kind(&self, volume: u64) -> Kind {
        self.model
            .volumes
            .get(&volume)
            .map_or(Kind::Image, |volume| volume.kind)
    }

    /// Sends a call; what it made, if it made something: an ID, a size.
    async fn send(&self, call: Call) -> Result<String, Status> {
        match call {
            Call::Create(volume, kind, bytes) => self.create(volume, kind, bytes, None).await,
            Call::Restore(volume, snapshot) => {
                use proto::volume_content_source::{SnapshotSource, Type};
                let found = self.model.snapshots.get(&snapshot);
                let kind = found.map_or_else(|| self.kind(volume), |found| found.kind);
                let snapshot_id = self.snapshot_id(snapshot);
                let source = Type::Snapshot(SnapshotSource { snapshot_id });
                self.create(volume, kind, 0, Some(source)).await
            }
            Call::Clone(volume, from) => {
                use proto::volume_content_source::{Type, VolumeSource};
                let volume_id = self.id(from);
                let source = Type::Volume(VolumeSource { volume_id });
                // Of a source that is gone it is asked again as it was asked for.
                let kind = match self.model.volumes.contains_key(&from) {
                    true => self.kind(from),
                    false => self.kind(volume),
                };
                self.create(volume, kind, 0, Some(source)).await
            }
            Call::Delete(volume) => {
                let request = proto::DeleteVolumeRequest {
                    volume_id: self.id(volume),
                    ..Default::default()
                };
                let answer = self.controller().delete_volume(Request::new(request)).await;
                answer.map(|_| String::new())
            }
            Call::Expand(volume, bytes) => {
                let request = proto::ControllerExpandVolumeRequest {
                    volume_id: self.id(volume),
                    capacity_range: Some(proto::CapacityRange {
                        required_bytes: bytes,
                        limit_bytes: 0,
                    }),
                    ..Default::default()
                };
                let controller = self.controller();
                let answer = controller.controller_expand_volume(Request::new(request));
                Ok(answer.await?.into_inner().capacity_bytes.to_string())
            }
            Call::Cut(snapshot, volume) => {
                let request = proto::CreateSnapshotRequest {
                    name: format!("s{snapshot}"),
                    source_volume_id: self.id(volume),
                    ..Default::default()
                };
                let answer = self
                    .controller()
                    .create_snapshot(Request::new(request))
                    .await?;
                Ok(answer.into_inner().snapshot.unwrap().snapshot_id)
            }
            Call::DeleteSnapshot(snapshot) => {
                let request = proto::DeleteSnapshotRequest {
                    snapshot_id: self.snapshot_id(snapshot),
                    ..Default::default()
                };
                let answer = self
                    .controller()
                    .delete_snapshot(Request::new(request))
                    .await;
                answer.map(|_| String::new())
            }
            Call::Stage(..) | Call::Unstage(..) | Call::Publish(..) | Call::Unpublish(..) => {
                self.send_to_node(call).await.map(|()| String::new())
            }
        }
    }

    async fn create(
        &self,
        volume: u64,
        kind: Kind,
        bytes: i64,
        source: Option<proto::volume_content_source::Type>,
    ) -> Result<String, Status> {
        let is_plain = kind == Kind::Directory;
        let parameter = is_plain.then(|| ("backing".to_owned(), "directory".to_owned()));
        let request = proto::CreateVolumeRequest {
            name: format!("v{volume}"),
            capacity_range: Some(proto::CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![capability(kind)],
            parameters: parameter.into_iter().collect(),
            volume_content_source: source.map(|source| proto::VolumeContentSource {
                r#type: Some(source),
            }),
            ..Default::default()
        };
        let answer = self
            .controller()
            .create_volume(Request::new(request))
            .await?;
        Ok(answer.into_inner().volume.unwrap().volume_id)
    }

    async fn send_to_node(&self, call: Call) -> Result<(), Status> {
        let node = self.node();
        match call {
            Call::Stage(volume) => {
                let request = proto::NodeStageVolumeRequest {
                    volume_id: self.id(volume),
                    staging_target_path: self.staging(volume),
                    volume_capability: Some(capability(self.kind(volume))),
                    ..Default::default()
                };
                node.node_stage_volume(Request::new(request)).await?;
            }
            Call::Unstage(volume) => {
                let request = proto::NodeUnstageVolumeRequest {
                    volume_id: self.id(volume),
                    staging_target_path: self.staging(volume),
                };
                node.node_unstage_volume(Request::new(request)).await?;
            }
            Call::Publish(volume, target, readonly) => {
                let request = proto::NodePublishVolumeRequest {
                    volume_id: self.id(volume),
                    staging_target_path: self.staging(volume),
                    target_path: self.target(volume, target),
                    volume_capability: Some(capability(self.kind(volume))),
                    readonly,
                    ..Default::default()
                };
                node.node_publish_volume(Request::new(request)).await?;
            }
            Call::Unpublish(volume, target) => {
                let request = proto::NodeUnpublishVolumeRequest {
                    volume_id: self.id(volume),
                    target_path: self.target(volume, target),
                };
                node.node_unpublish_volume(Request::new(request)).await?;
            }
            _ => unreachable!("the controller's"),
        }
        Ok(())
    }

    /// Sends a call, perhaps cut off once before, perhaps again after; its answer is the model's.
    async fn step(&mut self, call: Call, chance: &mut Chance) {
        let expected = self.model.expected(call);
        if chance.below(10) == 0 {
            let steps = u32::try_from(chance.below(6)).unwrap();
            self.mounter.die_after(Some(steps));
            self.send(call).await.ok();
            self.restart().await;
        }
        let repeats = 1 + u64::from(chance.below(4) == 0);
        for _ in 0..repeats {
            let answer = self.send(call).await;
            let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
            assert_eq!(code, expected, "{call:?}: {answer:?}\n{:#?}", self.model);
            if let Ok(made) = answer {
                self.model.apply(call, made);
            }
        }
        self.check().await;
    }

    /// Everything that can be listed is what the model says.
    async fn check(&self) {
        let request = Request::new(proto::ListVolumesRequest::default());
        let answer = self.controller().list_volumes(request).await.unwrap();
        let entries = answer.into_inner().entries.into_iter();
        let listed: BTreeMap<_, _> = entries
            .map(|entry| entry.volume.unwrap())
            .map(|volume| (volume.volume_id, volume.capacity_bytes))
            .collect();
        let volumes = self.model.volumes.values();
        let expected: BTreeMap<_, _> = volumes
            .map(|volume| (volume.id.clone(), volume.bytes))
            .collect();
        assert_eq!(listed, expected);
        let stagings = self.model.volumes.values().map(|volume| {
            let is_mounted = volume.is_staged && volume.kind != Kind::Block;
            let targets = volume
                .targets
                .values()
                .filter(|(_, is_mounted)| *is_mounted);
            usize::from(is_mounted) + targets.count()
        });
        assert_eq!(self.mounter.mounts().len(), stagings.sum::<usize>());
        assert_eq!(self.storage.frozen(), Vec::<PathBuf>::new());
    }

    /// Takes everything down; nothing is left.
    async fn end(&mut self) {
        for volume in 0..VOLUMES {
            if self.model.volumes.contains_key(&volume) {
                for target in 0..TARGETS {
                    self.send(Call::Unpublish(volume, target)).await.unwrap();
                }
                self.send(Call::Unstage(volume)).await.unwrap();
                self.send(Call::Delete(volume)).await.unwrap();
            }
        }
        for snapshot in 0..SNAPSHOTS {
            self.send(Call::DeleteSnapshot(snapshot)).await.unwrap();
        }
        assert_eq!(self.mounter.mounts(), []);
        assert_eq!(self.storage.devices(), []);
        for name in ["volumes", "images", "snapshots"] {
            let path = self.directory.join("state").join(name);
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "{name}");
        }
        self.model = Model::default();
    }
}

fn capability(kind: Kind) -> proto::VolumeCapability {
    let access_type = match kind {
        Kind::Block => AccessType::Block(BlockVolume {}),
        Kind::Directory | Kind::Image => AccessType::Mount(MountVolume::default()),
    };
    proto::VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Mode::SingleNodeMultiWriter.into(),
        }),
        access_type: Some(access_type),
    }
}

impl Model {
    /// What CSI says that a call is answered with now.
    fn expected(&self, call: Call) -> Code {
        let volume = |number: u64| self.volumes.get(&number);
        match call {
            Call::Create(number, kind, bytes) => match volume(number) {
                Some(found) if found.made_by != (kind, bytes, None) => Code::AlreadyExists,
                _ => Code::Ok,
            },
            Call::Restore(number, snapshot) => {
                let id = self.snapshot_ids.get(&snapshot).cloned();
                match (volume(number), self.snapshots.get(&snapshot)) {
                    (Some(found), _) if found.made_by.2.is_some() && found.made_by.2 == id => {
                        Code::Ok
                    }
                    (Some(_), _) => Code::AlreadyExists,
                    (None, None) => Code::NotFound,
                    (None, Some(_)) => Code::Ok,
                }
            }
            Call::Clone(number, from) => {
                let id = self.ids.get(&from).cloned();
                match (volume(number), volume(from)) {
                    (Some(found), _) if found.made_by.2.is_some() && found.made_by.2 == id => {
                        Code::Ok
                    }
                    (Some(_), _) => Code::AlreadyExists,
                    (None, None) => Code::NotFound,
                    (None, Some(from)) if from.can_rest() => Code::Ok,
                    (None, Some(_)) => Code::FailedPrecondition,
                }
            }
            Call::Delete(number) => match volume(number) {
                Some(found) if found.is_used() => Code::FailedPrecondition,
                _ => Code::Ok,
            },
            Call::Expand(number, _) => match volume(number) {
                None => Code::NotFound,
                Some(found) if found.kind == Kind::Directory => Code::OutOfRange,
                Some(_) => Code::Ok,
            },
            Call::Cut(snapshot, number) => {
                let id = self.ids.get(&number);
                match (self.snapshots.get(&snapshot), volume(number)) {
                    (Some(found), _) if Some(&found.source) == id => Code::Ok,
                    (Some(_), _) => Code::AlreadyExists,
                    (None, None) => Code::NotFound,
                    (None, Some(found)) if found.can_rest() => Code::Ok,
                    (None, Some(_)) => Code::FailedPrecondition,
                }
            }
            Call::DeleteSnapshot(_) => Code::Ok,
            Call::Stage(number) | Call::Unstage(number) | Call::Unpublish(number, _) => {
                volume(number).map_or(Code::NotFound, |_| Code::Ok)
            }
            Call::Publish(number, target, read_only) => match volume(number) {
                None => Code::NotFound,
                Some(found) if !found.is_staged => Code::FailedPrecondition,
                Some(found) => match found.targets.get(&target) {
                    Some((is, true)) if *is != read_only => Code::AlreadyExists,
                    _ => Code::Ok,
                },
            },
        }
    }

    /// What is there after a call that was answered well.
    fn apply(&mut self, call: Call, made: String) {
        match call {
            Call::Create(number, kind, bytes) => {
                let size = if kind == Kind::Directory { 0 } else { bytes };
                self.create(number, made, kind, size, (kind, bytes, None));
            }
            Call::Restore(number, snapshot) => {
                if let Some(from) = self.snapshots.get(&snapshot).cloned() {
                    let made_by = (from.kind, 0, Some(from.id));
                    self.create(number, made, from.kind, from.bytes, made_by);
                }
            }
            Call::Clone(number, from) => {
                if let Some(from) = self.volumes.get(&from).cloned() {
                    let made_by = (from.kind, 0, Some(from.id));
                    self.create(number, made, from.kind, from.bytes, made_by);
                }
            }
            Call::Delete(number) => drop(self.volumes.remove(&number)),
            Call::Expand(number, bytes) => {
                if let Some(found) = self.volumes.get_mut(&number) {
                    found.bytes = found.bytes.max(bytes);
                    assert_eq!(made, found.bytes.to_string());
                }
            }
            Call::Cut(snapshot, number) => self.cut(snapshot, number, made),
            Call::DeleteSnapshot(snapshot) => drop(self.snapshots.remove(&snapshot)),
            Call::Stage(number) => self.change(number, |found| found.is_staged = true),
            Call::Unstage(number) => self.change(number, |found| found.is_staged = false),
            Call::Publish(number, target, read_only) => self.change(number, |found| {
                found.targets.insert(target, (read_only, true));
            }),
            Call::Unpublish(number, target) => self.change(number, |found| {
                found.targets.remove(&target);
            }),
        }
    }

    fn change(&mut self, number: u64, change: impl FnOnce(&mut Volume)) {
        if let Some(found) = self.volumes.get_mut(&number) {
            change(found);
        }
    }

    fn create(
        &mut self,
        number: u64,
        id: String,
        kind: Kind,
        bytes: i64,
        made_by: (Kind, i64, Option<String>),
    ) {
        if let Some(found) = self.volumes.get(&number) {
            assert_eq!(found.id, id, "one name, one volume");
            return;
        }
        let is_new = self.ids.insert(number, id.clone()) != Some(id.clone());
        assert!(is_new, "an ID is never used again");
        let volume = Volume {
            id,
            kind,
            bytes,
            made_by,
            is_staged: false,
            targets: BTreeMap::new(),
        };
        self.volumes.insert(number, volume);
    }

    fn cut(&mut self, snapshot: u64, number: u64, id: String) {
        if let Some(found) = self.snapshots.get(&snapshot) {
            assert_eq!(found.id, id, "one name, one snapshot");
            return;
        }
        let Some(volume) = self.volumes.get(&number) else {
            return;
        };
        self.snapshot_ids.insert(snapshot, id.clone());
        let found = Snapshot {
            id,
            source: volume.id.clone(),
            kind: volume.kind,
            bytes: volume.bytes,
        };
        self.snapshots.insert(snapshot, found);
    }
}

fn choose(chance: &mut Chance, model: &Model) -> Call {
    let volume = chance.below(VOLUMES);
    let snapshot = chance.below(SNAPSHOTS);
    let bytes = (1 + i64::try_from(chance.below(3)).unwrap()) * MIB;
    let is_published = model.volumes.get(&volume).is_some_and(Volume::is_published);
    match chance.below(16) {
        0..=2 => {
            let kinds = [Kind::Directory, Kind::Image, Kind::Block];
            let kind = kinds[usize::try_from(chance.below(3)).unwrap()];
            Call::Create(volume, kind, bytes)
        }
        3 => Call::Restore(volume, snapshot),
        4 => Call::Clone(volume, (volume + 1) % VOLUMES),
        5 => Call::Delete(volume),
        6 => Call::Expand(volume, bytes),
        7 | 8 => Call::Cut(snapshot, volume),
        9 => Call::DeleteSnapshot(snapshot),
        10 | 11 => Call::Stage(volume),
        // An orchestrator unstages after the last unpublish.
        12 if !is_published => Call::Unstage(volume),
        12 | 13 => Call::Unpublish(volume, chance.below(TARGETS)),
        _ => Call::Publish(volume, chance.below(TARGETS), chance.below(2) == 0),
    }
}

async fn sequences(directory: &Path, seeds: impl Iterator<Item = u64>) {
    let mut world = World::new(directory).await;
    for seed in seeds {
        // The last line of the output says which sequence failed.
        let said = Said(seed);
        let mut chance = Chance(seed);
        for _ in 0..STEPS {
            if chance.below(40) == 0 {
                world.reboot().await;
            }
            let call = choose(&mut chance, &world.model);
            world.step(call, &mut chance).await;
        }
        world.end().await;
        std::mem::forget(said);
    }
}

/// Says its seed if it is dropped while a test fails.
struct Said(u64);

impl Drop for Said {
    #[expect(clippy::print_stderr, reason = "a test that fails is to say so loudly")]
    fn drop(&mut self) {
        eprintln!("the sequence with seed {} failed", self.0);
    }
}

/// 10,000 sequences. Where there is one, they are written to a file system in memory: what is tested
/// is their order, not the disk.
#[test]
fn any_sequence_of_calls_and_crashes_is_answered_by_the_specification() {
    let memory = Path::new("/dev/shm");
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            std::thread::spawn(move || {
                let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
                let directory = directory.unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                let seeds = (thread..SEQUENCES).step_by(usize::try_from(THREADS).unwrap());
                runtime.block_on(sequences(&directory.path().canonicalize().unwrap(), seeds));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no sequence failed");
    }
}
