//! The file of the embedded database as a trait, so tests can use disks that are full, fail, or lose
//! power.
//!
//! A new file gets its name when it is complete, and never takes the name from another file: a process that began to create
//! it earlier may go on later, when another one has written records. A file beside it holds space for what must be recorded
//! when the disk is full: the database gets it then, piece by piece, because whatever fills the disk takes what is given free.
//! The files are private (`private`): a link or a file of another user is not opened.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use redb::backends::FileBackend;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use tempfile::{PathPersistError, TempPath};

use nomad_csi_model::private;

/// The space that is kept for a full disk: some thousand releases. On a small disk, it is a sixteenth.
const RESERVE_BYTES: u64 = 16 << 20;
/// How much of that space is given free at once, and taken by the database at once.
const PIECE: u64 = 256 << 10;

/// The storage of the database.
pub trait Storage: Send + Sync + 'static {
    /// The backend of the database.
    type Backend: StorageBackend;

    /// Returns the path for messages.
    fn path(&self) -> &Path;

    /// Opens the published file; `None` if there is none.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn open(&self) -> io::Result<Option<Self::Backend>>;

    /// Opens the file that is not published, and creates it if it does not exist. Its content stays.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn unpublished(&self) -> io::Result<Self::Backend>;

    /// Removes the file that is not published.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn discard(&self) -> io::Result<()>;

    /// Frees the space that was kept for a full disk. Returns whether there was any.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn free_reserve(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Keeps space for a full disk, unless it is kept already. Returns whether it is kept, or this storage keeps none.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn keep_reserve(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Publishes the created file, which must be closed. Durable on return. A file that another process has published in
    /// the meantime stays, and the created one is not published.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn publish(&self) -> io::Result<()>;

    /// Puts the created file, which must be closed, in the place of the published one. Durable on return.
    ///
    /// # Errors
    /// Returns the error of the operating system.
    fn replace(&self) -> io::Result<()>;
}

/// A file that only its owner can read.
#[derive(Clone, Debug)]
pub struct FileStorage {
    path: PathBuf,
    unpublished: PathBuf,
}

impl FileStorage {
    /// Uses the file at this path, and until it is published the same path with `.new` at its end.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { unpublished: with_suffix(&path, ".new"), path }
    }

    /// Uses another path until the file is published.
    #[must_use]
    pub fn with_unpublished(self, unpublished: PathBuf) -> Self {
        Self { unpublished, ..self }
    }

    fn reserve(&self) -> PathBuf {
        with_suffix(&self.path, ".reserve")
    }

    /// Syncs the directory, because a power failure could otherwise lose the name of a new file.
    fn sync_directory(&self) -> io::Result<()> {
        let parent = self.path.parent().filter(|p| !p.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Storage for FileStorage {
    type Backend = FileBackend;

    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> io::Result<Option<FileBackend>> {
        match private::open_existing(&self.path) {
            Ok(file) => {
                self.sync_directory()?;
                backend(file).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn unpublished(&self) -> io::Result<FileBackend> {
        backend(private::open_or_create(&self.unpublished)?)
    }

    fn discard(&self) -> io::Result<()> {
        std::fs::remove_file(&self.unpublished)
    }

    fn free_reserve(&self) -> io::Result<bool> {
        if let Err(error) = hand_over(&self.reserve(), &self.path) {
            tracing::debug!(%error, "the space that was kept for a full disk is given free as a whole");
        }
        match std::fs::remove_file(self.reserve()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn keep_reserve(&self) -> io::Result<bool> {
        let file = private::open_or_create(&self.reserve())?;
        let disk = rustix::fs::fstatvfs(&file)?;
        let size = RESERVE_BYTES.min(disk.f_blocks * disk.f_frsize / 16);
        if file.metadata()?.len() >= size {
            return Ok(true);
        }
        // With less, the next write would need it at once.
        if disk.f_bavail * disk.f_frsize < 2 * size {
            drop(file);
            self.free_reserve()?;
            return Ok(false);
        }
        fallocate(&file, FallocateFlags::empty(), 0, size)?;
        Ok(true)
    }

    fn publish(&self) -> io::Result<()> {
        let created = TempPath::try_from_path(&self.unpublished)?;
        if let Err(PathPersistError { error, path }) = created.persist_noclobber(&self.path) {
            match error.kind() {
                // Another process has published its file.
                io::ErrorKind::AlreadyExists => path.close()?,
                // Another process has published this file.
                io::ErrorKind::NotFound if self.path.exists() => {}
                _ => {
                    path.keep()?;
                    return Err(error);
                }
            }
        }
        self.sync_directory()
    }

    fn replace(&self) -> io::Result<()> {
        std::fs::rename(&self.unpublished, &self.path)?;
        self.sync_directory()
    }
}

/// Gives the space of a reserve to a file: to the holes in it, then behind its end, where it grows. Between a piece that is
/// given free and the one that is taken, another program may get it, so there are many pieces.
///
/// # Errors
/// If the file system cannot do this.
fn hand_over(reserve: &Path, file: &Path) -> io::Result<()> {
    let reserve = private::open_existing(reserve)?;
    let file = private::open_existing(file)?;
    let mut kept = reserve.metadata()?.len();
    let end = file.metadata()?.len() + kept;
    let mut start = 0;
    while start < end {
        let piece = PIECE.min(end - start);
        match fallocate(&file, FallocateFlags::KEEP_SIZE, start, piece) {
            Ok(()) => start += piece,
            Err(Errno::NOSPC | Errno::DQUOT) if kept > 0 => {
                kept = kept.saturating_sub(PIECE);
                reserve.set_len(kept)?;
            }
            Err(Errno::NOSPC | Errno::DQUOT) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn backend(file: File) -> io::Result<FileBackend> {
    FileBackend::new(file).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn a_process_that_is_late_with_a_new_file_does_not_replace_the_published_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("database");
        let storage = FileStorage::new(&path);
        let late = FileStorage::new(&path).with_unpublished(directory.path().join("late"));
        std::fs::write(with_suffix(&path, ".new"), "records").unwrap();
        std::fs::write(&late.unpublished, "nothing").unwrap();
        assert!(late.open().unwrap().is_none());
        storage.publish().unwrap();
        late.publish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"records");
        assert!(!late.unpublished.exists(), "what is not needed stays");
        storage.publish().expect("another process has published the same file");
        std::fs::write(&late.unpublished, "nothing").unwrap();
        late.replace().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"nothing");
    }

    /// The file gets the space, whether it has holes or grows, and keeps its content.
    #[test]
    fn a_file_gets_the_space_of_a_reserve_without_a_change_of_its_content() {
        let directory = tempfile::tempdir().unwrap();
        let storage = FileStorage::new(directory.path().join("database"));
        let content = |file: &Path| std::fs::read(file).unwrap();
        let file = private::open_or_create(storage.path()).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, b"content", 3 << 20).unwrap();
        let before = content(storage.path());
        assert!(!storage.free_reserve().unwrap(), "nothing is kept");
        let reserve = private::open_or_create(&storage.reserve()).unwrap();
        fallocate(&reserve, FallocateFlags::empty(), 0, 1 << 20).unwrap();
        assert!(storage.free_reserve().unwrap());
        assert!(!storage.reserve().exists());
        assert_eq!(content(storage.path()), before);
        let blocks = file.metadata().unwrap().blocks() * 512;
        assert!(blocks >= 4 << 20, "{blocks}");
    }
}
