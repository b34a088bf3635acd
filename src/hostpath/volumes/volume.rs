//! A volume during one call: its records, its mounts and its devices.
//!
//! The catalogue records the purpose of a path; the mount table and the loop devices show whether
//! it is mounted. A record is written before the mount and removed after it. So the plugin has a
//! record of each of its mounts and never touches others. A record without a mount, after a crash
//! or reboot, means that the mount must be repeated.
//!
//! A directory is bind-mounted. An image is mounted over a loop device that the kernel detaches
//! with the last mount. The devices of a block volume (one writable, one read-only) stay until no
//! path needs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::mount_source::MountSource;
use super::parameters;
use crate::catalog::{Attachment, Backing, CatalogVolume, DeviceNumber, PathRecord};
use crate::data;
use crate::error::{FailedPrecondition, HostError, OperationPending, VolumeNotFound};
use crate::plugin::{Operation, OperationKey, Plugin};
use crate::volume_capability::VolumeCapability;

use nomad_csi_ports::{
    AttachOptions, AttachedDevice, DeviceTuning, FileSystem, LoopDevice, MountEntry, MountFlags,
};

/// How many names at the ends of two paths are the same if a directory around both was renamed.
const SAME_NAMES: usize = 2;

/// The state of a mount point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MountState {
    /// Nothing is mounted.
    NotMounted,
    /// This plugin mounted the volume with these flags.
    Volume(MountFlags),
    /// This plugin bound the device node of the volume, which is not the volume's any more: another program has
    /// detached the device, and may have attached it to something else.
    LostDevice,
    /// Another file system is mounted, or another program mounted this volume.
    Foreign,
}

impl MountState {
    /// Returns whether this plugin made the mount.
    pub(crate) fn is_of_plugin(self) -> bool {
        match self {
            Self::Volume(_) | Self::LostDevice => true,
            Self::NotMounted | Self::Foreign => false,
        }
    }
}

/// Says whether this call made the content of a volume, so that its record changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentMade {
    Now,
    Before,
}

/// A volume that exists.
pub(crate) struct Volume {
    pub(crate) plugin: Arc<Plugin>,
    pub(crate) record: CatalogVolume,
    /// The path of its directory or file.
    pub(crate) data: PathBuf,
    /// The records of its paths.
    pub(crate) paths: BTreeMap<String, PathRecord>,
    /// How it is attached to this node.
    pub(crate) attachment: Option<Attachment>,
    _operation: Option<Operation>,
}

impl Volume {
    /// Begins an operation on a volume. No other operation can begin before this one ends.
    pub(crate) fn open<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<HostError> + From<VolumeNotFound> + From<OperationPending>,
    {
        let operation = plugin.begin_operation(OperationKey::Volume(id.clone()))?;
        let volume = Self::read::<E>(plugin, id)?;
        Ok(Self { _operation: Some(operation), ..volume })
    }

    /// Reads a volume without beginning an operation.
    pub(crate) fn read<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<HostError> + From<VolumeNotFound>,
    {
        let record = plugin.ready_volume(&id)?.ok_or(VolumeNotFound(id))?;
        let paths = plugin.catalog.paths(&record.id).map_err(HostError::from)?;
        Ok(Self {
            data: plugin.data_dir(record.content.backing).path_of(&record.id),
            plugin: plugin.clone(),
            attachment: plugin.own_attachment(&record)?,
            record,
            paths,
            _operation: None,
        })
    }

    /// Its ID.
    pub(crate) fn id(&self) -> &str {
        &self.record.id
    }

    /// How its data is stored.
    pub(crate) fn backing(&self) -> Backing {
        self.record.content.backing
    }

    /// Returns whether the volume must not be written with this capability.
    pub(crate) fn is_read_only(&self, capability: &VolumeCapability, requested: bool) -> bool {
        let attached = self.attachment.as_ref();
        requested
            || capability.is_read_only()
            || attached.is_some_and(|attached| attached.read_only)
    }

