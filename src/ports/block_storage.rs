//! Block storage for the plugin: files as loop devices, file systems in them, and copies.
//!
//! A volume with a size is a file. To use it, the plugin attaches a loop device to the file. It
//! publishes the device itself, or mounts the file system in it. Every call blocks, so callers use a
//! blocking thread. Every call may be repeated.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// File systems that a volume with a size can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// ext4: on every machine. Growing it while mounted needs `CAP_SYS_RESOURCE`.
    Ext4,
    /// XFS: grows while mounted; at least 300 MiB.
    Xfs,
    /// Btrfs: grows while mounted; at least 109 MiB.
    Btrfs,
}

impl FileSystem {
    /// All file systems, the default first.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Returns the name as mount(8) and `fs_type` spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Returns the file system of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns the smallest size of the file in bytes, as the mkfs program reports it.
    pub const fn min_bytes(self) -> u64 {
        match self {
            Self::Ext4 => 1 << 20,
            Self::Xfs => 300 << 20,
            Self::Btrfs => 114_294_784,
        }
    }
}

/// The block storage that this process supports on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockStorageFeatures {
    /// Why loop devices are unavailable; `None` if they work.
    pub loop_devices_unavailable: Option<String>,
    /// The file systems that can be created and mounted.
    pub file_systems: Vec<FileSystem>,
    /// The file systems that cannot grow while they are mounted.
    pub offline_growth_only: Vec<FileSystem>,
}

impl BlockStorageFeatures {
    /// Returns whether volumes can have a size, which expansion can change.
    pub fn supports_sizes(&self) -> bool {
        self.loop_devices_unavailable.is_none()
    }

    /// Returns whether every file system grows while it is in use.
    pub fn supports_online_expansion(&self) -> bool {
        self.supports_sizes() && self.offline_growth_only.is_empty()
    }
}

/// How to attach a loop device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// True if the device refuses writes.
    pub read_only: bool,
    /// True if the device stays until it is detached. A device that is not persistent goes with its
    /// last mount, or if it was never mounted, when the [`LoopDevice`] is dropped.
    pub persistent: bool,
}

/// An open loop device.
#[derive(Debug)]
pub struct LoopDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// Keeps the device attached until it is dropped.
    pub guard: Box<dyn std::fmt::Debug + Send + Sync>,
}

/// An existing loop device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// The backing file.
    pub file: PathBuf,
    /// True if the device refuses writes.
    pub read_only: bool,
}

/// Settings of a loop device that can change while it is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceTuning {
    /// True if the file is accessed without the page cache. `None` selects direct I/O where the
    /// file system of the file supports it.
    pub direct_io: Option<bool>,
    /// Read-ahead in KiB.
    pub read_ahead_kib: Option<u32>,
}

/// The content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileContent {
    /// Holes only.
    Empty,
    /// A file system that [`BlockStorage::make_file_system`] can create.
    FileSystem(FileSystem),
    /// Anything else.
    Other,
}

/// How a file was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyMethod {
    /// Both files share their blocks until one is written. The copy is instant and atomic.
    Reflink,
    /// Block by block, without holes.
    BlockByBlock,
}

/// Manages loop devices, file systems and copies.
pub trait BlockStorage: Send + Sync {
    /// Returns what this machine supports. The first call probes; later calls return the same value.
    fn features(&self) -> BlockStorageFeatures;

    /// Returns whether files in `directory` can be copied by sharing blocks.
    fn supports_reflink(&self, directory: &Path) -> bool;

    /// Attaches a loop device to a regular file whose length is a multiple of 512.
    fn attach(
        &self,
        file: &Path,
        how: AttachOptions,
        tuning: &DeviceTuning,
    ) -> io::Result<LoopDevice>;

    /// Returns the loop devices whose backing file is `path` or lies below it.
    fn attached(&self, path: &Path) -> io::Result<Vec<AttachedDevice>>;

    /// Opens an existing loop device; `None` if it no longer belongs to the same file.
    fn open(&self, device: &AttachedDevice) -> io::Result<Option<LoopDevice>>;

    /// Detaches a loop device from its file. Succeeds if the device is already detached. Fails with
    /// `ResourceBusy` if a process has it open; the device then detaches when that process closes it.
    fn detach(&self, device: &AttachedDevice) -> io::Result<()>;

    /// Grows a loop device to the current size of its file.
    fn resize(&self, device: &Path) -> io::Result<()>;

    /// Changes the settings of a loop device.
    fn tune(&self, device: &Path, tuning: &DeviceTuning) -> io::Result<()>;

    /// Writes the cached data of a loop device to its file.
    fn flush(&self, device: &Path) -> io::Result<()>;

    /// Returns what the file contains. Reads only the signatures of the known file systems.
    fn probe(&self, file: &Path) -> io::Result<FileContent>;

    /// Creates an empty file system that fills the file.
    fn make_file_system(&self, file: &Path, kind: FileSystem) -> io::Result<()>;

    /// Grows the file system mounted at `mount` to its device of `device_bytes`. Succeeds if it
    /// already fills the device. Fails with `PermissionDenied` if this process may not grow it while
    /// it is mounted (ext4: `CAP_SYS_RESOURCE`).
    fn grow_file_system(&self, mount: &Path, kind: FileSystem, device_bytes: u64)
    -> io::Result<()>;

    /// Checks and grows the file system on `device`, which is not mounted. Fails with `Unsupported`
    /// if this file system grows only while it is mounted.
    fn grow_unmounted(&self, device: &Path, kind: FileSystem) -> io::Result<()>;

    /// Returns the number of errors that the mounted file system on `device` recorded since its last
    /// check. Only ext4 counts them; the others report 0.
    fn file_system_errors(&self, device: &Path, kind: FileSystem) -> io::Result<u64>;

    /// Freezes the file system mounted at `mount`: flushes it to its file and blocks writers until
    /// [`BlockStorage::thaw`].
    fn freeze(&self, mount: &Path) -> io::Result<()>;

    /// Unblocks writers. Succeeds if the file system is not frozen.
    fn thaw(&self, mount: &Path) -> io::Result<()>;

    /// Copies a file to a new one, by sharing blocks if possible. The copy is durable on return.
    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<CopyMethod>;

    /// Copies the contents of a directory into an empty one, with owners, modes, times, extended
    /// attributes, symbolic and hard links. The copy is durable on return. Fails if something is
    /// mounted inside.
    fn copy_directory(&self, from: &Path, to: &Path) -> io::Result<()>;
}
