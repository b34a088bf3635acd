//! The state of the plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use nomad_csi_proto as proto;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::deviation::Deviation;

/// The only node.
pub(super) const NODE: &str = "exemplar-node";
/// The topology of the node.
pub(super) const ZONE: (&str, &str) = ("topology.exemplar.test/zone", "a");
/// The maximum number of volumes per node.
pub(super) const MAX_VOLUMES: usize = 3;
/// The maximum size of a volume.
pub(super) const MAX_SIZE: i64 = 1 << 40;

/// The content of a volume: files by their relative path. A block device has the empty path.
pub(super) type Content = BTreeMap<PathBuf, Vec<u8>>;

pub(super) struct Volume {
    pub(super) request: proto::CreateVolumeRequest,
    pub(super) answer: proto::Volume,
    pub(super) content: Content,
    /// The size that a workload sees.
    pub(super) seen_size: u64,
    /// The volume with which this one shares its content (a deviation).
    pub(super) shares_with: Option<String>,
}

pub(super) struct Target {
    pub(super) volume: String,
    pub(super) capability: proto::VolumeCapability,
    pub(super) read_only: bool,
    pub(super) times: u32,
    /// The target's own content (a deviation).
    pub(super) own_content: Option<Content>,
}

pub(super) struct Snapshot {
    pub(super) answer: proto::Snapshot,
    pub(super) name: String,
    pub(super) content: Content,
}

#[derive(Default)]
pub(super) struct PluginState {
    deviation: Option<Deviation>,
    next_id: u64,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) deleted_but_listed: Vec<proto::Volume>,
    pub(super) deleted_names: BTreeSet<String>,
    pub(super) attached: BTreeMap<String, (bool, u32)>,
    pub(super) staged: BTreeMap<(String, String), proto::VolumeCapability>,
    pub(super) targets: BTreeMap<PathBuf, Target>,
    pub(super) unpublished: BTreeSet<PathBuf>,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
    pub(super) groups: BTreeMap<String, (String, Vec<String>)>,
    pub(super) directories: BTreeSet<PathBuf>,
    pub(super) log: String,
    /// A parameter without which no volume is created.
    pub(super) required_parameter: Option<&'static str>,
    /// Crashes the plugin.
    pub(super) crash: CancellationToken,
    /// The number of creations until an interrupt.
    pub(super) interrupt: Option<(u32, CancellationToken)>,
}

pub(super) type Answer<T> = Result<T, Status>;

pub(super) fn refusal<T>(code: Code, message: &str) -> Answer<T> {
    Err(Status::new(code, message))
}

pub(super) fn invalid<T>(message: &str) -> Answer<T> {
    refusal(Code::InvalidArgument, message)
}

pub(super) fn not_found<T>(what: &str) -> Answer<T> {
    refusal(Code::NotFound, &format!("the {what} does not exist"))
}

impl PluginState {
    fn new(deviation: Option<Deviation>) -> Self {
        Self { deviation, ..Self::default() }
    }

    pub(super) fn has(&self, deviation: Deviation) -> bool {
        self.deviation == Some(deviation)
    }

    pub(super) fn new_id(&mut self, kind: &str) -> String {
        self.next_id += 1;
        format!("{kind}-{}", self.next_id)
    }

    pub(super) fn has_created_anything(&self) -> bool {
        self.next_id > 0
    }

    /// Returns everything that was created and not removed.
    pub(super) fn remaining(&self) -> Vec<String> {
        let mut all: Vec<String> = self.volumes.keys().cloned().collect();
        all.extend(self.snapshots.keys().cloned());
        all.extend(self.groups.keys().cloned());
        all.extend(self.attached.keys().map(|id| format!("{id} attached")));
        all.extend(self.staged.keys().map(|(id, path)| format!("{id} at {path}")));
        let shown = |path: &PathBuf| path.display().to_string();
        all.extend(self.targets.keys().map(shown));
        all.extend(self.directories.iter().map(shown));
        all
    }

    /// Returns the ID of the volume that owns the content of `id`.
    pub(super) fn content_owner(&self, id: &str) -> String {
        let shares = self.volumes.get(id).and_then(|volume| volume.shares_with.clone());
        shares.unwrap_or_else(|| id.to_owned())
    }
}

pub(super) fn is_block(capability: &proto::VolumeCapability) -> bool {
    use proto::volume_capability::AccessType;
    matches!(capability.access_type, Some(AccessType::Block(_)))
}

/// The state, shared by the services and the files.
#[derive(Clone)]
pub(super) struct SharedState(Arc<Mutex<PluginState>>);

impl SharedState {
    pub(super) fn new(deviation: Option<Deviation>) -> Self {
        Self(Arc::new(Mutex::new(PluginState::new(deviation))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, PluginState> {
        self.0.lock().expect("no thread panics while it holds the lock")
    }
}
