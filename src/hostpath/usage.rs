//! What a volume can be used for, as CSI spells it, and what is refused in words.
//!
//! What every mount can be told (`noexec` and the like) holds for every volume; options of a file
//! system, its type and a group are for volumes that have one of their own ([`Usage::fits`]). A mount
//! flag that cannot be honoured is refused rather than passed over.

use serde::{Deserialize, Serialize};

use super::catalog::{Backing, Content};
use crate::csi::proto::VolumeCapability;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode as ProtoMode, AccessType, MountVolume};
use crate::ports::{FileSystem, MountFlags};

/// CSI's access modes, all of which a directory on one node can have.
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
    /// Whether a second target path on this node is refused (the table of `csi-spec` 5.18).
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

    /// Whether it is one of those that CSI 1.5 brought.
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

    /// Whether nobody may write.
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

/// One way to use a volume: CSI's VolumeCapability, as far as this plugin has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Usage {
    pub(super) access_mode: AccessMode,
    #[serde(default)]
    pub(super) flags: MountFlags,
    /// As a block device.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_block: bool,
    /// With that file system; any, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) file_system: Option<FileSystem>,
    /// With these options of the file system. None of those that are allowed can hold a secret.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) options: Vec<String>,
    /// For that group of users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<u32>,
}

/// Why a capability is not one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotUsable {
    /// The request is incomplete.
    Malformed(String),
    /// It is complete, and asks for what a directory cannot be.
    Unsupported(String),
}

impl NotUsable {
    /// What is the matter.
    pub(super) fn into_message(self) -> String {
        match self {
            Self::Malformed(message) | Self::Unsupported(message) => message,
        }
    }
}

impl Usage {
    /// Reads one capability.
    pub(super) fn parse(capability: &VolumeCapability) -> Result<Self, NotUsable> {
        let mode = capability
            .access_mode
            .as_ref()
            .map_or(Mode::Unknown, ProtoMode::mode);
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
        let mut usage = Self::plain(access_mode);
        match &capability.access_type {
            None => {
                return malformed(
                    "the capability is neither for a file system nor for a block device",
                );
            }
            Some(AccessType::Block(_)) => usage.is_block = true,
            Some(AccessType::Mount(mount)) => usage.take_mount(mount)?,
        }
        Ok(usage)
    }

    /// A file system of any type, without flags.
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