    /// Returns its loop devices.
    pub(crate) fn devices(&self) -> Result<Vec<AttachedDevice>, HostError> {
        if self.backing() == Backing::Directory {
            return Ok(vec![]);
        }
        let devices = self.plugin.host.storage.attached(&self.data);
        devices.map_err(HostError::io("list loop devices"))
    }

    /// Returns what is mounted at `path`. Reads the mount table only if something is mounted there.
    pub(crate) fn mount_state(&self, path: &str) -> Result<MountState, HostError> {
        let (mounter, target) = (&self.plugin.host.mounter, Path::new(path));
        if !mounter.is_mount_point(target)? {
            return Ok(MountState::NotMounted);
        }
        let mounts = mounter.list()?;
        // The table has no symbolic links.
        let target = target.canonicalize().unwrap_or_else(|_| target.to_owned());
        let Some(entry) = mounts.iter().rev().find(|mount| mount.target == target) else {
            return Ok(MountState::NotMounted);
        };
        let is_exposed = self.is_exposed_by(entry, &mounts, &self.devices()?);
        Ok(match self.paths.get(path) {
            Some(_) if is_exposed => MountState::Volume(entry.flags),
            Some(record) if self.is_lost_device(record, &target)? => MountState::LostDevice,
            Some(_) | None => MountState::Foreign,
        })
    }

    /// Returns whether a target has the device node that this plugin bound there.
    fn is_lost_device(&self, record: &PathRecord, target: &Path) -> Result<bool, HostError> {
        if self.backing() != Backing::Block {
            return Ok(false);
        }
        let action = format!("examine `{}`", target.display());
        let found = DeviceNumber::at(target).map_err(HostError::io(action))?;
        Ok(found.is_some_and(|number| number.is_of(record)))
    }

    /// Returns whether a mount shows exactly this volume.
    fn is_exposed_by(
        &self,
        entry: &MountEntry,
        mounts: &[MountEntry],
        devices: &[AttachedDevice],
    ) -> bool {
        let exposes = |path: &Path| {
            MountSource::of(path, mounts)
                .is_some_and(|path_record| path_record.is_exposed_by(entry))
        };
        match self.backing() {
            Backing::Directory => exposes(&self.data),
            Backing::Image => devices.iter().any(|device| Path::new(&entry.source) == device.path),
            Backing::Block => devices.iter().any(|device| exposes(&device.path)),
        }
    }

    /// Returns the first mount of this volume, by any program.
    pub(crate) fn first_mount(&self) -> Result<Option<MountEntry>, HostError> {
        let devices = self.devices()?;
        let mounts = self.plugin.host.mounter.list()?;
        let exposing: Vec<_> =
            mounts.iter().filter(|entry| self.is_exposed_by(entry, &mounts, &devices)).collect();
        // A writable mount is preferred, because growing and freezing require one.
        let writable = exposing.iter().find(|entry| !entry.flags.read_only);
        Ok(writable.or(exposing.first()).map(|entry| (*entry).clone()))
    }

    /// Writes the record of `path`, and the volume's own record if the content was made now.
    pub(crate) fn put_path_record(
        &mut self,
        path: &str,
        record: PathRecord,
        made: ContentMade,
    ) -> Result<(), HostError> {
        let is_changed = made == ContentMade::Now && self.plugin.has_controller();
        let volume = is_changed.then_some(&self.record);
        let catalog = &self.plugin.catalog;
        catalog.put_path(&self.record.id, path, &record, volume)?;
        self.paths.insert(path.to_owned(), record);
        Ok(())
    }

