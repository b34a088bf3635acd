//! One volume during one call about its mounts: what is on record of it, and what is there.
//!
//! What a path was made for is in the catalogue; whether it is there, in the mount table and among
//! the loop devices. The record is written before the mount and removed after it. So every mount of
//! the plugin's own is on record, what is not on record is somebody else's and stays untouched, and
//! a record without a mount (a crash, a reboot) means only that it has to be made again. Nothing
//! here is recursive.
//!
//! A directory is bound. An image is mounted over a loop device that goes with its last mount, so a
//! crash leaves none behind. A block volume's devices (one to write, one that cannot) stay until the
//! last path that needs them is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::{Backing, PlaceRecord, VolumeRecord};
use super::error::{Machine, NoVolume, Pending, Unfit};
use super::parameters;
use super::place::Place;
use super::plugin::{Operation, Plugin, Subject};
use super::usage::Usage;
use crate::ports::{
    Attach, AttachedDevice, FileSystem, LoopDevice, MountEntry, MountFlags, Tuning,
};

/// What is mounted at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// Nothing.
    Nothing,
    /// This volume, by this plugin, with these flags.
    Volume(MountFlags),
    /// Something else, or this volume by somebody else.
    Other,
}

/// A volume that exists.
pub(super) struct Volume {
    pub(super) plugin: Arc<Plugin>,
    pub(super) record: VolumeRecord,
    /// Its directory or file.
    pub(super) data: PathBuf,
    /// What is on record of its paths.
    pub(super) places: BTreeMap<String, PlaceRecord>,
    _operation: Option<Operation>,
}

impl Volume {
    /// Begins an operation on a volume; until its end no other can begin.
    pub(super) async fn open<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<Machine> + From<NoVolume> + From<Pending> + Send + 'static,
    {
        let operation = plugin.begin(Subject::Volume(id.clone()))?;
        let volume = Self::look::<E>(plugin, id).await?;
        Ok(Self {
            _operation: Some(operation),
            ..volume
        })
    }

    /// Looks at a volume, whatever is under way about it.
    pub(super) async fn look<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<Machine> + From<NoVolume> + Send + 'static,
    {
        let known = plugin.blocking(move |plugin| {
            let record = plugin.ready(&id)?.ok_or(NoVolume(id))?;
            let places = plugin.catalog.places(&record.id).map_err(Machine::from)?;
            Ok::<_, E>((record, places))
        });
        let (record, places) = known.await?;
        Ok(Self {
            data: plugin.data_of(record.content.backing).path_of(&record.id),
            plugin: plugin.clone(),
            record,
            places,
            _operation: None,
        })
    }

    /// Its ID.
    pub(super) fn id(&self) -> &str {
        &self.record.id
    }

    /// What its data is.
    pub(super) fn backing(&self) -> Backing {
        self.record.content.backing
    }

    /// Whether nobody may write through a use of it.
    pub(super) fn is_read_only(&self, usage: &Usage, asked: bool) -> bool {
        let attached = self.record.attachment.as_ref();
        asked || usage.is_read_only() || attached.is_some_and(|attached| attached.read_only)
    }

    /// Its loop devices.
    pub(super) async fn devices(&self) -> Result<Vec<AttachedDevice>, Machine> {
        if self.backing() == Backing::Directory {
            return Ok(vec![]);
        }
        let data = self.data.clone();
        self.plugin
            .files("list loop devices", move |plugin| {
                plugin.host.storage.attached(&data)
            })
            .await
    }

    /// What is mounted at `path` now.
    pub(super) async fn at(&self, path: &str) -> Result<At, Machine> {
        let mounter = &self.plugin.host.mounter;
        let Some(entry) = mounter.entry(Path::new(path)).await? else {
            return Ok(At::Nothing);
        };
        let devices = self.devices().await?;
        let mounts = mounter.list().await?;
        let is_shown = self.is_shown_by(&entry, &mounts, &devices);
        Ok(if is_shown && self.places.contains_key(path) {
            At::Volume(entry.flags)
        } else {
            At::Other
        })
    }

    /// Whether a mount shows exactly this volume.
    fn is_shown_by(
        &self,
        entry: &MountEntry,
        mounts: &[MountEntry],
        devices: &[AttachedDevice],
    ) -> bool {
        let shows =
            |path: &Path| Place::of(path, mounts).is_some_and(|place| place.is_shown_by(entry));
        match self.backing() {
            Backing::Directory => shows(&self.data),
            Backing::Image => devices
                .iter()
                .any(|device| Path::new(&entry.source) == device.path),
            Backing::Block => devices.iter().any(|device| shows(&device.path)),
        }
    }

    /// The first mount that shows it, whoever made it.
    pub(super) async fn first_mount(&self) -> Result<Option<MountEntry>, Machine> {
        let devices = self.devices().await?;
        let mounts = self.plugin.host.mounter.list().await?;
        let shown: Vec<_> = mounts
            .iter()
            .filter(|entry| self.is_shown_by(entry, &mounts, &devices))
            .collect();
        // One that can be written through is worth more: a file system grows and rests there.
        let writable = shown.iter().find(|entry| !entry.flags.read_only);
        Ok(writable.or(shown.first()).map(|entry| (*entry).clone()))
    }

