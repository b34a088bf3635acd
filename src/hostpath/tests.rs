//! Random sequences of RPCs with repetitions and crashes, compared with a model of CSI.
//!
//! Mounts and devices are simulated in memory; the catalogue and the files are real. A crash
//! interrupts a call before or after a random operation of the host. Then the plugin restarts and the call is
//! repeated. Its answer, and all lists, must match the model. Each sequence ends with the removal
//! of everything.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tonic::{Code, Request, Status};

use super::catalog::CatalogVolume;
use super::plugin::{Host, Plugin};
use super::profile::{PluginCapabilities, PluginProfile};
use super::recovery;
use super::services::{ControllerService, GroupControllerService, NodeService};
use nomad_csi_ports::{NoMeasurements, RandomIds};
use nomad_csi_proto as proto;
use nomad_csi_proto::controller_server::Controller as _;
use nomad_csi_proto::group_controller_server::GroupController as _;
use nomad_csi_proto::node_server::Node as _;
use nomad_csi_testing::{FakeBlockStorage, FakeClock, FakeMounter, few_or_many};

use nomad_csi_testing::csi_model::{
    ATTACH_LIMIT, Call, CallResult, Kind, Message, Model, MountPaths, PluginTraits, SeededRng,
    VOLUMES, random_call,
};

const NODE: &str = "node";
const SEQUENCES: u64 = 10_000;
/// Those of a test that a person waits for.
const FEW_SEQUENCES: u64 = 500;
const THREADS: u64 = 4;
const STEPS: u64 = 8;

/// The plugin, its simulated host, and the model.
struct Simulation {
    directory: PathBuf,
    mounter: FakeMounter,
    storage: FakeBlockStorage,
    plugin: Option<Arc<Plugin>>,
    model: Model,
}

