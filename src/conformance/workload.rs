//! What a workload would see and do at a path of this machine: the check's eyes.
//!
//! Behind a trait, so that a plugin in memory can be checked with its paths in memory too.

use std::io;
use std::path::Path;

use async_trait::async_trait;

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing.
    Missing,
    /// A directory; whether something is mounted there is not said.
    Directory,
    /// A block device.
    Device,
    /// Anything else.
    Other,
}

/// A workload's view of paths.
#[async_trait]
pub trait Workload: Send + Sync {
    /// What is there.
    async fn kind(&self, path: &Path) -> io::Result<Kind>;
    /// Makes a directory, and those above it; says which ones it made, the outermost first.
    async fn make_directory(&self, path: &Path) -> io::Result<Vec<std::path::PathBuf>>;
    /// Removes what is there, if it is an empty directory or an empty file, and nothing else ever.
    async fn remove_empty(&self, path: &Path) -> io::Result<()>;
    /// Writes a file, or the start of a device, through to the storage.
    async fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Reads the first `length` bytes of a file or a device.
    async fn read(&self, path: &Path, length: usize) -> io::Result<Vec<u8>>;
    /// How many bytes a device has, or the file system at a directory altogether.
    async fn size(&self, path: &Path) -> io::Result<u64>;
    /// The last bytes of a file that grows, from `offset` on, but at most `limit`; and its length.
    async fn tail(&self, path: &Path, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)>;
}
