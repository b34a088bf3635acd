//! A model of CSI: the state after any sequence of calls, and the answer to each call.
//!
//! Pure. [`super`] compares it with the plugin over a simulated host.
//! `tests/e2e/hostpath_sequences.rs` includes this file and compares it with the process and real
//! mounts.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Code;

use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

pub const VOLUMES: u64 = 3;
pub const SNAPSHOTS: u64 = 2;
pub const GROUPS: u64 = 2;
pub const TARGETS: u64 = 2;
/// How many volumes can be attached, if the plugin requires attachment.
pub const ATTACH_LIMIT: u32 = 2;
const MIB: i64 = 1 << 20;

/// A pseudo-random number generator (splitmix64).
pub struct SeededRng(pub u64);

impl SeededRng {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    Image,
    Block,
}

/// One call. Numbers identify volumes, snapshots and targets.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    Create(u64, Kind, i64),
    Restore(u64, u64),
    Clone(u64, u64),
    Delete(u64),
    Expand(u64, i64),
    Snapshot(u64, u64),
    DeleteSnapshot(u64),
    Stage(u64),
    Unstage(u64),
    Publish(u64, u64, bool),
    Unpublish(u64, u64),
    Attach(u64),
    Detach(u64),
    /// A group of two volumes, or of one if both are the same.
    CreateGroup(u64, u64, u64),
    DeleteGroup(u64),
    /// Deletes the first member of a group, without the group.
    DeleteMember(u64),
}

/// The result of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallResult {
    pub id: String,
    pub bytes: i64,
    /// The snapshots of a group, each with its volume.
    pub members: BTreeMap<String, String>,
}

/// The request of a call.
#[derive(Clone, Debug)]
pub enum Message {
    CreateVolume(proto::CreateVolumeRequest),
    DeleteVolume(proto::DeleteVolumeRequest),
    Attach(proto::ControllerPublishVolumeRequest),
    Detach(proto::ControllerUnpublishVolumeRequest),
    Expand(proto::ControllerExpandVolumeRequest),
    CreateSnapshot(proto::CreateSnapshotRequest),
    DeleteSnapshot(proto::DeleteSnapshotRequest),
    CreateGroup(proto::CreateVolumeGroupSnapshotRequest),
    DeleteGroup(proto::DeleteVolumeGroupSnapshotRequest),
    Stage(proto::NodeStageVolumeRequest),
    Unstage(proto::NodeUnstageVolumeRequest),
    Publish(proto::NodePublishVolumeRequest),
    Unpublish(proto::NodeUnpublishVolumeRequest),
}

/// The mount paths of volumes.
pub trait MountPaths {
    fn staging(&self, volume: u64) -> String;
    fn target(&self, volume: u64, target: u64) -> String;
}

/// The expected state of the plugin.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub volumes: BTreeMap<u64, Volume>,
    pub snapshots: BTreeMap<u64, Snapshot>,
    groups: BTreeMap<u64, Group>,
    /// The last ID of each, including deleted ones.
    ids: BTreeMap<u64, String>,
    snapshot_ids: BTreeMap<u64, String>,
    deleted_groups: BTreeMap<u64, Group>,
    pub traits: PluginTraits,
}

/// Properties of the plugin and its host.
#[derive(Clone, Copy, Debug, Default)]
pub struct PluginTraits {
    /// Volumes must be attached before use.
    pub requires_attachment: bool,
    /// A file system cannot grow while it is mounted.
    pub offline_growth_only: bool,
    /// Copies are reflinks.
    pub supports_reflink: bool,
}

#[derive(Clone, Debug)]
pub struct Volume {
    pub id: String,
    pub kind: Kind,
    pub bytes: i64,
    requested: (Kind, i64, Option<String>),
    is_attached: bool,
    pub is_staged: bool,
    /// The targets: whether each is read-only, and whether it is mounted (not after a reboot).
    pub targets: BTreeMap<u64, (bool, bool)>,
}

impl Volume {
    pub fn is_published(&self) -> bool {
        self.targets.values().any(|(_, is_mounted)| *is_mounted)
    }

