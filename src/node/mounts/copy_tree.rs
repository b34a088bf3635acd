//! Copies a directory with everything in it.
//!
//! It is copied entry by entry through open directories and never through a symbolic link, so a concurrent change cannot
//! redirect the copy. A mount inside is an error. Who wrote the tree chose how wide and how deep it is and how many names
//! its files have, so nothing is kept in memory for each of its entries: the walk knows the way to where it is, and the
//! files that have further names are found in a directory beside the copy. The caller removes an incomplete copy.

use std::ffi::{CStr, OsStr, OsString};
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, Timestamps};
use rustix::io::Errno;

use super::copy::copy_content;
use nomad_csi_model::private;

/// How deep a tree may be. Each level takes some hundred bytes, and a way to it that the kernel walks.
const MAX_DEPTH: usize = 10_000;
/// How many levels of the way are open at once, with three descriptors each.
const MAX_OPEN: usize = 32;

/// Copies the content of a directory into an empty one.
pub(super) fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    TreeCopy::start(from, to)?.finish()
}

/// A copy of a directory in progress.
struct TreeCopy {
    source: OwnedFd,
    target: OwnedFd,
    links: Links,
    /// The way from the top to where the copy is.
    levels: Vec<Level>,
}

/// A directory whose content is being copied.
struct Level {
    name: OsString,
    /// Its attributes, which the copy gets after its content is complete.
    stat: Stat,
    /// The file system and number of its copy.
    copy: (u64, u64),
    /// Where its list of entries goes on.
    next: i64,
    /// `None` if it is far above where the copy is.
    open: Option<OpenLevel>,
}

struct OpenLevel {
    source: OwnedFd,
    target: OwnedFd,
    entries: Dir,
}

impl OpenLevel {
    fn new(source: OwnedFd, target: OwnedFd) -> io::Result<Self> {
        Ok(Self { entries: Dir::read_from(&source)?, source, target })
    }

    /// One whose list of entries goes on at a position.
    fn at(source: OwnedFd, target: OwnedFd, next: i64) -> io::Result<Self> {
        let mut level = Self::new(source, target)?;
        level.entries.seek(next)?;
        Ok(level)
    }
}

/// Opens the directory around an open one, and returns what it is; `None` if it cannot be opened.
fn parent(directory: &OwnedFd) -> io::Result<Option<(OwnedFd, (u64, u64))>> {
    match rustix::fs::openat(directory, "..", directory_flags(), Mode::empty()) {
        Ok(parent) => {
            let found = identity(&rustix::fs::fstat(&parent)?);
            Ok(Some((parent, found)))
        }
        Err(_) => Ok(None),
    }
}

impl TreeCopy {
    fn start(from: &Path, to: &Path) -> io::Result<Self> {
        let flags = directory_flags();
        let mut copy = Self {
            source: rustix::fs::open(from, flags, Mode::empty())?,
            target: rustix::fs::open(to, flags, Mode::empty())?,
            links: Links::new(to)?,
            levels: vec![],
        };
        copy.enter(OsString::new())?;
        Ok(copy)
    }

    fn finish(mut self) -> io::Result<()> {
        while !self.levels.is_empty() {
            self.step()?;
        }
        Ok(rustix::fs::syncfs(&self.target)?)
    }

    /// Goes on to the next directory, or up.
    fn step(&mut self) -> io::Result<()> {
        match self.copy_until_directory()? {
            Some(name) => self.enter(name),
            None => self.leave(),
        }
    }

    /// Goes into a directory of the last level, or into the top.
    fn enter(&mut self, name: OsString) -> io::Result<()> {
        let depth = self.levels.len();
        if depth > MAX_DEPTH {
            return Err(uncopied(format!("its directories are more than {MAX_DEPTH} levels deep")));
        }
        let last = self.levels.last().and_then(|level| level.open.as_ref());
        let (source, target, path) = match last {
            Some(last) => (&last.source, &last.target, Path::new(&name)),
            None => (&self.source, &self.target, Path::new(".")),
        };
        let open = OpenLevel::new(open_part(source, path)?, open_part(target, path)?)?;
        self.levels.push(Level {
            name,
            stat: rustix::fs::fstat(&open.source)?,
            copy: identity(&rustix::fs::fstat(&open.target)?),
            next: 0,
            open: Some(open),
        });
        if let Some(far) = depth.checked_sub(MAX_OPEN) {
            self.levels[far].open = None;
        }
        Ok(())
    }

