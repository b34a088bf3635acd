//! What a volume of this plugin can be used for, and what it refuses in words.
//!
//! A volume is a directory on the machine's own file system. So there is no device to hand out, no
//! file system to make, and no group to mount for; what a bind mount can be told (`noexec` and the
//! like) is honoured, and every other mount flag is refused rather than passed over.

use serde::{Deserialize, Serialize};

use crate::csi::proto::VolumeCapability;
use crate::csi::proto::volume_capability::access_mode::Mode;
use crate::csi::proto::volume_capability::{AccessMode as ProtoMode, AccessType, MountVolume};
use crate::ports::MountFlags;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Usage {
    pub(super) access_mode: AccessMode,
    #[serde(default)]
    pub(super) flags: MountFlags,
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
        let flags = match &capability.access_type {
            None => {
                return malformed(
                    "the capability is neither for a file system nor for a block device",
                );
            }
            Some(AccessType::Block(_)) => {
                return unsupported(
                    "volumes of this plugin are directories and cannot be block devices: use the attachment mode file-system",
                );
            }
            Some(AccessType::Mount(mount)) => mount_flags(mount)?,
        };
        Ok(Self { access_mode, flags })
    }
}

fn malformed<T>(message: impl Into<String>) -> Result<T, NotUsable> {
    Err(NotUsable::Malformed(message.into()))
}

fn unsupported<T>(message: impl Into<String>) -> Result<T, NotUsable> {
    Err(NotUsable::Unsupported(message.into()))
}

/// What a bind mount can honour of mount options.
fn mount_flags(mount: &MountVolume) -> Result<MountFlags, NotUsable> {
    if !mount.fs_type.is_empty() {
        return unsupported(format!(
            "fs_type {:?} cannot be had: volumes of this plugin are directories on the file system of its machine; leave fs_type out of mount_options",
            mount.fs_type
        ));
    }
    if !mount.volume_mount_group.is_empty() {
        return unsupported(
            "volume_mount_group cannot be had: this plugin does not have VOLUME_MOUNT_GROUP",
        );
    }
    let mut flags = MountFlags::default();
    for words in &mount.mount_flags {
        for word in words.split(',') {
            set_flag(&mut flags, word.trim())?;
        }
    }
    Ok(flags)
}

/// Flags may hold secrets, so an unknown one is never repeated.
fn set_flag(flags: &mut MountFlags, word: &str) -> Result<(), NotUsable> {
    match word {
        "ro" => flags.read_only = true,
        "noexec" => flags.no_exec = true,
        "nosuid" => flags.no_suid = true,
        "nodev" => flags.no_dev = true,
        "noatime" => flags.no_atime = true,
        "nodiratime" => flags.no_dir_atime = true,
        "rw" | "exec" | "suid" | "dev" | "relatime" | "defaults" | "bind" => {}
        _ => {
            return unsupported(
                "one of mount_flags cannot be honoured: a directory can be mounted with ro, noexec, nosuid, nodev, noatime and nodiratime; remove the others",
            );
        }
    }
    Ok(())
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

    #[test]
    fn what_a_directory_cannot_be_is_refused_in_words() {
        let mount = |fs_type: &str, group: &str| MountVolume {
            fs_type: fs_type.into(),
            volume_mount_group: group.into(),
            mount_flags: vec![],
        };
        let block = VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..with_flags(&[])
        };
        for (capability, said) in [
            (block, "use the attachment mode file-system"),
            (
                capability(Mode::SingleNodeWriter, mount("ext4", "")),
                "leave fs_type out of mount_options",
            ),
            (
                capability(Mode::SingleNodeWriter, mount("", "100")),
                "VOLUME_MOUNT_GROUP",
            ),
            (with_flags(&["password=hunter2"]), "remove the others"),
        ] {
            let Err(NotUsable::Unsupported(message)) = Usage::parse(&capability) else {
                panic!("{capability:?}");
            };
            assert!(message.contains(said), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
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
