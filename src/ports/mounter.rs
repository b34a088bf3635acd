//! Mounts, as the plugin's node service needs them.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::block_storage::FileSystem;

/// A mount call failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct MountError {
    /// What was tried: `bind-mount onto`, `mount a file system at`, `unmount`, `list the mounts at`.
    pub operation: &'static str,
    /// Where.
    pub path: PathBuf,
    /// The operating system's reason.
    #[source]
    pub source: std::io::Error,
}

impl MountError {
    /// Whether mounting needs a privilege that this process does not have.
    pub fn is_missing_privilege(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::PermissionDenied
    }

    /// Whether something still uses the mount.
    pub fn is_busy(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::ResourceBusy
    }
}

/// What a mount forbids or leaves out, beyond what its file system does by itself.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per mount option")]
pub struct MountFlags {
    /// `ro`: it cannot be written through.
    pub read_only: bool,
    /// `noexec`: no program runs from it.
    pub no_exec: bool,
    /// `nosuid`: set-user-ID bits have no effect.
    pub no_suid: bool,
    /// `nodev`: device files have no effect.
    pub no_dev: bool,
    /// `noatime`: access times are not kept.
    pub no_atime: bool,
    /// `nodiratime`: access times of directories are not kept.
    pub no_dir_atime: bool,
}

impl MountFlags {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            read_only: self.read_only || other.read_only,
            no_exec: self.no_exec || other.no_exec,
            no_suid: self.no_suid || other.no_suid,
            no_dev: self.no_dev || other.no_dev,
            no_atime: self.no_atime || other.no_atime,
            no_dir_atime: self.no_dir_atime || other.no_dir_atime,
        }
    }
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
    /// What was mounted, as the file system says: a device's path for one on a device.
    pub source: String,
    /// What this mount forbids; its file system may forbid more.
    pub flags: MountFlags,
}

/// Makes and removes mounts. Nothing here deletes a directory, and nothing follows below a mount.
#[async_trait]
pub trait Mounter: Send + Sync {
    /// Makes `source` visible at `target`, both existing directories or both files, with these flags on top of
    /// those of the mount that `source` lies on. If a mount is there already, this adds another on
    /// top: ask [`Mounter::entry`] first. Ended in the middle, it may leave the mount without its
    /// flags: compare before relying on one.
    async fn bind(&self, source: &Path, target: &Path, flags: MountFlags)
    -> Result<(), MountError>;
    /// Mounts the file system on `device` at `target`, an existing directory, with the file
    /// system's own `options` (as mount(8) spells them), and these flags for this mount alone.
    async fn mount_device(
        &self,
        device: &Path,
        target: &Path,
        file_system: FileSystem,
        options: &[String],
        flags: MountFlags,
    ) -> Result<(), MountError>;
    /// Removes the topmost mount at `target`. No mount there is an error.
    async fn unmount(&self, target: &Path) -> Result<(), MountError>;
    /// The topmost mount exactly at `target`, if there is one.
    async fn entry(&self, target: &Path) -> Result<Option<MountEntry>, MountError>;
    /// All mounts of this process's namespace, in the order in which they were made.
    async fn list(&self) -> Result<Vec<MountEntry>, MountError>;
}