    /// Copies the entries of the last level up to its next directory, and returns the name of that; `None` after the
    /// last entry.
    fn copy_until_directory(&mut self) -> io::Result<Option<OsString>> {
        let way = self.levels.iter().map(|level| level.name.as_os_str());
        let is_open = self.levels.last().is_some_and(|level| level.open.is_some());
        let reopened = match is_open {
            true => None,
            false => {
                let names: Vec<&OsStr> = way.skip(1).collect();
                let source = open_below(&self.source, &names)?;
                Some((source, open_below(&self.target, &names)?))
            }
        };
        let Some(level) = self.levels.last_mut() else {
            return Ok(None);
        };
        if let Some((source, target)) = reopened {
            level.open = Some(OpenLevel::at(source, target, level.next)?);
        }
        let Some(open) = &mut level.open else {
            return Ok(None);
        };
        while let Some(entry) = open.entries.read() {
            let entry = entry?;
            level.next = entry.offset();
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&open.source, name, AtFlags::SYMLINK_NOFOLLOW) {
                // Removed since the directory was listed.
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                rustix::fs::mkdirat(&open.target, name, Mode::RWXU)?;
                return Ok(Some(os_string(name)));
            }
            self.links.copy_entry(&open.source, &open.target, name, &stat)?;
        }
        Ok(None)
    }

    /// Gives the last level its attributes, and goes up.
    fn leave(&mut self) -> io::Result<()> {
        let Some(Level { stat, open, .. }) = self.levels.pop() else {
            return Ok(());
        };
        if self.levels.is_empty() {
            // It is in the top, whose times are set next.
            self.links.remove()?;
        }
        let Some(OpenLevel { source, target, .. }) = open else {
            return Ok(());
        };
        copy_attributes(&target, c".", &stat, &source)?;
        if let Some(above) = self.levels.last_mut()
            && above.open.is_none()
        {
            let pair = parent(&source)?.zip(parent(&target)?);
            // One that was moved in the meantime is opened from the top again.
            above.open = pair
                .filter(|((_, source), (_, target))| {
                    (*source, *target) == (identity(&above.stat), above.copy)
                })
                .map(|((source, _), (target, _))| OpenLevel::at(source, target, above.next))
                .transpose()?;
        }
        Ok(())
    }
}

/// The files that have several names. One that was copied is found by its device and inode in a directory in the top of
/// the copy, until all its names are copied.
struct Links {
    path: PathBuf,
    directory: Option<OwnedFd>,
}

