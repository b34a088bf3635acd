//! [`LinuxMounter`]: mounts by mount(2), on blocking threads.
//!
//! A bind mount takes its flags from the mount it is made of, and mount(2) passes over flags while
//! binding; so flags are set by a second call, which repeats the ones that are there (dropping
//! `nosuid` of the host would be a hole, and is refused inside a user namespace).

use std::io;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::mount::{MountFlags as Flags, UnmountFlags};

use super::mountinfo;
use crate::ports::{MountEntry, MountError, MountFlags, Mounter};

/// Mounts in the namespace of this process. Making and removing needs `CAP_SYS_ADMIN`; reading
/// does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxMounter;

#[async_trait]
impl Mounter for LinuxMounter {
    async fn bind(
        &self,
        source: &Path,
        target: &Path,
        flags: MountFlags,
    ) -> Result<(), MountError> {
        let source = source.to_owned();
        blocking("bind-mount onto", target, move |target| {
            rustix::mount::mount_bind(&source, target)?;
            if flags == MountFlags::default() {
                return Ok(());
            }
            let inherited = find(target)?.map(|entry| entry.flags).unwrap_or_default();
            let flags = Flags::BIND | to_kernel(inherited.and(flags));
            if let Err(error) = rustix::mount::mount_remount(target, flags, c"") {
                // A mount without its flags must not stay.
                rustix::mount::unmount(target, UnmountFlags::NOFOLLOW)?;
                return Err(error.into());
            }
            Ok(())
        })
        .await
    }

    async fn unmount(&self, target: &Path) -> Result<(), MountError> {
        blocking("unmount", target, |target| {
            Ok(rustix::mount::unmount(target, UnmountFlags::NOFOLLOW)?)
        })
        .await
    }

    async fn entry(&self, target: &Path) -> Result<Option<MountEntry>, MountError> {
        blocking("list the mounts at", target, find).await
    }

    async fn list(&self) -> Result<Vec<MountEntry>, MountError> {
        blocking("list the mounts below", Path::new("/"), |_| table()).await
    }
}

/// Runs one call on a blocking thread and says what it was in its error.
async fn blocking<T: Send + 'static>(
    operation: &'static str,
    path: &Path,
    call: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> Result<T, MountError> {
    let path = path.to_owned();
    let name = path.clone();
    let result = tokio::task::spawn_blocking(move || call(&path)).await;
    result
        .unwrap_or_else(|stopped| Err(io::Error::other(stopped)))
        .map_err(|source| MountError {
            operation,
            path: name,
            source,
        })
}

fn table() -> io::Result<Vec<MountEntry>> {
    std::fs::read("/proc/self/mountinfo").map(|text| mountinfo::parse(&text))
}

/// The topmost mount at `target`. The kernel's table has no symbolic links in it, so they are
/// followed first; a path that does not exist has no mount.
fn find(target: &Path) -> io::Result<Option<MountEntry>> {
    let target: PathBuf = match target.canonicalize() {
        Ok(target) => target,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mounts = table()?;
    Ok(mounts
        .into_iter()
        .rev()
        .find(|mount| mount.target == target))
}

fn to_kernel(flags: MountFlags) -> Flags {
    let mut kernel = Flags::empty();
    for (is_set, flag) in [
        (flags.read_only, Flags::RDONLY),
        (flags.no_exec, Flags::NOEXEC),
        (flags.no_suid, Flags::NOSUID),
        (flags.no_dev, Flags::NODEV),
        (flags.no_atime, Flags::NOATIME),
        (flags.no_dir_atime, Flags::NODIRATIME),
    ] {
        kernel.set(flag, is_set);
    }
    kernel
}
