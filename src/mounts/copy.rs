//! Copies files and directories, and preserves holes.
//!
//! `FICLONE` clones a file atomically where the file system supports shared blocks. Elsewhere the
//! data is copied range by range. A directory is copied entry by entry through open directories and
//! never through a symbolic link, so a concurrent change cannot redirect the copy. A mount inside is
//! an error. The caller removes an incomplete copy.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, SeekFrom, Stat, Timestamps};
use rustix::io::Errno;

use crate::ports::CopyMethod;
use crate::private;

/// The maximum length of one `copy_file_range` call.
const CHUNK: u64 = 1 << 30;
/// The buffer size where the kernel cannot copy.
const BUFFER: usize = 1 << 20;

/// Copies a regular file to a new one, and syncs the file and its directory entry.
pub(super) fn copy_file(from: &Path, to: &Path) -> io::Result<CopyMethod> {
    let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = File::from(rustix::fs::open(from, read, Mode::empty())?);
    let write = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = File::from(rustix::fs::open(to, write, Mode::RUSR | Mode::WUSR)?);
    rustix::fs::fchmod(&target, Mode::RUSR | Mode::WUSR)?;
    let copied = copy_content(&source, &target)?;
    target.sync_all()?;
    if let Some(parent) = to.parent() {
        File::open(parent)?.sync_all()?;
    }
    Ok(copied)
}

/// Whether files in `directory` can share blocks. Tries it with one block.
pub(super) fn shares_blocks(directory: &Path) -> bool {
    let clone_block = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let open = || rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR);
        let source = File::from(open()?);
        source.write_all_at(&[1; 4096], 0)?;
        rustix::fs::ioctl_ficlone(open()?, &source)?;
        Ok::<_, io::Error>(())
    };
    clone_block().is_ok()
}

fn copy_content(source: &File, target: &File) -> io::Result<CopyMethod> {
    if rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(CopyMethod::Reflink);
    }
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // The rest is a hole.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(length);
        copy_range(source, target, start, end)?;
        at = end;
    }
    Ok(CopyMethod::BlockByBlock)
}

fn copy_range(source: &File, target: &File, start: u64, end: u64) -> io::Result<()> {
    let (mut read, mut write) = (start, start);
    while read < end {
        let length = usize::try_from((end - read).min(CHUNK)).unwrap_or(BUFFER);
        let copied =
            rustix::fs::copy_file_range(source, Some(&mut read), target, Some(&mut write), length);
        match copied {
            Ok(0) => return Err(ended_early(read, end)),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return copy_buffered(source, target, read, end);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn copy_buffered(source: &File, target: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    while at < end {
        let length = usize::try_from(end - at).map_or(BUFFER, |rest| rest.min(BUFFER));
        let read = source.read_at(&mut buffer[..length], at)?;
        if read == 0 {
            return Err(ended_early(at, end));
        }
        target.write_all_at(&buffer[..read], at)?;
        at += read as u64;
    }
    Ok(())
}

/// The source was truncated, or its file system returned less than it has. The rest of the copy would be
/// zeros.
fn ended_early(at: u64, end: u64) -> io::Error {
    let why = format!(
        "the file ended at byte {at}, {} bytes early, while it was copied",
        end - at
    );
    io::Error::new(io::ErrorKind::UnexpectedEof, why)
}

/// Copies the content of a directory into an empty one.
pub(super) fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    let flags = directory_flags();
    let mut copy = TreeCopy {
        source: rustix::fs::open(from, flags, Mode::empty())?,
        target: rustix::fs::open(to, flags, Mode::empty())?,
        linked: BTreeMap::new(),
        directories: vec![],
    };
    let mut pending = vec![(None, OsString::new())];
    while let Some((parent, name)) = pending.pop() {
        copy.copy_one_directory(parent, name, &mut pending)?;
    }
    copy.finish_directories()?;
    Ok(rustix::fs::syncfs(&copy.target)?)
}

/// A copy of a directory in progress.
struct TreeCopy {
    source: OwnedFd,
    target: OwnedFd,
    /// The first name of each file with several hard links, and its directory, by device and inode.
    linked: BTreeMap<(u64, u64), (usize, OsString)>,
    /// Directories that get their attributes after their content is complete.
    directories: Vec<CopiedDirectory>,
}

/// A directory of the copy. Its path would be as long as the tree is deep, so it has only its own name.
struct CopiedDirectory {
    /// The position of the directory that contains it.
    parent: Option<usize>,
    name: OsString,
    stat: Stat,
}

impl TreeCopy {
    fn copy_one_directory(
        &mut self,
        parent: Option<usize>,
        name: OsString,
        pending: &mut Vec<(Option<usize>, OsString)>,
    ) -> io::Result<()> {
        let names = self.names(parent, &name);
        let source = open_below(&self.source, &names)?;
        let target = open_below(&self.target, &names)?;
        let own = self.directories.len();
        self.directories.push(CopiedDirectory {
            parent,
            stat: rustix::fs::fstat(&source)?,
            name,
        });
        for entry in Dir::read_from(&source)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&source, name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed since the directory was listed.
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                rustix::fs::mkdirat(&target, name, Mode::RWXU)?;
                pending.push((Some(own), os_string(name)));
            } else {
                self.copy_entry(&source, &target, name, &stat, own)?;
            }
        }
        Ok(())
    }

    /// Returns the names on the way to an entry, the outermost first.
    fn names(&self, parent: Option<usize>, name: &OsStr) -> Vec<OsString> {
        let mut names = vec![name.to_owned()];
        let mut next = parent.and_then(|at| self.directories.get(at));
        while let Some(directory) = next {
            names.push(directory.name.clone());
            next = directory.parent.and_then(|at| self.directories.get(at));
        }
        names.retain(|name| !name.is_empty());
        names.reverse();
        names
    }

    fn copy_entry(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        name: &CStr,
        stat: &Stat,
        directory: usize,
    ) -> io::Result<()> {
        let identity = (stat.st_dev, stat.st_ino);
        if stat.st_nlink > 1 {
            if let Some((at, first)) = self.linked.get(&identity) {
                let there = open_below(&self.target, &self.names(Some(*at), OsStr::new("")))?;
                let flags = AtFlags::empty();
                return Ok(rustix::fs::linkat(&there, first, target, name, flags)?);
            }
            self.linked.insert(identity, (directory, os_string(name)));
        }
        match FileType::from_raw_mode(stat.st_mode) {
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
                let mode = Mode::from_raw_mode(stat.st_mode);
                rustix::fs::mknodat(target, name, kind, mode, stat.st_rdev)?;
            }
        }
        copy_attributes(target, name, stat, source)
    }

    /// Sets the attributes of all directories, the innermost first.
    fn finish_directories(&mut self) -> io::Result<()> {
        while let Some(CopiedDirectory { parent, name, stat }) = self.directories.pop() {
            let names = self.names(parent, &name);
            let source = open_below(&self.source, &names)?;
            let target = open_below(&self.target, &names)?;
            copy_attributes(&target, c".", &stat, &source)?;
        }
        Ok(())
    }
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn os_string(name: &CStr) -> OsString {
    OsStr::from_bytes(name.to_bytes()).to_owned()
}