impl Links {
    fn new(top: &Path) -> io::Result<Self> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let mut name = ".nomad-csi-links-".to_owned();
        for byte in random {
            write!(name, "{byte:02x}").map_err(io::Error::other)?;
        }
        Ok(Self { path: top.join(name), directory: None })
    }

    fn directory(&mut self) -> io::Result<&OwnedFd> {
        if self.directory.is_none() {
            rustix::fs::mkdir(&self.path, Mode::RWXU)?;
            let opened = rustix::fs::open(&self.path, directory_flags(), Mode::empty())?;
            self.directory = Some(opened);
        }
        self.directory
            .as_ref()
            .ok_or_else(|| io::Error::other("the directory of links is not open"))
    }

    /// Copies what is not a directory.
    fn copy_entry(
        &mut self,
        source: &OwnedFd,
        target: &OwnedFd,
        name: &CStr,
        stat: &Stat,
    ) -> io::Result<()> {
        if stat.st_nlink <= 1 {
            return copy_file_of_any_kind(source, target, name, stat);
        }
        let copied = format!("{:x}-{:x}", stat.st_dev, stat.st_ino);
        let links = self.directory()?;
        let flags = AtFlags::empty();
        match rustix::fs::linkat(links, &copied, target, name, flags) {
            Ok(()) => {}
            Err(Errno::NOENT) => {
                copy_file_of_any_kind(source, target, name, stat)?;
                return match rustix::fs::linkat(target, name, links, &copied, flags) {
                    // It cannot have a further name.
                    Err(Errno::MLINK) => Ok(()),
                    linked => Ok(linked?),
                };
            }
            // It has as many names as it can have, this one among them.
            Err(Errno::MLINK) => {
                return Ok(rustix::fs::renameat(links, &copied, target, name)?);
            }
            Err(error) => return Err(error.into()),
        }
        let found = rustix::fs::statat(links, &copied, AtFlags::SYMLINK_NOFOLLOW)?;
        if found.st_nlink > stat.st_nlink {
            rustix::fs::unlinkat(links, &copied, flags)?;
        }
        Ok(())
    }

    /// Removes the directory, with the files of which a name lies outside of the tree.
    fn remove(&mut self) -> io::Result<()> {
        match self.directory.take() {
            Some(_) => private::remove_tree(&self.path),
            None => Ok(()),
        }
    }
}

fn copy_file_of_any_kind(
    source: &OwnedFd,
    target: &OwnedFd,
    name: &CStr,
    stat: &Stat,
) -> io::Result<()> {
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

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

fn os_string(name: &CStr) -> OsString {
    OsStr::from_bytes(name.to_bytes()).to_owned()
}

fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// The error for a tree that is never copied as it is.
fn uncopied(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, why)
}

/// The bytes of a path that the kernel gets at once. It takes 4096, and a name has up to 255.
const PATH_BYTES: usize = 3072;