    /// Returns whether it was requested as a copy of the volume or snapshot with this ID.
    fn is_copy_of(&self, id: Option<&String>) -> bool {
        id.is_some() && self.requested.2.as_ref() == id
    }

    fn is_used(&self) -> bool {
        self.is_staged || self.is_published()
    }

    /// How many mounts it has.
    pub fn mounts(&self) -> usize {
        let is_mounted = self.is_staged && self.kind != Kind::Block;
        let targets = self.targets.values();
        usize::from(is_mounted) + targets.filter(|(_, is_mounted)| *is_mounted).count()
    }
}

#[derive(Clone, Debug)]
pub struct Snapshot {
    pub id: String,
    source: String,
    kind: Kind,
    bytes: i64,
}

#[derive(Clone, Debug)]
struct Group {
    id: String,
    sources: BTreeSet<String>,
    members: BTreeMap<String, String>,
}

impl Model {
    /// An empty model of a plugin with these properties.
    pub fn new(traits: PluginTraits) -> Self {
        Self { traits, ..Self::default() }
    }

    fn id(&self, volume: u64) -> String {
        let known = self.ids.get(&volume);
        known.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    fn snapshot_id(&self, snapshot: u64) -> String {
        let known = self.snapshot_ids.get(&snapshot);
        known.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    /// Returns an existing or deleted group.
    fn group(&self, group: u64) -> Option<&Group> {
        self.groups.get(&group).or(self.deleted_groups.get(&group))
    }

    fn first_member(&self, group: u64) -> String {
        let first = self.group(group).and_then(|found| found.members.keys().next());
        first.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    fn kind(&self, volume: u64) -> Kind {
        let found = self.volumes.get(&volume);
        found.map_or(Kind::Image, |volume| volume.kind)
    }

    /// Builds the request of a call, for the node with this ID.
    pub fn message(&self, call: Call, node: &str, paths: &dyn MountPaths) -> Message {
        match call {
            Call::Create(..) | Call::Restore(..) | Call::Clone(..) => {
                Message::CreateVolume(self.creation(call))
            }
            Call::Stage(_) | Call::Unstage(_) | Call::Publish(..) | Call::Unpublish(..) => {
                self.node_message(call, paths)
            }
            Call::Delete(volume) => Message::DeleteVolume(proto::DeleteVolumeRequest {
                volume_id: self.id(volume),
                ..Default::default()
            }),
            Call::Attach(volume) => Message::Attach(proto::ControllerPublishVolumeRequest {
                volume_id: self.id(volume),
                node_id: node.to_owned(),
                volume_capability: Some(capability(self.kind(volume))),
                ..Default::default()
            }),
            Call::Detach(volume) => Message::Detach(proto::ControllerUnpublishVolumeRequest {
                volume_id: self.id(volume),
                node_id: node.to_owned(),
                ..Default::default()
            }),
            Call::Expand(volume, bytes) => Message::Expand(proto::ControllerExpandVolumeRequest {
                volume_id: self.id(volume),
                capacity_range: at_least(bytes),
                ..Default::default()
            }),
            Call::Snapshot(snapshot, volume) => {
                Message::CreateSnapshot(proto::CreateSnapshotRequest {
                    name: format!("s{snapshot}"),
                    source_volume_id: self.id(volume),
                    ..Default::default()
                })
            }
            Call::DeleteSnapshot(snapshot) => {
                Message::DeleteSnapshot(deletion(self.snapshot_id(snapshot)))
            }
            Call::DeleteMember(group) => {
                Message::DeleteSnapshot(deletion(self.first_member(group)))
            }
            Call::CreateGroup(group, one, other) => {
                let sources = BTreeSet::from([self.id(one), self.id(other)]);
                Message::CreateGroup(proto::CreateVolumeGroupSnapshotRequest {
                    name: format!("g{group}"),
                    source_volume_ids: sources.into_iter().collect(),
                    ..Default::default()
                })
            }
            Call::DeleteGroup(group) => {
                let found = self.group(group);
                let members = found.map(|found| found.members.keys().cloned().collect());
                let id = found.map(|found| found.id.clone());
                Message::DeleteGroup(proto::DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: id.unwrap_or_else(|| "never-was".to_owned()),
                    snapshot_ids: members.unwrap_or_default(),
                    ..Default::default()
                })
            }
        }
    }

    fn creation(&self, call: Call) -> proto::CreateVolumeRequest {
        use proto::volume_content_source::{SnapshotSource, Type, VolumeSource};
        let (volume, kind, bytes, source) = match call {
            Call::Create(volume, kind, bytes) => (volume, kind, bytes, None),
            Call::Restore(volume, snapshot) => {
                let found = self.snapshots.get(&snapshot);
                let kind = found.map_or_else(|| self.kind(volume), |found| found.kind);
                let snapshot_id = self.snapshot_id(snapshot);
                (volume, kind, 0, Some(Type::Snapshot(SnapshotSource { snapshot_id })))
            }
            Call::Clone(volume, from) => {
                // If the source is deleted, the same request is sent again.
                let of = if self.volumes.contains_key(&from) { from } else { volume };
                let volume_id = self.id(from);
                (volume, self.kind(of), 0, Some(Type::Volume(VolumeSource { volume_id })))
            }
            other => unreachable!("{other:?} creates no volume"),
        };
        let is_plain = kind == Kind::Directory;
        let parameter = is_plain.then(|| ("backing".to_owned(), "directory".to_owned()));
        proto::CreateVolumeRequest {
            name: format!("v{volume}"),
            capacity_range: at_least(bytes),
            volume_capabilities: vec![capability(kind)],
            parameters: parameter.into_iter().collect(),
            volume_content_source: source
                .map(|source| proto::VolumeContentSource { r#type: Some(source) }),
            ..Default::default()
        }
    }

    fn node_message(&self, call: Call, paths: &dyn MountPaths) -> Message {
        match call {
            Call::Stage(volume) => Message::Stage(proto::NodeStageVolumeRequest {
                volume_id: self.id(volume),
                staging_target_path: paths.staging(volume),
                volume_capability: Some(capability(self.kind(volume))),
                ..Default::default()
            }),
            Call::Unstage(volume) => Message::Unstage(proto::NodeUnstageVolumeRequest {
                volume_id: self.id(volume),
                staging_target_path: paths.staging(volume),
            }),
            Call::Publish(volume, target, readonly) => {
                Message::Publish(proto::NodePublishVolumeRequest {
                    volume_id: self.id(volume),
                    staging_target_path: paths.staging(volume),
                    target_path: paths.target(volume, target),
                    volume_capability: Some(capability(self.kind(volume))),
                    readonly,
                    ..Default::default()
                })
            }
            Call::Unpublish(volume, target) => {
                Message::Unpublish(proto::NodeUnpublishVolumeRequest {
                    volume_id: self.id(volume),
                    target_path: paths.target(volume, target),
                })
            }
            other => unreachable!("{other:?} is a call to the controller"),
        }
    }

    /// Returns whether a consistent copy is possible now, together with this many volumes.
    fn can_copy(&self, volume: &Volume, volume_count: usize) -> bool {
        match volume.kind {
            Kind::Image => true,
            Kind::Block if self.traits.supports_reflink && volume_count == 1 => true,
            Kind::Block | Kind::Directory => !volume.is_used(),
        }
    }

    /// Checks that the plugin lists what the model contains.
    pub fn assert_lists(
        &self,
        volumes: proto::ListVolumesResponse,
        snapshots: proto::ListSnapshotsResponse,
    ) {
        let entries = volumes.entries.into_iter();
        let listed: BTreeMap<_, _> = entries
            .map(|entry| entry.volume.unwrap())
            .map(|volume| (volume.volume_id, volume.capacity_bytes))
            .collect();
        let expected: BTreeMap<_, _> =
            self.volumes.values().map(|volume| (volume.id.clone(), volume.bytes)).collect();
        assert_eq!(listed, expected);
        let entries = snapshots.entries.into_iter();
        let listed: BTreeMap<_, _> = entries
            .map(|entry| entry.snapshot.unwrap())
            .map(|snapshot| (snapshot.snapshot_id, snapshot.source_volume_id))
            .collect();
        assert_eq!(listed, self.all_snapshots());
    }

    /// How many mounts all volumes have.
    pub fn mounts(&self) -> usize {
        self.volumes.values().map(Volume::mounts).sum()
    }

    /// Returns every snapshot with its volume.
    fn all_snapshots(&self) -> BTreeMap<String, String> {
        let single = self.snapshots.values();
        let mut all: BTreeMap<_, _> =
            single.map(|found| (found.id.clone(), found.source.clone())).collect();
        for group in self.groups.values() {
            all.extend(group.members.clone());
        }
        all
    }

    /// Returns the calls that remove everything.
    pub fn teardown_calls(&self) -> Vec<Call> {
        let mut calls = vec![];
        for volume in self.volumes.keys() {
            calls.extend((0..TARGETS).map(|target| Call::Unpublish(*volume, target)));
            calls.extend([Call::Unstage(*volume), Call::Detach(*volume), Call::Delete(*volume)]);
        }
        calls.extend((0..SNAPSHOTS).map(Call::DeleteSnapshot));
        calls.extend((0..GROUPS).map(Call::DeleteGroup));
        if !self.traits.requires_attachment {
            calls.retain(|call| !matches!(call, Call::Detach(_)));
        }
        calls
    }

    fn expected_group(&self, group: u64, one: u64, other: u64) -> Code {
        let sources = BTreeSet::from([self.id(one), self.id(other)]);
        if let Some(found) = self.groups.get(&group) {
            return if found.sources == sources { Code::Ok } else { Code::AlreadyExists };
        }
        // Sources are checked in the order of their IDs; the first failure decides.
        for id in &sources {
            let found = self.volumes.values().find(|volume| volume.id == *id);
            match found {
                None => return Code::NotFound,
                Some(found) if !self.can_copy(found, sources.len()) => {
                    return Code::FailedPrecondition;
                }
                Some(_) => {}
            }
        }
        Code::Ok
    }

    fn expected_restore(&self, number: u64, snapshot: u64) -> Code {
        let id = self.snapshot_ids.get(&snapshot);
        match (self.volumes.get(&number), self.snapshots.get(&snapshot)) {
            (Some(found), _) if found.is_copy_of(id) => Code::Ok,
            (Some(_), _) => Code::AlreadyExists,
            (None, None) => Code::NotFound,
            (None, Some(_)) => Code::Ok,
        }
    }

    fn expected_clone(&self, number: u64, from: u64) -> Code {
        let id = self.ids.get(&from);
        match (self.volumes.get(&number), self.volumes.get(&from)) {
            (Some(found), _) if found.is_copy_of(id) => Code::Ok,
            (Some(_), _) => Code::AlreadyExists,
            (None, None) => Code::NotFound,
            (None, Some(from)) if self.can_copy(from, 1) => Code::Ok,
            (None, Some(_)) => Code::FailedPrecondition,
        }
    }

    fn expected_expansion(&self, number: u64, bytes: i64) -> Code {
        let Some(found) = self.volumes.get(&number) else {
            return Code::NotFound;
        };
        let requires_offline = self.traits.offline_growth_only && found.kind == Kind::Image;
        if found.kind == Kind::Directory {
            Code::OutOfRange
        } else if requires_offline && found.is_used() && bytes > found.bytes {
            Code::FailedPrecondition
        } else {
            Code::Ok
        }
    }

    fn expected_snapshot(&self, snapshot: u64, number: u64) -> Code {
        let id = self.ids.get(&number);
        match (self.snapshots.get(&snapshot), self.volumes.get(&number)) {
            (Some(found), _) if Some(&found.source) == id => Code::Ok,
            (Some(_), _) => Code::AlreadyExists,
            (None, None) => Code::NotFound,
            (None, Some(found)) if self.can_copy(found, 1) => Code::Ok,
            (None, Some(_)) => Code::FailedPrecondition,
        }
    }

    fn expected_attachment(&self, number: u64) -> Code {
        let attached = self.volumes.values().filter(|volume| volume.is_attached);
        match self.volumes.get(&number) {
            None => Code::NotFound,
            Some(found) if found.is_attached => Code::Ok,
            Some(_) if attached.count() >= ATTACH_LIMIT as usize => Code::ResourceExhausted,
            Some(_) => Code::Ok,
        }
    }
}

fn at_least(required_bytes: i64) -> Option<proto::CapacityRange> {
    Some(proto::CapacityRange { required_bytes, limit_bytes: 0 })
}

fn deletion(snapshot_id: String) -> proto::DeleteSnapshotRequest {
    proto::DeleteSnapshotRequest { snapshot_id, ..Default::default() }
}

impl Model {
    /// Returns the expected status of a call.
    pub fn expected(&self, call: Call) -> Code {
        let volume = |number: u64| self.volumes.get(&number);
        match call {
            Call::Create(number, kind, bytes) => match volume(number) {
                Some(found) if found.requested != (kind, bytes, None) => Code::AlreadyExists,
                _ => Code::Ok,
            },
            Call::Restore(number, snapshot) => self.expected_restore(number, snapshot),
            Call::Clone(number, from) => self.expected_clone(number, from),
            Call::Delete(number) => match volume(number) {
                Some(found) if found.is_used() || found.is_attached => Code::FailedPrecondition,
                _ => Code::Ok,
            },
            Call::Expand(number, bytes) => self.expected_expansion(number, bytes),
            Call::Snapshot(snapshot, number) => self.expected_snapshot(snapshot, number),
            Call::DeleteSnapshot(_) => Code::Ok,
            Call::Unstage(number) | Call::Unpublish(number, _) => {
                volume(number).map_or(Code::NotFound, |_| Code::Ok)
            }
            Call::Stage(number) => match volume(number) {
                None => Code::NotFound,
                Some(found) if self.traits.requires_attachment && !found.is_attached => {
                    Code::FailedPrecondition
                }
                Some(_) => Code::Ok,
            },
            Call::Attach(number) => self.expected_attachment(number),
            Call::Detach(number) => match volume(number) {
                Some(found) if found.is_attached && found.is_used() => Code::FailedPrecondition,
                _ => Code::Ok,
            },
            Call::CreateGroup(group, one, other) => self.expected_group(group, one, other),
            Call::DeleteGroup(_) => Code::Ok,
            Call::DeleteMember(group) => match self.groups.get(&group) {
                Some(_) => Code::InvalidArgument,
                None => Code::Ok,
            },
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

    /// Applies a successful call.
    pub fn apply(&mut self, call: Call, result: CallResult) {
        match call {
            Call::Create(number, kind, bytes) => {
                let size = if kind == Kind::Directory { 0 } else { bytes };
                self.create(number, result.id, kind, size, (kind, bytes, None));
            }
            Call::Restore(number, snapshot) => {
                if let Some(from) = self.snapshots.get(&snapshot).cloned() {
                    let requested = (from.kind, 0, Some(from.id));
                    self.create(number, result.id, from.kind, from.bytes, requested);
                }
            }
            Call::Clone(number, from) => {
                if let Some(from) = self.volumes.get(&from).cloned() {
                    let requested = (from.kind, 0, Some(from.id));
                    self.create(number, result.id, from.kind, from.bytes, requested);
                }
            }
            Call::Delete(number) => drop(self.volumes.remove(&number)),
            Call::Expand(number, bytes) => {
                if let Some(found) = self.volumes.get_mut(&number) {
                    found.bytes = found.bytes.max(bytes);
                    assert_eq!(result.bytes, found.bytes);
                }
            }
            Call::Snapshot(snapshot, number) => self.create_snapshot(snapshot, number, result.id),
            Call::DeleteSnapshot(snapshot) => drop(self.snapshots.remove(&snapshot)),
            Call::Stage(number) => self.change(number, |found| found.is_staged = true),
            Call::Unstage(number) => self.change(number, |found| found.is_staged = false),
            Call::Publish(number, target, read_only) => self.change(number, |found| {
                found.targets.insert(target, (read_only, true));
            }),
            Call::Unpublish(number, target) => self.change(number, |found| {
                found.targets.remove(&target);
            }),
            Call::Attach(number) => self.change(number, |found| found.is_attached = true),
            Call::Detach(number) => self.change(number, |found| found.is_attached = false),
            Call::CreateGroup(group, one, other) => self.create_group(group, one, other, result),
            Call::DeleteGroup(group) => {
                if let Some(deleted) = self.groups.remove(&group) {
                    self.deleted_groups.insert(group, deleted);
                }
            }
            Call::DeleteMember(_) => {}
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
        requested: (Kind, i64, Option<String>),
    ) {
        if let Some(found) = self.volumes.get(&number) {
            assert_eq!(found.id, id, "one name identifies one volume");
            return;
        }
        let is_new = self.ids.insert(number, id.clone()) != Some(id.clone());
        assert!(is_new, "an ID is never reused");
        let volume = Volume {
            id,
            kind,
            bytes,
            requested,
            is_attached: false,
            is_staged: false,
            targets: BTreeMap::new(),
        };
        self.volumes.insert(number, volume);
    }

    fn create_group(&mut self, group: u64, one: u64, other: u64, result: CallResult) {
        let sources = BTreeSet::from([self.id(one), self.id(other)]);
        if let Some(found) = self.groups.get(&group) {
            assert_eq!((&found.id, &found.members), (&result.id, &result.members));
            return;
        }
        let cut: BTreeSet<_> = result.members.values().cloned().collect();
        assert_eq!(cut, sources, "a group is complete");
        assert_eq!(result.members.len(), sources.len(), "each source has one member");
        let found = Group { id: result.id, sources, members: result.members };
        self.groups.insert(group, found);
    }

    fn create_snapshot(&mut self, snapshot: u64, number: u64, id: String) {
        if let Some(found) = self.snapshots.get(&snapshot) {
            assert_eq!(found.id, id, "one name identifies one snapshot");
            return;
        }
        let Some(volume) = self.volumes.get(&number) else {
            return;
        };
        self.snapshot_ids.insert(snapshot, id.clone());
        let found =
            Snapshot { id, source: volume.id.clone(), kind: volume.kind, bytes: volume.bytes };
        self.snapshots.insert(snapshot, found);
    }
}

/// Returns a random call that an orchestrator may send now.
pub fn random_call(rng: &mut SeededRng, model: &Model) -> Call {
    let volume = rng.below(VOLUMES);
    let snapshot = rng.below(SNAPSHOTS);
    let bytes = (1 + i64::try_from(rng.below(3)).unwrap()) * MIB;
    let is_published = model.volumes.get(&volume).is_some_and(Volume::is_published);
    let group = rng.below(GROUPS);
    let other = rng.below(VOLUMES);
    match rng.below(if model.traits.requires_attachment { 25 } else { 20 }) {
        16 | 17 => return Call::CreateGroup(group, volume, other),
        18 => return Call::DeleteGroup(group),
        19 => return Call::DeleteMember(group),
        20..=23 => return Call::Attach(volume),
        24 => return Call::Detach(volume),
        _ => {}
    }
    match rng.below(16) {
        0..=2 => {
            let kinds = [Kind::Directory, Kind::Image, Kind::Block];
            let kind = kinds[usize::try_from(rng.below(3)).unwrap()];
            Call::Create(volume, kind, bytes)
        }
        3 => Call::Restore(volume, snapshot),
        4 => Call::Clone(volume, (volume + 1) % VOLUMES),
        5 => Call::Delete(volume),
        6 => Call::Expand(volume, bytes),
        7 | 8 => Call::Snapshot(snapshot, volume),
        9 => Call::DeleteSnapshot(snapshot),
        10 | 11 => Call::Stage(volume),
        // An orchestrator unstages only after the last unpublish.
        12 if !is_published => Call::Unstage(volume),
        12 | 13 => Call::Unpublish(volume, rng.below(TARGETS)),
        _ => Call::Publish(volume, rng.below(TARGETS), rng.below(2) == 0),
    }
}

pub fn capability(kind: Kind) -> proto::VolumeCapability {
    let access_type = match kind {
        Kind::Block => AccessType::Block(BlockVolume {}),
        Kind::Directory | Kind::Image => AccessType::Mount(MountVolume::default()),
    };
    proto::VolumeCapability {
        access_mode: Some(AccessMode { mode: Mode::SingleNodeMultiWriter.into() }),
        access_type: Some(access_type),
    }
}
