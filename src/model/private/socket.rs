//! Unix sockets of mode 0600 in directories where no other user can replace them.

use std::fs::Permissions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::directory::{create_directory, is_trusted, own_user};
use super::problem::{NotPrivate, Problem};

/// The most connections that wait to be accepted.
const ACCEPT_BACKLOG: i32 = 128;

/// Binds a socket with mode 0600. It does not block.
///
/// Linux gives the file the mode of the socket. Setting the mode before `bind` leaves no moment in
/// which other users can connect.
///
/// # Errors
/// If something exists there, or the socket cannot be created.
pub fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // The umask may have removed permissions of the owner.
    if std::fs::symlink_metadata(path)?.mode() & 0o777 != 0o600 {
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    }
    rustix::net::listen(&socket, ACCEPT_BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Creates the directory of a socket, or checks that only this user and root can replace what is in
/// it: others cannot write to it, or only to their own files, as in `/tmp`.
///
/// # Errors
/// If it cannot be created, or a stranger could replace the socket.
pub fn check_socket_directory(directory: &Path) -> io::Result<()> {
    match check_entries(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_directory(directory).map(drop)
        }
        checked => checked,
    }
}

/// Checks that only this user and root can replace what is in a directory.
///
/// # Errors
/// If it cannot be examined, or a stranger could.
pub(super) fn check_entries(directory: &Path) -> io::Result<()> {
    check_entries_of(directory, &[])
}

fn check_entries_of(directory: &Path, others: &[u32]) -> io::Result<()> {
    let directory = match directory == Path::new("") {
        true => Path::new("."),
        false => directory,
    };
    let found = std::fs::metadata(directory)?;
    let (owner, mode, own) = (found.uid(), found.mode() & 0o7777, own_user());
    if !is_trusted(owner) && !others.contains(&owner) {
        let problem = Problem::Foreign { owner, mode, own };
        return Err(NotPrivate::at(directory, problem));
    }
    let is_sticky = mode & 0o1000 != 0;
    if mode & 0o022 != 0 && !is_sticky {
        return Err(NotPrivate::at(directory, Problem::Writable { owner, mode }));
    }
    Ok(())
}

/// Checks that a socket belongs to this user, and that no other user can replace it.
///
/// # Errors
/// If it does not exist, or a stranger owns it or could replace it.
pub fn check_socket(path: &Path) -> io::Result<()> {
    check_owned_socket(path, &[own_user()], &[])?;
    match path.parent() {
        Some(directory) => check_socket_directory(directory),
        None => Ok(()),
    }
}

/// Checks that a socket belongs to this user, to root or to one of these users, and that no other user can replace it.
///
/// # Errors
/// See [`check_socket`].
pub fn check_socket_of(path: &Path, others: &[u32]) -> io::Result<()> {
    check_owned_socket(path, &[own_user(), 0], others)?;
    match path.parent() {
        Some(directory) => check_entries_of(directory, others),
        None => Ok(()),
    }
}

fn check_owned_socket(path: &Path, owners: &[u32], others: &[u32]) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)?;
    let (owner, mode, own) = (found.uid(), found.mode() & 0o7777, own_user());
    if !found.file_type().is_socket() {
        let expected = "socket";
        let problem = Problem::WrongKind { expected, owner, mode };
        return Err(NotPrivate::at(path, problem));
    }
    if !owners.contains(&owner) && !others.contains(&owner) {
        return Err(NotPrivate::at(path, Problem::Foreign { owner, mode, own }));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::chown;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    use super::*;

    const STRANGER: u32 = 61_234;

    fn problem(result: io::Result<()>) -> Option<Problem> {
        let error = result.err()?;
        Some(NotPrivate::find(&error).expect("not a refusal").problem.clone())
    }

    fn directory(mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        let socket = directory.path().join("s");
        (directory, socket)
    }

    #[test]
    fn a_socket_is_private_and_replaces_nothing() {
        let (_kept, path) = directory(0o700);
        let _listening = bind_socket(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(UnixStream::connect(&path).is_ok());
        assert!(bind_socket(&path).is_err());
        check_socket(&path).unwrap();
    }

    #[test]
    fn a_socket_that_a_stranger_could_replace_is_refused() {
        for (mode, is_refused) in [(0o755, false), (0o1777, false), (0o777, true), (0o770, true)] {
            let (kept, path) = directory(mode);
            let _listening = bind_socket(&path).unwrap();
            let owner = own_user();
            let expected = is_refused.then_some(Problem::Writable { owner, mode });
            assert_eq!(problem(check_socket(&path)), expected, "{mode:o}");
            assert_eq!(problem(check_socket_directory(kept.path())), expected);
        }
    }

    #[test]
    fn a_socket_of_a_stranger_is_refused() {
        if own_user() != 0 {
            return;
        }
        let (kept, path) = directory(0o700);
        let _listening = bind_socket(&path).unwrap();
        chown(&path, Some(STRANGER), None).unwrap();
        let foreign = Problem::Foreign { owner: STRANGER, mode: 0o600, own: 0 };
        assert_eq!(problem(check_socket(&path)), Some(foreign));
        chown(kept.path(), Some(STRANGER), None).unwrap();
        assert!(problem(check_socket_directory(kept.path())).is_some());
    }

    #[test]
    fn a_missing_directory_is_created_privately() {
        let (kept, _) = directory(0o700);
        let new = kept.path().join("run/csi");
        check_socket_directory(&new).unwrap();
        assert_eq!(std::fs::metadata(&new).unwrap().mode() & 0o777, 0o700);
        let file = kept.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(problem(check_socket(&file)), Some(Problem::WrongKind { .. })));
    }
}
