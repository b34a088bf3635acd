//! Files that the user names for reading: secrets, keys, saved plans.
//!
//! They belong to this user or to root, such as secrets that a container mounts, and no other user can
//! write to them. A link to one counts if it belongs to this user or to root.

use std::fs::File;
use std::io;
use std::path::Path;

/// Opens a file for reading. It may be a pipe, as a shell makes for `<(…)`: it is opened without waiting for its writer, and
/// a read of it does not wait either.
///
/// # Errors
/// If it cannot be opened, belongs to a stranger, is reached by a link of a stranger, or other users
/// can write to it.
#[cfg(unix)]
pub fn open_given(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

    use super::directory::is_trusted;
    use super::problem::{NotPrivate, Problem};
    use rustix::fs::OFlags;

    let named = std::fs::symlink_metadata(path)?;
    if named.is_symlink() && !is_trusted(named.uid()) {
        return Err(NotPrivate::at(path, Problem::Link { owner: named.uid() }));
    }
    let mut flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    if !named.is_symlink() {
        flags |= OFlags::NOFOLLOW;
    }
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    check_given(path, &file)?;
    Ok(file)
}

/// Checks what has been opened by a path: see [`open_given`].
///
/// # Errors
/// If it belongs to a stranger, or other users can write to it.
#[cfg(unix)]
pub fn check_given(path: &Path, file: &File) -> io::Result<()> {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    use super::directory::{is_trusted, own_user};
    use super::problem::{NotPrivate, Problem};

    let found = file.metadata()?;
    let (owner, mode, own) = (found.uid(), found.mode() & 0o7777, own_user());
    if !is_trusted(owner) {
        return Err(NotPrivate::at(path, Problem::Foreign { owner, mode, own }));
    }
    let holds_content = found.is_file() || found.file_type().is_fifo();
    if holds_content && mode & 0o022 != 0 {
        return Err(NotPrivate::at(path, Problem::Writable { owner, mode }));
    }
    Ok(())
}

/// Checks nothing: this system has no owners and modes.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub fn check_given(_: &Path, _: &File) -> io::Result<()> {
    Ok(())
}

/// Opens a file that chooses other files and servers. What is beside it must not be replaced by others either.
///
/// # Errors
/// See [`open_given`]; also if another user could replace the file.
#[cfg(unix)]
pub fn open_given_choice(path: &Path) -> io::Result<File> {
    let file = open_given(path)?;
    if let Some(directory) = path.parent() {
        super::socket::check_entries(directory)?;
    }
    Ok(file)
}

/// Opens a file for reading. This system has no owners and modes to check.
///
/// # Errors
/// If it cannot be opened.
#[cfg(not(unix))]
pub fn open_given_choice(path: &Path) -> io::Result<File> {
    open_given(path)
}

/// Opens a file for reading. This system has no owners and modes to check.
///
/// # Errors
/// If it cannot be opened.
#[cfg(not(unix))]
pub fn open_given(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Returns the name of the network that this process is in: the same address may belong to another program in another.
/// Other systems than Linux have one network.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn own_network() -> io::Result<String> {
    if !cfg!(target_os = "linux") {
        return Ok("net".to_owned());
    }
    let name = std::fs::read_link("/proc/self/ns/net")?;
    Ok(name.to_string_lossy().into_owned())
}

/// Opens a secret that an agent of this user or of root left for this user in a directory of its own. Follows no
/// link, neither to the directory nor to the file.
///
/// # Errors
/// If it cannot be opened, or others could have read or written it.
#[cfg(unix)]
pub fn open_secret(directory: &Path, name: &str) -> io::Result<File> {
    use super::problem::{NotPrivate, Problem};
    use rustix::fs::{Mode, OFlags};
    use std::os::unix::fs::MetadataExt as _;

    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(directory, flags | OFlags::DIRECTORY, Mode::empty())?;
    let opened = File::from(opened);
    check_secret(&opened, directory)?;
    let path = directory.join(name);
    let file = File::from(rustix::fs::openat(&opened, name, flags, Mode::empty())?);
    check_secret(&file, &path)?;
    let found = file.metadata()?;
    if found.is_file() {
        return Ok(file);
    }
    let problem = Problem::WrongKind {
        expected: "regular file",
        owner: found.uid(),
        mode: found.mode() & 0o7777,
    };
    Err(NotPrivate::at(&path, problem))
}

