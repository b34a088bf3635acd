//! What the catalogue's records say. Spelled as format 2 has them; a field that format 1 did not
//! have has the value that its volumes had (plain directories without a size).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::hostpath::usage::Usage;
use crate::ports::FileSystem;

/// How far a volume, a snapshot or a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::hostpath) enum Stage {
    /// Its data may not be there yet; nobody has been told of it.
    Creating,
    /// It exists.
    Ready,
    /// Its data is being removed; for callers it is gone.
    Deleting,
}

/// What a volume's data is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::hostpath) enum Backing {
    /// A directory, which shares the file system of the machine and has no size of its own.
    #[default]
    Directory,
    /// A file with a file system of its own in it.
    Image,
    /// A file that is handed out as a block device.
    Block,
}

/// What a volume began with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::hostpath) enum Source {
    /// A copy of that snapshot.
    Snapshot(String),
    /// A copy of that volume.
    Volume(String),
}

/// What a CreateVolume asked for. Asking for something else under the same name is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::hostpath) struct Wanted {
    pub(in crate::hostpath) required_bytes: u64,
    pub(in crate::hostpath) limit_bytes: u64,
    pub(in crate::hostpath) usages: BTreeSet<Usage>,
    pub(in crate::hostpath) parameters: BTreeMap<String, String>,
    pub(in crate::hostpath) mutable: BTreeMap<String, String>,
    pub(in crate::hostpath) source: Option<Source>,
}

/// The node may use a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hostpath) struct Attachment {
    pub(in crate::hostpath) usage: Usage,
    pub(in crate::hostpath) read_only: bool,
}

/// What is in a file or a directory: what a copy of it takes over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::hostpath) struct Content {
    pub(in crate::hostpath) backing: Backing,
    /// How long the file is; 0 for a directory.
    pub(in crate::hostpath) bytes: u64,
    /// The file system in it.
    pub(in crate::hostpath) file_system: Option<FileSystem>,
    /// How large that file system is at least: below `bytes`, it has to grow when it is mounted.
    pub(in crate::hostpath) file_system_bytes: u64,
    /// Whether its root was opened to every user, which is done when it is first mounted.
    pub(in crate::hostpath) is_prepared: bool,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hostpath) struct VolumeRecord {
    /// Ours, and a safe name for a file.
    pub(in crate::hostpath) id: String,
    /// The orchestrator's.
    pub(in crate::hostpath) name: String,
    pub(in crate::hostpath) stage: Stage,
    pub(in crate::hostpath) wanted: Wanted,
    #[serde(default)]
    pub(in crate::hostpath) content: Content,
    /// The parameters that can be changed, as they are now.
    #[serde(default)]
    pub(in crate::hostpath) mutable: BTreeMap<String, String>,
    #[serde(default)]
    pub(in crate::hostpath) attachment: Option<Attachment>,
}

impl VolumeRecord {
    /// What it counts for: promised bytes, and attachments.
    pub(super) fn weight(&self) -> (u64, u64) {
        match self.stage {
            Stage::Deleting => (0, 0),
            Stage::Creating | Stage::Ready => {
                (self.content.bytes, u64::from(self.attachment.is_some()))
            }
        }
    }
}

/// What a path was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::hostpath) enum PlaceRecord {
    /// A staging path.
    Staging {
        /// What for.
        usage: Usage,
    },
    /// A target path.
    Target {
        /// What for.
        usage: Usage,
        /// What the caller asked for beyond that.
        read_only: bool,
        /// Where it was bound from; empty if the plugin has no staging.
        staging_path: String,
        /// Whether the directory, or the file, is ours to remove.
        made_directory: bool,
    },
}

impl PlaceRecord {
    /// Whether the directory at the path is the plugin's to remove.
    pub(in crate::hostpath) fn made_directory(&self) -> bool {
        match self {
            Self::Staging { .. } => false,
            Self::Target { made_directory, .. } => *made_directory,
        }
    }
}

/// A snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hostpath) struct SnapshotRecord {
    /// Ours, and a safe name for a file.
    pub(in crate::hostpath) id: String,
    /// The orchestrator's; empty for a member of a group.
    pub(in crate::hostpath) name: String,
    pub(in crate::hostpath) stage: Stage,
    /// The volume it was cut from, which may be gone.
    pub(in crate::hostpath) source: String,
    /// When it was cut, in nanoseconds since the epoch.
    pub(in crate::hostpath) cut_at: i64,
    pub(in crate::hostpath) content: Content,
    /// The group it belongs to.
    pub(in crate::hostpath) group: Option<String>,
}

/// Snapshots of several volumes, cut at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::hostpath) struct GroupRecord {
    /// Ours.
    pub(in crate::hostpath) id: String,
    /// The orchestrator's.
    pub(in crate::hostpath) name: String,
    pub(in crate::hostpath) stage: Stage,
    pub(in crate::hostpath) sources: BTreeSet<String>,
    pub(in crate::hostpath) members: Vec<String>,
    pub(in crate::hostpath) cut_at: i64,
}
