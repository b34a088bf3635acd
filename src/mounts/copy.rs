//! Copies: by sharing blocks where the file system can, and without holes everywhere.
//!
//! A file is cloned by `FICLONE`, which is at once and at one moment; where that cannot be, its data
//! is copied range by range and its holes are left holes. A directory is copied entry by entry,
//! through open directories and never through a symbolic link, so that whoever works in it meanwhile
//! cannot lead the copy elsewhere; what is mounted inside ends it. A copy that was cut off is no
//! copy: its caller removes it.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, SeekFrom, Stat, Timestamps};
use rustix::io::Errno;

use crate::ports::Copied;

/// How much is copied by one call at most.
const CHUNK: u64 = 1 << 30;
/// The buffer where the kernel does not copy by itself.
const BUFFER: usize = 1 << 20;

/// Copies a regular file to a new one; durable when it returns, its directory entry too.
pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<Copied> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = File::from(rustix::fs::open(from, read, Mode::empty())?);
    let write = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = File::from(rustix::fs::open(to, write, Mode::RUSR | Mode::WUSR)?);
    let copied = copy_content(&source, &target)?;
    target.sync_all()?;
    if let Some(parent) = to.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(copied)
}

/// Whether files in `directory` can share blocks, by trying it with one block.
pub(super) fn shares_blocks(directory: &Path) -> bool {
    let try_out = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let open = || rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
        let source = File::from(open()?);
        source.write_all_at(&[1; 4096], 0)?;
        rustix::fs::ioctl_ficlone(open()?, &source)?;
        Ok::<_, io::Error>(())
    };
    try_out().is_ok()
}

fn copy_content(source: &File, target: &File) -> io::Result<Copied> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(Copied::Shared);
    }
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Nothing but a hole follows.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(length);
        copy_range(source, target, start, end)?;
        at = end;
    }
    Ok(Copied::Blocks)
}

