//! Block storage, as the plugin needs it: files that are devices, file systems in them, and copies.
//!
//! A volume with a size is a file. To use it, a loop device is set up over it, and either the device
//! itself is handed out or the file system in it is mounted. Every call blocks and is to be made on
//! a blocking thread; every call may be repeated.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// File systems that a volume can have of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// ext4: everywhere, grows while mounted for who has `CAP_SYS_RESOURCE`.
    Ext4,
    /// XFS: grows while mounted, from 300 MiB.
    Xfs,
    /// Btrfs: grows while mounted, from 109 MiB.
    Btrfs,
}

impl FileSystem {
    /// All of them, the one that is taken if nothing is said first.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// As mount(8) and `fs_type` spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The smallest file that it can be made in, in bytes, as its maker says.
    pub const fn least_bytes(self) -> u64 {
        match self {
            Self::Ext4 => 1 << 20,
            Self::Xfs => 300 << 20,
            Self::Btrfs => 114_294_784,
        }
    }
}

/// What can be had on this machine, by this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offers {
    /// Why loop devices cannot be had, if they cannot.
    pub no_loop_devices: Option<String>,
    /// Which file systems can be made and mounted.
    pub file_systems: Vec<FileSystem>,
    /// Which of them cannot grow while they are mounted.
    pub grow_unmounted: Vec<FileSystem>,
}

impl Offers {
    /// Whether volumes can have a size, and so another one.
    pub fn has_sizes(&self) -> bool {
        self.no_loop_devices.is_none()
    }

    /// Whether each of those grows while it is used.
    pub fn grows_in_use(&self) -> bool {
        self.has_sizes() && self.grow_unmounted.is_empty()
    }
}

/// How a loop device is set up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attach {
    /// Nothing can be written through it.
    pub read_only: bool,
    /// It stays until it is detached. Otherwise it goes with its last user: when the mount of it is
    /// unmounted, or if nothing was mounted, when the [`LoopDevice`] is dropped.
    pub stays: bool,
}

/// A loop device that was just set up.
#[derive(Debug)]
pub struct LoopDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// While this is held the device stays, whatever was asked for.
    pub hold: Box<dyn std::fmt::Debug + Send + Sync>,
}

/// A loop device that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// The file behind it.
    pub file: PathBuf,
    /// Whether nothing can be written through it.
    pub read_only: bool,
}

/// What of a device can be changed while it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Whether its file is read and written past the page cache; `None` if nobody said so, which is
    /// yes where the file system below can.
    pub direct_io: Option<bool>,
    /// How far ahead it is read, in KiB.
    pub read_ahead_kib: Option<u32>,
}

/// How a file was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// Both share their blocks until one is written: at once, and at one moment.
    Shared,
    /// Block by block, holes left out.
    Blocks,
}

/// Loop devices, file systems, copies.
pub trait BlockStorage: Send + Sync {
    /// What can be had here. Looked up once and remembered.
    fn offers(&self) -> Offers;

    /// Whether files in `directory` can be copied by sharing their blocks.
    fn shares_blocks(&self, directory: &Path) -> bool;

    /// Sets up a loop device over a regular file whose length is a multiple of 512.
    fn attach(&self, file: &Path, how: Attach, tuning: &Tuning) -> io::Result<LoopDevice>;

    /// The loop devices whose file lies below `path`, or is it.
    fn attached(&self, path: &Path) -> io::Result<Vec<AttachedDevice>>;

    /// Keeps a loop device that was found, if it still is over the same file.
    fn hold(&self, device: &AttachedDevice) -> io::Result<Option<LoopDevice>>;

    /// Takes a loop device from its file. An error of the kind `ResourceBusy` if a process has it
    /// open: then it goes when that one closes it. One that is gone already is success.
    fn detach(&self, device: &AttachedDevice) -> io::Result<()>;

    /// Lets a loop device be as large as its file is now.
    fn resize(&self, device: &Path) -> io::Result<()>;

    /// Changes how a loop device works.
    fn tune(&self, device: &Path, tuning: &Tuning) -> io::Result<()>;

    /// Brings to its file what was written to a loop device.
    fn flush(&self, device: &Path) -> io::Result<()>;

    /// Makes an empty file system that fills the file.
    fn make_file_system(&self, file: &Path, kind: FileSystem) -> io::Result<()>;

    /// Lets the file system mounted at `mount` fill its device, `device_bytes` large. One that does
    /// already stays as it is. An error of the kind `PermissionDenied` if this process may not do
    /// that while it is mounted (ext4: `CAP_SYS_RESOURCE`).
    fn grow_file_system(&self, mount: &Path, kind: FileSystem, device_bytes: u64)
    -> io::Result<()>;

    /// The same for a file system on `device` that is not mounted; it is checked first. An error of
    /// the kind `Unsupported` if it can only grow while it is mounted.
    fn grow_unmounted(&self, device: &Path, kind: FileSystem) -> io::Result<()>;

    /// Brings the file system mounted at `mount` to rest: all of it is in its file, and writers wait
    /// until [`BlockStorage::thaw`].
    fn freeze(&self, mount: &Path) -> io::Result<()>;

    /// Lets writers go on. A file system that is not frozen is success.
    fn thaw(&self, mount: &Path) -> io::Result<()>;

    /// Copies a file to a new one, by sharing blocks where that can be; durable when it returns.
    fn copy_file(&self, from: &Path, to: &Path) -> io::Result<Copied>;

    /// Copies what is in a directory into another, empty one, with owners, modes, times, extended
    /// attributes, symbolic and hard links; durable when it returns. What is mounted inside is an
    /// error.
    fn copy_directory(&self, from: &Path, to: &Path) -> io::Result<()>;
}
