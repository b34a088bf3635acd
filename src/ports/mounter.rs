//! Mounts for the plugin's node service.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::block_storage::FileSystem;

/// A mount operation failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}", path.display())]
pub struct MountError {
    /// The failed operation, such as `bind-mount onto`, `mount a file system at` or `unmount`.
    pub operation: &'static str,
    /// The mount point.
    pub path: PathBuf,
    /// The error of the operating system.
    #[source]
    pub source: std::io::Error,
}

impl MountError {
    /// Returns whether this process lacks the privilege to mount.
    pub fn is_missing_privilege(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::PermissionDenied
    }

    /// Returns whether a process still uses the mount.
    pub fn is_busy(&self) -> bool {
        self.source.kind() == std::io::ErrorKind::ResourceBusy
    }
}

/// Restrictions of one mount, beyond those of its file system.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per mount option")]
pub struct MountFlags {
    /// `ro`: the mount refuses writes.
    pub read_only: bool,
    /// `noexec`: programs on the mount do not run.
    pub no_exec: bool,
    /// `nosuid`: set-user-ID bits have no effect.
    pub no_suid: bool,
    /// `nodev`: device files have no effect.
    pub no_dev: bool,
    /// `noatime`: access times are not updated.
    pub no_atime: bool,
    /// `nodiratime`: access times of directories are not updated.
    pub no_dir_atime: bool,
}

impl MountFlags {
    /// Returns the flags that are set in either.
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

/// Which mount it is, as long as the machine runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountIdentity {
    /// The number in the mount namespace. It is given again after the mount is gone.
    pub id: u64,
    /// The number that is never given again; `None` if the kernel has none, or the mount was found in the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<u64>,
    /// `major:minor` of the device.
    pub device: String,
    /// The mounted path inside the file system.
    pub root: PathBuf,
    /// The mount source that the file system reports.
    pub source: String,
    /// The boot of the machine; `None` if the mount was found in the table, or by an agent that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

impl MountIdentity {
    /// Returns whether both are the same mount, as far as both are known.
    pub fn is(&self, other: &Self) -> bool {
        fn differ<T: PartialEq>(own: Option<T>, other: Option<T>) -> bool {
            own.zip(other).is_some_and(|(own, other)| own != other)
        }
        let is_other = differ(self.unique_id, other.unique_id)
            || differ(self.boot_id.as_ref(), other.boot_id.as_ref());
        self.id == other.id && !is_other && self.looks_like(other)
    }

    /// Returns whether both certainly show the same directory of the same file system. The kernel numbers file systems without a
    /// device, such as network file systems, and gives these numbers again.
    pub fn shows_same_files(&self, other: &Self) -> bool {
        !self.is_numbered_by_kernel() && self.looks_like(other)
    }

    /// Returns whether both may show the same directory of the same file system.
    pub fn may_show_same_files(&self, other: &Self) -> bool {
        let is_numbered = self.is_numbered_by_kernel() && other.is_numbered_by_kernel();
        let is_same_place = (&self.root, &self.source) == (&other.root, &other.source);
        is_same_place && (is_numbered || self.device == other.device)
    }

    fn looks_like(&self, other: &Self) -> bool {
        (&self.device, &self.root, &self.source) == (&other.device, &other.root, &other.source)
    }

    fn is_numbered_by_kernel(&self) -> bool {
        self.device.starts_with("0:")
    }
}

/// The identity of a path that tasks get: the root of a mount, a device node, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceIdentity {
    /// The mount whose root is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mount: Option<MountIdentity>,
    /// `major:minor` of the device node that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_node: Option<String>,
}