fn copy_range(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut read, mut write) = (start, start);
    while read < end {
        let length = usize::try_from((end - read).min(CHUNK)).unwrap_or(BUFFER);
        let copied =
            rustix::fs::copy_file_range(source, Some(&mut read), target, Some(&mut write), length);
        match copied {
            // The file became shorter.
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_by_hand(source, target, read, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_by_hand(source: &File, target: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while at < end {
        let length = usize::try_from(end - at).map_or(BUFFER, |rest| rest.min(BUFFER));
        let read = source.read_at(&mut buffer[..length], at)?;
        if read == 0 {
            return Ok(());
        }
        target.write_all_at(&buffer[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

/// Copies what is in a directory into another, empty one.
pub(super) fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let flags = directory_flags();
    let mut copy = Tree {
        source: rustix::fs::open(from, flags, Mode::empty())?,
        target: rustix::fs::open(to, flags, Mode::empty())?,
        linked: BTreeMap::new(),
        directories: vec![],
    };
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        copy.one_directory(&path, &mut waiting)?;
    }
    copy.finish_directories()?;
    Ok(rustix::fs::syncfs(&copy.target)?)
}

/// A directory that is being copied.
struct Tree {
    source: OwnedFd,
    target: OwnedFd,
    /// Files with several names, by identity, and the first name of each.
    linked: BTreeMap<(u64, u64), PathBuf>,
    /// Directories whose own attributes are set when nothing is written to them any more.
    directories: Vec<(PathBuf, Stat)>,
}

impl Tree {
    fn one_directory(&mut self, path: &Path, waiting: &mut Vec<PathBuf>) -> io::Result<()> {
        let source = open_below(&self.source, path)?;
        let target = open_below(&self.target, path)?;
        self.directories
            .push((path.to_owned(), rustix::fs::fstat(&source)?));
        for entry in Dir::read_from(&source)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let about = match rustix::fs::statat(&source, name, AtFlags::SYMLINK_NOFOLLOW) {
                // Somebody removed it since it was listed.
                Err(Errno::NOENT) => continue,
                about => about?,
            };
            let below = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
                rustix::fs::mkdirat(&target, name, Mode::RWXU)?;
                waiting.push(below);
            } else {
                self.one_leaf(&source, &target, name, &about, below)?;
            }
        }
        Ok(())
    }

    fn one_leaf(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        name: &CStr,
        about: &Stat,
        below: PathBuf,
    ) -> io::Result<()> {
        let identity = (about.st_dev, about.st_ino);
        if about.st_nlink > 1 {
            if let Some(first) = self.linked.get(&identity) {
                let flags = AtFlags::empty();
                return Ok(rustix::fs::linkat(
                    &self.target,
                    first,
                    target,
                    name,
                    flags,
                )?);
            }
            self.linked.insert(identity, below);
        }
        match FileType::from_raw_mode(about.st_mode) {
            FileType::RegularFile => {
                let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let from = File::from(rustix::fs::openat(source, name, read, Mode::empty())?);
                let write = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let to = rustix::fs::openat(target, name, write, Mode::RUSR | Mode::WUSR)?;
                copy_content(&from, &File::from(to))?;
            }
            FileType::Symlink => {
                let text = rustix::fs::readlinkat(source, name, vec![])?;
                rustix::fs::symlinkat(&text, target, name)?;
            }
            kind => {
                let mode = Mode::from_raw_mode(about.st_mode);
                rustix::fs::mknodat(target, name, kind, mode, about.st_rdev)?;
            }
        }
        copy_extended(&entry_path(source, name), &entry_path(target, name))?;
        copy_attributes(target, name, about)
    }

    /// From the innermost outwards, so that each is closed after what is in it.
    fn finish_directories(&mut self) -> io::Result<()> {
        while let Some((path, about)) = self.directories.pop() {
            let source = open_below(&self.source, &path)?;
            let target = open_below(&self.target, &path)?;
            copy_extended(&entry_path(&source, c"."), &entry_path(&target, c"."))?;
            copy_attributes(&target, c".", &about)?;
        }
        Ok(())
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// Opens a directory below an open one, through no link and into no mount.
fn open_below(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let resolve = ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = rustix::fs::openat2(
        root.as_fd(),
        path,
        directory_flags(),
        Mode::empty(),
        resolve,
    );
    match opened {
        Err(Errno::XDEV) => Err(io::Error::other(format!(
            "something is mounted at {} inside it",
            path.display()
        ))),
        Err(error) => Err(error.into()),
        Ok(directory) => Ok(directory),
    }
}

/// A path to an entry of an open directory, for the calls that take no directory.
fn entry_path(directory: &OwnedFd, name: &CStr) -> PathBuf {
    let name = std::ffi::OsStr::from_bytes(name.to_bytes());
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name)
}

/// Copies extended attributes. Those that this user may not set, and file systems without any, are
/// passed over.
fn copy_extended(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = vec![];
    if let Err(error) = fill(&mut names, |buffer| {
        rustix::fs::llistxattr(from, &mut *buffer)
    }) {
        return skip_unsupported(error);
    }
    for name in names.split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(b"system.nfs4") {
            continue;
        }
        let mut value = vec![];
        let read = fill(&mut value, |buffer| {
            rustix::fs::lgetxattr(from, name, &mut *buffer)
        });
        if read.is_ok() {
            let flags = rustix::fs::XattrFlags::empty();
            if let Err(error) = rustix::fs::lsetxattr(to, name, &value, flags) {
                skip_unsupported(error)?;
            }
        }
    }
    Ok(())
}

/// Calls until the buffer is large enough.
fn fill(
    buffer: &mut Vec<u8>,
    call: impl Fn(&mut Vec<u8>) -> rustix::io::Result<usize>,
) -> rustix::io::Result<()> {
    buffer.resize(4096, 0);
    loop {
        match call(buffer) {
            Ok(length) => {
                buffer.truncate(length);
                return Ok(());
            }
            Err(Errno::RANGE) if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            Err(error) => return Err(error),
        }
    }
}

fn skip_unsupported(error: Errno) -> io::Result<()> {
    match error {
        Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::NODATA => Ok(()),
        other => Err(other.into()),
    }
}

/// Owner, mode and times, in the order in which one does not undo the other.
fn copy_attributes(directory: &OwnedFd, name: &CStr, about: &Stat) -> io::Result<()> {
    let made = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (made.st_uid, made.st_gid) != (about.st_uid, about.st_gid) {
        rustix::fs::chownat(
            directory,
            name,
            Some(rustix::fs::Uid::from_raw(about.st_uid)),
            Some(rustix::fs::Gid::from_raw(about.st_gid)),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    if FileType::from_raw_mode(about.st_mode) != FileType::Symlink {
        let mode = Mode::from_raw_mode(about.st_mode);
        rustix::fs::chmodat(directory, name, mode, AtFlags::empty())?;
    }
    let time = |seconds, nanoseconds: u64| rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(about.st_atime, about.st_atime_nsec),
        last_modification: time(about.st_mtime, about.st_mtime_nsec),
    };
    Ok(rustix::fs::utimensat(
        directory,
        name,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_copy_has_the_data_and_the_holes() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        let file = File::create(&from).unwrap();
        file.set_len(64 << 20).unwrap();
        file.write_all_at(b"beginning", 0).unwrap();
        file.write_all_at(b"middle", 32 << 20).unwrap();
        let to = directory.path().join("to");
        copy_file(&from, &to).unwrap();
        assert_eq!(std::fs::read(&from).unwrap(), std::fs::read(&to).unwrap());
        assert!(
            to.metadata().unwrap().blocks() * 512 < 1 << 20,
            "it is sparse"
        );
        assert!(copy_file(&from, &to).is_err(), "nothing is overwritten");
    }

    #[test]
    fn by_hand_is_as_good_as_by_the_kernel() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * BUFFER + 17).collect();
        std::fs::write(&from, &bytes).unwrap();
        let to = File::create_new(directory.path().join("to")).unwrap();
        let end = bytes.len() as u64;
        copy_by_hand(&File::open(&from).unwrap(), &to, 0, end).unwrap();
        let copied = std::fs::read(directory.path().join("to")).unwrap();
        assert!(copied == bytes);
    }

    #[test]
    fn a_directory_is_copied_with_all_that_is_said_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::create_dir_all(from.join("a/b/c")).unwrap();
        std::fs::create_dir(&to).unwrap();
        std::fs::write(from.join("a/file"), "data").unwrap();
        std::fs::hard_link(from.join("a/file"), from.join("a/b/second")).unwrap();
        symlink("/nowhere", from.join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            from.join("fifo"),
            FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        let permissions = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(from.join("a/file"), permissions(0o4751)).unwrap();
        std::fs::set_permissions(from.join("a/b/c"), permissions(0o1500)).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let file = File::options()
            .write(true)
            .open(from.join("a/file"))
            .unwrap();
        file.set_modified(old).unwrap();
        File::open(from.join("a"))
            .unwrap()
            .set_modified(old)
            .unwrap();
        copy_directory(&from, &to).unwrap();
        assert_eq!(std::fs::read(to.join("a/file")).unwrap(), b"data");
        let one = to.join("a/file").metadata().unwrap();
        let other = to.join("a/b/second").metadata().unwrap();
        assert_eq!((one.ino(), one.nlink()), (other.ino(), 2));
        assert_eq!(one.permissions().mode() & 0o7777, 0o4751);
        assert_eq!(one.modified().unwrap(), old);
        assert_eq!(to.join("a").metadata().unwrap().modified().unwrap(), old);
        let closed = to.join("a/b/c").metadata().unwrap();
        assert_eq!(closed.permissions().mode() & 0o7777, 0o1500);
        let link = std::fs::read_link(to.join("link")).unwrap();
        assert_eq!(link, Path::new("/nowhere"));
        std::fs::set_permissions(from.join("a/b/c"), permissions(0o700)).unwrap();
        std::fs::set_permissions(to.join("a/b/c"), permissions(0o700)).unwrap();
    }
}
