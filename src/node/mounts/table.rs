//! The mount table of this process's mount namespace, and how it changes.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::mountinfo;
use nomad_csi_ports::{MountChanges, MountEntry, MountError, run_blocking};

/// The table.
const TABLE: &str = "/proc/self/mountinfo";
/// The usual size of a mount table, at most.
const TABLE_BYTES: usize = 64 << 10;

/// Returns all mounts of this process's mount namespace. Blocks.
pub(super) fn mount_table() -> io::Result<Vec<MountEntry>> {
    // The kernel reports no size, and a small buffer would take many reads.
    let mut text = Vec::with_capacity(TABLE_BYTES);
    File::open(TABLE)?.read_to_end(&mut text)?;
    Ok(mountinfo::parse(&text))
}

/// Returns the topmost mount at `target`. Resolves symbolic links first, because the kernel's table
/// has none. A path that does not exist has no mount.
pub(super) fn topmost_mount(target: &Path) -> io::Result<Option<MountEntry>> {
    let target: PathBuf = match target.canonicalize() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mounts = mount_table()?;
    Ok(mounts.into_iter().rev().find(|mount| mount.target == target))
}

/// The table, whose changes the kernel reports as urgent data.
pub(super) struct TableChanges {
    table: AsyncFd<File>,
    is_first: bool,
}

impl TableChanges {
    /// Follows the table of this process's mount namespace.
    ///
    /// # Errors
    /// If the table cannot be opened or polled.
    #[expect(
        deprecated,
        reason = "the replacement is unsafe for types that change their descriptor; a file does not"
    )]
    pub(super) fn open() -> io::Result<Self> {
        let table = AsyncFd::with_interest(File::open(TABLE)?, Interest::PRIORITY)?;
        Ok(Self { table, is_first: true })
    }

    async fn wait(&mut self) -> io::Result<Vec<MountEntry>> {
        if !std::mem::take(&mut self.is_first) {
            // Cleared before the table is read, so that no later change is missed.
            self.table.ready(Interest::PRIORITY).await?.clear_ready();
        }
        run_blocking(mount_table).await
    }
}

#[async_trait]
impl MountChanges for TableChanges {
    async fn next(&mut self) -> Result<Vec<MountEntry>, MountError> {
        self.wait().await.map_err(|source| MountError {
            operation: "follow the mounts below",
            path: PathBuf::from("/"),
            source,
        })
    }
}
