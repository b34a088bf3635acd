//! A fake mount table in memory.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use nomad_csi_ports::{
    FileSystem, MountCalls, MountChanges, MountEntry, MountError, MountFlags, MountIdentity,
    Mounter, SourceIdentity,
};

/// Mounts that behave as in the kernel, on one file system that is mounted at `/`. A clone is the same
/// table, so it survives a restart of the plugin.
#[derive(Clone, Debug, Default)]
pub struct FakeMounter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    table: Mutex<Table>,
    /// How often the mounts changed.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Table {
    mounts: Vec<MountEntry>,
    /// The number of the newest mount.
    newest: u64,
    unprivileged: bool,
    /// The number of further calls that succeed before the process counts as dead.
    steps: Option<u32>,
    /// True if the last of these calls ends its thread once it has its effect.
    ends_thread: bool,
    busy: Vec<PathBuf>,
    sealed: BTreeSet<PathBuf>,
    /// Where a mount has a peer group of its own.
    own_groups: BTreeSet<PathBuf>,
    /// The processes that keep every file system after its mounts are gone.
    keepers: Option<Vec<u32>>,
}

const DEVICE: &str = "0:1";

impl FakeMounter {
    /// Creates a mounter that may mount.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets these processes keep every file system after its mounts are gone; `None` for no process.
    pub fn keep_by(&self, processes: Option<Vec<u32>>) {
        self.table().keepers = processes;
    }

    /// Creates a mounter without the privilege to mount.
    pub fn unprivileged() -> Self {
        let mounter = Self::default();
        mounter.table().unprivileged = true;
        mounter
    }

    /// Makes every call after the next `steps` calls fail, as if the process had died. Calls of the
    /// block storage with this mounter count too. `None` ends this.
    pub fn fail_after(&self, steps: Option<u32>) {
        let mut table = self.table();
        table.steps = steps;
        table.ends_thread = false;
    }

    /// Like [`Self::fail_after`] with one step more. If that call mounts or unmounts, its thread ends after the
    /// effect, as if the process had been killed there: nothing of the plugin runs after it.
    pub fn die_after(&self, steps: u32) {
        let mut table = self.table();
        table.steps = Some(steps + 1);
        table.ends_thread = true;
    }

    /// Ends the thread if its call was the last one before the death of the process.
    fn end_if_dead(&self) {
        let table = self.table();
        let is_dead = table.ends_thread && table.steps == Some(0);
        drop(table);
        if is_dead {
            // Not a panic, which would print a message.
            std::panic::resume_unwind(Box::new("the process is dead"));
        }
    }

