//! Changes of a registration after which jobs do not reach the data any more.
//!
//! The data stays with the provider, and the change back makes it reachable again. Until then every job that uses the
//! volume waits, or sees other data. These fields decide how the data is found or read:
//!
//! - `mount_options.fs_type`: a node refuses data with another file system. Without a value the plugin chooses one, so a
//!   value that is added or removed is such a change too.
//! - `capability`: without an attachment mode, jobs that use the volume in that mode cannot claim it. A volume with a file
//!   system that becomes a block device shows its raw content, and the first format destroys it.
//! - `context`: a plugin finds the data by it, such as the server and the share of an NFS export.
//!
//! The others do not: `parameters` are read when a volume is created, mount flags change how data is mounted and not
//! which, a topology only limits the nodes, and access modes only limit how many use the volume.

use super::diff::{Change, FieldValue};
use nomad_csi_model::{AttachmentMode, Volume};

/// Returns whether these changes make data of the volume unreachable.
pub(super) fn loses_access(existing: &Volume, changes: &[Change]) -> bool {
    changes.iter().any(|change| match change.field {
        "mount_options.fs_type" => has_mode(existing, AttachmentMode::FileSystem),
        "capability" => removes_mode(existing, &change.new),
        "context" => true,
        _ => false,
    })
}

fn has_mode(volume: &Volume, mode: AttachmentMode) -> bool {
    let mut capabilities = volume.capabilities.iter();
    capabilities.any(|capability| capability.attachment_mode == mode)
}

fn removes_mode(existing: &Volume, new: &FieldValue) -> bool {
    let kept = |mode: AttachmentMode| match new {
        FieldValue::Capabilities(capabilities) => {
            let mut capabilities = capabilities.iter();
            capabilities.any(|capability| capability.attachment_mode == mode)
        }
        FieldValue::Absent
        | FieldValue::Text(_)
        | FieldValue::Size(_)
        | FieldValue::Map(_)
        | FieldValue::Topologies(_)
        | FieldValue::Hidden => false,
    };
    let modes = AttachmentMode::ALL.into_iter();
    modes.filter(|mode| has_mode(existing, *mode)).any(|mode| !kept(mode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff;
    use crate::samples::{WRITER, existing};
    use nomad_csi_model::{AccessMode, Capability, MountOptions};

    fn with_fs_type(fs_type: &str, volume: Volume) -> Volume {
        Volume {
            mount_options: Some(MountOptions {
                fs_type: fs_type.to_owned(),
                ..MountOptions::default()
            }),
            ..volume
        }
    }

    fn with_modes(modes: &[AttachmentMode]) -> Volume {
        let capability = |mode: &AttachmentMode| Capability { attachment_mode: *mode, ..WRITER };
        Volume { capabilities: modes.iter().map(capability).collect(), ..existing() }
    }

    #[test]
    fn only_changes_of_how_the_data_is_found_or_read_lose_it() {
        use AttachmentMode::{BlockDevice, FileSystem};
        let block = with_modes(&[BlockDevice]);
        let readers = Volume {
            capabilities: vec![Capability {
                access_mode: AccessMode::MultiNodeReaderOnly,
                ..WRITER
            }],
            ..existing()
        };
        let moved =
            Volume { context: [("share".to_owned(), "/other".to_owned())].into(), ..existing() };
        let with_parameters =
            Volume { parameters: [("tier".to_owned(), "fast".to_owned())].into(), ..existing() };
        for (name, old, new, expected) in [
            (
                "ext4 to xfs",
                with_fs_type("ext4", existing()),
                with_fs_type("xfs", existing()),
                true,
            ),
            ("named", with_fs_type("", existing()), with_fs_type("xfs", existing()), true),
            ("not named", with_fs_type("xfs", existing()), with_fs_type("", existing()), true),
            (
                "unused on a block device",
                with_fs_type("ext4", block.clone()),
                with_fs_type("xfs", block.clone()),
                false,
            ),
            ("file system to block", with_modes(&[FileSystem]), block.clone(), true),
            ("block to file system", block, with_modes(&[FileSystem]), true),
            (
                "both to one",
                with_modes(&[FileSystem, BlockDevice]),
                with_modes(&[FileSystem]),
                true,
            ),
            (
                "one to both",
                with_modes(&[FileSystem]),
                with_modes(&[FileSystem, BlockDevice]),
                false,
            ),
            ("access mode", existing(), readers, false),
            ("context", existing(), moved, true),
            ("parameters", existing(), with_parameters, false),
            ("nothing", existing(), existing(), false),
        ] {
            assert_eq!(loses_access(&old, &diff(&old, &new)), expected, "{name}");
        }
    }
}
