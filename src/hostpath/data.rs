//! The directories and files that hold volumes and snapshots.
//!
//! All of them lie in one directory that only the plugin can enter (mode 0700). The directory of a
//! volume is open to every user (0777), because the workload that mounts it decides who writes. The
//! file of a volume belongs to the plugin alone (0600). Names are IDs that the plugin generated, so
//! no path contains input of a caller.
//!
//! **Only this file deletes recursively.** The caller first checks that nothing is mounted at,
//! below or from the directory. The removal works on open directories, follows no symbolic link,
//! and opens each directory with `RESOLVE_NO_XDEV`, so that it never enters a mount (`openat2`,
//! Linux 5.6; older kernels compare device numbers). It moves nested directories to the top of the
//! volume first, so it needs two open files at any depth. An interrupted removal can be repeated.
//!
//! All calls block.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use nomad_csi_model::private;

/// The beginning of the name of a file that is not finished. No ID begins with it.
const UNFINISHED: &str = "unfinished-";

/// A directory that holds the data of volumes or snapshots.
#[derive(Debug)]
pub(super) struct DataDir {
    path: PathBuf,
    directory: Arc<OwnedFd>,
    stopping: AtomicBool,
}

/// The size of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSize {
    pub(super) bytes: u64,
    pub(super) allocated_bytes: u64,
}

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileSystemSpace {
    pub(super) total_bytes: u64,
    /// For unprivileged users.
    pub(super) available_bytes: u64,
    pub(super) used_bytes: u64,
    pub(super) total_inodes: u64,
    pub(super) available_inodes: u64,
    pub(super) used_inodes: u64,
}