    fn take_mount(&mut self, mount: &MountVolume) -> Result<(), NotUsable> {
        if !mount.fs_type.is_empty() {
            let Some(kind) = FileSystem::parse(&mount.fs_type) else {
                return unsupported(format!(
                    "fs_type {:?} cannot be had: this plugin makes ext4, xfs and btrfs, or leave fs_type out of mount_options",
                    mount.fs_type
                ));
            };
            self.file_system = Some(kind);
        }
        if !mount.volume_mount_group.is_empty() {
            let Ok(group) = mount.volume_mount_group.parse() else {
                return unsupported("volume_mount_group has to be the number of a group");
            };
            self.group = Some(group);
        }
        let bytes: usize = mount.mount_flags.iter().map(String::len).sum();
        if bytes > LARGEST_FLAGS {
            return malformed(format!(
                "mount_flags have {bytes} bytes, and CSI allows {LARGEST_FLAGS}"
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

    /// Flags may hold secrets, so an unknown one is never repeated.
    fn take_flag(&mut self, word: &str) -> Result<(), NotUsable> {
        let flags = &mut self.flags;
        match word {
            "ro" => flags.read_only = true,
            "noexec" => flags.no_exec = true,
            "nosuid" => flags.no_suid = true,
            "nodev" => flags.no_dev = true,
            "noatime" => flags.no_atime = true,
            "nodiratime" => flags.no_dir_atime = true,
            "rw" | "exec" | "suid" | "dev" | "relatime" | "defaults" | "bind" => {}
            _ if OPTIONS.contains(&word) => self.options.push(word.to_owned()),
            _ => {
                return unsupported(format!(
                    "one of mount_flags cannot be honoured: a volume can be mounted with ro, noexec, nosuid, nodev, noatime and nodiratime, and one with a file system of its own also with {}; remove the others",
                    OPTIONS.join(", ")
                ));
            }
        }
        Ok(())
    }

    /// Why a volume with that content cannot be used so, if it cannot.
    pub(super) fn misfit(&self, content: &Content) -> Option<String> {
        let is_block = content.backing == Backing::Block;
        if self.is_block != is_block {
            return Some(if is_block {
                "the volume is a block device: use the attachment mode block-device".to_owned()
            } else {
                "the volume has a file system and is no block device: use the attachment mode file-system".to_owned()
            });
        }
        match (content.backing, self.file_system, content.file_system) {
            (Backing::Directory, Some(_), _) => return Some(
                "the volume is a directory on the file system of its machine: leave fs_type out of mount_options".to_owned(),
            ),
            (Backing::Directory, None, _) if !self.options.is_empty() => return Some(
                "the volume is a directory, and has no file system that options could be for: mount it with ro, noexec, nosuid, nodev, noatime and nodiratime only".to_owned(),
            ),
            (_, Some(wanted), Some(has)) if wanted != has => return Some(format!(
                "the volume's file system is {}, not {}",
                has.name(),
                wanted.name()
            )),
            _ => {}
        }
        let for_ext4 = self
            .options
            .iter()
            .find(|option| option.starts_with("data="));
        match (for_ext4, content.file_system) {
            (Some(option), Some(FileSystem::Xfs | FileSystem::Btrfs)) => {
                Some(format!("the mount option {option} is ext4's"))
            }
            _ => None,
        }
    }

    /// Whether nobody may write, whoever else may.
    pub(super) fn is_read_only(&self) -> bool {
        self.flags.read_only || self.access_mode.is_read_only()
    }
}

/// CSI's limit for all mount flags together, in bytes (`csi-spec` 3.3).
const LARGEST_FLAGS: usize = 4096;

/// Options of a file system that can be asked for.
const OPTIONS: [&str; 9] = [
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

fn malformed<T>(message: impl Into<String>) -> Result<T, NotUsable> {
    Err(NotUsable::Malformed(message.into()))
}

fn unsupported<T>(message: impl Into<String>) -> Result<T, NotUsable> {
    Err(NotUsable::Unsupported(message.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::proto::volume_capability::BlockVolume;

    fn capability(mode: Mode, mount: MountVolume) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(ProtoMode { mode: mode.into() }),
            access_type: Some(AccessType::Mount(mount)),
        }
    }

    fn with_flags(flags: &[&str]) -> VolumeCapability {
        let mount = MountVolume {
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            ..MountVolume::default()
        };
        capability(Mode::SingleNodeWriter, mount)
    }

    #[test]
    fn flags_that_a_bind_mount_has_are_honoured() {
        let usage = Usage::parse(&with_flags(&["noexec,nosuid", "ro", "rw"])).unwrap();
        let expected = MountFlags {
            read_only: true,
            no_exec: true,
            no_suid: true,
            ..MountFlags::default()
        };
        assert_eq!(usage.flags, expected);
    }

    fn content(backing: Backing, file_system: Option<FileSystem>) -> Content {
        Content {
            backing,
            file_system,
            ..Content::default()
        }
    }

    #[test]
    fn what_a_volume_cannot_be_is_refused_in_words() {
        let mount = |fs_type: &str, group: &str| MountVolume {
            fs_type: fs_type.into(),
            volume_mount_group: group.into(),
            mount_flags: vec![],
        };
        let writer = Mode::SingleNodeWriter;
        for (capability, said) in [
            (capability(writer, mount("ntfs", "")), "ext4, xfs and btrfs"),
            (capability(writer, mount("", "staff")), "number of a group"),
            (with_flags(&["password=hunter2"]), "remove the others"),
        ] {
            let Err(NotUsable::Unsupported(message)) = Usage::parse(&capability) else {
                panic!("{capability:?}");
            };
            assert!(message.contains(said), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
        let block = VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..with_flags(&[])
        };
        let directory = content(Backing::Directory, None);
        let ext4 = content(Backing::Image, Some(FileSystem::Ext4));
        let xfs = content(Backing::Image, Some(FileSystem::Xfs));
        let device = content(Backing::Block, None);
        let formatted = capability(writer, mount("ext4", ""));
        for (capability, content, said) in [
            (&block, directory, "no block device"),
            (&formatted, directory, "leave fs_type out"),
            (&with_flags(&["discard"]), directory, "no file system that"),
            (&formatted, xfs, "is xfs, not ext4"),
            (&with_flags(&["data=journal"]), xfs, "is ext4's"),
            (&block, ext4, "no block device"),
            (&formatted, device, "is a block device"),
        ] {
            let misfit = Usage::parse(capability).unwrap().misfit(&content);
            assert!(
                misfit.as_ref().is_some_and(|why| why.contains(said)),
                "{misfit:?}: {said}"
            );
        }
        for (capability, content) in [
            (&block, device),
            (&formatted, ext4),
            (&with_flags(&["discard", "sync", "noexec"]), xfs),
            (&with_flags(&["ro"]), directory),
        ] {
            assert_eq!(Usage::parse(capability).unwrap().misfit(&content), None);
        }
    }

    #[test]
    fn an_incomplete_capability_is_malformed() {
        let complete = with_flags(&[]);
        let without_type = VolumeCapability {
            access_type: None,
            ..complete.clone()
        };
        let without_mode = VolumeCapability {
            access_mode: None,
            ..complete.clone()
        };
        let unknown_mode = VolumeCapability {
            access_mode: Some(ProtoMode { mode: 99 }),
            ..complete
        };
        for capability in [without_type, without_mode, unknown_mode] {
            let parsed = Usage::parse(&capability);
            assert!(
                matches!(parsed, Err(NotUsable::Malformed(_))),
                "{capability:?}"
            );
        }
    }
}
