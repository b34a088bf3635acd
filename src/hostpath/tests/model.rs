//! What CSI says is there after any sequence of calls, and what a call is then answered with.
//!
//! Pure, and without a plugin: [`super`] holds it against the plugin over a machine in memory, and
//! `tests/e2e/hostpath_sequences.rs`, which includes this file, against the process with real mounts.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Code;

use crate::csi::proto;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

pub(super) const VOLUMES: u64 = 3;
pub(super) const SNAPSHOTS: u64 = 2;
pub(super) const GROUPS: u64 = 2;
pub(super) const TARGETS: u64 = 2;
/// How many volumes can be attached, where they are.
pub(super) const ATTACH_LIMIT: u32 = 2;
const MIB: i64 = 1 << 20;

/// Small numbers, the same for the same seed (splitmix64).
pub(super) struct Chance(pub(super) u64);

impl Chance {
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Directory,
    Image,
    Block,
}

/// One call. Volumes, snapshots and targets are told by number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
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
    Attach(u64),
    Detach(u64),
    /// A group of two volumes, or of one if they are the same.
    CutGroup(u64, u64, u64),
    DeleteGroup(u64),
    /// The first member of a group, by itself.
    DeleteMember(u64),
}

/// What a call made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) id: String,
    pub(super) bytes: i64,
    /// Of a group: each snapshot with its volume.
    pub(super) members: BTreeMap<String, String>,
}

/// A call as it is sent.
#[derive(Clone, Debug)]
pub(super) enum Message {
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

/// Where volumes are brought.
pub(super) trait Paths {
    fn staging(&self, volume: u64) -> String;
    fn target(&self, volume: u64, target: u64) -> String;
}

/// What CSI says is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    pub(super) volumes: BTreeMap<u64, Volume>,
    pub(super) snapshots: BTreeMap<u64, Snapshot>,
    groups: BTreeMap<u64, Group>,
    /// The last ID of each, to speak of what is gone.
    ids: BTreeMap<u64, String>,
    snapshot_ids: BTreeMap<u64, String>,
    groups_gone: BTreeMap<u64, Group>,
    pub(super) about: About,
}

/// What is known of the plugin and its machine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About {
    /// Volumes are attached before they are used.
    pub(super) attaches: bool,
    /// A file system does not grow while it is mounted.
    pub(super) grows_unmounted: bool,
    /// Copies share blocks.
    pub(super) shares_blocks: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) id: String,
    pub(super) kind: Kind,
    pub(super) bytes: i64,
    made_by: (Kind, i64, Option<String>),
    is_attached: bool,
    pub(super) is_staged: bool,
    /// Whether it is read-only, and whether it is mounted (not after a reboot).
    pub(super) targets: BTreeMap<u64, (bool, bool)>,
}

impl Volume {
    pub(super) fn is_published(&self) -> bool {
        self.targets.values().any(|(_, is_mounted)| *is_mounted)
    }

    fn is_used(&self) -> bool {
        self.is_staged || self.is_published()
    }

    /// How many mounts show it.
    pub(super) fn mounts(&self) -> usize {
        let is_mounted = self.is_staged && self.kind != Kind::Block;
        let targets = self.targets.values();
        usize::from(is_mounted) + targets.filter(|(_, is_mounted)| *is_mounted).count()
    }
}

