//! Mounts, as the plugin's node service needs them.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

/// A mount call failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct MountError {
    /// What was tried: `bind-mount onto`, `unmount`, `list the mounts at`.
    pub operation: &'static str,
    /// Where.
    pub path: PathBuf,
    /// The operating system's reason.
    #[source]
    pub source: std::io::Error,
}

/// One mount, as `/proc/self/mountinfo` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// Where it is mounted.
    pub target: PathBuf,
    /// The path inside its file system that is mounted there.
    pub root: PathBuf,
    /// `major:minor` of its device.
    pub device: String,
    /// Whether it cannot be written through.
    pub read_only: bool,
}

/// Makes and removes mounts. Nothing here deletes a directory, and nothing follows below a mount.
#[async_trait]
pub trait Mounter: Send + Sync {
    /// Makes `source` visible at `target`, which exists; read-only if asked for. If a mount is
    /// there already, this adds another on top: ask [`Mounter::entry`] first.
    async fn bind(&self, source: &Path, target: &Path, read_only: bool) -> Result<(), MountError>;
    /// Removes the topmost mount at `target`. No mount there is an error.
    async fn unmount(&self, target: &Path) -> Result<(), MountError>;
    /// The topmost mount exactly at `target`, if there is one.
    async fn entry(&self, target: &Path) -> Result<Option<MountEntry>, MountError>;
}
