//! Mounts for the roots of tasks: detached copies, propagation, and read-only mounts with everything below them.
//!
//! These functions block, and change the mount namespace of the calling process, which has one of its own.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags as Flags, MountPropagationFlags as Propagation, MoveMountFlags, OpenTreeFlags,
};

use super::kernel_flags::to_kernel;
use super::table::mount_table;
use nomad_csi_ports::MountFlags;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS;

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

/// As [`clone_tree`], through no link: another task may be able to put one on the way.
///
/// # Errors
/// If a link is on the way. See [`clone_tree`].
pub fn clone_without_links(source: &Path, is_recursive: bool) -> io::Result<OwnedFd> {
    // With NOFOLLOW, a link at the end would be opened itself.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = match rustix::fs::openat2(CWD, source, flags, Mode::empty(), NO_LINKS) {
        Err(Errno::LOOP) => {
            return Err(io::Error::other(
                "a symbolic link is on the way, and a mount follows none",
            ));
        }
        found => found?,
    };
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    flags.set(OpenTreeFlags::AT_RECURSIVE, is_recursive);
    Ok(rustix::mount::open_tree(found, "", flags)?)
}

/// Mounts a detached copy at an open place: a directory for a directory and a file for everything else.
///
/// # Errors
/// If the place is of another kind, or this process may not mount.
pub fn attach_tree(tree: impl AsFd, place: impl AsFd) -> io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(rustix::mount::move_mount(tree, "", place, "", flags)?)
}

/// Makes a detached copy show its files with the owners that a user namespace maps. A file of an owner that it does not
/// map belongs to no user, and capabilities do not count for it.
///
/// # Errors
/// If the file system cannot do that, or this process may not.
pub fn map_owners(tree: impl AsFd, namespace: impl AsFd) -> io::Result<()> {
    composefs_ioctls::mount::mount_setattr_idmap(tree, namespace)
}

/// Returns the mount points at and below `target`, the outer ones first.
///
/// # Errors
/// If the mount table cannot be read.
pub fn mount_points_below(target: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(mounts_below(target)?.into_keys().collect())
}

/// Returns a path to a tree that is attached, whatever is done to the path of its place. Needs `/proc`.
pub fn descriptor_path(tree: impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", tree.as_fd().as_raw_fd()))
}

/// Makes an attached tree and the mounts below it read-only, as [`make_read_only_below`] does.
///
/// # Errors
/// If a mount cannot be changed.
pub fn make_attached_read_only(tree: impl AsFd) -> io::Result<()> {
    let itself = descriptor_path(tree);
    let target = std::fs::read_link(&itself)?;
    for (mount, flags) in mounts_below(&target)? {
        let below = mount.strip_prefix(&target).unwrap_or(&mount);
        let path = match below == Path::new("") {
            true => itself.clone(),
            false => itself.join(below),
        };
        make_read_only(&path, flags)?;
    }
    Ok(())
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
        make_read_only(&mount, flags)?;
    }
    Ok(())
}

/// Makes the mount at a path read-only, which has these restrictions.
fn make_read_only(mount: &Path, flags: MountFlags) -> io::Result<()> {
    let read_only = MountFlags { read_only: true, ..flags };
    let flags = Flags::BIND | to_kernel(read_only);
    match rustix::mount::mount_remount(mount, flags, c"") {
        // Another mount covers it, so the path leads elsewhere and the mount cannot be reached.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => {
            let message = format!("cannot make `{}` read-only: {error}", mount.display());
            Err(io::Error::new(io::Error::from(error).kind(), message))
        }
    }
}

/// Returns the topmost mount of each mount point at and below `target`.
fn mounts_below(target: &Path) -> io::Result<BTreeMap<PathBuf, MountFlags>> {
    let mounts = mount_table()?.into_iter();
    let below = mounts.filter(|mount| mount.target.starts_with(target));
    Ok(below.map(|mount| (mount.target, mount.flags)).collect())
}
