//! Values of all types that travel, drawn from a seed: empty and full, with the edges of each number.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, Capacity, CapacityRange, Condition,
    ControllerCapabilities, ExternalId, ExternalNodeId, ExternalVolume, HostSession, MountOptions,
    MountRoot, NamespacedId, NodeCapabilities, NodeId, PluginId, Quantity, RemoteVolume, Secrets,
    Snapshot, SnapshotId, StorageStatus, StorageStatusKind, TargetPath, Term, Topology,
    TopologyRequest, Usage, VolumeAlias, VolumeId, VolumeStats, VolumeStatus, VolumeStatusKind,
};
use nomad_csi_ports::{
    AllocAccessError, AllocFile, CallOrder, ControllerPublishRequest, ControllerPublishVolume,
    ControllerUnpublishRequest, ControllerUnpublishVolume, CreateSnapshot, CreateVolume,
    CreatedVolume, Delivery, ExpandVolume, ExpandedVolume, GetCapacity, HostError, HostFileError,
    HostOperation, ListSnapshots, ListVolumeHealth, ListedHealth, LogChunk, LogOrigin, LogPosition,
    LogStream, ModifyVolume, NodeDescription, NodeExpandRequest, NodeVolumeHealth, NodeVolumeStats,
    Page, PageRequest, PluginCapabilities, PluginError, PluginInfo, PublishRequest, Rpc,
    StageRequest, StatsRequest, StatusCode, SweepOutcome, TaskLogError, TaskOutput,
    UnpublishRequest, UnstageRequest, ValidateVolume, VolumeSource,
};

/// A value that all samples of secrets have.
pub(super) const CANARY: &str = "hunter2";

/// Draws values. The same seed draws the same ones.
#[derive(Clone, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    pub(super) fn sample<T: Sample>(&mut self) -> T {
        T::sample(self)
    }
}

impl Sample for AllocAccessError {
    fn sample(random: &mut Random) -> Self {
        let kinds = [Self::NotRunning, Self::NoFile, Self::Refused, Self::Failed];
        random.one(&kinds)(random.sample())
    }
}

/// A type of which values can be drawn.
pub(super) trait Sample {
    fn sample(random: &mut Random) -> Self;
}

macro_rules! samples {
    ($($type:ty: |$random:ident| $value:expr;)*) => {$(
        impl Sample for $type {
            fn sample($random: &mut Random) -> Self {
                $value
            }
        }
    )*};
}

/// Structures whose fields are drawn one by one. A missing field is a compile error.
macro_rules! structures {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl Sample for $type {
            fn sample(random: &mut Random) -> Self {
                Self { $($field: random.sample(),)* }
            }
        }
    )*};
}

impl<T: Sample> Sample for Option<T> {
    fn sample(random: &mut Random) -> Self {
        random.sample::<bool>().then(|| random.sample())
    }
}

impl<T: Sample> Sample for Vec<T> {
    fn sample(random: &mut Random) -> Self {
        (0..random.below(4)).map(|_| random.sample()).collect()
    }
}

impl<A: Sample, B: Sample> Sample for (A, B) {
    fn sample(random: &mut Random) -> Self {
        (random.sample(), random.sample())
    }
}

impl<T: Sample> Sample for Page<T> {
    fn sample(random: &mut Random) -> Self {
        Self { entries: random.sample(), next_token: random.sample() }
    }
}

fn kind(random: &mut Random) -> io::ErrorKind {
    let named = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof, io::ErrorKind::Other];
    match random.below(2) {
        0 => random.one(&named),
        _ => io::Error::from_raw_os_error(i32::try_from(random.below(140)).unwrap()).kind(),
    }
}