/// The bytes of a path that the kernel gets at once. It takes 4096, and a name has up to 255.
const PATH_BYTES: usize = 3072;

/// Opens a directory below an open one, however deep it is. Follows no symbolic link and enters no mount.
fn open_below(root: &OwnedFd, names: &[OsString]) -> io::Result<OwnedFd> {
    let mut opened = open_part(root, Path::new("."))?;
    let mut path = PathBuf::new();
    for name in names {
        if path.as_os_str().len() > PATH_BYTES {
            opened = open_part(&opened, &path)?;
            path = PathBuf::new();
        }
        path.push(name);
    }
    match path.as_os_str().is_empty() {
        true => Ok(opened),
        false => open_part(&opened, &path),
    }
}

/// Opens a directory below an open one by a path that the kernel takes.
fn open_part(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    match private::open_below(root, path) {
        Err(Errno::XDEV) => Err(io::Error::other(format!(
            "a file system is mounted at `{}` inside the directory",
            path.display()
        ))),
        Err(error) => Err(error.into()),
        Ok(directory) => Ok(directory),
    }
}

/// Returns a path to an entry of an open directory, for system calls without a directory argument.
fn entry_path(directory: &OwnedFd, name: &CStr) -> PathBuf {
    let name = std::ffi::OsStr::from_bytes(name.to_bytes());
    PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name)
}

/// Copies extended attributes. Ignores those that this user may not set, and file systems without
/// extended attributes.
fn copy_xattrs(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = vec![];
    if let Err(error) = read_growing(&mut names, |buffer| {
        rustix::fs::llistxattr(from, &mut *buffer)
    }) {
        return skip_unsupported(error);
    }
    for name in names.split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(b"system.nfs4") {
            continue;
        }
        let mut value = vec![];
        let read = read_growing(&mut value, |buffer| {
            rustix::fs::lgetxattr(from, name, &mut *buffer)
        });
        let flags = rustix::fs::XattrFlags::empty();
        let copied = read.and_then(|()| rustix::fs::lsetxattr(to, name, &value, flags));
        copied.or_else(skip_unsupported)?;
    }
    Ok(())
}

