//! Seals what is below a mount: no process can write there, also when the mount is gone.
//!
//! The seal is the flag `immutable` of the file system, on a directory or on the file below a device. It keeps them from
//! being removed, renamed and written to, and from nothing else: mounts on them are made and undone as before. The flag is
//! its own record. It is on the disk, so every agent that finds the path finds the seal, and no second record can disagree
//! with it after a crash.
//!
//! A mount covers what is sealed. It is reached through a detached copy of the mount around it, which shows nothing that is
//! mounted below, so the agent needs no descriptor from before the mount, and finds the seals of earlier agents. Devices
//! and links are left alone. Blocks.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    CWD, FileType, IFlags, Mode, OFlags, ResolveFlags, fstat, ioctl_getflags, ioctl_setflags,
    openat, openat2,
};
use rustix::io::Errno;

use super::tree::clone_tree;

/// Seals what is below whatever is mounted at a path. Returns whether it is sealed: a file system may have no such flag,
/// and this process may not have the right to set it.
///
/// # Errors
/// If it cannot be reached.
pub(super) fn seal(path: &Path) -> io::Result<bool> {
    let Some(bare) = open_bare(path)? else {
        return Ok(false);
    };
    let sealed =
        ioctl_getflags(&bare).and_then(|flags| ioctl_setflags(&bare, flags | IFlags::IMMUTABLE));
    match sealed {
        Ok(()) => Ok(true),
        Err(error) if is_unsupported(error) || error == Errno::PERM => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes the seal of what is at a path or below what is mounted there, if it has one.
///
/// # Errors
/// If it cannot be reached, or has a seal that cannot be removed.
pub(super) fn unseal(path: &Path) -> io::Result<()> {
    let Some(bare) = open_bare(path)? else {
        return Ok(());
    };
    match ioctl_getflags(&bare) {
        Ok(flags) if flags.contains(IFlags::IMMUTABLE) => {
            Ok(ioctl_setflags(&bare, flags - IFlags::IMMUTABLE)?)
        }
        Ok(_) => Ok(()),
        Err(error) if is_unsupported(error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory or file below whatever is mounted at a path. `None` if nothing of the kind is there, or this
/// process cannot look below the mount, and so has sealed nothing.
fn open_bare(path: &Path) -> io::Result<Option<OwnedFd>> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(None);
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let around = match openat2(CWD, parent, flags, Mode::empty(), ResolveFlags::empty()) {
        // Before Linux 5.6, nothing was sealed.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NOSYS) => return Ok(None),
        around => around?,
    };
    // Without a mount there, no right to mount is needed.
    let inside = ResolveFlags::NO_XDEV;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (around, found) = match openat2(&around, name, flags, Mode::empty(), inside) {
        Ok(found) => (around, found),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::XDEV) => {
            let copy = match clone_tree(parent, false) {
                Err(error) if cannot_look_below(&error) => return Ok(None),
                copy => copy?,
            };
            let found = match openat(&copy, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(None),
                found => found?,
            };
            (copy, found)
        }
        Err(error) => return Err(error.into()),
    };
    match FileType::from_raw_mode(fstat(&found)?.st_mode) {
        FileType::Directory | FileType::RegularFile => {}
        // To open a device is to ask its driver.
        _ => return Ok(None),
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(Some(openat(&around, name, flags, Mode::empty())?))
}

/// Returns whether this process cannot copy the mount: it has no right to, or the mount cannot be copied.
fn cannot_look_below(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
    )
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL)
}
