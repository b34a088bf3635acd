//! What the plugin keeps.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use nomad_csi::csi::proto;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use super::Deviation;

/// The only node.
pub(super) const NODE: &str = "exemplar-node";
/// Where the node is.
pub(super) const ZONE: (&str, &str) = ("topology.exemplar.test/zone", "a");
/// How many volumes the node takes.
pub(super) const MOST_VOLUMES: usize = 3;
/// No volume is larger.
pub(super) const LARGEST: i64 = 1 << 40;

/// What is in a volume: files by their path below it; a block device's bytes are under the empty
/// path.
pub(super) type Content = BTreeMap<PathBuf, Vec<u8>>;

pub(super) struct Volume {
    pub(super) request: proto::CreateVolumeRequest,
    pub(super) answer: proto::Volume,
    pub(super) content: Content,
    /// What a workload sees as its size.
    pub(super) seen_size: u64,
    /// Where this volume shares its content with another (a deviation).
    pub(super) shares_with: Option<String>,
}

pub(super) struct Target {
    pub(super) volume: String,
    pub(super) capability: proto::VolumeCapability,
    pub(super) read_only: bool,
    pub(super) times: u32,
    /// Content of its own (a deviation).
    pub(super) apart: Option<Content>,
}

pub(super) struct Snapshot {
    pub(super) answer: proto::Snapshot,
    pub(super) name: String,
    pub(super) content: Content,
}

#[derive(Default)]
pub(super) struct World {
    deviation: Option<Deviation>,
    next: u64,
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) ghosts: Vec<proto::Volume>,
    pub(super) deleted_names: BTreeSet<String>,
    pub(super) attached: BTreeMap<String, (bool, u32)>,
    pub(super) staged: BTreeMap<(String, String), proto::VolumeCapability>,
    pub(super) targets: BTreeMap<PathBuf, Target>,
    pub(super) unpublished: BTreeSet<PathBuf>,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
    pub(super) groups: BTreeMap<String, (String, Vec<String>)>,
    pub(super) directories: BTreeSet<PathBuf>,
    pub(super) log: String,
    /// Ends the plugin.
    pub(super) death: CancellationToken,
    /// In how many creations somebody presses Ctrl-C.
    pub(super) interrupt: Option<(u32, CancellationToken)>,
}

pub(super) type Answer<T> = Result<T, Status>;

pub(super) fn refuse<T>(code: Code, message: &str) -> Answer<T> {
    Err(Status::new(code, message))
}

pub(super) fn invalid<T>(message: &str) -> Answer<T> {
    refuse(Code::InvalidArgument, message)
}

pub(super) fn not_found<T>(what: &str) -> Answer<T> {
    refuse(Code::NotFound, &format!("there is no {what}"))
}

impl World {
    pub(super) fn new(deviation: Option<Deviation>) -> Self {
        Self {
            deviation,
            ..Self::default()
        }
    }

    pub(super) fn is(&self, deviation: Deviation) -> bool {
        self.deviation == Some(deviation)
    }

    pub(super) fn id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-{}", self.next)
    }

    pub(super) fn has_made_anything(&self) -> bool {
        self.next > 0
    }

    /// Everything that somebody made and nobody removed.
    pub(super) fn remains(&self) -> Vec<String> {
        let mut all: Vec<String> = self.volumes.keys().cloned().collect();
        all.extend(self.snapshots.keys().cloned());
        all.extend(self.groups.keys().cloned());
        all.extend(self.attached.keys().map(|id| format!("{id} attached")));
        all.extend(
            self.staged
                .keys()
                .map(|(id, path)| format!("{id} at {path}")),
        );
        let shown = |path: &PathBuf| path.display().to_string();
        all.extend(self.targets.keys().map(shown));
        all.extend(self.directories.iter().map(shown));
        all
    }

    /// The volume whose content is that of `id`.
    pub(super) fn content_owner(&self, id: &str) -> String {
        let shares = self
            .volumes
            .get(id)
            .and_then(|volume| volume.shares_with.clone());
        shares.unwrap_or_else(|| id.to_owned())
    }
}

pub(super) fn is_block(capability: &proto::VolumeCapability) -> bool {
    use proto::volume_capability::AccessType;
    matches!(capability.access_type, Some(AccessType::Block(_)))
}
