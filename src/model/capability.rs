//! Access mode and attachment mode of a volume.

use serde::{Deserialize, Serialize};

/// The number of nodes that may use a volume, and how: Nomad's five CSI access modes.
///
/// Nomad refuses CSI's later SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER, so this enum does
/// not contain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessMode {
    /// One node, reading.
    SingleNodeReaderOnly,
    /// One node, reading and writing.
    SingleNodeWriter,
    /// Many nodes, reading.
    MultiNodeReaderOnly,
    /// Many nodes, one of them writing.
    MultiNodeSingleWriter,
    /// Many nodes, reading and writing.
    MultiNodeMultiWriter,
}

impl AccessMode {
    /// All modes, in the order of messages.
    pub const ALL: [Self; 5] = [
        Self::SingleNodeReaderOnly,
        Self::SingleNodeWriter,
        Self::MultiNodeReaderOnly,
        Self::MultiNodeSingleWriter,
        Self::MultiNodeMultiWriter,
    ];

    /// Returns Nomad's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SingleNodeReaderOnly => "single-node-reader-only",
            Self::SingleNodeWriter => "single-node-writer",
            Self::MultiNodeReaderOnly => "multi-node-reader-only",
            Self::MultiNodeSingleWriter => "multi-node-single-writer",
            Self::MultiNodeMultiWriter => "multi-node-multi-writer",
        }
    }

    /// Returns the mode with exactly this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }

    /// Returns whether any node may write.
    pub const fn allows_writes(self) -> bool {
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

/// The form in which a task gets a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentMode {
    /// A mounted file system.
    FileSystem,
    /// A raw block device.
    BlockDevice,
}

impl AttachmentMode {
    /// Both modes, in the order of messages.
    pub const ALL: [Self; 2] = [Self::FileSystem, Self::BlockDevice];

    /// Returns Nomad's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::FileSystem => "file-system",
            Self::BlockDevice => "block-device",
        }
    }

    /// Returns the mode with exactly this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == text)
    }
}

impl std::fmt::Display for AttachmentMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A supported combination of modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Capability {
    /// The access mode.
    pub access_mode: AccessMode,
    /// The attachment mode.
    pub attachment_mode: AttachmentMode,
}

impl std::fmt::Display for Capability {
    /// Writes `single-node-writer, file-system`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.access_mode, self.attachment_mode)
    }
}
