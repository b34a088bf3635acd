//! Random sequences of RPCs with `kill -9` at any moment, against the plugin as a process with real
//! file systems, loop devices and mounts.
//!
//! `src/hostpath/tests.rs` uses the same model for 10,000 sequences over a simulated host.

use std::time::Duration;

use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::BlockStorage as _;
use nomad_csi_proto as proto;
use tonic::{Code, Status};

use crate::hostpath_fixture::{ProcessFixture, run_in_namespace_with_devices};
use crate::plugin_client::Client;
use crate::wait::until_async;
use nomad_csi_testing::namespace::mounts;

use nomad_csi_testing::csi_model::{
    ATTACH_LIMIT, Call, CallResult, Message, Model, MountPaths, PluginTraits, SeededRng,
    random_call,
};

const SEQUENCES: u64 = 200;
const STEPS: u64 = 6;

impl MountPaths for ProcessFixture {
    fn staging(&self, volume: u64) -> String {
        let path = self.create_dir(&format!("staging-{volume}"));
        path.to_str().unwrap().to_owned()
    }

    fn target(&self, volume: u64, target: u64) -> String {
        let path = self.path(&format!("{volume}-{target}"));
        path.to_str().unwrap().to_owned()
    }
}

/// Sends a call and returns its result.
async fn send(mut client: Client, message: Message) -> Result<CallResult, Status> {
    let mut result = CallResult::default();
    match message {
        Message::CreateVolume(request) => {
            let answer = client.controller.create_volume(request).await?;
            result.id = answer.into_inner().volume.unwrap().volume_id;
        }
        Message::DeleteVolume(request) => drop(client.controller.delete_volume(request).await?),
        Message::Attach(request) => {
            client.controller.controller_publish_volume(request).await?;
        }
        Message::Detach(request) => {
            client.controller.controller_unpublish_volume(request).await?;
        }
        Message::Expand(request) => {
            let answer = client.controller.controller_expand_volume(request).await?;
            result.bytes = answer.into_inner().capacity_bytes;
        }
        Message::CreateSnapshot(request) => {
            let answer = client.controller.create_snapshot(request).await?;
            result.id = answer.into_inner().snapshot.unwrap().snapshot_id;
        }
        Message::DeleteSnapshot(request) => {
            client.controller.delete_snapshot(request).await?;
        }
        Message::CreateGroup(request) => {
            let answer = client.group.create_volume_group_snapshot(request).await?;
            let group = answer.into_inner().group_snapshot.unwrap();
            result.id = group.group_snapshot_id;
            let members = group.snapshots.into_iter();
            let members = members.map(|one| (one.snapshot_id, one.source_volume_id));
            result.members = members.collect();
        }
        Message::DeleteGroup(request) => {
            client.group.delete_volume_group_snapshot(request).await?;
        }
        Message::Stage(request) => drop(client.node.node_stage_volume(request).await?),
        Message::Unstage(request) => drop(client.node.node_unstage_volume(request).await?),
        Message::Publish(request) => drop(client.node.node_publish_volume(request).await?),
        Message::Unpublish(request) => drop(client.node.node_unpublish_volume(request).await?),
    }
    Ok(result)
}

/// The process of the plugin, and the model.
struct Sequence {
    fixture: ProcessFixture,
    client: Client,
    model: Model,
}

impl Sequence {
    async fn call(&self, call: Call) -> Result<CallResult, Status> {
        let message = self.model.message(call, "node-1", &self.fixture);
        send(self.client.clone(), message).await
    }

    /// Sends a call, sometimes after a kill during an earlier attempt. Its answer must match the
    /// model.
    async fn step(&mut self, call: Call, rng: &mut SeededRng) {
        let expected = self.model.expected(call);
        let is_killed = rng.below(8) == 0;
        if is_killed {
            let moment = Duration::from_micros(rng.below(25_000));
            drop(tokio::time::timeout(moment, self.call(call)).await);
            self.client = self.fixture.restart().await;
        }
        let repeats = 1 + u64::from(rng.below(4) == 0);
        for _ in 0..repeats {
            let answer = self.answer(call, expected, is_killed).await;
            if let Ok(result) = answer {
                self.model.apply(call, result);
            }
        }
        self.check().await;
    }

    /// Repeats a call, as an orchestrator does: a child of the killed process, such as mkfs, may
    /// hold a device a moment longer.
    async fn answer(
        &self,
        call: Call,
        expected: Code,
        is_killed: bool,
    ) -> Result<CallResult, Status> {
        let once = async || {
            let answer = self.call(call).await;
            let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
            if code == expected {
                return Ok(answer);
            }
            Err(format!("{call:?}: {answer:?} instead of {expected:?}\n{:#?}", self.model))
        };
        if is_killed {
            return until_async("the expected answer", once).await;
        }
        once().await.unwrap_or_else(|wrong| panic!("{wrong}"))
    }

    /// Checks that all lists match the model.
    async fn check(&self) {
        let mut client = self.client.clone();
        let request = proto::ListVolumesRequest::default();
        let volumes = client.controller.list_volumes(request).await.unwrap();
        let request = proto::ListSnapshotsRequest::default();
        let snapshots = client.controller.list_snapshots(request).await.unwrap();
        self.model.assert_lists(volumes.into_inner(), snapshots.into_inner());
        let expected = self.model.mounts();
        let below = self.fixture.path("");
        let below = below.canonicalize().unwrap();
        let below = below.to_str().unwrap();
        let mounted = mounts().into_iter().filter(|target| target.starts_with(below));
        assert_eq!(mounted.count(), expected, "{:#?}", self.model);
    }

    /// Removes everything, and checks that nothing is left.
    async fn tear_down(&mut self) {
        for call in self.model.teardown_calls() {
            let result = self.call(call).await;
            let result =
                result.unwrap_or_else(|error| panic!("{call:?}: {error}\n{:#?}", self.model));
            self.model.apply(call, result);
        }
        self.fixture.wait_until_no_devices().await;
        for name in ["state/volumes", "state/images", "state/snapshots"] {
            assert!(self.fixture.is_empty(name), "{name} is empty");
        }
        self.model = Model::new(self.model.traits);
    }
}

/// Runs half of the sequences, each with its own profile.
async fn sequences(requires_attachment: bool, seeds: impl Iterator<Item = u64>) {
    let limit = ATTACH_LIMIT.to_string();
    let flags: &[&str] = match requires_attachment {
        true => &["--overcommit", "--attach", "--attach-limit", &limit],
        false => &["--overcommit"],
    };
    let mut fixture = ProcessFixture::new(flags);
    let client = fixture.start().await;
    let storage = LinuxBlockStorage::default();
    let model = Model::new(PluginTraits {
        requires_attachment,
        offline_growth_only: !storage.features().supports_online_expansion(),
        supports_reflink: storage.supports_reflink(&fixture.path("state")),
    });
    let mut sequence = Sequence { fixture, client, model };
    for seed in seeds {
        let mut rng = SeededRng(seed);
        for _ in 0..STEPS {
            let call = random_call(&mut rng, &sequence.model);
            sequence.step(call, &mut rng).await;
        }
        sequence.tear_down().await;
        eprintln!("the sequence with seed {seed} matches the specification");
    }
}

#[test]
fn every_sequence_of_calls_and_kills_matches_the_specification() {
    run_in_namespace_with_devices(
        "hostpath_sequences::every_sequence_of_calls_and_kills_matches_the_specification",
        async {
            tokio::join!(
                sequences(false, (0..SEQUENCES).step_by(2)),
                sequences(true, (1..SEQUENCES).step_by(2)),
            );
        },
    );
}