    /// Records what `path` is for.
    pub(super) async fn remember(
        &mut self,
        path: &str,
        record: PlaceRecord,
    ) -> Result<(), Machine> {
        self.places.insert(path.to_owned(), record.clone());
        let (id, path) = (self.record.id.clone(), path.to_owned());
        self.plugin
            .blocking(move |plugin| Ok(plugin.catalog.put_place(&id, &path, &record)?))
            .await
    }

    /// Removes the record of `path`.
    pub(super) async fn forget(&mut self, path: &str) -> Result<(), Machine> {
        self.places.remove(path);
        let (id, path) = (self.record.id.clone(), path.to_owned());
        self.plugin
            .blocking(move |plugin| Ok(plugin.catalog.forget_place(&id, &path)?))
            .await
    }

    /// Puts down what changed of the volume.
    pub(super) async fn save(&self) -> Result<(), Machine> {
        let record = self.record.clone();
        self.plugin
            .blocking(move |plugin| Ok(plugin.catalog.put(&record)?))
            .await
    }

    /// Binds `source` at `path`, for which a record stands. `found`, this volume with other flags
    /// (left by a crash between the two calls of a bind), is replaced.
    pub(super) async fn bind(
        &self,
        source: &Path,
        path: &str,
        flags: MountFlags,
        found: At,
    ) -> Result<(), Machine> {
        let target = Path::new(path);
        let mounter = &self.plugin.host.mounter;
        if let At::Volume(_) = found {
            mounter.unmount(target).await?;
        }
        Ok(mounter.bind(source, target, flags).await?)
    }

    /// Mounts the volume itself at `path`, for which a record stands: a directory by binding it, an
    /// image over its loop device.
    pub(super) async fn mount_whole(
        &mut self,
        path: &str,
        usage: &Usage,
        flags: MountFlags,
        found: At,
    ) -> Result<(), Machine> {
        let Some(kind) = self.record.content.file_system else {
            self.open_to_group(self.data.clone(), usage.group).await?;
            let data = self.data.clone();
            return self.bind(&data, path, flags, found).await;
        };
        let target = Path::new(path);
        if let At::Volume(_) = found {
            self.plugin.host.mounter.unmount(target).await?;
        }
        let device = self.device_for_mount().await?;
        let content = self.record.content;
        if content.file_system_bytes < content.bytes {
            let path = device.path.clone();
            self.plugin
                .files("let a loop device grow", move |plugin| {
                    plugin.host.storage.resize(&path)
                })
                .await?;
        }
        let needs_work = !content.is_prepared
            || content.file_system_bytes < content.bytes
            || usage.group.is_some();
        if needs_work {
            // What has to be written is written before the mount has its flags, which may forbid it.
            self.mount_device(&device, target, kind, usage, MountFlags::default())
                .await?;
            match self.prepare(path, kind, usage.group).await {
                Ok(()) if flags == MountFlags::default() => return Ok(()),
                Ok(()) => self.plugin.host.mounter.unmount(target).await?,
                Err(error) if error.is_permission_denied() => {
                    // It may not grow while it is mounted; nothing uses it yet.
                    self.plugin.host.mounter.unmount(target).await?;
                    self.grow_unmounted(&device, kind).await?;
                    return Box::pin(self.mount_whole(path, usage, flags, At::Nothing)).await;
                }
                Err(error) => {
                    self.plugin.host.mounter.unmount(target).await?;
                    return Err(error);
                }
            }
        }
        self.mount_device(&device, target, kind, usage, flags).await
    }

    async fn mount_device(
        &self,
        device: &LoopDevice,
        target: &Path,
        kind: FileSystem,
        usage: &Usage,
        flags: MountFlags,
    ) -> Result<(), Machine> {
        let mounter = &self.plugin.host.mounter;
        let options = &usage.options;
        Ok(mounter
            .mount_device(&device.path, target, kind, options, flags)
            .await?)
    }

    /// The image's loop device, held. Two devices over one file would be two views of one file
    /// system, so one that is there is taken.
    async fn device_for_mount(&self) -> Result<LoopDevice, Machine> {
        let (data, tuning) = (self.data.clone(), self.tuning());
        self.plugin
            .files("set up a loop device", move |plugin| {
                let storage = &plugin.host.storage;
                for device in storage.attached(&data)? {
                    if let Some(held) = storage.hold(&device)? {
                        return Ok(held);
                    }
                }
                storage.attach(&data, Attach::default(), &tuning)
            })
            .await
    }

    async fn grow_unmounted(
        &mut self,
        device: &LoopDevice,
        kind: FileSystem,
    ) -> Result<(), Machine> {
        let path = device.path.clone();
        self.plugin
            .files("let the file system grow", move |plugin| {
                plugin.host.storage.grow_unmounted(&path, kind)
            })
            .await?;
        self.record.content.file_system_bytes = self.record.content.bytes;
        self.save().await
    }

