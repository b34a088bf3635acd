//! A volume that a task group asks for.

use serde::{Deserialize, Serialize};

use super::keywords::HostAccessMode;
use crate::capability::{AccessMode, AttachmentMode};
use crate::id::VolumeId;
use crate::mount_options::MountOptions;

/// A volume of a task group. `source` alone identifies it, whatever its kind (seed 002).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobVolume {
    /// The ID of a CSI volume, or the name of a host volume; without the index of `per_alloc`.
    pub source: String,
    /// True if the allocations only read.
    pub read_only: bool,
    /// True if each allocation has a volume of its own: the source with the index as a suffix.
    pub per_alloc: bool,
    /// True if an allocation stays with the volume that it had first; host volumes only.
    pub sticky: bool,
    /// The settings that depend on the type.
    pub kind: JobVolumeKind,
}

/// The type of a volume with its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum JobVolumeKind {
    /// A volume of a CSI plugin.
    Csi {
        /// The access mode, which a valid job has.
        access_mode: Option<AccessMode>,
        /// The attachment mode, which a valid job has.
        attachment_mode: Option<AttachmentMode>,
        /// Mount options that override those of the volume.
        mount_options: Option<MountOptions>,
    },
    /// A volume that the configuration of a node names.
    Host {
        /// The access mode, if the job restricts it.
        access_mode: Option<HostAccessMode>,
        /// The attachment mode, if the job restricts it.
        attachment_mode: Option<AttachmentMode>,
        /// True if the job gives mount options, which a valid job does not.
        has_mount_options: bool,
    },
}

impl JobVolumeKind {
    /// The types, as a job names them.
    pub const TYPES: [&'static str; 2] = ["csi", "host"];

    /// Returns the type, as a job names it.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Csi { .. } => "csi",
            Self::Host { .. } => "host",
        }
    }
}

impl JobVolume {
    /// Returns whether the volume is of a CSI plugin.
    pub const fn is_csi(&self) -> bool {
        matches!(self.kind, JobVolumeKind::Csi { .. })
    }

    /// Returns the ID or name of the volume of one allocation: with `per_alloc`, the source has the
    /// allocation's index as a suffix, such as `db[0]` (B83).
    pub fn source_of(&self, index: u32) -> VolumeId {
        if self.per_alloc {
            VolumeId::new(format!("{}[{index}]", self.source))
        } else {
            VolumeId::new(&self.source)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B83: `source` alone identifies a volume of either type, and `per_alloc` appends the index.
    #[test]
    fn the_source_identifies_volumes_of_both_types() {
        for kind in [
            JobVolumeKind::Csi { access_mode: None, attachment_mode: None, mount_options: None },
            JobVolumeKind::Host {
                access_mode: None,
                attachment_mode: None,
                has_mount_options: false,
            },
        ] {
            let shared = JobVolume {
                source: "db".into(),
                read_only: false,
                per_alloc: false,
                sticky: false,
                kind,
            };
            let own = JobVolume { per_alloc: true, ..shared.clone() };
            assert_eq!(shared.source_of(3).as_str(), "db");
            assert_eq!(own.source_of(3).as_str(), "db[3]");
        }
    }
}
