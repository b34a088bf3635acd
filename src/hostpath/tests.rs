//! Random sequences of RPCs, each repeated and cut off at random, against a model of what CSI says.
//!
//! The machine is a table in memory, the catalogue and the files are real. A call that is cut off
//! ends at a random call to the machine; then the plugin starts again, and the same call is sent
//! once more: its answer, and everything that can be listed, has to be what the model says
//! (`csi-spec` 3.4, 3.5, 5). At the end of a sequence everything is taken down, and nothing is left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tonic::{Code, Request, Status};

use super::abilities::Abilities;
use super::controller::ControllerService;
use super::group::GroupService;
use super::node::NodeService;
use super::play::Play;
use super::plugin::{Host, Plugin};
use super::recovery;
use crate::csi::proto;
use crate::csi::proto::controller_server::Controller as _;
use crate::csi::proto::group_controller_server::GroupController as _;
use crate::csi::proto::node_server::Node as _;
use crate::ports::RandomIds;
use crate::ports::fake::{FakeBlockStorage, FakeClock, FakeMounter};

mod model;

use model::{ATTACH_LIMIT, About, Call, Chance, Kind, Made, Message, Model, Paths, choose};

const NODE: &str = "node";
const SEQUENCES: u64 = 10_000;
const THREADS: u64 = 4;
const STEPS: u64 = 8;

/// The plugin, its machine, and what should be.
struct World {
    directory: PathBuf,
    mounter: FakeMounter,
    storage: FakeBlockStorage,
    plugin: Option<Arc<Plugin>>,
    model: Model,
}

impl World {
    async fn new(directory: &Path, attaches: bool) -> Self {
        for name in ["state", "mounts"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        let mounter = FakeMounter::new();
        let mut world = Self {
            directory: directory.to_owned(),
            storage: FakeBlockStorage::new(mounter.clone()),
            mounter,
            plugin: None,
            model: Model::of(About {
                attaches,
                ..About::default()
            }),
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
            attach_limit: Some(ATTACH_LIMIT),
            abilities: Abilities {
                attaches: self.model.about.attaches,
                ..Abilities::default()
            },
            ..Play::default()
        };
        let state = self.directory.join("state");
        let plugin = Plugin::open(&state, NODE.to_owned(), play, host).unwrap();
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

    /// Sends a call; what it made, if it made something.
    async fn send(&self, call: Call) -> Result<Made, Status> {
        let (controller, node) = (self.controller(), self.node());
        let group = GroupService(self.plugin.clone().unwrap());
        let mut made = Made::default();
        match self.model.message(call, NODE, self) {
            Message::CreateVolume(request) => {
                let answer = controller.create_volume(Request::new(request)).await?;
                made.id = answer.into_inner().volume.unwrap().volume_id;
            }
            Message::DeleteVolume(request) => {
                controller.delete_volume(Request::new(request)).await?;
            }
            Message::Attach(request) => {
                let sent = controller.controller_publish_volume(Request::new(request));
                sent.await?;
            }
            Message::Detach(request) => {
                let sent = controller.controller_unpublish_volume(Request::new(request));
                sent.await?;
            }
            Message::Expand(request) => {
                let sent = controller.controller_expand_volume(Request::new(request));
                made.bytes = sent.await?.into_inner().capacity_bytes;
            }
            Message::CreateSnapshot(request) => {
                let answer = controller.create_snapshot(Request::new(request)).await?;
                made.id = answer.into_inner().snapshot.unwrap().snapshot_id;
            }
            Message::DeleteSnapshot(request) => {
                controller.delete_snapshot(Request::new(request)).await?;
            }
            Message::CreateGroup(request) => {
                let sent = group.create_volume_group_snapshot(Request::new(request));
                made = made_group(sent.await?.into_inner());
            }
            Message::DeleteGroup(request) => {
                let sent = group.delete_volume_group_snapshot(Request::new(request));
                sent.await?;
            }
            Message::Stage(request) => drop(node.node_stage_volume(Request::new(request)).await?),
            Message::Unstage(request) => {
                node.node_unstage_volume(Request::new(request)).await?;
            }
            Message::Publish(request) => {
                node.node_publish_volume(Request::new(request)).await?;
            }
            Message::Unpublish(request) => {
                node.node_unpublish_volume(Request::new(request)).await?;
            }
        }
        Ok(made)
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
        let volumes = self.controller().list_volumes(request).await.unwrap();
        let request = Request::new(proto::ListSnapshotsRequest::default());
        let snapshots = self.controller().list_snapshots(request).await.unwrap();
        self.model
            .is_listed(volumes.into_inner(), snapshots.into_inner());
        assert_eq!(self.mounter.mounts().len(), self.model.mounts());
        assert_eq!(self.storage.frozen(), Vec::<PathBuf>::new());
    }

    /// Takes everything down; nothing is left.
    async fn end(&mut self) {
        for call in self.model.ending() {
            let made = self.send(call).await.unwrap();
            self.model.apply(call, made);
        }
        assert_eq!(self.mounter.mounts(), []);
        assert_eq!(self.storage.devices(), []);
        for name in ["volumes", "images", "snapshots"] {
            let path = self.directory.join("state").join(name);
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "{name}");
        }
        self.model = Model::of(self.model.about);
    }
}

impl Paths for World {
    fn staging(&self, volume: u64) -> String {
        let path = self.directory.join(format!("mounts/staging-{volume}"));
        std::fs::create_dir_all(&path).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn target(&self, volume: u64, target: u64) -> String {
        let path = self.directory.join(format!("mounts/{volume}-{target}"));
        path.to_str().unwrap().to_owned()
    }
}

fn made_group(answer: proto::CreateVolumeGroupSnapshotResponse) -> Made {
    let group = answer.group_snapshot.unwrap();
    let members = group.snapshots.into_iter();
    let members = members.map(|one| (one.snapshot_id, one.source_volume_id));
    Made {
        id: group.group_snapshot_id,
        members: members.collect(),
        ..Made::default()
    }
}

async fn sequences(directory: &Path, attaches: bool, seeds: impl Iterator<Item = u64>) {
    let mut world = World::new(directory, attaches).await;
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

/// 10,000 sequences, half of them with volumes that are attached before they are used. Where there is one, they are written to a file system in memory: what is tested
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
                let path = directory.path().canonicalize().unwrap();
                runtime.block_on(sequences(&path, thread % 2 == 1, seeds));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("no sequence failed");
    }
}