/// Opens a directory below an open one, however deep it is. Follows no symbolic link and enters no mount.
fn open_below(root: &OwnedFd, names: &[&OsStr]) -> io::Result<OwnedFd> {
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
        Err(Errno::XDEV) => Err(uncopied(format!(
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
    if let Err(error) =
        read_growing(&mut names, |buffer| rustix::fs::llistxattr(from, &mut *buffer))
    {
        return skip_unsupported(error);
    }
    for name in names.split(|byte| *byte == 0) {
        if name.is_empty() || name.starts_with(b"system.nfs4") {
            continue;
        }
        let mut value = vec![];
        let read =
            read_growing(&mut value, |buffer| rustix::fs::lgetxattr(from, name, &mut *buffer));
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
    Ok(rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

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
        rustix::fs::mknodat(rustix::fs::CWD, from.join("fifo"), FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        let permissions = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(from.join("a/file"), permissions(0o4751)).unwrap();
        std::fs::set_permissions(from.join("a/b/c"), permissions(0o1500)).unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let file = File::options().write(true).open(from.join("a/file")).unwrap();
        file.set_modified(old).unwrap();
        File::open(from.join("a")).unwrap().set_modified(old).unwrap();
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

    /// Every file has its two names in different directories, and the way back up leads through closed levels.
    #[test]
    fn a_wide_and_deep_tree_is_copied_whole() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        std::fs::create_dir(&to).unwrap();
        let mut directory = from.clone();
        for level in 0..3 * MAX_OPEN {
            for sibling in ["before", "later", "zzz"] {
                std::fs::create_dir_all(directory.join(sibling)).unwrap();
            }
            std::fs::write(directory.join("before/file"), level.to_string()).unwrap();
            let second = directory.join("zzz/second");
            std::fs::hard_link(directory.join("before/file"), second).unwrap();
            directory = directory.join("later");
        }
        // Its other name is outside of the tree.
        std::fs::write(base.path().join("outside"), "x").unwrap();
        std::fs::hard_link(base.path().join("outside"), from.join("inside")).unwrap();
        copy_directory(&from, &to).unwrap();
        let mut copied = to.clone();
        for level in 0..3 * MAX_OPEN {
            let first = copied.join("before/file");
            assert_eq!(std::fs::read_to_string(&first).unwrap(), level.to_string());
            let (first, second) = (first.metadata(), copied.join("zzz/second").metadata());
            let (first, second) = (first.unwrap(), second.unwrap());
            assert_eq!((first.ino(), first.nlink()), (second.ino(), 2), "{level}");
            copied = copied.join("later");
        }
        assert_eq!(to.join("inside").metadata().unwrap().nlink(), 1);
        let names = |path: &Path| {
            let entries = std::fs::read_dir(path).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&to), names(&from));
    }

    /// ext4 and XFS allow 65,000 names and more; this file system says how many by its refusal.
    #[test]
    fn a_file_with_as_many_names_as_it_can_have_is_copied() {
        const MOST: u64 = 70_000;
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        for root in [&from, &to] {
            std::fs::create_dir(root).unwrap();
        }
        let first = from.join("0");
        std::fs::write(&first, "data").unwrap();
        let linked = (1..MOST).take_while(|name| {
            let second = from.join(name.to_string());
            std::fs::hard_link(&first, second).is_ok()
        });
        let names = 1 + linked.count() as u64;
        copy_directory(&from, &to).unwrap();
        let copied = to.join("0").metadata().unwrap();
        assert_eq!(copied.nlink(), names);
        let entries = std::fs::read_dir(&to).unwrap();
        assert_eq!(entries.count() as u64, names);
    }

    /// Who can write the tree moves the way back of the copy into a directory with other files.
    #[test]
    fn a_directory_that_is_moved_during_the_copy_leads_nowhere_else() {
        const DEPTH: usize = MAX_OPEN + 8;
        let base = tempfile::tempdir().unwrap();
        let root = |name: &str| base.path().join(name);
        let (from, to, elsewhere) = (root("from"), root("to"), root("elsewhere"));
        let level = |root: &Path, depth| root.join(vec!["d"; depth].join("/"));
        for directory in [level(&from, DEPTH), to.clone(), elsewhere.clone()] {
            std::fs::create_dir_all(directory).unwrap();
        }
        // So many files that the copy goes on before some of them, in the right directory and in the wrong one.
        for depth in 0..DEPTH {
            for file in 0..20 {
                std::fs::write(level(&from, depth).join(format!("f{file}")), "x").unwrap();
            }
        }
        for secret in 0..300 {
            std::fs::write(elsewhere.join(format!("secret-{secret}")), "x").unwrap();
        }
        let mut copy = TreeCopy::start(&from, &to).unwrap();
        while copy.levels.len() <= DEPTH {
            copy.step().unwrap();
        }
        let last_closed = copy.levels.iter().rposition(|level| level.open.is_none());
        let moved = last_closed.unwrap() + 1;
        std::fs::rename(level(&from, moved), elsewhere.join("d")).unwrap();
        copy.finish().unwrap();
        assert!(level(&to, DEPTH).is_dir());
        for depth in 0..=DEPTH {
            let copied = std::fs::read_dir(level(&to, depth)).unwrap();
            let copied: Vec<_> = copied.map(|entry| entry.unwrap().file_name()).collect();
            let is_own = |name: &OsString| !name.to_string_lossy().starts_with("secret");
            assert!(copied.iter().all(is_own), "{depth}: {copied:?}");
            assert_eq!(copied.len(), if depth < DEPTH { 21 } else { 0 }, "{depth}: {copied:?}");
        }
    }

    #[test]
    fn a_tree_that_is_too_deep_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        for root in [&from, &to] {
            std::fs::create_dir(root).unwrap();
        }
        let mut at = rustix::fs::open(&from, directory_flags(), Mode::empty()).unwrap();
        for _ in 0..=MAX_DEPTH {
            rustix::fs::mkdirat(&at, "d", Mode::RWXU).unwrap();
            at = rustix::fs::openat(&at, "d", directory_flags(), Mode::empty()).unwrap();
        }
        let error = copy_directory(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
        assert!(error.to_string().contains("10000 levels deep"), "{error}");
        for root in [&from, &to] {
            private::remove_tree(root).unwrap();
        }
    }
}