#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) id: String,
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
    /// With nothing in it, of a plugin of which that is known.
    pub(super) fn of(about: About) -> Self {
        Self {
            about,
            ..Self::default()
        }
    }

    fn id(&self, volume: u64) -> String {
        let known = self.ids.get(&volume);
        known.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    fn snapshot_id(&self, snapshot: u64) -> String {
        let known = self.snapshot_ids.get(&snapshot);
        known.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    /// A group that is there, or that was.
    fn group(&self, group: u64) -> Option<&Group> {
        self.groups.get(&group).or(self.groups_gone.get(&group))
    }

    fn first_member(&self, group: u64) -> String {
        let first = self
            .group(group)
            .and_then(|found| found.members.keys().next());
        first.cloned().unwrap_or_else(|| "never-was".to_owned())
    }

    fn kind(&self, volume: u64) -> Kind {
        let found = self.volumes.get(&volume);
        found.map_or(Kind::Image, |volume| volume.kind)
    }

    /// A call as it is sent, to the node of that ID.
    pub(super) fn message(&self, call: Call, node: &str, paths: &dyn Paths) -> Message {
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
            Call::Cut(snapshot, volume) => Message::CreateSnapshot(proto::CreateSnapshotRequest {
                name: format!("s{snapshot}"),
                source_volume_id: self.id(volume),
                ..Default::default()
            }),
            Call::DeleteSnapshot(snapshot) => {
                Message::DeleteSnapshot(deletion(self.snapshot_id(snapshot)))
            }
            Call::DeleteMember(group) => {
                Message::DeleteSnapshot(deletion(self.first_member(group)))
            }
            Call::CutGroup(group, one, other) => {
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
                (
                    volume,
                    kind,
                    0,
                    Some(Type::Snapshot(SnapshotSource { snapshot_id })),
                )
            }
            Call::Clone(volume, from) => {
                // Of a source that is gone it is asked again as it was asked for.
                let of = if self.volumes.contains_key(&from) {
                    from
                } else {
                    volume
                };
                let volume_id = self.id(from);
                (
                    volume,
                    self.kind(of),
                    0,
                    Some(Type::Volume(VolumeSource { volume_id })),
                )
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
            volume_content_source: source.map(|source| proto::VolumeContentSource {
                r#type: Some(source),
            }),
            ..Default::default()
        }
    }

    fn node_message(&self, call: Call, paths: &dyn Paths) -> Message {
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
            other => unreachable!("{other:?} is the controller's"),
        }
    }

    /// Whether a volume can be cut now, among so many.
    fn can_rest(&self, volume: &Volume, together: usize) -> bool {
        match volume.kind {
            Kind::Image => true,
            Kind::Block if self.about.shares_blocks && together == 1 => true,
            Kind::Block | Kind::Directory => !volume.is_used(),
        }
    }

    /// What a plugin lists is what the model has.
    pub(super) fn is_listed(
        &self,
        volumes: proto::ListVolumesResponse,
        snapshots: proto::ListSnapshotsResponse,
    ) {
        let entries = volumes.entries.into_iter();
        let listed: BTreeMap<_, _> = entries
            .map(|entry| entry.volume.unwrap())
            .map(|volume| (volume.volume_id, volume.capacity_bytes))
            .collect();
        let expected: BTreeMap<_, _> = self
            .volumes
            .values()
            .map(|volume| (volume.id.clone(), volume.bytes))
            .collect();
        assert_eq!(listed, expected);
        let entries = snapshots.entries.into_iter();
        let listed: BTreeMap<_, _> = entries
            .map(|entry| entry.snapshot.unwrap())
            .map(|snapshot| (snapshot.snapshot_id, snapshot.source_volume_id))
            .collect();
        assert_eq!(listed, self.all_snapshots());
    }

    /// How often volumes are mounted.
    pub(super) fn mounts(&self) -> usize {
        self.volumes.values().map(Volume::mounts).sum()
    }

    /// Every snapshot that is there, with the volume it is of.
    fn all_snapshots(&self) -> BTreeMap<String, String> {
        let single = self.snapshots.values();
        let mut all: BTreeMap<_, _> = single
            .map(|found| (found.id.clone(), found.source.clone()))
            .collect();
        for group in self.groups.values() {
            all.extend(group.members.clone());
        }
        all
    }

    /// The calls that take everything down.
    pub(super) fn ending(&self) -> Vec<Call> {
        let mut calls = vec![];
        for volume in self.volumes.keys() {
            calls.extend((0..TARGETS).map(|target| Call::Unpublish(*volume, target)));
            calls.extend([
                Call::Unstage(*volume),
                Call::Detach(*volume),
                Call::Delete(*volume),
            ]);
        }
        calls.extend((0..SNAPSHOTS).map(Call::DeleteSnapshot));
        calls.extend((0..GROUPS).map(Call::DeleteGroup));
        if !self.about.attaches {
            calls.retain(|call| !matches!(call, Call::Detach(_)));
        }
        calls
    }

    fn expected_group(&self, group: u64, one: u64, other: u64) -> Code {
        let sources = BTreeSet::from([self.id(one), self.id(other)]);
        if let Some(found) = self.groups.get(&group) {
            return if found.sources == sources {
                Code::Ok
            } else {
                Code::AlreadyExists
            };
        }
        // The first that cannot be cut says why, in the order of their IDs.
        for id in &sources {
            let found = self.volumes.values().find(|volume| volume.id == *id);
            match found {
                None => return Code::NotFound,
                Some(found) if !self.can_rest(found, sources.len()) => {
                    return Code::FailedPrecondition;
                }
                Some(_) => {}
            }
        }
        Code::Ok
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
    Some(proto::CapacityRange {
        required_bytes,
        limit_bytes: 0,
    })
}

fn deletion(snapshot_id: String) -> proto::DeleteSnapshotRequest {
    proto::DeleteSnapshotRequest {
        snapshot_id,
        ..Default::default()
    }
}

impl Model {
    /// What CSI says that a call is answered with now.
    pub(super) fn expected(&self, call: Call) -> Code {
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
                    (None, Some(from)) if self.can_rest(from, 1) => Code::Ok,
                    (None, Some(_)) => Code::FailedPrecondition,
                }
            }
            Call::Delete(number) => match volume(number) {
                Some(found) if found.is_used() || found.is_attached => Code::FailedPrecondition,
                _ => Code::Ok,
            },
            Call::Expand(number, bytes) => match volume(number) {
                None => Code::NotFound,
                Some(found) if found.kind == Kind::Directory => Code::OutOfRange,
                Some(found)
                    if self.about.grows_unmounted
                        && found.kind == Kind::Image
                        && found.is_used()
                        && bytes > found.bytes =>
                {
                    Code::FailedPrecondition
                }
                Some(_) => Code::Ok,
            },
            Call::Cut(snapshot, number) => {
                let id = self.ids.get(&number);
                match (self.snapshots.get(&snapshot), volume(number)) {
                    (Some(found), _) if Some(&found.source) == id => Code::Ok,
                    (Some(_), _) => Code::AlreadyExists,
                    (None, None) => Code::NotFound,
                    (None, Some(found)) if self.can_rest(found, 1) => Code::Ok,
                    (None, Some(_)) => Code::FailedPrecondition,
                }
            }
            Call::DeleteSnapshot(_) => Code::Ok,
            Call::Unstage(number) | Call::Unpublish(number, _) => {
                volume(number).map_or(Code::NotFound, |_| Code::Ok)
            }
            Call::Stage(number) => match volume(number) {
                None => Code::NotFound,
                Some(found) if self.about.attaches && !found.is_attached => {
                    Code::FailedPrecondition
                }
                Some(_) => Code::Ok,
            },
            Call::Attach(number) => self.expected_attachment(number),
            Call::Detach(number) => match volume(number) {
                Some(found) if found.is_attached && found.is_used() => Code::FailedPrecondition,
                _ => Code::Ok,
            },
            Call::CutGroup(group, one, other) => self.expected_group(group, one, other),
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

    /// What is there after a call that was answered well.
    pub(super) fn apply(&mut self, call: Call, made: Made) {
        match call {
            Call::Create(number, kind, bytes) => {
                let size = if kind == Kind::Directory { 0 } else { bytes };
                self.create(number, made.id, kind, size, (kind, bytes, None));
            }
            Call::Restore(number, snapshot) => {
                if let Some(from) = self.snapshots.get(&snapshot).cloned() {
                    let made_by = (from.kind, 0, Some(from.id));
                    self.create(number, made.id, from.kind, from.bytes, made_by);
                }
            }
            Call::Clone(number, from) => {
                if let Some(from) = self.volumes.get(&from).cloned() {
                    let made_by = (from.kind, 0, Some(from.id));
                    self.create(number, made.id, from.kind, from.bytes, made_by);
                }
            }
            Call::Delete(number) => drop(self.volumes.remove(&number)),
            Call::Expand(number, bytes) => {
                if let Some(found) = self.volumes.get_mut(&number) {
                    found.bytes = found.bytes.max(bytes);
                    assert_eq!(made.bytes, found.bytes);
                }
            }
            Call::Cut(snapshot, number) => self.cut(snapshot, number, made.id),
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
            Call::CutGroup(group, one, other) => self.cut_group(group, one, other, made),
            Call::DeleteGroup(group) => {
                if let Some(gone) = self.groups.remove(&group) {
                    self.groups_gone.insert(group, gone);
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
            is_attached: false,
            is_staged: false,
            targets: BTreeMap::new(),
        };
        self.volumes.insert(number, volume);
    }

    fn cut_group(&mut self, group: u64, one: u64, other: u64, made: Made) {
        let sources = BTreeSet::from([self.id(one), self.id(other)]);
        if let Some(found) = self.groups.get(&group) {
            assert_eq!((&found.id, &found.members), (&made.id, &made.members));
            return;
        }
        let cut: BTreeSet<_> = made.members.values().cloned().collect();
        assert_eq!(cut, sources, "a group is whole");
        assert_eq!(made.members.len(), sources.len(), "one member of each");
        let found = Group {
            id: made.id,
            sources,
            members: made.members,
        };
        self.groups.insert(group, found);
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

/// Any call that an orchestrator may send now.
pub(super) fn choose(chance: &mut Chance, model: &Model) -> Call {
    let volume = chance.below(VOLUMES);
    let snapshot = chance.below(SNAPSHOTS);
    let bytes = (1 + i64::try_from(chance.below(3)).unwrap()) * MIB;
    let is_published = model.volumes.get(&volume).is_some_and(Volume::is_published);
    let group = chance.below(GROUPS);
    let other = chance.below(VOLUMES);
    match chance.below(if model.about.attaches { 25 } else { 20 }) {
        16 | 17 => return Call::CutGroup(group, volume, other),
        18 => return Call::DeleteGroup(group),
        19 => return Call::DeleteMember(group),
        20..=23 => return Call::Attach(volume),
        24 => return Call::Detach(volume),
        _ => {}
    }
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

pub(super) fn capability(kind: Kind) -> proto::VolumeCapability {
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
