//! Files of this program: mode 0600, of this user, opened without following a link.
//!
//! A file of this user that others could read, as earlier versions created them, becomes private when
//! it is opened for writing. A regular file is required, so that no pipe blocks.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

/// Opens a file that exists for reading and writing.
///
/// # Errors
/// If it cannot be opened, is a link or not a regular file, or belongs to another user.
pub fn open_existing(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = open(path, options.read(true).write(true))?;
    make_private(&file)?;
    Ok(file)
}

/// Opens a file for reading and writing, and creates it if it does not exist. Its content stays.
///
/// # Errors
/// See [`open_existing`].
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = open(path, &mut options)?;
    make_private(&file)?;
    Ok(file)
}

/// Creates a file for reading and writing.
///
/// # Errors
/// If a file or link exists there, or it cannot be created.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let file = open(path, options.read(true).write(true).create_new(true))?;
    make_private(&file)?;
    Ok(file)
}

/// Opens a file that exists for reading. Its permissions stay; the caller judges them.
///
/// # Errors
/// See [`open_existing`].
pub fn open_to_read(path: &Path) -> io::Result<File> {
    open(path, File::options().read(true))
}

/// How the names of files begin that are renamed when they are complete.
const TEMPORARY: &str = ".nomad-csi-";

/// Creates a file with a new name in a directory, to be renamed when it is complete.
///
/// # Errors
/// If it cannot be created.
pub fn temporary_in(directory: &Path) -> io::Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory)?;
    make_private(file.as_file())?;
    Ok(file)
}

/// Removes the files of [`temporary_in`] that a crash has left in a directory. No other process or
/// thread may be creating one there.
///
/// # Errors
/// If the directory cannot be read, or a file cannot be removed.
pub fn remove_temporary_in(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Replaces the content of a file durably: a crash leaves the old content or the new one, and may leave
/// a file for [`remove_temporary_in`].
///
/// # Errors
/// If the new file cannot be written. The old one is unchanged then.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_with(path, content, |_| Ok(()))
}

/// Replaces a file as [`replace`] does, after `prepare` has given the new one what it needs, such as
/// permissions.
///
/// # Errors
/// See [`replace`].
pub fn replace_with(
    path: &Path,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    let directory = directory_of(path);
    let mut file = temporary_in(directory)?;
    file.write_all(content)?;
    prepare(file.as_file())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    #[cfg(unix)]
    File::open(directory)?.sync_all()?;
    Ok(())
}

/// Replaces the content of a file without a sync, and returns the new file: a crash of this process
/// leaves the old content or the new one, and may leave a file for [`remove_temporary_in`]. After a power
/// failure the file may be missing or empty, unless it was synced.
///
/// # Errors
/// See [`replace`].
pub fn exchange(path: &Path, content: &[u8]) -> io::Result<File> {
    let mut file = temporary_in(directory_of(path))?;
    file.write_all(content)?;
    Ok(file.persist(path)?)
}

/// Replaces the content of a file: a crash or a power failure leaves the old content or the new one, and may leave a file
/// for [`remove_temporary_in`]. Which of them is not certain before a later sync.
///
/// # Errors
/// See [`replace`].
pub fn exchange_synced(path: &Path, content: &[u8]) -> io::Result<File> {
    let mut file = temporary_in(directory_of(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    Ok(file.persist(path)?)
}

/// Returns the directory that a file is in.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(unix)]
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

    use super::directory::own_user;
    use super::problem::{NotPrivate, Problem};
    use rustix::fs::OFlags;

    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    options.mode(0o600).custom_flags(flags.cast_signed());
    let file = options.open(path).map_err(|error| refused(path, error))?;
    let found = file.metadata()?;
    let (owner, mode, own) = (found.uid(), found.mode() & 0o7777, own_user());
    if !found.is_file() {
        let expected = "regular file";
        let problem = Problem::WrongKind { expected, owner, mode };
        return Err(NotPrivate::at(path, problem));
    }
    if owner != own {
        return Err(NotPrivate::at(path, Problem::Foreign { owner, mode, own }));
    }
    Ok(file)
}

#[cfg(not(unix))]
fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    options.open(path)
}

/// Names the link that was not followed, or the owner of a file that cannot be opened.
#[cfg(unix)]
fn refused(path: &Path, error: io::Error) -> io::Error {
    use std::os::unix::fs::MetadataExt as _;

    use super::directory::own_user;
    use super::problem::{NotPrivate, Problem};

    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => {
            NotPrivate::at(path, Problem::Link { owner: found.uid() })
        }
        Ok(found) if found.uid() != own_user() => {
            let (owner, mode, own) = (found.uid(), found.mode() & 0o7777, own_user());
            NotPrivate::at(path, Problem::Foreign { owner, mode, own })
        }
        Ok(_) | Err(_) => error,
    }
}

/// Sets mode 0600 where it differs: the umask may have removed permissions, and an earlier version
/// may have granted them.
#[cfg(unix)]
fn make_private(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    if file.metadata()?.permissions().mode() & 0o7777 == 0o600 {
        return Ok(());
    }
    file.set_permissions(std::fs::Permissions::from_mode(0o600))
}

#[cfg(not(unix))]
fn make_private(_: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
