//! Random sequences of RPCs with `kill -9` at any moment, against the plugin as a process, with real
//! file systems, loop devices and mounts. The model is the one of `src/hostpath/tests.rs`, which
//! does the same 10,000 times over a machine in memory.

use std::time::Duration;

use nomad_csi::csi::proto;
use nomad_csi::mounts::LinuxBlockStorage;
use nomad_csi::ports::BlockStorage as _;
use tonic::{Code, Status};

use crate::hostpath_world::{World, run_with_devices};
use crate::namespace::mounts;
use crate::plugin_client::Client;
use crate::wait::until_async;

#[path = "../../src/hostpath/tests/model.rs"]
mod model;

use model::{About, Call, Chance, Made, Message, Model, Paths, choose};

const SEQUENCES: u64 = 200;
const STEPS: u64 = 6;

impl Paths for World {
    fn staging(&self, volume: u64) -> String {
        let path = self.made(&format!("staging-{volume}"));
        path.to_str().unwrap().to_owned()
    }

    fn target(&self, volume: u64, target: u64) -> String {
        let path = self.path(&format!("{volume}-{target}"));
        path.to_str().unwrap().to_owned()
    }
}

/// Sends a call; what it made, if it made something.
async fn send(mut client: Client, message: Message) -> Result<Made, Status> {
    let mut made = Made::default();
    match message {
        Message::CreateVolume(request) => {
            let answer = client.controller.create_volume(request).await?;
            made.id = answer.into_inner().volume.unwrap().volume_id;
        }
        Message::DeleteVolume(request) => drop(client.controller.delete_volume(request).await?),
        Message::Attach(request) => {
            client.controller.controller_publish_volume(request).await?;
        }
        Message::Detach(request) => {
            client
                .controller
                .controller_unpublish_volume(request)
                .await?;
        }
        Message::Expand(request) => {
            let answer = client.controller.controller_expand_volume(request).await?;
            made.bytes = answer.into_inner().capacity_bytes;
        }
        Message::CreateSnapshot(request) => {
            let answer = client.controller.create_snapshot(request).await?;
            made.id = answer.into_inner().snapshot.unwrap().snapshot_id;
        }
        Message::DeleteSnapshot(request) => {
            client.controller.delete_snapshot(request).await?;
        }
        Message::CreateGroup(request) => {
            let answer = client.group.create_volume_group_snapshot(request).await?;
            let group = answer.into_inner().group_snapshot.unwrap();
            made.id = group.group_snapshot_id;
            let members = group.snapshots.into_iter();
            let members = members.map(|one| (one.snapshot_id, one.source_volume_id));
            made.members = members.collect();
        }
        Message::DeleteGroup(request) => {
            client.group.delete_volume_group_snapshot(request).await?;
        }
        Message::Stage(request) => drop(client.node.node_stage_volume(request).await?),
        Message::Unstage(request) => drop(client.node.node_unstage_volume(request).await?),
        Message::Publish(request) => drop(client.node.node_publish_volume(request).await?),
        Message::Unpublish(request) => drop(client.node.node_unpublish_volume(request).await?),
    }
    Ok(made)
}

/// The plugin's process, and what should be.
struct Sequence {
    world: World,
    client: Client,
    model: Model,
}

impl Sequence {
    async fn call(&self, call: Call) -> Result<Made, Status> {
        let message = self.model.message(call, "node-1", &self.world);
        send(self.client.clone(), message).await
    }

    /// Sends a call, perhaps killed in the middle of it before; its answer is the model's.
    async fn step(&mut self, call: Call, chance: &mut Chance) {
        let expected = self.model.expected(call);
        let is_killed = chance.below(8) == 0;
        if is_killed {
            let moment = Duration::from_micros(chance.below(25_000));
            drop(tokio::time::timeout(moment, self.call(call)).await);
            self.client = self.world.restart().await;
        }
        let repeats = 1 + u64::from(chance.below(4) == 0);
        for _ in 0..repeats {
            let answer = self.answer(call, expected, is_killed).await;
            if let Ok(made) = answer {
                self.model.apply(call, made);
            }
        }
        self.check().await;
    }

    /// A program that the killed process had started (a maker of file systems, a checker) may hold
    /// a device for a moment longer; then the call is repeated, as an orchestrator does.
    async fn answer(&self, call: Call, expected: Code, is_killed: bool) -> Result<Made, Status> {
        let once = async || {
            let answer = self.call(call).await;
            let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
            if code == expected {
                return Ok(answer);
            }
            Err(format!(
                "{call:?}: {answer:?} and not {expected:?}\n{:#?}",
                self.model
            ))
        };
        if is_killed {
            return until_async("the right answer", once).await;
        }
        once().await.unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// Everything that can be listed is what the model says.
    async fn check(&self) {
        let mut client = self.client.clone();
        let request = proto::ListVolumesRequest::default();
        let volumes = client.controller.list_volumes(request).await.unwrap();
        let request = proto::ListSnapshotsRequest::default();
        let snapshots = client.controller.list_snapshots(request).await.unwrap();
        self.model
            .is_listed(volumes.into_inner(), snapshots.into_inner());
        let expected = self.model.mounts();
        let below = self.world.path("");
        let below = below.canonicalize().unwrap();
        let below = below.to_str().unwrap();
        let mounted = mounts()
            .into_iter()
            .filter(|target| target.starts_with(below));
        assert_eq!(mounted.count(), expected, "{:#?}", self.model);
    }

    /// Takes everything down; nothing is left.
    async fn end(&mut self) {
        for call in self.model.ending() {
            let made = self.call(call).await;
            let made = made.unwrap_or_else(|error| panic!("{call:?}: {error}\n{:#?}", self.model));
            self.model.apply(call, made);
        }
        self.world.no_devices().await;
        for name in ["state/volumes", "state/images", "state/snapshots"] {
            assert!(self.world.is_empty(name), "{name} is empty");
        }
        self.model = Model::of(self.model.about);
    }
}

/// Half of the sequences, each with a plugin of one kind.
async fn sequences(attaches: bool, seeds: impl Iterator<Item = u64>) {
    let limit = model::ATTACH_LIMIT.to_string();
    let flags: &[&str] = match attaches {
        true => &["--overcommit", "--attach", "--attach-limit", &limit],
        false => &["--overcommit"],
    };
    let mut world = World::new(flags);
    let client = world.start().await;
    let storage = LinuxBlockStorage::default();
    let model = Model::of(About {
        attaches,
        grows_unmounted: !storage.offers().grows_in_use(),
        shares_blocks: storage.shares_blocks(&world.path("state")),
    });
    let mut sequence = Sequence {
        world,
        client,
        model,
    };
    for seed in seeds {
        let mut chance = Chance(seed);
        for _ in 0..STEPS {
            let call = choose(&mut chance, &sequence.model);
            sequence.step(call, &mut chance).await;
        }
        sequence.end().await;
        eprintln!("the sequence with seed {seed} is answered by the specification");
    }
}

#[test]
fn any_sequence_of_calls_and_kills_is_answered_by_the_specification() {
    run_with_devices(
        "hostpath_sequences::any_sequence_of_calls_and_kills_is_answered_by_the_specification",
        async {
            tokio::join!(
                sequences(false, (0..SEQUENCES).step_by(2)),
                sequences(true, (1..SEQUENCES).step_by(2)),
            );
        },
    );
}