    /// Lets a file system that is mounted at `path` fill its file and be open to its users.
    async fn prepare(
        &mut self,
        path: &str,
        kind: FileSystem,
        group: Option<u32>,
    ) -> Result<(), Machine> {
        let content = self.record.content;
        let mount = PathBuf::from(path);
        self.plugin
            .files(
                format!("prepare the file system at {path}"),
                move |plugin| {
                    if !content.is_prepared {
                        super::data::open_to_all(&mount)?;
                    }
                    if content.file_system_bytes < content.bytes {
                        let storage = &plugin.host.storage;
                        storage.grow_file_system(&mount, kind, content.bytes)?;
                    }
                    Ok(())
                },
            )
            .await?;
        self.open_to_group(PathBuf::from(path), group).await?;
        if !content.is_prepared || content.file_system_bytes < content.bytes {
            self.record.content.is_prepared = true;
            self.record.content.file_system_bytes = content.bytes;
            self.save().await?;
        }
        Ok(())
    }

    async fn open_to_group(&self, root: PathBuf, group: Option<u32>) -> Result<(), Machine> {
        let Some(group) = group else {
            return Ok(());
        };
        self.plugin
            .files(
                format!("open {} to group {group}", root.display()),
                move |_| super::data::open_to_group(&root, group),
            )
            .await
    }

    /// A block volume's device to write to, or one that cannot be written to; set up if it is not
    /// there.
    pub(super) async fn block_device(&self, read_only: bool) -> Result<PathBuf, Machine> {
        let (data, tuning) = (self.data.clone(), self.tuning());
        self.plugin
            .files("set up a loop device", move |plugin| {
                let storage = &plugin.host.storage;
                let devices = storage.attached(&data)?;
                let found = devices
                    .into_iter()
                    .find(|device| device.read_only == read_only);
                if let Some(device) = found {
                    return Ok(device.path);
                }
                let how = Attach {
                    read_only,
                    stays: true,
                };
                Ok(storage.attach(&data, how, &tuning)?.path)
            })
            .await
    }

    /// Takes away the devices of a block volume that none of its paths but `except` needs.
    pub(super) async fn release_devices(&self, except: &str) -> Result<(), Machine> {
        if self.backing() != Backing::Block {
            return Ok(());
        }
        let others = self.places.iter().filter(|(path, _)| *path != except);
        let needed: Vec<bool> = others
            .map(|(_, place)| match place {
                PlaceRecord::Staging { usage } => self.is_read_only(usage, false),
                PlaceRecord::Target {
                    usage, read_only, ..
                } => self.is_read_only(usage, *read_only),
            })
            .collect();
        let data = self.data.clone();
        self.plugin
            .files(
                format!("detach the device of volume {}", self.id()),
                move |plugin| {
                    let storage = &plugin.host.storage;
                    for device in storage.attached(&data)? {
                        if !needed.contains(&device.read_only) {
                            storage.detach(&device)?;
                        }
                    }
                    Ok(())
                },
            )
            .await
    }

    /// How its devices work. What was taken once is taken always.
    fn tuning(&self) -> Tuning {
        parameters::tuning(&self.record.mutable, self.backing()).unwrap_or_default()
    }

    /// Unmounts this volume from `path`, for which a record stands, as often as it is mounted there.
    /// What is mounted there otherwise is an error.
    pub(super) async fn unmount<E>(&self, path: &str) -> Result<(), E>
    where
        E: From<Machine> + From<Unfit>,
    {
        loop {
            match self.at(path).await? {
                At::Nothing => return Ok(()),
                At::Other => return Err(foreign(path).into()),
                At::Volume(_) => {
                    let unmounted = self.plugin.host.mounter.unmount(Path::new(path)).await;
                    unmounted.map_err(Machine::from)?;
                }
            }
        }
    }

    /// The plugin's own directory is no place to mount on.
    pub(super) fn is_outside_of_volumes(&self, path: &str) -> Result<(), Unfit> {
        if Path::new(path).starts_with(&self.plugin.state_dir) {
            return Err(Unfit(format!("{path} lies among the plugin's own volumes")));
        }
        Ok(())
    }

    /// A node that volumes are attached to uses them only then.
    pub(super) fn is_attached(&self) -> Result<(), Unfit> {
        if self.plugin.play.abilities.attaches && self.record.attachment.is_none() {
            return Err(Unfit(format!(
                "volume {} is not attached to this node; call ControllerPublishVolume first",
                self.id()
            )));
        }
        Ok(())
    }
}

/// Whether a mount forbids at least what is wanted, and is read-only just if it is wanted.
pub(super) fn fits(found: MountFlags, wanted: MountFlags) -> bool {
    found.and(wanted) == found && found.read_only == wanted.read_only
}

/// The path is taken.
pub(super) fn foreign(path: &str) -> Unfit {
    Unfit(format!(
        "something else is mounted at {path}; unmount it, or use another path"
    ))
}