samples! {
    (): |_random| ();
    bool: |random| random.below(2) == 1;
    u8: |random| u8::try_from(random.below(256)).unwrap();
    u32: |random| random.one(&[0, 1, 7, u32::MAX]);
    u64: |random| random.one(&[0, 1, 77, u64::MAX]);
    i64: |random| random.one(&[0, 1, -1, i64::MAX, i64::MIN]);
    String: |random| random.one(&["", "a", "db", "ä ö", "a/b", "line\nline", "0"]).to_owned();
    Bytes: |random| random.one(&[Bytes::ZERO, Bytes::new(1).unwrap(), Bytes::MAX]);
    PathBuf: |random| random.one(&[
        PathBuf::from("/t"),
        PathBuf::from(""),
        PathBuf::from("/a b/ü"),
        std::ffi::OsString::from_vec(vec![b'/', 0xff, 0xfe]).into(),
    ]);
    BTreeMap<String, String>: |random| random.sample::<Vec<(String, String)>>().into_iter().collect();
    Secrets: |random| {
        let mut secrets = Self::default();
        secrets.insert("password", CANARY);
        for (key, value) in random.sample::<Vec<(String, String)>>() {
            secrets.insert(key, value);
        }
        secrets
    };
    AllocId: |random| Self::new(random.sample::<String>());
    ExternalId: |random| Self::new(random.sample::<String>());
    ExternalNodeId: |random| Self::new(random.sample::<String>());
    HostSession: |random| Self::new(random.sample::<String>());
    NodeId: |random| Self::new(random.sample::<String>());
    PluginId: |random| Self::new(random.sample::<String>());
    SnapshotId: |random| Self::new(random.sample::<String>());
    VolumeAlias: |random| Self::new(random.sample::<String>());
    VolumeId: |random| Self::new(random.sample::<String>());
    NamespacedId: |random| Self::new(random.sample::<String>().as_str().into(), random.sample());
    AccessMode: |random| random.one(&Self::ALL);
    AttachmentMode: |random| random.one(&Self::ALL);
    TargetPath: |random| {
        let roots = [("/h", "/h"), ("/host ü", "/p")];
        let (host, plugin) = random.one(&roots);
        let root = MountRoot::new(Path::new(host), Path::new(plugin)).unwrap();
        root.target(&random.sample(), &random.sample(), &random.sample())
    };
    SweepOutcome: |random| random.one(&[Self::NothingLeft, Self::UndidSomething]);
    VolumeStatusKind: |random| random.one(&[
        Self::Degraded, Self::Inaccessible, Self::DataLoss, Self::Abnormal, Self::Unknown(0), Self::Unknown(-9),
    ]);
    StorageStatusKind: |random| random.one(&[Self::Degraded, Self::Unreachable, Self::Unknown(7)]);
    VolumeSource: |random| match random.below(2) {
        0 => Self::Volume(random.sample()),
        _ => Self::Snapshot(random.sample()),
    };
    LogStream: |random| random.one(&[Self::Stdout, Self::Stderr]);
    LogOrigin: |random| random.one(&[Self::Start, Self::End]);
    Rpc: |random| random.one(&Self::ALL);
    StatusCode: |random| random.one(&Self::ALL);
    Verdict: |random| random.one(&VERDICTS);
    Delivery: |random| random.one(&DELIVERIES);
    HostOperation: |random| random.one(&OPERATIONS);
    HostFileError: |random| Self {
        action: random.sample::<String>().into(),
        path: random.sample(),
        kind: kind(random),
        reason: random.sample(),
    };
    HostError: |random| {
        let variant = random.below(VARIANTS);
        host_error(variant, random)
    };
}

pub(super) const VERDICTS: [Verdict; 7] = [
    Verdict::AlreadyDone,
    Verdict::Retry,
    Verdict::RetryBriefly,
    Verdict::RetryUnknownOutcome,
    Verdict::RetryLater,
    Verdict::FailedUnknownOutcome,
    Verdict::Permanent,
];

pub(super) const DELIVERIES: [Delivery; 3] =
    [Delivery::NotSent, Delivery::Unanswered, Delivery::Answered];

pub(super) const OPERATIONS: [HostOperation; 14] = [
    HostOperation::Stage,
    HostOperation::Publish,
    HostOperation::Unpublish,
    HostOperation::Unstage,
    HostOperation::ExpandOnNode,
    HostOperation::Sweep,
    HostOperation::Attach,
    HostOperation::Detach,
    HostOperation::Delete,
    HostOperation::Expand,
    HostOperation::Modify,
    HostOperation::Validate,
    HostOperation::Snapshot,
    HostOperation::Create,
];

/// The number of variants of [`HostError`].
pub(super) const VARIANTS: usize = 23;

/// The number of a variant. A new one is a compile error here.
pub(super) fn variant(error: &HostError) -> usize {
    match error {
        HostError::Busy { .. } => 0,
        HostError::Overtaken { .. } => 1,
        HostError::OldTerm { .. } => 2,
        HostError::OtherSession { .. } => 3,
        HostError::NoPlugin { .. } => 4,
        HostError::Unsupported { .. } => 5,
        HostError::Changed { .. } => 6,
        HostError::Plugin(_) => 7,
        HostError::ProcessEnded { .. } => 8,
        HostError::NotThere { .. } => 9,
        HostError::StillThere { .. } => 10,
        HostError::StillOpen { .. } => 11,
        HostError::InUse { .. } => 12,
        HostError::StagingLost { .. } => 13,
        HostError::Unidentified { .. } => 14,
        HostError::Occupied { .. } => 15,
        HostError::Sealed { .. } => 16,
        HostError::NotPrepared(_) => 17,
        HostError::NotFinished(_) => 18,
        HostError::Stopping => 19,
        HostError::Lost { .. } => 20,
        HostError::Unreachable { .. } => 21,
        HostError::Unanswered { .. } => 22,
    }
}