    /// Counts one call. Fails if the process counts as dead.
    pub(super) fn step(&self) -> io::Result<()> {
        match &mut self.table().steps {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the process is dead")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    /// Removes all mounts, as a reboot does.
    pub fn reboot(&self) {
        self.table().mounts.clear();
        self.notify();
    }

    /// Sets whether the mount at `target` is busy.
    pub fn set_busy(&self, target: &Path, is_busy: bool) {
        let mut table = self.table();
        table.busy.retain(|path| path != target);
        if is_busy {
            table.busy.push(target.to_owned());
        }
    }

    /// Moves a mount with a directory that is renamed.
    pub fn move_mount(&self, from: &Path, to: &Path) {
        let mut table = self.table();
        let moved = table.mounts.iter_mut().filter(|mount| mount.target == from);
        moved.for_each(|mount| to.clone_into(&mut mount.target));
    }

    /// Mounts a file system that does not belong to the plugin.
    pub fn mount_foreign(&self, target: &Path) {
        self.add(MountEntry {
            id: 0,
            target: target.to_owned(),
            root: "/".into(),
            device: "0:99".to_owned(),
            source: "foreign".to_owned(),
            flags: MountFlags::default(),
        });
    }

    /// Mounts a volume of a plugin.
    pub fn mount_volume(&self, target: &Path, volume: &str) {
        self.add(MountEntry {
            id: 0,
            target: target.to_owned(),
            root: "/".into(),
            device: format!("0:{volume}"),
            source: volume.to_owned(),
            flags: MountFlags::default(),
        });
    }

    fn add(&self, entry: MountEntry) {
        self.table().add(entry);
        self.notify();
    }

    fn notify(&self) {
        self.0.changes.send_modify(|changes| *changes += 1);
    }

    /// Removes every mount at `target`.
    ///
    /// # Errors
    /// If the mount is busy.
    pub fn unmount_all(&self, target: &Path) -> io::Result<()> {
        let mut table = self.table();
        if table.busy.iter().any(|path| path == target) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        table.mounts.retain(|mount| mount.target != target);
        drop(table);
        self.notify();
        Ok(())
    }

    /// Returns whether the directory at `target` is sealed: it cannot be removed.
    pub fn is_sealed(&self, target: &Path) -> bool {
        self.table().sealed.contains(target)
    }

    /// Returns whether the mount at `target` has got a peer group of its own.
    pub fn has_own_peer_group(&self, target: &Path) -> bool {
        self.table().own_groups.contains(target)
    }

    /// Returns the current mounts.
    pub fn mounts(&self) -> Vec<MountEntry> {
        self.table().mounts.clone()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock()
    }
}

impl Table {
    /// Adds a mount under the next number.
    fn add(&mut self, entry: MountEntry) {
        self.newest += 1;
        let id = self.newest;
        self.mounts.push(MountEntry { id, ..entry });
    }

    fn all(&self) -> Vec<MountEntry> {
        let root = MountEntry {
            id: 0,
            target: "/".into(),
            root: "/".into(),
            device: DEVICE.to_owned(),
            source: "/dev/root".to_owned(),
            flags: MountFlags::default(),
        };
        std::iter::once(root).chain(self.mounts.clone()).collect()
    }

    /// Returns the mount that contains `path`.
    fn over(&self, path: &Path) -> Option<MountEntry> {
        self.all()
            .into_iter()
            .filter(|mount| path.starts_with(&mount.target))
            .max_by_key(|mount| mount.target.components().count())
    }
}

fn mount_error(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> MountError {
    MountError { operation, path: path.to_owned(), source: source.into() }
}

impl MountCalls for FakeMounter {
    fn bind(&self, source: &Path, target: &Path, flags: MountFlags) -> Result<(), MountError> {
        let failed = |kind: io::ErrorKind| mount_error("bind-mount onto", target, kind);
        self.step().map_err(|error| mount_error("bind-mount onto", target, error))?;
        let mut table = self.table();
        if table.unprivileged {
            return Err(failed(io::ErrorKind::PermissionDenied));
        }
        let is_device = source.starts_with("/dev") && target.is_file();
        if !(is_device || source.is_dir() && target.is_dir()) {
            return Err(failed(io::ErrorKind::NotFound));
        }
        let over = table.over(source).ok_or(io::ErrorKind::NotFound).map_err(failed)?;
        let rest = source.strip_prefix(&over.target).unwrap_or(Path::new(""));
        let entry = MountEntry {
            target: target.to_owned(),
            root: over.root.join(rest),
            flags: over.flags.and(flags),
            ..over
        };
        table.add(entry);
        drop(table);
        self.notify();
        self.end_if_dead();
        Ok(())
    }

    fn mount_device(
        &self,
        device: &Path,
        target: &Path,
        _: FileSystem,
        _: &[String],
        flags: MountFlags,
    ) -> Result<(), MountError> {
        let failed = |kind: io::ErrorKind| mount_error("mount a file system at", target, kind);
        self.step().map_err(|error| mount_error("mount a file system at", target, error))?;
        let mut table = self.table();
        if table.unprivileged {
            return Err(failed(io::ErrorKind::PermissionDenied));
        }
        if !target.is_dir() {
            return Err(failed(io::ErrorKind::NotFound));
        }
        let source = device.to_string_lossy().into_owned();
        table.add(MountEntry {
            id: 0,
            target: target.to_owned(),
            root: "/".into(),
            device: format!("7:{}", source.trim_start_matches("/dev/loop")),
            source,
            flags,
        });
        drop(table);
        self.notify();
        self.end_if_dead();
        Ok(())
    }

    fn give_own_peer_group(&self, target: &Path) -> Result<(), MountError> {
        let failed =
            |source: io::Error| mount_error("give a peer group to the mount at", target, source);
        self.step().map_err(failed)?;
        let mut table = self.table();
        let at = table.mounts.iter().rposition(|mount| mount.target == target);
        if at.is_none() {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        table.own_groups.insert(target.to_owned());
        Ok(())
    }

    fn unmount(&self, target: &Path) -> Result<(), MountError> {
        let failed = |kind: io::ErrorKind| mount_error("unmount", target, kind);
        self.step().map_err(|error| mount_error("unmount", target, error))?;
        let mut table = self.table();
        if table.unprivileged {
            return Err(failed(io::ErrorKind::PermissionDenied));
        }
        if table.busy.iter().any(|path| path == target) {
            return Err(failed(io::ErrorKind::ResourceBusy));
        }
        let at = table.mounts.iter().rposition(|mount| mount.target == target);
        let at = at.ok_or(io::ErrorKind::InvalidInput).map_err(failed)?;
        table.mounts.remove(at);
        drop(table);
        self.notify();
        self.end_if_dead();
        Ok(())
    }

    fn is_mount_point(&self, target: &Path) -> Result<bool, MountError> {
        Ok(self.mounts().iter().any(|mount| mount.target == target))
    }

    fn list(&self) -> Result<Vec<MountEntry>, MountError> {
        Ok(self.table().all())
    }
}

#[async_trait]
impl Mounter for FakeMounter {
    async fn share(&self, directory: &Path) -> Result<(), MountError> {
        let failed = |kind: io::ErrorKind| mount_error("share", directory, kind);
        let mut table = self.table();
        if table.unprivileged {
            return Err(failed(io::ErrorKind::PermissionDenied));
        }
        if table.mounts.iter().any(|mount| mount.target == directory) {
            return Ok(());
        }
        let over = table.over(directory).ok_or(io::ErrorKind::NotFound);
        let over = over.map_err(failed)?;
        let rest = directory.strip_prefix(&over.target).unwrap_or(Path::new(""));
        let entry = MountEntry { target: directory.to_owned(), root: over.root.join(rest), ..over };
        table.add(entry);
        drop(table);
        self.notify();
        Ok(())
    }

    async fn unmount(&self, target: &Path) -> Result<(), MountError> {
        MountCalls::unmount(self, target)
    }

    async fn entry(&self, target: &Path) -> Result<Option<MountEntry>, MountError> {
        let mounts = self.mounts();
        Ok(mounts.into_iter().rev().find(|mount| mount.target == target))
    }

    async fn mount_of(&self, path: &Path) -> Result<Option<MountEntry>, MountError> {
        Ok(path.exists().then(|| self.table().over(path)).flatten())
    }

    async fn seal(&self, target: &Path) -> Result<bool, MountError> {
        self.table().sealed.insert(target.to_owned());
        Ok(true)
    }

    async fn unseal(&self, target: &Path) -> Result<(), MountError> {
        self.table().sealed.remove(target);
        Ok(())
    }

    async fn identify(&self, target: &Path) -> Result<Option<SourceIdentity>, MountError> {
        let mount = self.entry(target).await?.map(|entry| entry.identity());
        let found = match std::fs::symlink_metadata(target) {
            Ok(found) => found,
            // The mounts of a fake machine need no directories.
            Err(_) if mount.is_some() => {
                return Ok(Some(SourceIdentity { mount, device_node: None }));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(mount_error("examine", target, error)),
        };
        // Devices are files here.
        let device_node = (!found.is_dir()).then(|| DEVICE.to_owned());
        Ok(Some(SourceIdentity { mount, device_node }))
    }

    async fn processes_that_keep(&self, _: &MountIdentity) -> Result<Option<Vec<u32>>, MountError> {
        Ok(self.table().keepers.clone())
    }

    async fn list(&self) -> Result<Vec<MountEntry>, MountError> {
        MountCalls::list(self)
    }

    async fn follow(&self) -> Result<Box<dyn MountChanges>, MountError> {
        let mut changes = self.0.changes.subscribe();
        changes.mark_changed();
        let mounter = self.clone();
        Ok(Box::new(FakeChanges { mounter, changes }))
    }
}

struct FakeChanges {
    mounter: FakeMounter,
    changes: watch::Receiver<u64>,
}

#[async_trait]
impl MountChanges for FakeChanges {
    async fn next(&mut self) -> Result<Vec<MountEntry>, MountError> {
        if self.changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        MountCalls::list(&self.mounter)
    }
}
