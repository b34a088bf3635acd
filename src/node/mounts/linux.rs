//! [`LinuxMounter`]: mounts with mount(2).
//!
//! A bind mount inherits the flags of its source, and mount(2) ignores flags while binding. A second
//! call sets the flags and repeats the inherited ones: to drop `nosuid` would be a security hole, and
//! fails inside a user namespace.

use std::ffi::CString;
use std::io;
use std::path::Path;

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::mount::{MountFlags as Flags, MountPropagationFlags as Propagation, UnmountFlags};

use super::kernel_flags::to_kernel;
use super::seal::{seal, unseal};
use super::source::{mount_of_path, open_source};
use super::superblock::processes_that_keep;
use super::table::{TableChanges, mount_table, topmost_mount};
use nomad_csi_ports::{
    FileSystem, MountCalls, MountChanges, MountEntry, MountError, MountFlags, MountIdentity,
    Mounter, SourceIdentity, run_blocking,
};

/// Mounts in the mount namespace of this process. Needs `CAP_SYS_ADMIN`, except for reading.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxMounter;

impl MountCalls for LinuxMounter {
    fn bind(&self, source: &Path, target: &Path, flags: MountFlags) -> Result<(), MountError> {
        named("bind-mount onto", target, || {
            rustix::mount::mount_bind(source, target)?;
            add_flags(target, flags)
        })
    }

    fn mount_device(
        &self,
        device: &Path,
        target: &Path,
        file_system: FileSystem,
        options: &[String],
        flags: MountFlags,
    ) -> Result<(), MountError> {
        let (superblock, data) = superblock_options(file_system, options);
        named("mount a file system at", target, || {
            let data = CString::new(data)?;
            let name = file_system.name();
            rustix::mount::mount(device, target, name, superblock, data.as_c_str())?;
            add_flags(target, flags)
        })
    }

    fn give_own_peer_group(&self, target: &Path) -> Result<(), MountError> {
        named("give a peer group to the mount at", target, || {
            rustix::mount::mount_change(target, Propagation::PRIVATE)?;
            Ok(rustix::mount::mount_change(target, Propagation::SHARED)?)
        })
    }

    fn unmount(&self, target: &Path) -> Result<(), MountError> {
        named("unmount", target, || Ok(rustix::mount::unmount(target, UnmountFlags::NOFOLLOW)?))
    }

    fn is_mount_point(&self, target: &Path) -> Result<bool, MountError> {
        named("list the mounts at", target, || is_mount_root(target))
    }

    fn list(&self) -> Result<Vec<MountEntry>, MountError> {
        named("list the mounts below", Path::new("/"), mount_table)
    }
}

#[async_trait]
impl Mounter for LinuxMounter {
    async fn share(&self, directory: &Path) -> Result<(), MountError> {
        call_at(directory, |directory| named("share", directory, || share_directory(directory)))
            .await
    }

    async fn unmount(&self, target: &Path) -> Result<(), MountError> {
        call_at(target, |target| MountCalls::unmount(&Self, target)).await
    }

    async fn entry(&self, target: &Path) -> Result<Option<MountEntry>, MountError> {
        call_at(target, |target| named("list the mounts at", target, || topmost_mount(target)))
            .await
    }

    async fn seal(&self, target: &Path) -> Result<bool, MountError> {
        call_at(target, |target| named("seal what is below", target, || seal(target))).await
    }

    async fn unseal(&self, target: &Path) -> Result<(), MountError> {
        call_at(target, |target| named("remove the seal below", target, || unseal(target))).await
    }