/// Checks that it belongs to this user or root, and is open to no other user.
#[cfg(unix)]
fn check_secret(opened: &File, path: &Path) -> io::Result<()> {
    use super::directory::{is_trusted, own_user};
    use super::problem::{NotPrivate, Problem};
    use std::os::unix::fs::MetadataExt as _;

    let found = opened.metadata()?;
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if !is_trusted(owner) {
        let own = own_user();
        return Err(NotPrivate::at(path, Problem::Foreign { owner, mode, own }));
    }
    if mode & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "other users can read `{}` (mode {mode:04o})",
            path.display()
        )));
    }
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};

    use super::*;
    use crate::private::directory::own_user;
    use crate::private::problem::{NotPrivate, Problem};

    const STRANGER: u32 = 61_234;

    fn problem(path: &Path) -> Option<Problem> {
        let error = open_given(path).err()?;
        Some(NotPrivate::find(&error).expect("not a refusal").problem.clone())
    }

    #[test]
    fn a_file_that_others_can_write_to_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("secret");
        std::fs::write(&path, "x").unwrap();
        let owner = own_user();
        for (mode, is_refused) in
            [(0o600, false), (0o400, false), (0o644, false), (0o620, true), (0o602, true)]
        {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let expected = is_refused.then_some(Problem::Writable { owner, mode });
            assert_eq!(problem(&path), expected, "{mode:o}");
        }
    }

    #[test]
    fn a_pipe_that_others_can_write_to_is_refused() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let link = base.path().join("link");
        symlink(&path, &link).unwrap();
        let owner = own_user();
        for (mode, is_refused) in [(0o600, false), (0o644, false), (0o622, true), (0o666, true)] {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let expected = is_refused.then_some(Problem::Writable { owner, mode });
            assert_eq!(problem(&path), expected, "{mode:o}");
            assert_eq!(problem(&link), expected, "{mode:o}");
        }
    }

    #[test]
    fn a_secret_that_others_can_reach_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("secret");
        std::fs::write(&path, "x").unwrap();
        for (directory, file, is_refused) in [
            (0o700, 0o600, false),
            (0o700, 0o400, false),
            (0o700, 0o640, true),
            (0o700, 0o604, true),
            (0o750, 0o600, true),
            (0o701, 0o600, true),
            (0o1777, 0o600, true),
        ] {
            let mode = |path: &Path, mode| {
                std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            };
            mode(base.path(), directory);
            mode(&path, file);
            let opened = open_secret(base.path(), "secret");
            assert_eq!(opened.is_err(), is_refused, "{directory:o} {file:o}");
        }
        std::fs::set_permissions(base.path(), Permissions::from_mode(0o700)).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        symlink(&path, base.path().join("link")).unwrap();
        assert!(open_secret(base.path(), "link").is_err());
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("link");
        symlink(base.path(), &link).unwrap();
        assert!(open_secret(&link, "secret").is_err());
        assert!(open_secret(base.path(), "missing").is_err());
        std::fs::create_dir(base.path().join("directory")).unwrap();
        std::fs::set_permissions(base.path().join("directory"), Permissions::from_mode(0o700))
            .unwrap();
        assert!(open_secret(base.path(), "directory").is_err());
        if own_user() == 0 {
            chown(&path, Some(STRANGER), None).unwrap();
            assert!(open_secret(base.path(), "secret").is_err());
            chown(&path, Some(0), None).unwrap();
            chown(base.path(), Some(STRANGER), None).unwrap();
            assert!(open_secret(base.path(), "secret").is_err());
        }
    }

    #[test]
    fn a_stranger_can_neither_give_a_file_nor_a_link() {
        if own_user() != 0 {
            return;
        }
        let base = tempfile::tempdir().unwrap();
        let (path, link) = (base.path().join("secret"), base.path().join("link"));
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        symlink(&path, &link).unwrap();
        assert_eq!(problem(&link), None);
        lchown(&link, Some(STRANGER), None).unwrap();
        assert_eq!(problem(&link), Some(Problem::Link { owner: STRANGER }));
        chown(&path, Some(STRANGER), None).unwrap();
        let foreign = Problem::Foreign { owner: STRANGER, mode: 0o600, own: 0 };
        assert_eq!(problem(&path), Some(foreign));
    }
}
