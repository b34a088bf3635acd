//! The file that the embedded database writes to, as a role: tests put disks in its place that are
//! full, fail, or lose power.
//!
//! A database that was not made to its end cannot be told from one that was damaged, and is refused
//! like one. So it is made under another name, and gets its own when it is whole: a first start that
//! was killed at any point is begun again by the next one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use redb::StorageBackend;
use redb::backends::FileBackend;

/// Where the database's bytes are.
pub trait Storage: Send + Sync + 'static {
    /// What the database writes to.
    type Backend: StorageBackend;

    /// What people call it.
    fn path(&self) -> &Path;

    /// Opens what was published; `None` if nothing ever was.
    ///
    /// # Errors
    /// What the operating system says.
    fn open(&self) -> io::Result<Option<Self::Backend>>;

    /// Begins an empty one, in the place of another one that was begun and not published.
    ///
    /// # Errors
    /// What the operating system says.
    fn create(&self) -> io::Result<Self::Backend>;

    /// Gives the one that was begun, which is closed by now, its name. Durable when it returns.
    ///
    /// # Errors
    /// What the operating system says.
    fn publish(&self) -> io::Result<()>;
}

/// A file that only its owner reads.
#[derive(Clone, Debug)]
pub struct FileStorage {
    path: PathBuf,
}

impl FileStorage {
    /// The file of that name.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn unpublished(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        name.into()
    }

    /// Without this, losing power could lose a new file's name, and so all that is in it.
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
        match File::options().read(true).write(true).open(&self.path) {
            Ok(file) => {
                self.sync_directory()?;
                backend(file).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self) -> io::Result<FileBackend> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        backend(options.open(self.unpublished())?)
    }

    fn publish(&self) -> io::Result<()> {
        std::fs::rename(self.unpublished(), &self.path)?;
        self.sync_directory()
    }
}

fn backend(file: File) -> io::Result<FileBackend> {
    FileBackend::new(file).map_err(io::Error::other)
}