impl SourceIdentity {
    /// Returns whether both are the same, as far as both are known.
    pub fn is(&self, other: &Self) -> bool {
        let is_same_mount = match (&self.mount, &other.mount) {
            (Some(own), Some(other)) => own.is(other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        is_same_mount && self.device_node == other.device_node
    }

    /// Returns whether a volume can be there: a directory of the host is not one.
    pub fn is_volume(&self) -> bool {
        self.mount.is_some() || self.device_node.is_some()
    }
}

/// One mount, as in `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The number in the mount namespace.
    pub id: u64,
    /// The mount point.
    pub target: PathBuf,
    /// The mounted path inside the file system.
    pub root: PathBuf,
    /// `major:minor` of the device.
    pub device: String,
    /// The mount source that the file system reports, such as the path of a device.
    pub source: String,
    /// The restrictions of this mount; its file system may have more.
    pub flags: MountFlags,
}

impl MountEntry {
    /// Returns which mount it is, as far as the table tells.
    pub fn identity(&self) -> MountIdentity {
        MountIdentity {
            id: self.id,
            unique_id: None,
            device: self.device.clone(),
            root: self.root.clone(),
            source: self.source.clone(),
            boot_id: None,
        }
    }
}

/// Creates, removes and lists mounts, for callers on blocking threads. No call deletes a directory or
/// descends into a mount. Calls block.
pub trait MountCalls: Send + Sync {
    /// Bind-mounts `source` onto `target`: two existing directories or two existing files. The flags
    /// are added to those of the mount that contains `source`. If `target` is already a mount point,
    /// this adds another mount on top, so look there first. An interrupted call may
    /// leave a mount without its flags; compare them before you rely on the mount.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn bind(&self, source: &Path, target: &Path, flags: MountFlags) -> Result<(), MountError>;
    /// Mounts the file system on `device` at the existing directory `target`. `options` belong to
    /// the file system (as mount(8) spells them), `flags` to this mount.
    ///
    /// # Errors
    /// If the kernel refuses.
    fn mount_device(
        &self,
        device: &Path,
        target: &Path,
        file_system: FileSystem,
        options: &[String],
        flags: MountFlags,
    ) -> Result<(), MountError>;
    /// Takes the mount at `target` out of its peer group and gives it one of its own: what is mounted there later reaches
    /// only mounts that are made from it later.
    ///
    /// # Errors
    /// If nothing is mounted there, or the kernel refuses.
    fn give_own_peer_group(&self, target: &Path) -> Result<(), MountError>;
    /// Removes the topmost mount at `target`.
    ///
    /// # Errors
    /// If nothing is mounted there, or the mount is busy.
    fn unmount(&self, target: &Path) -> Result<(), MountError>;
    /// Returns whether something is mounted exactly at `target`. Costs less than [`MountCalls::list`].
    ///
    /// # Errors
    /// If the path cannot be read.
    fn is_mount_point(&self, target: &Path) -> Result<bool, MountError>;
    /// Returns all mounts of this process's mount namespace, in the order of their creation.
    ///
    /// # Errors
    /// If the table cannot be read.
    fn list(&self) -> Result<Vec<MountEntry>, MountError>;
}

/// The same calls for async callers, which need fewer of them.
#[async_trait]
pub trait Mounter: Send + Sync {
    /// Makes a directory a shared mount of its own, unless it is one: mounts in it reach the tasks that
    /// get it bidirectionally, and theirs reach the host. Fails if something is mounted below it.
    async fn share(&self, directory: &Path) -> Result<(), MountError>;
    /// Removes the topmost mount at `target`. Fails if nothing is mounted there.
    async fn unmount(&self, target: &Path) -> Result<(), MountError>;
    /// Returns the topmost mount exactly at `target`, if any.
    async fn entry(&self, target: &Path) -> Result<Option<MountEntry>, MountError>;
    /// Seals the directory or the file below what is mounted at `target`: no process can write to it or remove it. Returns
    /// whether it is sealed; not every file system can.
    async fn seal(&self, target: &Path) -> Result<bool, MountError>;
    /// Removes the seal of what is at `target` or below its mount, if it has one.
    async fn unseal(&self, target: &Path) -> Result<(), MountError>;
    /// Returns what is at `target`; `None` if nothing is. An error may also mean that the file system there does not
    /// respond.
    async fn identify(&self, target: &Path) -> Result<Option<SourceIdentity>, MountError>;
    /// Returns the mount that a path is on; `None` if the path does not exist.
    async fn mount_of(&self, path: &Path) -> Result<Option<MountEntry>, MountError>;
    /// Returns the processes that keep the file system of a mount that is gone from this process's mount namespace, as
    /// far as they can be found; `None` if the file system is gone too, also with an earlier boot of the machine, is
    /// mounted here at another place, or cannot be asked, because it has no device of its own.
    async fn processes_that_keep(
        &self,
        mount: &MountIdentity,
    ) -> Result<Option<Vec<u32>>, MountError>;
    /// Returns all mounts of this process's mount namespace, in the order of their creation.
    async fn list(&self) -> Result<Vec<MountEntry>, MountError>;
    /// Follows the mounts of this process's mount namespace.
    async fn follow(&self) -> Result<Box<dyn MountChanges>, MountError>;
}

/// The mounts of a mount namespace, from now on.
#[async_trait]
pub trait MountChanges: Send {
    /// Waits until mounts may have changed since the last return, and returns all. The first call returns at once.
    async fn next(&mut self) -> Result<Vec<MountEntry>, MountError>;
}
