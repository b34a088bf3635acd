//! Decides which volume capabilities a volume supports. Pure.

use crate::catalog::{Backing, Content};
use crate::volume_capability::VolumeCapability;
use nomad_csi_ports::FileSystem;

impl Content {
    /// Returns why a volume with this content does not support the capability, or `None`.
    pub(crate) fn incompatibility(&self, capability: &VolumeCapability) -> Option<String> {
        let is_block = self.backing == Backing::Block;
        if capability.is_block != is_block {
            return Some(if is_block {
                "the volume is a block device: use the attachment mode block-device".to_owned()
            } else {
                "the volume has a file system and is not a block device: use the attachment mode file-system".to_owned()
            });
        }
        match (self.backing, capability.file_system, self.file_system) {
            (Backing::Directory, Some(_), _) => return Some(
                "the volume is a directory on the machine's file system: remove fs_type from mount_options".to_owned(),
            ),
            (Backing::Directory, None, _) if !capability.options.is_empty() => return Some(
                "the volume is a directory without its own file system: use only the mount flags ro, noexec, nosuid, nodev, noatime and nodiratime".to_owned(),
            ),
            (_, Some(requested), Some(has)) if requested != has => return Some(format!(
                "the volume's file system is {}, not {}",
                has.name(),
                requested.name()
            )),
            _ => {}
        }
        let for_ext4 = capability.options.iter().find(|option| option.starts_with("data="));
        match (for_ext4, self.file_system) {
            (Some(option), Some(FileSystem::Xfs | FileSystem::Btrfs)) => {
                Some(format!("mount option {option} requires ext4"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_proto as proto;
    use nomad_csi_proto::volume_capability::access_mode::Mode;
    use nomad_csi_proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

    fn capability(mount: MountVolume) -> proto::VolumeCapability {
        let mode = Mode::SingleNodeWriter.into();
        proto::VolumeCapability {
            access_mode: Some(AccessMode { mode }),
            access_type: Some(AccessType::Mount(mount)),
        }
    }

    fn with_flags(flags: &[&str]) -> proto::VolumeCapability {
        capability(MountVolume {
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            ..MountVolume::default()
        })
    }

    fn content(backing: Backing, file_system: Option<FileSystem>) -> Content {
        Content { backing, file_system, ..Content::default() }
    }

    #[test]
    fn a_volume_refuses_capabilities_that_it_does_not_support() {
        let block = proto::VolumeCapability {
            access_type: Some(AccessType::Block(BlockVolume {})),
            ..with_flags(&[])
        };
        let directory = content(Backing::Directory, None);
        let ext4 = content(Backing::Image, Some(FileSystem::Ext4));
        let xfs = content(Backing::Image, Some(FileSystem::Xfs));
        let device = content(Backing::Block, None);
        let formatted =
            capability(MountVolume { fs_type: "ext4".to_owned(), ..MountVolume::default() });
        for (capability, content, reason) in [
            (&block, directory, "not a block device"),
            (&formatted, directory, "remove fs_type"),
            (&with_flags(&["discard"]), directory, "without its own file system"),
            (&formatted, xfs, "is xfs, not ext4"),
            (&with_flags(&["data=journal"]), xfs, "requires ext4"),
            (&block, ext4, "not a block device"),
            (&formatted, device, "is a block device"),
        ] {
            let incompatibility =
                content.incompatibility(&VolumeCapability::parse(capability).unwrap());
            assert!(
                incompatibility.as_ref().is_some_and(|why| why.contains(reason)),
                "{incompatibility:?}: {reason}"
            );
        }
        for (capability, content) in [
            (&block, device),
            (&formatted, ext4),
            (&with_flags(&["discard", "sync", "noexec"]), xfs),
            (&with_flags(&["ro"]), directory),
        ] {
            assert_eq!(
                content.incompatibility(&VolumeCapability::parse(capability).unwrap()),
                None
            );
        }
    }
}
