//! CSI's volume capabilities: which of them this plugin understands, and why it refuses others.
//!
//! General mount flags such as `noexec` work for every volume. A file system type, its options and
//! a mount group require a volume with its own file system. The plugin refuses mount flags that it
//! does not support; it never ignores one.

use serde::{Deserialize, Serialize};

use nomad_csi_ports::{FileSystem, MountFlags};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode as ProtoMode, AccessType, MountVolume};

/// CSI's access modes. A directory on one node supports all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AccessMode {
    SingleNodeWriter,
    SingleNodeReaderOnly,
    SingleNodeSingleWriter,
    SingleNodeMultiWriter,
    MultiNodeReaderOnly,
    MultiNodeSingleWriter,
    MultiNodeMultiWriter,
}

impl AccessMode {
    /// Returns whether a second target path on the node is refused (CSI, the table of NodePublishVolume).
    pub(super) const fn has_one_target(self) -> bool {
        match self {
            Self::SingleNodeWriter | Self::SingleNodeReaderOnly | Self::SingleNodeSingleWriter => {
                true
            }
            Self::SingleNodeMultiWriter
            | Self::MultiNodeReaderOnly
            | Self::MultiNodeSingleWriter
            | Self::MultiNodeMultiWriter => false,
        }
    }

    /// Returns whether the mode allows one node.
    pub(super) const fn is_single_node(self) -> bool {
        match self {
            Self::SingleNodeWriter
            | Self::SingleNodeReaderOnly
            | Self::SingleNodeSingleWriter
            | Self::SingleNodeMultiWriter => true,
            Self::MultiNodeReaderOnly
            | Self::MultiNodeSingleWriter
            | Self::MultiNodeMultiWriter => false,
        }
    }

    /// Returns whether the mode requires the capability SINGLE_NODE_MULTI_WRITER (CSI 1.5).
    pub(super) const fn is_newer(self) -> bool {
        match self {
            Self::SingleNodeSingleWriter | Self::SingleNodeMultiWriter => true,
            Self::SingleNodeWriter
            | Self::SingleNodeReaderOnly
            | Self::MultiNodeReaderOnly
            | Self::MultiNodeSingleWriter
            | Self::MultiNodeMultiWriter => false,
        }
    }

    /// Returns whether the mode forbids writing.
    pub(super) const fn is_read_only(self) -> bool {
        match self {
            Self::SingleNodeReaderOnly | Self::MultiNodeReaderOnly => true,
            Self::SingleNodeWriter
            | Self::SingleNodeSingleWriter
            | Self::SingleNodeMultiWriter
            | Self::MultiNodeSingleWriter
            | Self::MultiNodeMultiWriter => false,
        }
    }
}

/// One way to use a volume: the part of CSI's VolumeCapability that this plugin supports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct VolumeCapability {
    pub(super) access_mode: AccessMode,
    #[serde(default)]
    pub(super) flags: MountFlags,
    /// True if the volume is used as a block device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_block: bool,
    /// The required file system; `None` allows any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file_system: Option<FileSystem>,
    /// Mount options of the file system. No allowed option can contain a secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) options: Vec<String>,
    /// The ID of the group that gets access (CSI's `volume_mount_group`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<u32>,
}

/// Why a capability is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CapabilityError {
    /// The capability is incomplete.
    Malformed(String),
    /// The capability is complete, but this plugin does not support it.
    Unsupported(String),
}

impl CapabilityError {
    /// Returns the reason.
    pub(super) fn into_message(self) -> String {
        match self {
            Self::Malformed(message) | Self::Unsupported(message) => message,
        }
    }
}

impl VolumeCapability {
    /// Parses a capability.
    pub(super) fn parse(message: &proto::VolumeCapability) -> Result<Self, CapabilityError> {
        let mode = message.access_mode.as_ref().map_or(Mode::Unknown, ProtoMode::mode);
        let access_mode = match mode {
            Mode::Unknown => return malformed("the capability has no access mode"),
            Mode::SingleNodeWriter => AccessMode::SingleNodeWriter,
            Mode::SingleNodeReaderOnly => AccessMode::SingleNodeReaderOnly,
            Mode::SingleNodeSingleWriter => AccessMode::SingleNodeSingleWriter,
            Mode::SingleNodeMultiWriter => AccessMode::SingleNodeMultiWriter,
            Mode::MultiNodeReaderOnly => AccessMode::MultiNodeReaderOnly,
            Mode::MultiNodeSingleWriter => AccessMode::MultiNodeSingleWriter,
            Mode::MultiNodeMultiWriter => AccessMode::MultiNodeMultiWriter,
        };
        let mut capability = Self::plain(access_mode);
        match &message.access_type {
            None => {
                return malformed(
                    "the capability is neither for a file system nor for a block device",
                );
            }
            Some(AccessType::Block(_)) => capability.is_block = true,
            Some(AccessType::Mount(mount)) => capability.take_mount(mount)?,
        }
        Ok(capability)
    }

    /// A mount with any file system, without flags.
    pub(super) const fn plain(access_mode: AccessMode) -> Self {
        Self {
            access_mode,
            flags: MountFlags {
                read_only: false,
                no_exec: false,
                no_suid: false,
                no_dev: false,
                no_atime: false,
                no_dir_atime: false,
            },
            is_block: false,
            file_system: None,
            options: vec![],
            group: None,
        }
    }

