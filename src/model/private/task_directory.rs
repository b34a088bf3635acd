//! Directories in which tasks can write, and what is below them.
//!
//! A task can replace whatever it may write to, at any moment: a directory by a link to a file of the host. So no path
//! is used twice here. Every entry is named relative to an open directory, no link is followed, nothing leads out of
//! the directory, no mount is entered, and what is changed is what was opened.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Uid};
use rustix::io::Errno;

use super::directory::own_user;

/// Who may use a directory that the agent creates for tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryUsers {
    /// Every user may enter it, and only this program changes its entries: mode 0755.
    Readers,
    /// Every user may change its entries: mode 0777.
    Everyone,
    /// Only one user may enter it: mode 0700. Without an ID, the user of this program.
    One(Option<(u32, u32)>),
}

impl DirectoryUsers {
    const fn mode(self) -> u32 {
        match self {
            Self::Readers => 0o755,
            Self::Everyone => 0o777,
            Self::One(_) => 0o700,
        }
    }
}

/// An open directory in which tasks may write, or one above or below it.
#[derive(Debug)]
pub struct TaskWritableDirectory {
    directory: OwnedFd,
    /// The path, for errors.
    path: PathBuf,
}

impl TaskWritableDirectory {
    /// Opens a directory whose parents only this program can change.
    ///
    /// # Errors
    /// If it does not exist, or is a link or no directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = rustix::fs::openat(CWD, path, directory_flags(), Mode::empty());
        Ok(Self { directory: opened.map_err(|error| named(path, error))?, path: path.to_owned() })
    }

    /// Opens a directory below this one.
    ///
    /// # Errors
    /// If it does not exist, is no directory, or a link or a mount is on the way.
    pub fn open_directory(&self, below: &Path) -> io::Result<Self> {
        let path = self.path.join(below);
        Ok(Self {
            directory: open_below(&self.directory, below).map_err(|error| named(&path, error))?,
            path,
        })
    }

    /// Returns a directory in this one, which it creates for these users if there is none. One that exists belongs to
    /// them as well, but keeps its mode where tasks may set it.
    ///
    /// # Errors
    /// If it cannot be created, or something else has its name.
    pub fn create_directory(&self, name: &str, users: DirectoryUsers) -> io::Result<Self> {
        let is_new = match rustix::fs::mkdirat(&self.directory, name, Mode::RWXU) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(named(&self.path.join(name), error)),
        };
        let created = self.open_directory(Path::new(name))?;
        created.give_to(users, is_new).map_err(|error| named(&created.path, error))?;
        Ok(created)
    }

    /// Replaces a file of this directory, which then belongs to these users.
    ///
    /// # Errors
    /// If it cannot be written, or a directory has its name.
    pub fn write_file(
        &self,
        name: &OsStr,
        content: &[u8],
        users: DirectoryUsers,
    ) -> io::Result<()> {
        let path = self.path.join(name);
        let written = self.replace_file(name, content, users);
        written
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    fn replace_file(&self, name: &OsStr, content: &[u8], users: DirectoryUsers) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(users.mode() & 0o666);
        let file = rustix::fs::openat(&self.directory, name, flags, mode)?;
        if let DirectoryUsers::One(Some((uid, gid))) = users {
            rustix::fs::fchown(&file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
        }
        io::Write::write_all(&mut File::from(file), content)
    }

    fn give_to(&self, users: DirectoryUsers, is_new: bool) -> Result<(), Errno> {
        let found = rustix::fs::fstat(&self.directory)?;
        if is_new && found.st_uid != own_user() {
            // A task has put another one there since.
            return Err(Errno::STALE);
        }
        let mode = Mode::from_raw_mode(users.mode());
        let is_fixed = is_new || users == DirectoryUsers::Readers;
        if is_fixed && Mode::from_raw_mode(found.st_mode) != mode {
            rustix::fs::fchmod(&self.directory, mode)?;
        }
        match users {
            DirectoryUsers::One(Some((uid, gid))) if (found.st_uid, found.st_gid) != (uid, gid) => {
                let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
                rustix::fs::fchown(&self.directory, Some(uid), Some(gid))
            }
            _ => Ok(()),
        }
    }

    /// Returns the names of what the directory contains, in no order.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = vec![];
        let entries = Dir::read_from(&self.directory).map_err(|error| named(&self.path, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| named(&self.path, error))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if !matches!(name.as_bytes(), b"." | b"..") {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Returns the facts about the directory itself.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub fn facts(&self) -> io::Result<Stat> {
        rustix::fs::fstat(&self.directory).map_err(|error| named(&self.path, error))
    }

    /// Returns the facts about an entry; those of a link are about the link. `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub fn entry(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(named(&self.path.join(name), error)),
        }
    }

    /// Opens a regular file of this directory to read it. Waits for no writer of a pipe, and follows no link.
    ///
    /// # Errors
    /// If it does not exist or is something else.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let not_regular = || io::Error::other("it is not a regular file");
        let file = match open_entry(&self.directory, name, flags) {
            Ok(file) => file,
            Err(Errno::LOOP | Errno::NXIO | Errno::XDEV) => return Err(not_regular()),
            Err(error) => return Err(named(&path, error)),
        };
        let found = rustix::fs::fstat(&file).map_err(|error| named(&path, error))?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => Ok(File::from(file)),
            _ => Err(not_regular()),
        }
    }

    /// Returns whether an entry is a directory; `None` if it does not exist.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub fn is_directory(&self, name: &OsStr) -> io::Result<Option<bool>> {
        let found = self.entry(name)?;
        let kind = found.map(|found| FileType::from_raw_mode(found.st_mode));
        Ok(kind.map(|kind| kind == FileType::Directory))
    }
}

