//! Directories of this user that no other user can write to.
//!
//! Group permissions include those of access control lists, because the kernel shows the list's mask
//! as the group's permissions.

use std::fs::{DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::problem::{NotPrivate, Problem};

const PRIVATE: u32 = 0o700;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Creates a directory and its parents with mode 0700, or checks one that exists. Returns its path
/// without symbolic links.
///
/// The path may be a symbolic link of this user or of root: these may decide where the directory is.
///
/// # Errors
/// If it cannot be created, belongs to another user, or other users can write to it.
pub fn create_directory(path: &Path) -> io::Result<PathBuf> {
    create_with_parents(path)?;
    let found = std::fs::symlink_metadata(path)?;
    if found.is_symlink() && !is_trusted(found.uid()) {
        return Err(NotPrivate::at(path, Problem::Link { owner: found.uid() }));
    }
    let path = std::fs::canonicalize(path)?;
    check(&path)?;
    Ok(path)
}

/// Creates a directory in a private directory with mode 0700, or checks one that exists. A symbolic
/// link is refused. Returns whether it was created.
///
/// # Errors
/// See [`create_directory`].
pub fn create_subdirectory(path: &Path) -> io::Result<bool> {
    let created = match create_one(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(error),
    };
    check(path)?;
    Ok(created)
}

/// Returns whether other users can neither read nor enter a directory.
///
/// # Errors
/// If it cannot be examined.
pub fn has_private_mode(path: &Path) -> io::Result<bool> {
    Ok(std::fs::symlink_metadata(path)?.mode() & 0o077 == 0)
}

fn create_with_parents(path: &Path) -> io::Result<()> {
    match create_one(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            create_with_parents(parent.ok_or(error)?)?;
            match create_one(path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                created => created,
            }
        }
        created => created,
    }
}

fn create_one(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE).create(path)?;
    // The umask may have removed permissions of the owner, never added any. A directory that cannot be opened is
    // changed as what it is, and not as what has its name then.
    if std::fs::symlink_metadata(path)?.mode() & PRIVATE != PRIVATE {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = rustix::fs::open(path, flags, Mode::empty())?;
        let itself = format!("/proc/self/fd/{}", created.as_raw_fd());
        std::fs::set_permissions(itself, Permissions::from_mode(PRIVATE))?;
    }
    Ok(())
}

/// Checks the directory at `path` itself, not what a link there points to.
fn check(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if found.is_symlink() {
        return Err(NotPrivate::at(path, Problem::Link { owner }));
    }
    if !found.is_dir() {
        let expected = "directory";
        let problem = Problem::WrongKind { expected, owner, mode };
        return Err(NotPrivate::at(path, problem));
    }
    check_owner(path, &found)?;
    let opened = open_directory(path)?.metadata()?;
    // Another one could have been put there before it was opened.
    check_owner(path, &opened)
}

fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

fn check_owner(path: &Path, found: &Metadata) -> io::Result<()> {
    let own = own_user();
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner != own {
        return Err(NotPrivate::at(path, Problem::Foreign { owner, mode, own }));
    }
    if mode & WRITABLE_BY_OTHERS != 0 {
        return Err(NotPrivate::at(path, Problem::Writable { owner, mode }));
    }
    Ok(())
}

/// The user whose permissions this process has.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns whether this user trusts `owner`: itself, and root, who can do everything anyway.
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == own_user() || owner == 0
}

#[cfg(test)]
mod tests;