impl Simulation {
    async fn new(directory: &Path, requires_attachment: bool) -> Self {
        for name in ["state", "mounts"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        let mounter = FakeMounter::new();
        let mut simulation = Self {
            directory: directory.to_owned(),
            storage: FakeBlockStorage::new(mounter.clone()),
            mounter,
            plugin: None,
            model: Model::new(PluginTraits { requires_attachment, ..PluginTraits::default() }),
        };
        simulation.start().await;
        simulation
    }

    async fn start(&mut self) {
        let host = Host {
            mounter: Arc::new(self.mounter.clone()),
            storage: Arc::new(self.storage.clone()),
            clock: Arc::new(FakeClock::default()),
            ids: Arc::new(RandomIds),
            measurements: Arc::new(NoMeasurements),
        };
        let profile = PluginProfile {
            overcommit: true,
            attach_limit: Some(ATTACH_LIMIT),
            capabilities: PluginCapabilities {
                requires_attachment: self.model.traits.requires_attachment,
                ..PluginCapabilities::default()
            },
            ..PluginProfile::default()
        };
        let state = self.directory.join("state");
        let plugin = Plugin::open(&state, NODE.to_owned(), profile, host).unwrap();
        let plugin = Arc::new(plugin);
        recovery::recover(&plugin).unwrap();
        recovery::finish_deletions(&plugin);
        self.plugin = Some(plugin);
    }

    async fn restart(&mut self) {
        if let Some(plugin) = self.plugin.take() {
            plugin.wait_for_work().await;
            assert_eq!(Arc::strong_count(&plugin), 1, "only the test holds the plugin");
        }
        self.mounter.fail_after(None);
        self.start().await;
    }

    /// Removes mounts and devices. The plugin restores the devices of staged block volumes.
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

    /// Sends a call and returns its result.
    async fn send(&self, call: Call) -> Result<CallResult, Status> {
        let (controller, node) = (self.controller(), self.node());
        let group = GroupControllerService(self.plugin.clone().unwrap());
        let mut result = CallResult::default();
        match self.model.message(call, NODE, self) {
            Message::CreateVolume(request) => {
                let answer = controller.create_volume(Request::new(request)).await?;
                result.id = answer.into_inner().volume.unwrap().volume_id;
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
                result.bytes = sent.await?.into_inner().capacity_bytes;
            }
            Message::CreateSnapshot(request) => {
                let answer = controller.create_snapshot(Request::new(request)).await?;
                result.id = answer.into_inner().snapshot.unwrap().snapshot_id;
            }
            Message::DeleteSnapshot(request) => {
                controller.delete_snapshot(Request::new(request)).await?;
            }
            Message::CreateGroup(request) => {
                let sent = group.create_volume_group_snapshot(Request::new(request));
                result = group_result(sent.await?.into_inner());
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
        Ok(result)
    }

    /// Sends a call, sometimes beside others that share its transactions.
    async fn send_beside_others(
        &self,
        call: Call,
        rng: &mut SeededRng,
    ) -> Result<CallResult, Status> {
        if rng.below(8) != 0 {
            return self.send(call).await;
        }
        let life = async |volume, kind| {
            let made = self.send(Call::Create(volume, kind, 0)).await.unwrap();
            let request = proto::DeleteVolumeRequest { volume_id: made.id, ..Default::default() };
            let controller = self.controller();
            let deleted = controller.delete_volume(Request::new(request)).await;
            deleted.unwrap();
        };
        let (answer, (), ()) = tokio::join!(
            self.send(call),
            life(VOLUMES, Kind::Directory),
            life(VOLUMES + 1, Kind::Image),
        );
        answer
    }

    /// Sends a call, sometimes after an interrupted attempt, sometimes twice. Its answer must match
    /// the model.
    async fn step(&mut self, call: Call, rng: &mut SeededRng) {
        let expected = self.model.expected(call);
        if rng.below(10) == 0 {
            let steps = u32::try_from(rng.below(6)).unwrap();
            if rng.below(2) == 0 {
                self.mounter.fail_after(Some(steps));
            } else {
                self.mounter.die_after(steps);
            }
            self.send_beside_others(call, rng).await.ok();
            self.restart().await;
        }
        let repeats = 1 + u64::from(rng.below(4) == 0);
        for _ in 0..repeats {
            let answer = self.send_beside_others(call, rng).await;
            let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
            assert_eq!(code, expected, "{call:?}: {answer:?}\n{:#?}", self.model);
            if let Ok(result) = answer {
                self.model.apply(call, result);
            }
        }
        self.check().await;
    }

    /// Returns the record of a volume.
    fn recorded(&self, volume: u64) -> CatalogVolume {
        let catalog = &self.plugin.as_ref().unwrap().catalog;
        let found = catalog.volume(&self.model.volumes[&volume].id);
        found.unwrap().unwrap()
    }

    /// Checks that all lists match the model.
    async fn check(&self) {
        let request = Request::new(proto::ListVolumesRequest::default());
        let volumes = self.controller().list_volumes(request).await.unwrap();
        let request = Request::new(proto::ListSnapshotsRequest::default());
        let snapshots = self.controller().list_snapshots(request).await.unwrap();
        self.model.assert_lists(volumes.into_inner(), snapshots.into_inner());
        assert_eq!(self.mounter.mounts().len(), self.model.mounts());
        assert_eq!(self.storage.frozen(), Vec::<PathBuf>::new());
    }

    /// Removes everything, and checks that nothing is left.
    async fn tear_down(&mut self) {
        for call in self.model.teardown_calls() {
            let result = self.send(call).await.unwrap();
            self.model.apply(call, result);
        }
        assert_eq!(self.mounter.mounts(), []);
        assert_eq!(self.storage.devices(), []);
        for name in ["volumes", "images", "snapshots"] {
            let path = self.directory.join("state").join(name);
            assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "{name}");
        }
        self.model = Model::new(self.model.traits);
    }
}

impl MountPaths for Simulation {
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

fn group_result(answer: proto::CreateVolumeGroupSnapshotResponse) -> CallResult {
    let group = answer.group_snapshot.unwrap();
    let members = group.snapshots.into_iter();
    let members = members.map(|one| (one.snapshot_id, one.source_volume_id));
    CallResult { id: group.group_snapshot_id, members: members.collect(), ..CallResult::default() }
}

async fn sequences(directory: &Path, requires_attachment: bool, seeds: impl Iterator<Item = u64>) {
    let mut simulation = Simulation::new(directory, requires_attachment).await;
    for seed in seeds {
        // The last line of the output names the failed sequence.
        let seed_reporter = SeedReporter(seed);
        let mut rng = SeededRng(seed);
        for _ in 0..STEPS {
            if rng.below(40) == 0 {
                simulation.reboot().await;
            }
            let call = random_call(&mut rng, &simulation.model);
            simulation.step(call, &mut rng).await;
        }
        simulation.tear_down().await;
        std::mem::forget(seed_reporter);
    }
}

/// Prints its seed if a test fails.
struct SeedReporter(u64);

impl Drop for SeedReporter {
    #[expect(clippy::print_stderr, reason = "a failing test must report its seed")]
    fn drop(&mut self) {
        eprintln!("the sequence with seed {} failed", self.0);
    }
}

/// A plugin that dies after the first mount of a file system and before it records the preparation leaves
/// the mount. The next staging prepares it before a caller can use it.
#[tokio::test]
async fn a_death_between_mount_and_preparation_is_made_up_for() {
    let (stage, target) = (Call::Stage(0), Call::Publish(0, 0, false));
    // Each death is one step later, until the last step is the mount.
    let mut steps = 0;
    let (_directory, mut simulation) = loop {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let mut simulation = Simulation::new(&path, false).await;
        let create = Call::Create(0, Kind::Image, 16 << 20);
        let result = simulation.send(create).await.unwrap();
        simulation.model.apply(create, result);
        simulation.mounter.die_after(steps);
        simulation.send(stage).await.unwrap_err();
        simulation.restart().await;
        if !simulation.mounter.mounts().is_empty() {
            break (directory, simulation);
        }
        steps += 1;
    };
    assert!(!simulation.recorded(0).content.is_prepared);
    let refused = simulation.send(target).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    for call in [stage, target] {
        let result = simulation.send(call).await.unwrap();
        simulation.model.apply(call, result);
        assert!(simulation.recorded(0).content.is_prepared);
        simulation.check().await;
    }
    simulation.tear_down().await;
}

/// Runs 10,000 sequences, half of them with volumes that must be attached. They run on a file
/// system in memory if one exists, because the test covers their order, not the disk.
#[test]
fn every_sequence_of_calls_and_crashes_matches_the_specification() {
    let memory = Path::new("/dev/shm");
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            std::thread::spawn(move || {
                let directory = tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir());
                let directory = directory.unwrap();
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                let seeds = (thread..few_or_many(FEW_SEQUENCES, SEQUENCES))
                    .step_by(usize::try_from(THREADS).unwrap());
                let path = directory.path().canonicalize().unwrap();
                runtime.block_on(sequences(&path, thread % 2 == 1, seeds));
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("every sequence passes");
    }
}