    fn take_mount(&mut self, mount: &MountVolume) -> Result<(), CapabilityError> {
        if !mount.fs_type.is_empty() {
            let Some(kind) = FileSystem::parse(&mount.fs_type) else {
                return unsupported(format!(
                    "fs_type {:?} is not supported: use ext4, xfs or btrfs, or remove fs_type from mount_options",
                    mount.fs_type
                ));
            };
            self.file_system = Some(kind);
        }
        if !mount.volume_mount_group.is_empty() {
            let Ok(group) = mount.volume_mount_group.parse() else {
                return unsupported("volume_mount_group must be a numeric group ID");
            };
            self.group = Some(group);
        }
        let bytes: usize = mount.mount_flags.iter().map(String::len).sum();
        if bytes > MAX_MOUNT_FLAGS_BYTES {
            return malformed(format!(
                "mount_flags have {bytes} bytes, and CSI allows {MAX_MOUNT_FLAGS_BYTES}"
            ));
        }
        for words in &mount.mount_flags {
            for word in words.split(',') {
                self.take_flag(word.trim())?;
            }
        }
        self.options.sort();
        self.options.dedup();
        Ok(())
    }

    /// Parses one flag. Flags may contain secrets, so the error never repeats an unknown one.
    fn take_flag(&mut self, word: &str) -> Result<(), CapabilityError> {
        let flags = &mut self.flags;
        match word {
            "ro" => flags.read_only = true,
            "noexec" => flags.no_exec = true,
            "nosuid" => flags.no_suid = true,
            "nodev" => flags.no_dev = true,
            "noatime" => flags.no_atime = true,
            "nodiratime" => flags.no_dir_atime = true,
            "rw" | "exec" | "suid" | "dev" | "relatime" | "defaults" | "bind" => {}
            _ if FILE_SYSTEM_OPTIONS.contains(&word) => self.options.push(word.to_owned()),
            _ => {
                return unsupported(format!(
                    "one of mount_flags is not supported: use ro, noexec, nosuid, nodev, noatime and nodiratime, and for volumes with their own file system also {}; remove the others",
                    FILE_SYSTEM_OPTIONS.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Returns whether this capability forbids writing.
    pub(super) fn is_read_only(&self) -> bool {
        self.flags.read_only || self.access_mode.is_read_only()
    }
}

/// CSI's limit for all mount flags together, in bytes.
const MAX_MOUNT_FLAGS_BYTES: usize = 4096;

/// The options of a file system that a capability may contain.
const FILE_SYSTEM_OPTIONS: [&str; 9] = [
    "discard",
    "nodiscard",
    "sync",
    "dirsync",
    "lazytime",
    "strictatime",
    "data=journal",
    "data=ordered",
    "data=writeback",
];

fn malformed<T>(message: impl Into<String>) -> Result<T, CapabilityError> {
    Err(CapabilityError::Malformed(message.into()))
}

fn unsupported<T>(message: impl Into<String>) -> Result<T, CapabilityError> {
    Err(CapabilityError::Unsupported(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capability(mode: Mode, mount: MountVolume) -> proto::VolumeCapability {
        proto::VolumeCapability {
            access_mode: Some(ProtoMode { mode: mode.into() }),
            access_type: Some(AccessType::Mount(mount)),
        }
    }

    fn with_flags(flags: &[&str]) -> proto::VolumeCapability {
        let mount = MountVolume {
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            ..MountVolume::default()
        };
        capability(Mode::SingleNodeWriter, mount)
    }

    #[test]
    fn flags_of_a_bind_mount_are_honoured() {
        let parsed = VolumeCapability::parse(&with_flags(&["noexec,nosuid", "ro", "rw"])).unwrap();
        let expected =
            MountFlags { read_only: true, no_exec: true, no_suid: true, ..MountFlags::default() };
        assert_eq!(parsed.flags, expected);
    }

    #[test]
    fn unsupported_capabilities_are_refused_with_a_reason() {
        let mount = |fs_type: &str, group: &str| MountVolume {
            fs_type: fs_type.into(),
            volume_mount_group: group.into(),
            mount_flags: vec![],
        };
        let writer = Mode::SingleNodeWriter;
        for (capability, reason) in [
            (capability(writer, mount("ntfs", "")), "ext4, xfs or btrfs"),
            (capability(writer, mount("", "staff")), "numeric group ID"),
            (with_flags(&["password=hunter2"]), "remove the others"),
        ] {
            let Err(CapabilityError::Unsupported(message)) = VolumeCapability::parse(&capability)
            else {
                panic!("{capability:?}");
            };
            assert!(message.contains(reason), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn an_incomplete_capability_is_malformed() {
        let complete = with_flags(&[]);
        let without_type = proto::VolumeCapability { access_type: None, ..complete.clone() };
        let without_mode = proto::VolumeCapability { access_mode: None, ..complete.clone() };
        let unknown_mode =
            proto::VolumeCapability { access_mode: Some(ProtoMode { mode: 99 }), ..complete };
        for capability in [without_type, without_mode, unknown_mode] {
            let parsed = VolumeCapability::parse(&capability);
            assert!(matches!(parsed, Err(CapabilityError::Malformed(_))), "{capability:?}");
        }
    }
}