    async fn identify(&self, target: &Path) -> Result<Option<SourceIdentity>, MountError> {
        call_at(target, |target| {
            let opened = named("examine", target, || open_source(target));
            match opened {
                Ok(opened) => Ok(Some(opened.identity)),
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        })
        .await
    }

    async fn mount_of(&self, path: &Path) -> Result<Option<MountEntry>, MountError> {
        call_at(path, |path| named("find the mount of", path, || mount_of_path(path))).await
    }

    async fn processes_that_keep(
        &self,
        mount: &MountIdentity,
    ) -> Result<Option<Vec<u32>>, MountError> {
        let mount = mount.clone();
        call_at(Path::new("/"), move |root| {
            named("look for users of a file system in", root, || processes_that_keep(&mount))
        })
        .await
    }

    async fn list(&self) -> Result<Vec<MountEntry>, MountError> {
        call_at(Path::new("/"), |_| MountCalls::list(&Self)).await
    }

    async fn follow(&self) -> Result<Box<dyn MountChanges>, MountError> {
        named("watch the mounts below", Path::new("/"), || {
            Ok(Box::new(TableChanges::open()?) as Box<dyn MountChanges>)
        })
    }
}

/// Runs one call. Its error names the operation and the path.
fn named<T>(
    operation: &'static str,
    path: &Path,
    call: impl FnOnce() -> io::Result<T>,
) -> Result<T, MountError> {
    call().map_err(|source| MountError { operation, path: path.to_owned(), source })
}

/// Runs one call on a blocking thread.
async fn call_at<T: Send + 'static>(
    path: &Path,
    call: impl FnOnce(&Path) -> Result<T, MountError> + Send + 'static,
) -> Result<T, MountError> {
    let path = path.to_owned();
    let name = path.clone();
    let done = run_blocking(move || Ok(call(&path))).await;
    done.unwrap_or_else(|source| {
        Err(MountError { operation: "work with the mount at", path: name, source })
    })
}

/// Returns whether the path is the root of a mount. The kernel reports that without its table since Linux 5.8.
fn is_mount_root(path: &Path) -> io::Result<bool> {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    match statx(CWD, path, AtFlags::NO_AUTOMOUNT, StatxFlags::TYPE) {
        Ok(found) if found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT) => {
            Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
        }
        Err(rustix::io::Errno::NOENT) => Ok(false),
        // An older kernel, or a broken file system at the path.
        Ok(_) | Err(_) => Ok(topmost_mount(path)?.is_some()),
    }
}

/// Adds flags to the mount at `target`, and unmounts it if that fails.
fn add_flags(target: &Path, flags: MountFlags) -> io::Result<()> {
    if flags == MountFlags::default() {
        return Ok(());
    }
    let inherited = topmost_mount(target)?.map(|entry| entry.flags).unwrap_or_default();
    let flags = Flags::BIND | to_kernel(inherited.and(flags));
    if let Err(error) = rustix::mount::mount_remount(target, flags, c"") {
        rustix::mount::unmount(target, UnmountFlags::NOFOLLOW)?;
        return Err(error.into());
    }
    Ok(())
}

/// Converts options for mount(2): some are flags, the others text. XFS gets `nouuid`, because a copy
/// has the UUID of its original and must be mountable beside it.
fn superblock_options(file_system: FileSystem, options: &[String]) -> (Flags, String) {
    let mut flags = Flags::empty();
    let mut text: Vec<&str> = vec![];
    for option in options {
        match option.as_str() {
            "sync" => flags |= Flags::SYNCHRONOUS,
            "dirsync" => flags |= Flags::DIRSYNC,
            "lazytime" => flags |= Flags::LAZYTIME,
            "strictatime" => flags |= Flags::STRICTATIME,
            other => text.push(other),
        }
    }
    if file_system == FileSystem::Xfs {
        text.push("nouuid");
    }
    (flags, text.join(","))
}

/// Makes a directory a shared mount of its own, unless it is one: mounts in it reach the tasks that get it
/// bidirectionally, and theirs reach the host. Works also where the host shares nothing, as in containers.
///
/// # Errors
/// If the directory does not exist, something is mounted below it, or this process may not mount.
pub fn share_directory(directory: &Path) -> io::Result<()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let directory = directory.canonicalize()?;
    let mounts = mount_table()?.into_iter().map(|mount| mount.target);
    let below: Vec<_> = mounts.filter(|at| at.starts_with(&directory)).collect();
    if !below.contains(&directory) {
        if let Some(covered) = below.first() {
            let path = covered.display();
            let message = format!("`{path}` is mounted; stop the jobs that use it");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, message));
        }
        rustix::mount::mount_bind(&directory, &directory)?;
        // A peer group of its own, not that of the file system around it.
        rustix::mount::mount_change(&directory, Propagation::PRIVATE)?;
    }
    Ok(rustix::mount::mount_change(&directory, Propagation::SHARED)?)
}