impl DataDir {
    /// Opens the directory at `path`, which must exist.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let directory = rustix::fs::open(path, directory_flags(), Mode::empty())?;
        Ok(Self {
            path: path.to_owned(),
            directory: Arc::new(directory),
            stopping: AtomicBool::new(false),
        })
    }

    /// Returns the path of a volume's data.
    pub(super) fn path_of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// The directory itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the open directory. A sync of it makes created and removed names durable.
    pub(super) fn handle(&self) -> Arc<OwnedFd> {
        self.directory.clone()
    }

    /// Creates the directory of a volume, opens it to every user and makes it durable. Keeps one that
    /// exists.
    pub(super) fn create(&self, id: &str) -> io::Result<()> {
        match rustix::fs::mkdirat(&self.directory, id, Mode::RWXU) {
            // The umask may have removed the owner's permissions.
            Ok(()) => rustix::fs::chmodat(&self.directory, id, Mode::RWXU, AtFlags::empty())?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let volume = self.open_volume(id)?;
        rustix::fs::fchmod(&volume, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
        rustix::fs::fsync(&volume)?;
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    /// Returns whether the directory of a volume exists.
    pub(super) fn exists(&self, id: &str) -> io::Result<bool> {
        match self.open_volume(id) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a sparse file of this length, has `fill` write to it, and makes it durable. The file gets
    /// its name at the end, so it is complete or absent. Replaces one that exists. `unfinished` is
    /// unique to this call: a program of a killed plugin may still write to an earlier attempt.
    pub(super) fn make_file(
        &self,
        id: &str,
        unfinished: &str,
        bytes: u64,
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let unfinished = format!("{UNFINISHED}{unfinished}");
        let made = self.fill_file(&unfinished, bytes, fill).and_then(|()| {
            let directory = &self.directory;
            Ok(rustix::fs::renameat(directory, &unfinished, directory, id)?)
        });
        if let Err(error) = made {
            rustix::fs::unlinkat(&self.directory, &unfinished, AtFlags::empty()).ok();
            return Err(error);
        }
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    fn fill_file(
        &self,
        name: &str,
        bytes: u64,
        fill: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&self.directory, name, flags, mode)?;
        rustix::fs::fchmod(&file, mode)?;
        rustix::fs::ftruncate(&file, bytes)?;
        fill(&self.path.join(name))?;
        Ok(rustix::fs::fsync(&file)?)
    }

    /// Removes the files that interrupted calls of [`DataDir::make_file`] left. No call may run.
    pub(super) fn remove_unfinished(&self) -> io::Result<()> {
        for name in self.names()? {
            if name.starts_with(UNFINISHED) {
                rustix::fs::unlinkat(&self.directory, &name, AtFlags::empty())?;
            }
        }
        Ok(())
    }

    /// Returns the names of all entries.
    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = vec![];
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            if !is_self_or_parent(entry.file_name()) {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        Ok(names)
    }

    /// Extends a file and makes it durable. Keeps one that is long enough.
    pub(super) fn grow_file(&self, id: &str, bytes: u64) -> io::Result<()> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, id, flags, Mode::empty())?;
        if u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or_default() < bytes {
            rustix::fs::ftruncate(&file, bytes)?;
            rustix::fs::fsync(&file)?;
        }
        Ok(())
    }

    /// Returns the size of a file, or `None` if it does not exist.
    pub(super) fn file(&self, id: &str) -> io::Result<Option<FileSize>> {
        match rustix::fs::statat(&self.directory, id, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(FileSize {
                bytes: u64::try_from(found.st_size).unwrap_or_default(),
                allocated_bytes: u64::try_from(found.st_blocks).unwrap_or_default() * 512,
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the allocated bytes of all files. Reads the metadata of each.
    pub(super) fn allocated_bytes(&self) -> io::Result<u64> {
        let mut sum = 0;
        for name in self.names()? {
            sum += self.file(&name)?.map_or(0, |file| file.allocated_bytes);
        }
        Ok(sum)
    }

    /// Removes a directory if it is empty. Succeeds if it does not exist.
    pub(super) fn remove_empty(&self, id: &str) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.directory, id, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a file, or a directory with its content, and makes that durable. Succeeds if nothing
    /// exists. The caller must have checked that nothing is mounted there.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        self.remove_unsynced(id)?;
        Ok(rustix::fs::fsync(&self.directory)?)
    }

    /// As [`DataDir::remove`], but durable only after a sync of [`DataDir::handle`].
    pub(super) fn remove_unsynced(&self, id: &str) -> io::Result<()> {
        let volume = match self.open_volume(id) {
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::NOTDIR) => {
                return Ok(rustix::fs::unlinkat(&self.directory, id, AtFlags::empty())?);
            }
            opened => opened?,
        };
        make_accessible(&volume);
        let mut removal = Removal { volume: &volume, moved: 0, stopping: &self.stopping };
        while removal.empty_once()? {}
        Ok(rustix::fs::unlinkat(&self.directory, id, AtFlags::REMOVEDIR)?)
    }

    /// Interrupts every removal with an error of the kind `Interrupted`.
    pub(super) fn stop_removals(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Returns the space of the file system that holds the volumes.
    pub(super) fn space(&self) -> io::Result<FileSystemSpace> {
        Ok(space_of(&rustix::fs::fstatvfs(&self.directory)?))
    }

    fn open_volume(&self, id: &str) -> rustix::io::Result<OwnedFd> {
        open_below(self.directory.as_fd(), &CString::new(id).map_err(|_| Errno::INVAL)?)
    }
}

/// Lets every user create files in a directory.
pub(super) fn open_to_all(path: &Path) -> io::Result<()> {
    let directory = rustix::fs::open(path, directory_flags(), Mode::empty())?;
    rustix::fs::fchmod(&directory, Mode::RWXU | Mode::RWXG | Mode::RWXO)?;
    Ok(rustix::fs::fsync(&directory)?)
}

/// Gives a directory to a group. New entries inherit the group (set-group-ID), and the group may
/// read and write them whatever the umask (a default ACL, where the file system supports it).
pub(super) fn open_to_group(path: &Path, group: u32) -> io::Result<()> {
    let directory = rustix::fs::open(path, directory_flags(), Mode::empty())?;
    let group = rustix::fs::Gid::from_raw(group);
    rustix::fs::fchown(&directory, None, Some(group))?;
    let mode = rustix::fs::fstat(&directory)?.st_mode;
    let mode = Mode::from_raw_mode(mode) | Mode::RWXG | Mode::SGID;
    rustix::fs::fchmod(&directory, mode)?;
    let flags = rustix::fs::XattrFlags::empty();
    match rustix::fs::fsetxattr(&directory, "system.posix_acl_default", &DEFAULT_LIST, flags) {
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// `user::rwx`, `group::rwx`, `other::r-x` in the kernel's format: version 2, then a tag, a
/// permission and an unused ID for each entry.
const DEFAULT_LIST: [u8; 28] = [
    2, 0, 0, 0, //
    1, 0, 7, 0, 255, 255, 255, 255, //
    4, 0, 7, 0, 255, 255, 255, 255, //
    32, 0, 5, 0, 255, 255, 255, 255,
];

/// Returns whether the file system at `path`, or its mount, refuses writes.
pub(super) fn refuses_writes(path: &Path) -> io::Result<bool> {
    let flags = rustix::fs::statvfs(path)?.f_flag;
    Ok(flags.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

/// Returns the space of the file system at `path`.
pub(super) fn space_at(path: &Path) -> io::Result<FileSystemSpace> {
    Ok(space_of(&rustix::fs::statvfs(path)?))
}

fn space_of(fs: &rustix::fs::StatVfs) -> FileSystemSpace {
    let block = fs.f_frsize;
    FileSystemSpace {
        total_bytes: fs.f_blocks.saturating_mul(block),
        available_bytes: fs.f_bavail.saturating_mul(block),
        used_bytes: fs.f_blocks.saturating_sub(fs.f_bfree).saturating_mul(block),
        total_inodes: fs.f_files,
        available_inodes: fs.f_favail,
        used_inodes: fs.f_files.saturating_sub(fs.f_ffree),
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory inside an open one. Fails if it is a mount point.
fn open_below(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    private::open_below(parent, path_of(name))
}

fn path_of(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

/// Gives the owner all permissions of a directory. An unprivileged plugin can then remove
/// directories that users of the volume closed. A failure surfaces at the next use.
fn make_accessible(directory: &OwnedFd) {
    rustix::fs::fchmod(directory, Mode::RWXU).ok();
}

/// The removal of one volume's content.
struct Removal<'a> {
    volume: &'a OwnedFd,
    /// How many directories were moved to the top.
    moved: u64,
    stopping: &'a AtomicBool,
}

impl Removal<'_> {
    /// Removes the entries at the top of the volume. Returns whether it found any.
    fn empty_once(&mut self) -> io::Result<bool> {
        let mut found = false;
        for entry in Dir::read_from(self.volume)? {
            let entry = entry?;
            let name = entry.file_name();
            if is_self_or_parent(name) {
                continue;
            }
            found = true;
            if !self.remove_leaf(self.volume, name)? {
                self.empty_directory(name)?;
                rustix::fs::unlinkat(self.volume, name, AtFlags::REMOVEDIR)?;
            }
        }
        Ok(found)
    }

    /// Empties a directory at the top of the volume. Moves its subdirectories to the top.
    fn empty_directory(&mut self, name: &CStr) -> io::Result<()> {
        let directory = match open_below(self.volume.as_fd(), name) {
            Err(Errno::ACCESS) => {
                private::set_mode_below(self.volume, path_of(name), Mode::RWXU)?;
                open_below(self.volume.as_fd(), name)?
            }
            opened => opened?,
        };
        make_accessible(&directory);
        let mut found = true;
        while std::mem::take(&mut found) {
            for entry in Dir::read_from(&directory)? {
                let entry = entry?;
                let child = entry.file_name();
                if is_self_or_parent(child) {
                    continue;
                }
                found = true;
                if !self.remove_leaf(&directory, child)? {
                    self.move_up(&directory, child)?;
                }
            }
        }
        Ok(())
    }

    /// Removes a file or an empty directory. Returns `false` for a directory with content.
    fn remove_leaf(&self, parent: &OwnedFd, name: &CStr) -> io::Result<bool> {
        if self.stopping.load(Ordering::Relaxed) {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the plugin is stopping; the removal continues at the next start",
            ));
        }
        match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            Err(Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Moves a directory to the top of the volume, under an unused name. Fails for a mount point.
    fn move_up(&mut self, from: &OwnedFd, name: &CStr) -> io::Result<()> {
        let mut allowed = false;
        loop {
            let free = format!(".removed-{}", self.moved);
            self.moved += 1;
            let flags = RenameFlags::NOREPLACE;
            match rustix::fs::renameat_with(from, name, self.volume, free, flags) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => {}
                // Moving a directory writes to it, which its mode may forbid.
                Err(Errno::ACCESS) if !allowed => {
                    private::set_mode_below(from, path_of(name), Mode::RWXU)?;
                    allowed = true;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn is_self_or_parent(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

#[cfg(test)]
mod tests;