/// Repeats a call with a larger buffer until the result fits.
fn read_growing(
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

/// Copies owner, extended attributes, mode and times in this order, because each step can reset the next: a change of
/// the owner takes the capabilities of a program.
fn copy_attributes(
    directory: &OwnedFd,
    name: &CStr,
    stat: &Stat,
    source: &OwnedFd,
) -> io::Result<()> {
    let created = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    if (created.st_uid, created.st_gid) != (stat.st_uid, stat.st_gid) {
        rustix::fs::chownat(
            directory,
            name,
            Some(rustix::fs::Uid::from_raw(stat.st_uid)),
            Some(rustix::fs::Gid::from_raw(stat.st_gid)),
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
    }
    copy_xattrs(&entry_path(source, name), &entry_path(directory, name))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        let mode = Mode::from_raw_mode(stat.st_mode);
        rustix::fs::chmodat(directory, name, mode, AtFlags::empty())?;
    }
    let time = |seconds, nanoseconds: u64| rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
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
    fn a_copied_file_has_the_same_data_and_holes() {
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
            "the copy is sparse"
        );
        assert!(
            copy_file(&from, &to).is_err(),
            "an existing file is not overwritten"
        );
    }

    #[test]
    fn a_buffered_copy_has_the_same_data() {
        let directory = tempfile::tempdir().unwrap();
        let from = directory.path().join("from");
        let bytes: Vec<u8> = (0..=250).cycle().take(3 * BUFFER + 17).collect();
        std::fs::write(&from, &bytes).unwrap();
        let to = File::create_new(directory.path().join("to")).unwrap();
        let end = bytes.len() as u64;
        copy_buffered(&File::open(&from).unwrap(), &to, 0, end).unwrap();
        let copied = std::fs::read(directory.path().join("to")).unwrap();
        assert!(copied == bytes);
    }

    /// A file of sysfs has 4096 bytes by its metadata, and ends after a few.
    #[test]
    fn a_file_that_ends_early_is_an_error_and_no_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let from = Path::new("/sys/kernel/uevent_seqnum");
        assert_eq!(from.metadata().unwrap().len(), 4096);
        let error = copy_file(from, &directory.path().join("to")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
        let truncated = File::create_new(directory.path().join("from")).unwrap();
        truncated.set_len(10).unwrap();
        let source = File::open(directory.path().join("from")).unwrap();
        let target = File::create_new(directory.path().join("target")).unwrap();
        for copy in [copy_range, copy_buffered] {
            let error = copy(&source, &target, 0, 11).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{error}");
            copy(&source, &target, 0, 10).unwrap();
        }
    }

    /// A path to the bottom has more bytes than the kernel takes at once, also where a file there has two names.
    #[test]
    fn a_tree_of_any_depth_is_copied() {
        const DEPTH: usize = 1500;
        let base = tempfile::tempdir().unwrap();
        let name = "a name of a directory";
        let bottom = |root: &Path, creates: bool| {
            let mut at = rustix::fs::open(root, directory_flags(), Mode::empty()).unwrap();
            for _ in 0..DEPTH {
                if creates {
                    rustix::fs::mkdirat(&at, name, Mode::RWXU).unwrap();
                }
                at = rustix::fs::openat(&at, name, directory_flags(), Mode::empty()).unwrap();
            }
            at
        };
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        for root in [&from, &to] {
            std::fs::create_dir(root).unwrap();
        }
        let deepest = bottom(&from, true);
        let write = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&deepest, "file", write, Mode::RUSR | Mode::WUSR).unwrap();
        rustix::io::write(&file, b"data").unwrap();
        rustix::fs::linkat(&deepest, "file", &deepest, "second", AtFlags::empty()).unwrap();
        copy_directory(&from, &to).unwrap();
        let copied = bottom(&to, false);
        let read = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&copied, "file", read, Mode::empty()).unwrap();
        let mut content = [0; 8];
        assert_eq!(rustix::io::read(&file, &mut content).unwrap(), 4);
        let second = rustix::fs::statat(&copied, "second", AtFlags::empty()).unwrap();
        assert_eq!(second.st_ino, rustix::fs::fstat(&file).unwrap().st_ino);
    }

    /// The kernel takes the capabilities of a program whose owner changes.
    #[test]
    #[expect(clippy::print_stderr, reason = "a skipped test must report it")]
    fn the_capabilities_of_a_program_of_another_user_are_copied() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root gives files away");
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        for root in [&from, &to] {
            std::fs::create_dir(root).unwrap();
        }
        // CAP_NET_BIND_SERVICE, permitted and effective, revision 2.
        let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let name = "security.capability";
        for (file, owner) in [("of-root", 0), ("of-another", 65_534)] {
            let path = from.join(file);
            std::fs::write(&path, "program").unwrap();
            std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
            let flags = rustix::fs::XattrFlags::empty();
            rustix::fs::setxattr(&path, name, &capability, flags).unwrap();
        }
        copy_directory(&from, &to).unwrap();
        for file in ["of-root", "of-another"] {
            let mut found = [0; 64];
            let length = rustix::fs::getxattr(to.join(file), name, &mut found[..]).unwrap();
            assert_eq!(found[..length], capability, "{file}");
        }
    }

    #[test]
    fn a_directory_is_copied_with_links_and_attributes() {
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
