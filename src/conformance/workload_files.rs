//! What a workload sees and does at a path. A trait, because an in-memory plugin has in-memory paths.

use std::io;
use std::path::Path;

use async_trait::async_trait;

/// The kind of file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// Nothing.
    Missing,
    /// A directory, mounted or not.
    Directory,
    /// A block device.
    Device,
    /// Any other file.
    Other,
}

impl std::fmt::Display for PathKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "nothing at that path",
            Self::Directory => "a directory",
            Self::Device => "a block device",
            Self::Other => "a file of another type",
        })
    }
}

/// A workload's view of paths.
#[async_trait]
pub trait WorkloadFiles: Send + Sync {
    /// Returns what is at `path`.
    async fn kind(&self, path: &Path) -> io::Result<PathKind>;
    /// Creates a directory and its missing parents. Returns the new ones, the outermost first.
    async fn create_directories(&self, path: &Path) -> io::Result<Vec<std::path::PathBuf>>;
    /// Removes an empty directory or an empty file, and refuses to remove anything else.
    async fn remove_empty(&self, path: &Path) -> io::Result<()>;
    /// Writes a file, or the start of a device, and syncs it.
    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Reads the first `length` bytes of a file or a device.
    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>>;
    /// Returns the size of a device, or of the file system at a directory, in bytes.
    async fn size(&self, path: &Path) -> io::Result<u64>;
    /// Returns the bytes of a growing file after `offset`, at most the last `limit`, and its length.
    async fn tail(&self, path: &Path, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)>;
}