impl AsFd for TaskWritableDirectory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Opens a directory below an open one. Follows no link and enters no mount.
///
/// # Errors
/// [`Errno::XDEV`] for a mount, [`Errno::LOOP`] for a link on the way, [`Errno::NOTDIR`] for everything that is no
/// directory.
pub fn open_below(directory: impl AsFd, path: &Path) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened =
        rustix::fs::openat2(directory.as_fd(), path, directory_flags(), Mode::empty(), resolve);
    match opened {
        // A kernel or a sandbox without `openat2`.
        Err(Errno::NOSYS | Errno::PERM) => open_in_steps(directory.as_fd(), path),
        opened => opened,
    }
}

/// Opens an entry of a directory, which is neither a link nor a mount.
fn open_entry(directory: &OwnedFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(directory, name, flags, Mode::empty(), resolve) {
        Err(Errno::NOSYS | Errno::PERM) => {}
        opened => return opened,
    }
    let opened = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let is_here = rustix::fs::fstat(&opened)?.st_dev == rustix::fs::fstat(directory)?.st_dev;
    is_here.then_some(opened).ok_or(Errno::XDEV)
}

fn open_in_steps(directory: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let device = rustix::fs::fstat(directory)?.st_dev;
    let mut opened = rustix::fs::openat(directory, ".", directory_flags(), Mode::empty())?;
    for part in path.components() {
        let name = match part {
            std::path::Component::CurDir => continue,
            std::path::Component::Normal(name) => name,
            _ => return Err(Errno::XDEV),
        };
        opened = rustix::fs::openat(&opened, name, directory_flags(), Mode::empty())?;
        if rustix::fs::fstat(&opened)?.st_dev != device {
            return Err(Errno::XDEV);
        }
    }
    Ok(opened)
}

