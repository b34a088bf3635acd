//! How a volume may be used: access mode and attachment mode.

use serde::{Deserialize, Serialize};

/// Who may use a volume, and how: Nomad's five CSI access modes.
///
/// CSI's later SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER have no counterpart here:
/// Nomad refuses them for CSI volumes (`nomad-http-api` 4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessMode {
    /// Read only, on one node.
    SingleNodeReaderOnly,
    /// Read and write, on one node.
    SingleNodeWriter,
    /// Read only, on many nodes.
    MultiNodeReaderOnly,
    /// On many nodes, one of them writing.
    MultiNodeSingleWriter,
    /// Read and write on many nodes.
    MultiNodeMultiWriter,
}

impl AccessMode {
    /// All of them, in the order in which they are named to people.
    pub const ALL: [Self; 5] = [
        Self::SingleNodeReaderOnly,
        Self::SingleNodeWriter,
        Self::MultiNodeReaderOnly,
        Self::MultiNodeSingleWriter,
        Self::MultiNodeMultiWriter,
    ];

    /// Nomad's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SingleNodeReaderOnly => "single-node-reader-only",
            Self::SingleNodeWriter => "single-node-writer",
            Self::MultiNodeReaderOnly => "multi-node-reader-only",
            Self::MultiNodeSingleWriter => "multi-node-single-writer",
            Self::MultiNodeMultiWriter => "multi-node-multi-writer",
        }
    }

    /// The mode of that word, spelled exactly.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }

    /// Whether anyone may write.
    pub const fn allows_writing(self) -> bool {
        match self {
            Self::SingleNodeReaderOnly | Self::MultiNodeReaderOnly => false,
            Self::SingleNodeWriter | Self::MultiNodeSingleWriter | Self::MultiNodeMultiWriter => {
                true
            }
        }
    }
}

impl std::fmt::Display for AccessMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a task sees: a file system or a raw device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentMode {
    /// A mounted file system.
    FileSystem,
    /// A raw block device.
    BlockDevice,
}

impl AttachmentMode {
    /// Both, in the order in which they are named to people.
    pub const ALL: [Self; 2] = [Self::FileSystem, Self::BlockDevice];

    /// Nomad's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileSystem => "file-system",
            Self::BlockDevice => "block-device",
        }
    }

    /// The mode of that word, spelled exactly.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

impl std::fmt::Display for AttachmentMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One way in which a volume may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Capability {
    /// Who may use it.
    pub access_mode: AccessMode,
    /// As what.
    pub attachment_mode: AttachmentMode,
}

impl std::fmt::Display for Capability {
    /// `single-node-writer, file-system`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.access_mode, self.attachment_mode)
    }
}