    /// Gives `path`, which has no record, that of a path of the same purpose whose directory is gone: the directory around
    /// both was renamed while the volume was mounted. The mount shows that, because the plugin records each before it
    /// makes it; a staged block volume has none, and after a start of the machine no volume. What something else has mounted
    /// there stays.
    pub(crate) fn follow_rename(
        &mut self,
        path: &str,
        has_purpose: fn(&PathRecord) -> bool,
    ) -> Result<(), HostError> {
        if self.paths.contains_key(path) {
            return Ok(());
        }
        let common = |before: &str| {
            let names = Path::new(before).components().rev();
            let pairs = names.zip(Path::new(path).components().rev());
            pairs.take_while(|(one, other)| one == other).count()
        };
        let is_gone = |before: &str| {
            let around = Path::new(before).parent();
            around.is_some_and(|around| matches!(around.try_exists(), Ok(false)))
        };
        let records = self.paths.iter();
        let gone = records.filter(|(before, record)| has_purpose(record) && is_gone(before));
        let Some((before, record)) = gone.max_by_key(|(before, _)| common(before)) else {
            return Ok(());
        };
        if common(before) < SAME_NAMES {
            return Ok(());
        }
        let (before, record) = (before.clone(), record.clone());
        let is_staging = matches!(record, PathRecord::Staging { .. });
        let needs_mount = !is_staging || self.backing() != Backing::Block;
        self.paths.insert(path.to_owned(), record);
        let is_moved = match self.mount_state(path)? {
            MountState::Volume(_) | MountState::LostDevice => true,
            MountState::NotMounted => !needs_mount || self.first_mount()?.is_none(),
            MountState::Foreign => false,
        };
        if !is_moved {
            self.paths.remove(path);
            return Ok(());
        }
        self.plugin.catalog.rename_path(&self.record.id, &before, path)?;
        self.paths.remove(&before);
        tracing::warn!(volume.external_id = %self.id(), %before, %path,
            "the directory of a mounted volume was renamed");
        Ok(())
    }

    /// Removes the record of `path`.
    pub(crate) fn remove_path_record(&mut self, path: &str) -> Result<(), HostError> {
        self.paths.remove(path);
        Ok(self.plugin.catalog.remove_path(&self.record.id, path)?)
    }

    /// Writes the changed record of the volume.
    pub(crate) fn save(&self) -> Result<(), HostError> {
        self.plugin.save_volume(&self.record)
    }

    /// Bind-mounts `source` at `path`, which has a record. Replaces a mount of this volume with
    /// other flags, which a crash between the two calls of a bind mount can leave.
    pub(crate) fn bind(
        &self,
        source: &Path,
        path: &str,
        flags: MountFlags,
        found: MountState,
    ) -> Result<(), HostError> {
        let target = Path::new(path);
        let mounter = &self.plugin.host.mounter;
        if found.is_of_plugin() {
            mounter.unmount(target)?;
        }
        Ok(mounter.bind(source, target, flags)?)
    }

    /// Mounts the volume itself at `path`, which has a record: binds a directory, or mounts an
    /// image over its loop device.
    pub(crate) fn mount_volume(
        &mut self,
        path: &str,
        capability: &VolumeCapability,
        flags: MountFlags,
        found: MountState,
    ) -> Result<(), HostError> {
        let Some(kind) = self.record.content.file_system else {
            open_to_group(&self.data, capability.group)?;
            self.bind(&self.data, path, flags, found)?;
            return self.separate_for_cut(path);
        };
        let target = Path::new(path);
        if found.is_of_plugin() {
            self.plugin.host.mounter.unmount(target)?;
        }
        let device = self.device_for_mount()?;
        let content = self.record.content;
        if content.file_system_bytes < content.bytes {
            let resized = self.plugin.host.storage.resize(&device.path);
            resized.map_err(HostError::io("resize a loop device"))?;
        }
        let needs_work = !content.is_prepared
            || content.file_system_bytes < content.bytes
            || capability.group.is_some();
        if needs_work {
            // The first mount has no flags, because they may forbid the writes that follow.
            self.mount_device(&device, target, kind, capability, MountFlags::default())?;
            match self.prepare(path, kind, capability.group) {
                Ok(()) if flags == MountFlags::default() => return Ok(()),
                Ok(()) => self.plugin.host.mounter.unmount(target)?,
                Err(error) if error.is_permission_denied() => {
                    // The file system cannot grow while it is mounted, and nothing uses it yet.
                    self.plugin.host.mounter.unmount(target)?;
                    self.grow_unmounted(&device, kind)?;
                    return self.mount_volume(path, capability, flags, MountState::NotMounted);
                }
                Err(error) => {
                    self.plugin.host.mounter.unmount(target)?;
                    return Err(error);
                }
            }
        }
        self.mount_device(&device, target, kind, capability, flags)
    }