/// A failure of the variant with this number.
pub(super) fn host_error(variant: usize, random: &mut Random) -> HostError {
    let r = random;
    match variant {
        0 => HostError::Busy { volume: r.sample(), running: r.sample() },
        1 => HostError::Overtaken { volume: r.sample(), number: r.sample(), latest: r.sample() },
        2 => HostError::OldTerm { desired: r.sample(), newest: r.sample() },
        3 => HostError::OtherSession { desired: r.sample(), own: r.sample() },
        4 => HostError::NoPlugin { plugin: r.sample(), instance: r.sample() },
        5 => HostError::Unsupported { plugin: r.sample(), what: r.sample::<String>().into() },
        6 => HostError::Changed { plugin: r.sample(), what: r.sample::<String>().into() },
        7 => HostError::Plugin(r.sample()),
        8 => HostError::ProcessEnded {
            plugin: r.sample(),
            operation: r.sample(),
            volume: r.sample(),
        },
        9 => HostError::NotThere {
            plugin: r.sample(),
            path: r.sample(),
            found: r.sample::<String>().into(),
        },
        10 => HostError::StillThere { plugin: r.sample(), path: r.sample() },
        11 => HostError::StillOpen { volume: r.sample(), processes: r.sample() },
        12 => HostError::InUse { volume: r.sample(), path: r.sample() },
        13 => HostError::StagingLost { reason: r.sample() },
        14 => HostError::Unidentified { path: r.sample() },
        15 => HostError::Occupied { path: r.sample(), found: r.sample() },
        16 => HostError::Sealed { path: r.sample(), reason: r.sample() },
        17 => HostError::NotPrepared(r.sample()),
        18 => HostError::NotFinished(r.sample()),
        19 => HostError::Stopping,
        20 => HostError::Lost { operation: r.sample(), volume: r.sample() },
        21 => HostError::Unreachable { node: r.sample() },
        22 => HostError::Unanswered { node: r.sample() },
        other => panic!("there is no variant {other}"),
    }
}

structures! {
    Term { epoch, revision }
    CallOrder { term, number, session, instance }
    RemoteVolume { plugin_id, external_id }
    Capability { access_mode, attachment_mode }
    MountOptions { fs_type, mount_flags }
    Usage { capability, mount_options }
    CapacityRange { min, max }
    Topology { segments }
    TopologyRequest { required, preferred }
    Quantity { total, used, available }
    Condition { abnormal, message }
    VolumeStats { bytes, inodes, condition, problems }
    VolumeStatus { kind, reason, message }
    StorageStatus { kind, reason, message, attachment_mode }
    ExternalVolume {
        external_id, capacity, context, clone_id, snapshot_id, published_nodes, condition, health,
    }
    Snapshot { id, source, size, create_time, is_ready }
    Capacity { available, maximum_volume_size, minimum_volume_size }
    ControllerCapabilities {
        create_delete_volume, publish_unpublish_volume, list_volumes, get_capacity, create_delete_snapshot,
        list_snapshots, clone_volume, publish_readonly, expand_volume, list_volumes_published_nodes,
        volume_condition, get_volume, get_volume_health, list_volume_health, modify_volume,
    }
    NodeCapabilities {
        stage_unstage_volume, get_volume_stats, expand_volume, volume_condition, get_volume_health,
        get_storage_health,
    }
    StageRequest { volume, name, usage, attaches, publish_context, volume_context, secrets }
    PublishRequest {
        volume, name, alloc, alias, usage, attaches, stages, read_only, publish_context, volume_context, secrets,
    }
    UnpublishRequest { volume, name, alloc, alias }
    UnstageRequest { volume, name }
    NodeExpandRequest { volume, name, usage, capacity, target, secrets }
    StatsRequest { volume, target, is_staged }
    ControllerPublishRequest { volume, name, node, usage, read_only, volume_context, secrets }
    ControllerUnpublishRequest { volume, name, node, secrets }
    PageRequest { entries, starting_token }
    CreateVolume { name, capacity, capabilities, mount_options, parameters, secrets, source, topology }
    CreateSnapshot { source, name, parameters, secrets }
    ExpandVolume { external_id, capacity, capability, mount_options, secrets }
    ModifyVolume { external_id, parameters, secrets }
    ControllerPublishVolume { external_id, node_id, capability, mount_options, read_only, secrets, context }
    ControllerUnpublishVolume { external_id, node_id, secrets }
    ValidateVolume { external_id, capabilities, mount_options, parameters, context, secrets }
    GetCapacity { capabilities, mount_options, parameters, topology }
    ListSnapshots { page, source, id, secrets }
    ListVolumeHealth { page, secrets }
    NodeVolumeStats { external_id, volume_path, staging_path }
    NodeVolumeHealth { external_id, publish_path, staging_path }
    PluginError { rpc, code, verdict, message, delivery }
    PluginInfo { name, vendor_version }
    PluginCapabilities { controller_service, volume_accessibility_constraints }
    NodeDescription { external_node_id, max_volumes, accessible_topology }
    CreatedVolume { external_id, capacity, context, topologies }
    ExpandedVolume { capacity, node_expansion_required }
    ListedHealth { external_id, statuses }
    TaskOutput { alloc, task, stream }
    LogPosition { run, file, offset }
    LogChunk { data, file, next }
    TaskLogError { task, reason }
    AllocFile { name, is_directory, size, mode, modified }
}
