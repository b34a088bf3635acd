//! Mounts and block storage on Linux.
//!
//! No mount operation on the host is recursive or lazy: an unmount that is not possible now is an error. Nothing
//! here deletes data. The functions of `tree` build the roots of tasks in mount namespaces of their own. Loop
//! devices are attached with ioctls, file systems are created by their `mkfs` programs, and copies share blocks
//! where the file system supports it.

mod boot;
mod copy;
mod copy_tree;
mod file_system;
mod kernel_flags;
mod linux;
mod loop_device;
mod mountinfo;
mod seal;
mod source;
mod storage;
mod superblock;
mod table;
mod tree;

pub use boot::boot_id;
pub use linux::{LinuxMounter, share_directory};
pub use source::{OpenedSource, open_source};
pub use storage::LinuxBlockStorage;
pub use tree::{
    attach_tree, clone_tree, clone_without_links, descriptor_path, make_attached_read_only,
    make_private_below, make_read_only_below, make_slave_below, map_owners, mount_points_below,
};