    /// Keeps a cut of this node (`cut`) from other mounts of the volume, such as those of another node: where the machine
    /// shares its mounts, they are peers of the mount at `path`.
    pub(crate) fn separate_for_cut(&self, path: &str) -> Result<(), HostError> {
        if self.plugin.detach_cuts() {
            self.plugin.host.mounter.give_own_peer_group(Path::new(path))?;
        }
        Ok(())
    }

    fn mount_device(
        &self,
        device: &LoopDevice,
        target: &Path,
        kind: FileSystem,
        capability: &VolumeCapability,
        flags: MountFlags,
    ) -> Result<(), HostError> {
        let mounter = &self.plugin.host.mounter;
        let options = &capability.options;
        Ok(mounter.mount_device(&device.path, target, kind, options, flags)?)
    }

    /// Returns the loop device of the image, held open. Reuses an existing device, because two
    /// devices over one file would corrupt the file system.
    fn device_for_mount(&self) -> Result<LoopDevice, HostError> {
        let storage = &self.plugin.host.storage;
        let set_up = || {
            for device in storage.attached(&self.data)? {
                if let Some(held) = storage.open(&device)? {
                    return Ok(held);
                }
            }
            storage.attach(&self.data, AttachOptions::default(), &self.tuning())
        };
        set_up().map_err(HostError::io("set up a loop device"))
    }

    fn grow_unmounted(&mut self, device: &LoopDevice, kind: FileSystem) -> Result<(), HostError> {
        let grown = self.plugin.host.storage.grow_unmounted(&device.path, kind);
        grown.map_err(HostError::io("grow the file system"))?;
        self.record.content.file_system_bytes = self.record.content.bytes;
        self.save()
    }

    /// Grows a mounted file system to the size of its file, and opens it to its users.
    fn prepare(
        &mut self,
        path: &str,
        kind: FileSystem,
        group: Option<u32>,
    ) -> Result<(), HostError> {
        let content = self.record.content;
        let mount = Path::new(path);
        let prepare = || {
            if !content.is_prepared {
                data::open_to_all(mount)?;
            }
            if content.file_system_bytes < content.bytes {
                let storage = &self.plugin.host.storage;
                storage.grow_file_system(mount, kind, content.bytes)?;
            }
            Ok(())
        };
        prepare().map_err(HostError::io(format!("prepare the file system at {path}")))?;
        open_to_group(mount, group)?;
        if !content.is_prepared || content.file_system_bytes < content.bytes {
            self.record.content.is_prepared = true;
            self.record.content.file_system_bytes = content.bytes;
            self.save()?;
        }
        Ok(())
    }

    /// Returns the writable or read-only device of a block volume. Sets it up if it does not exist, and holds it.
    pub(crate) fn block_device(&self, read_only: bool) -> Result<PathBuf, HostError> {
        let storage = &self.plugin.host.storage;
        let set_up = || {
            let devices = storage.attached(&self.data)?;
            let mut fitting = devices.iter().filter(|device| device.read_only == read_only);
            if let Some(device) = fitting.next()
                && let Some(held) = storage.open(device)?
            {
                return Ok(held);
            }
            let how = AttachOptions { read_only, persistent: true };
            storage.attach(&self.data, how, &self.tuning())
        };
        let held = set_up().map_err(HostError::io("set up a loop device"))?;
        let path = held.path.clone();
        self.plugin.hold_device(self.id(), read_only, held);
        Ok(path)
    }