/// Changes the permissions of a directory below an open one that its owner may not open. Follows no link and enters no
/// mount.
///
/// # Errors
/// If it cannot be reached, or belongs to another user.
pub fn set_mode_below(directory: impl AsFd, path: &Path, mode: Mode) -> Result<(), Errno> {
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(directory.as_fd(), path, flags, Mode::empty(), resolve)?;
    // The permissions of a descriptor that is only a place change through its name in `/proc`.
    let name = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::fs::chmodat(CWD, name, mode, AtFlags::empty())
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn named(path: &Path, error: Errno) -> io::Error {
    let shown = path.display();
    let text = match error {
        Errno::LOOP | Errno::NOTDIR => format!(
            "`{shown}` is not a directory: a task has put a link or a file there; remove it, or stop the allocation"
        ),
        Errno::STALE => format!("a task replaced `{shown}` while it was created"),
        Errno::XDEV => format!("`{shown}` is a mount point"),
        error => format!("`{shown}`: {error}"),
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_directory_has_its_final_mode_and_keeps_what_a_task_set() {
        let base = tempfile::tempdir().unwrap();
        let open = TaskWritableDirectory::open(base.path()).unwrap();
        for (name, users, expected) in [
            ("readers", DirectoryUsers::Readers, 0o755),
            ("everyone", DirectoryUsers::Everyone, 0o777),
            ("one", DirectoryUsers::One(None), 0o700),
        ] {
            open.create_directory(name, users).unwrap();
            assert_eq!(mode(&base.path().join(name)), expected);
            let changed = fs::Permissions::from_mode(0o770);
            fs::set_permissions(base.path().join(name), changed).unwrap();
            open.create_directory(name, users).unwrap();
            let is_kept = users != DirectoryUsers::Readers;
            let expected = if is_kept { 0o770 } else { expected };
            assert_eq!(mode(&base.path().join(name)), expected, "{name}");
        }
    }

    #[test]
    fn a_link_a_file_and_a_mount_are_refused_and_stay_as_they_are() {
        let base = tempfile::tempdir().unwrap();
        let (inside, outside) = (base.path().join("inside"), base.path().join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir_all(outside.join("below")).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o711)).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink("../outside", inside.join("relative")).unwrap();
        fs::write(inside.join("file"), "").unwrap();
        let open = TaskWritableDirectory::open(&inside).unwrap();
        for name in ["link", "relative", "file"] {
            for users in [DirectoryUsers::Everyone, DirectoryUsers::One(Some((7, 7)))] {
                let refused = open.create_directory(name, users).unwrap_err();
                let reason = refused.to_string();
                assert!(reason.contains("a task has put a link"), "{reason}");
            }
        }
        for way in ["link/below", "../outside", "/"] {
            assert!(open.open_directory(Path::new(way)).is_err(), "{way}");
            assert!(set_mode_below(&open, Path::new(way), Mode::RWXU).is_err());
        }
        assert!(TaskWritableDirectory::open(&inside.join("link")).is_err());
        assert_eq!(mode(&outside), 0o711);
        let root = TaskWritableDirectory::open(Path::new("/")).unwrap();
        let refused = root.open_directory(Path::new("proc")).unwrap_err();
        assert_eq!(refused.to_string(), "`/proc` is a mount point");
    }

    #[test]
    fn the_way_without_openat2_refuses_the_same() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir_all(base.path().join("a/b")).unwrap();
        symlink("a", base.path().join("link")).unwrap();
        let open = TaskWritableDirectory::open(base.path()).unwrap();
        open_in_steps(open.as_fd(), Path::new("a/b")).unwrap();
        open_in_steps(open.as_fd(), Path::new(".")).unwrap();
        for way in ["link/b", "link", "a/../..", "/"] {
            assert!(open_in_steps(open.as_fd(), Path::new(way)).is_err(), "{way}");
        }
        let root = TaskWritableDirectory::open(Path::new("/")).unwrap();
        let refused = open_in_steps(root.as_fd(), Path::new("proc")).unwrap_err();
        assert_eq!(refused, Errno::XDEV);
    }

    #[test]
    fn names_and_kinds_are_those_of_the_entries_themselves() {
        let base = tempfile::tempdir().unwrap();
        fs::create_dir(base.path().join("a")).unwrap();
        symlink("a", base.path().join("b")).unwrap();
        let open = TaskWritableDirectory::open(base.path()).unwrap();
        let mut names = open.names().unwrap();
        names.sort();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(open.is_directory(OsStr::new("a")).unwrap(), Some(true));
        assert_eq!(open.is_directory(OsStr::new("b")).unwrap(), Some(false));
        assert_eq!(open.is_directory(OsStr::new("c")).unwrap(), None);
    }
}
