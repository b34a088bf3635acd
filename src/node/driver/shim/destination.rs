//! The place in a task's root where a mount of the task goes.
//!
//! A destination may be below a directory that another task writes to at the same time, such as `/alloc`. So the place
//! is opened once, step by step and through no link, and the mount goes to what was opened.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Opens the place of a mount of a directory, or of something else. Makes a directory or an empty file where nothing is.
///
/// # Errors
/// If the place cannot be made, or a link is on the way.
pub(super) fn open_destination(destination: &Path, is_directory: bool) -> io::Result<OwnedFd> {
    let mut opened = rustix::fs::openat(CWD, "/", place_flags(), Mode::empty())?;
    let names = names_of(destination)?;
    let Some((last, parents)) = names.split_last() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut path = PathBuf::from("/");
    for name in parents {
        path.push(name);
        opened = open_directory(&opened, name).map_err(|error| refused(&path, error))?;
    }
    path.push(last);
    let place = if is_directory { open_directory(&opened, last) } else { open_file(&opened, last) };
    place.map_err(|error| refused(&path, error))
}

/// Returns the names on the way to a destination. The first one may be a link that the root was made with, such as
/// `/bin` to `usr/bin`.
fn names_of(destination: &Path) -> io::Result<Vec<OsString>> {
    let mut names: Vec<_> = normal_names(destination).collect();
    if let Some(first) = names.first().cloned() {
        let root = Path::new("/");
        match rustix::fs::readlinkat(CWD, root.join(&first), vec![]) {
            Ok(link) => {
                let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
                names.splice(..1, normal_names(&link));
            }
            Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(names)
}

fn normal_names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    })
}

fn open_directory(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    match open_below(parent, name, place_flags()) {
        Err(Errno::NOENT) => {
            let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
            match rustix::fs::mkdirat(parent, name, mode) {
                Ok(()) | Err(Errno::EXIST) => open_below(parent, name, place_flags()),
                Err(error) => Err(error),
            }
        }
        opened => opened,
    }
}

fn open_file(parent: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let place = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open_below(parent, name, place) {
        Err(Errno::NOENT) => {
            let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
            match rustix::fs::openat(parent, name, new, mode) {
                Ok(_) | Err(Errno::EXIST) => open_below(parent, name, place),
                Err(error) => Err(error),
            }
        }
        opened => opened,
    }
}

/// Opens an entry, which may be the place of an earlier mount of the task.
fn open_below(parent: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    // With NOFOLLOW, a link would be opened as a place of its own.
    let refusing = flags.difference(OFlags::NOFOLLOW);
    match rustix::fs::openat2(parent, name, refusing, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => {
            let opened = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            let found = rustix::fs::statat(&opened, "", AtFlags::EMPTY_PATH)?;
            match rustix::fs::FileType::from_raw_mode(found.st_mode) {
                rustix::fs::FileType::Symlink => Err(Errno::LOOP),
                _ => Ok(opened),
            }
        }
        opened => opened,
    }
}

/// Opens a place that nothing but this process can change.
///
/// # Errors
/// If it does not exist, or is a link.
pub(super) fn open_place(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

fn place_flags() -> OFlags {
    OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn refused(path: &Path, error: Errno) -> io::Error {
    match error {
        Errno::LOOP | Errno::NOTDIR => io::Error::other(format!(
            "`{}` is a link or no directory, and a mount follows no link; remove it, or choose another destination",
            path.display()
        )),
        error => error.into(),
    }
}