    /// Detaches the devices of a block volume that no path except `except` needs.
    pub(crate) fn release_devices(&self, except: &str) -> Result<(), HostError> {
        if self.backing() != Backing::Block {
            return Ok(());
        }
        if self.is_attached_elsewhere()? {
            // The devices may be those of the other node.
            for read_only in [false, true] {
                self.plugin.let_go_of_device(self.id(), read_only);
            }
            return Ok(());
        }
        let others = self.paths.iter().filter(|(path, _)| *path != except);
        let needed: Vec<bool> = others
            .map(|(_, path_record)| match path_record {
                PathRecord::Staging { capability } => self.is_read_only(capability, false),
                PathRecord::Target { capability, read_only, .. } => {
                    self.is_read_only(capability, *read_only)
                }
            })
            .collect();
        for read_only in [false, true] {
            if !needed.contains(&read_only) {
                self.plugin.let_go_of_device(self.id(), read_only);
            }
        }
        let storage = &self.plugin.host.storage;
        let devices = storage.attached(&self.data);
        let released = devices.and_then(|devices| {
            let mut unneeded = devices.iter().filter(|device| !needed.contains(&device.read_only));
            unneeded.try_for_each(|device| storage.detach(device))
        });
        let action = format!("detach the device of volume `{}`", self.id());
        released.map_err(HostError::io(action))
    }

    /// Returns whether the volume is attached to another node, and not to this one.
    fn is_attached_elsewhere(&self) -> Result<bool, HostError> {
        Ok(self.attachment.is_none() && !self.plugin.attached_nodes(&self.record)?.is_empty())
    }

    /// Returns whether a block volume is staged: its device exists.
    pub(crate) fn is_block_staged(&self, path_record: &PathRecord) -> Result<bool, HostError> {
        let is_staging = matches!(path_record, PathRecord::Staging { .. });
        let is_block = self.backing() == Backing::Block;
        Ok(is_staging && is_block && !self.devices()?.is_empty())
    }

    /// Returns the settings of its devices. The stored parameters were validated before.
    fn tuning(&self) -> DeviceTuning {
        parameters::tuning(&self.record.mutable, self.backing()).unwrap_or_default()
    }

    /// Unmounts every mount of this volume from `path`, which has a record. Fails for a mount of
    /// something else.
    pub(crate) fn unmount<E>(&self, path: &str) -> Result<(), E>
    where
        E: From<HostError> + From<FailedPrecondition>,
    {
        loop {
            match self.mount_state(path)? {
                MountState::NotMounted => return Ok(()),
                MountState::Foreign => return Err(foreign_mount(path).into()),
                MountState::Volume(_) | MountState::LostDevice => {
                    let unmounted = self.plugin.host.mounter.unmount(Path::new(path));
                    unmounted.map_err(HostError::from)?;
                }
            }
        }
    }

    /// Refuses paths inside the plugin's own directory.
    pub(crate) fn check_path_outside_state_dir(
        &self,
        path: &str,
    ) -> Result<(), FailedPrecondition> {
        let shared = self.plugin.shared.as_ref().map(|shared| &shared.path);
        for (what, directory) in [("state", Some(&self.plugin.state_dir)), ("shared", shared)] {
            if directory.is_some_and(|directory| Path::new(path).starts_with(directory)) {
                return Err(FailedPrecondition(format!(
                    "`{path}` is inside the plugin's {what} directory"
                )));
            }
        }
        Ok(())
    }

    /// Checks that the volume is attached, if the plugin requires attachment.
    pub(crate) fn check_attached(&self) -> Result<(), FailedPrecondition> {
        if self.plugin.profile.capabilities.requires_attachment && self.attachment.is_none() {
            return Err(FailedPrecondition(format!(
                "volume `{}` is not attached to this node; call ControllerPublishVolume first",
                self.id()
            )));
        }
        Ok(())
    }
}

fn open_to_group(root: &Path, group: Option<u32>) -> Result<(), HostError> {
    let Some(group) = group else {
        return Ok(());
    };
    let action = format!("open `{}` to group {group}", root.display());
    data::open_to_group(root, group).map_err(HostError::io(action))
}

/// Returns whether a mount has at least the requested restrictions, and is read-only exactly if requested.
pub(crate) fn satisfies(found: MountFlags, requested: MountFlags) -> bool {
    found.and(requested) == found && found.read_only == requested.read_only
}

/// The error for a path that is already a mount point.
pub(crate) fn foreign_mount(path: &str) -> FailedPrecondition {
    FailedPrecondition(format!(
        "something else is mounted at `{path}`; unmount it, or use another path"
    ))
}
