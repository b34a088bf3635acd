//! Mounts for the roots of tasks: detached copies, propagation, and read-only mounts with everything below them.
//!
//! These functions block, and change the mount namespace of the calling process, which has one of its own.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags as Flags, MountPropagationFlags as Propagation, MoveMountFlags, OpenTreeFlags,
};

use super::linux::to_kernel;
use super::table::mount_table;
use crate::ports::MountFlags;

/// Returns a detached copy of the mount at `source`, with the mounts below it if `is_recursive`. It belongs to the
/// peer group of the original, and pins the file system until it is dropped.
///
/// # Errors
/// If `source` does not exist, or this process may not mount.
pub fn clone_tree(source: &Path, is_recursive: bool) -> io::Result<OwnedFd> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    flags.set(OpenTreeFlags::AT_RECURSIVE, is_recursive);
    Ok(rustix::mount::open_tree(CWD, source, flags)?)
}

/// Mounts a detached copy at `target`, a directory for a directory and a file for everything else.
///
/// # Errors
/// If `target` is of another kind, or this process may not mount.
pub fn attach_tree(tree: impl AsFd, target: &Path) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", CWD, target, flags)?)
}

/// Stops propagation between other mounts and those at and below `target`: none arrives, and none leaves.
///
/// # Errors
/// If `target` is no mount point.
pub fn make_private_below(target: &Path) -> io::Result<()> {
    let propagation = Propagation::PRIVATE | Propagation::REC;
    Ok(rustix::mount::mount_change(target, propagation)?)
}

/// Makes the mounts at and below `target` receive mounts and unmounts of their peers, and send none.
///
/// # Errors
/// If `target` is no mount point.
pub fn make_slave_below(target: &Path) -> io::Result<()> {
    let propagation = Propagation::DOWNSTREAM | Propagation::REC;
    Ok(rustix::mount::mount_change(target, propagation)?)
}

/// Makes every mount at and below `target` read-only. The other restrictions of each mount stay: inside a user
/// namespace the kernel refuses to drop them.
///
/// # Errors
/// If a mount cannot be changed.
pub fn make_read_only_below(target: &Path) -> io::Result<()> {
    for (mount, flags) in mounts_below(target)? {
        let read_only = MountFlags {
            read_only: true,
            ..flags
        };
        let flags = Flags::BIND | to_kernel(read_only);
        match rustix::mount::mount_remount(&mount, flags, c"") {
            // Another mount covers it, so the path leads elsewhere and the mount cannot be reached.
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {}
            Err(error) => {
                let message = format!("cannot make `{}` read-only: {error}", mount.display());
                return Err(io::Error::new(io::Error::from(error).kind(), message));
            }
        }
    }
    Ok(())
}

/// Returns the topmost mount of each mount point at and below `target`.
fn mounts_below(target: &Path) -> io::Result<BTreeMap<PathBuf, MountFlags>> {
    let mounts = mount_table()?.into_iter();
    let below = mounts.filter(|mount| mount.target.starts_with(target));
    Ok(below.map(|mount| (mount.target, mount.flags)).collect())
}
