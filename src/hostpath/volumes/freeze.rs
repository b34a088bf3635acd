//! Consistent copies of volumes that may be in use.
//!
//! An unused volume can be copied as it is. A mounted image is frozen during the copy; one that is mounted where this
//! plugin sees no mount, such as in the namespace of a task that outlived its claim, cannot be copied. A block
//! device in use cannot be frozen: it can be copied only by itself, and only where a copy is a
//! reflink, which is atomic. A directory in use cannot be copied. Such requests fail with
//! FAILED_PRECONDITION.
//!
//! The plugin always thaws what it froze: with [`FrozenVolumes::thaw`], or after a crash with
//! [`thaw`], because the record of the copy is written before.

use std::path::PathBuf;
use std::sync::Arc;

use super::delete::device_in_use;
use super::volume::Volume;
use crate::catalog::{Backing, Content};
use crate::error::{CreateSnapshotError, FailedPrecondition, HostError};
use crate::plugin::Plugin;

/// A volume to copy, and how it is in use.
pub(crate) struct CopySource {
    pub(crate) volume: Volume,
    /// Where it is mounted.
    mount: Option<PathBuf>,
    /// The writable devices of a block volume.
    devices: Vec<PathBuf>,
    /// The device of an image that is in use without a mount that this plugin sees.
    hidden_use: Option<PathBuf>,
    /// True if a copy is a reflink.
    is_shared: bool,
}

/// Why a copy failed.
pub(crate) struct CopyError {
    pub(crate) error: HostError,
    /// True if a file system may still be frozen. Then the record must stay, so that the next start
    /// thaws it.
    pub(crate) is_frozen: bool,
}

/// Volumes that do not change until they are thawed.
pub(crate) struct FrozenVolumes {
    plugin: Arc<Plugin>,
    mounts: Vec<PathBuf>,
}

impl CopySource {
    /// Inspects a volume on which an operation is in progress.
    pub(crate) fn inspect(volume: Volume) -> Result<Self, HostError> {
        let mount = volume.first_mount()?.map(|entry| entry.target);
        let devices = match volume.backing() {
            Backing::Block => volume.devices()?,
            Backing::Directory | Backing::Image => vec![],
        };
        let plugin = &volume.plugin;
        let hidden_use = match volume.backing() {
            Backing::Image if mount.is_none() => {
                device_in_use(plugin, &volume.data, Backing::Image)?
            }
            Backing::Image | Backing::Directory | Backing::Block => None,
        };
        let is_shared = plugin.host.storage.supports_reflink(plugin.images.path());
        let writable = devices.into_iter().filter(|device| !device.read_only);
        Ok(Self {
            devices: writable.map(|device| device.path).collect(),
            volume,
            mount,
            hidden_use,
            is_shared,
        })
    }

    /// Returns the format of the volume.
    pub(crate) fn content(&self) -> Content {
        self.volume.record.content
    }

    /// Returns the path of the data.
    pub(crate) fn data(&self) -> PathBuf {
        self.volume.data.clone()
    }

    /// Checks that a consistent copy is possible, together with `volume_count` volumes including
    /// this one.
    pub(crate) fn check_consistent_copy(
        &self,
        volume_count: usize,
    ) -> Result<(), FailedPrecondition> {
        let id = self.volume.id();
        match self.volume.backing() {
            Backing::Image => match &self.hidden_use {
                None => Ok(()),
                Some(device) => Err(FailedPrecondition(format!(
                    "volume `{id}` is in use at `{}`, and mounted where this plugin cannot freeze it: end what uses it first",
                    device.display()
                ))),
            },
            Backing::Directory if self.mount.is_none() => Ok(()),
            Backing::Directory => Err(FailedPrecondition(format!(
                "volume `{id}` is a directory in use, which cannot be frozen: unpublish and unstage it first"
            ))),
            Backing::Block if self.devices.is_empty() => Ok(()),
            Backing::Block if self.is_shared && volume_count == 1 => Ok(()),
            Backing::Block => Err(FailedPrecondition(format!(
                "volume `{id}` is a block device in use, which cannot be frozen: unpublish and unstage it first"
            ))),
        }
    }

    /// Freezes this volume.
    pub(crate) fn freeze(&self) -> Result<FrozenVolumes, CopyError> {
        freeze_all(std::slice::from_ref(self))
    }
}

/// Freezes several volumes, so that all are frozen at the same moment. If one fails, thaws the
/// others.
pub(crate) fn freeze_all(copy_sources: &[CopySource]) -> Result<FrozenVolumes, CopyError> {
    let Some(first) = copy_sources.first() else {
        let nothing = std::io::ErrorKind::InvalidInput.into();
        return Err(CopyError {
            error: HostError::io("freeze no volumes")(nothing),
            is_frozen: false,
        });
    };
    let mut frozen = FrozenVolumes { plugin: first.volume.plugin.clone(), mounts: vec![] };
    for copy_source in copy_sources {
        if let Err(error) = frozen.add(copy_source) {
            let is_frozen = frozen.thaw().is_err();
            return Err(CopyError { error, is_frozen });
        }
    }
    Ok(frozen)
}

impl FrozenVolumes {
    fn add(&mut self, copy_source: &CopySource) -> Result<(), HostError> {
        let is_image = copy_source.volume.backing() == Backing::Image;
        let mount = copy_source.mount.clone().filter(|_| is_image);
        let storage = &self.plugin.host.storage;
        let freeze = || {
            for device in &copy_source.devices {
                storage.flush(device)?;
            }
            mount.as_deref().map_or(Ok(()), |mount| storage.freeze(mount))
        };
        let action = format!("freeze volume `{}`", copy_source.volume.id());
        freeze().map_err(HostError::io(action))?;
        self.mounts.extend(mount);
        Ok(())
    }

    /// Thaws all volumes.
    pub(crate) fn thaw(mut self) -> Result<(), HostError> {
        let mut result = Ok(());
        for mount in std::mem::take(&mut self.mounts) {
            let thawed = self.plugin.host.storage.thaw(&mount);
            result = result.and(thawed.map_err(HostError::io("thaw a file system")));
        }
        result
    }
}

impl Drop for FrozenVolumes {
    /// Thaws the rest after a panic.
    fn drop(&mut self) {
        for mount in std::mem::take(&mut self.mounts) {
            if let Err(error) = self.plugin.host.storage.thaw(&mount) {
                tracing::error!(mount = %mount.display(), %error, "cannot thaw a file system");
            }
        }
    }
}

/// Thaws the file system of a volume, wherever it is mounted.
pub(crate) fn thaw(plugin: &Arc<Plugin>, id: String) -> Result<(), HostError> {
    let volume = match Volume::read::<CreateSnapshotError>(plugin, id) {
        Ok(volume) => volume,
        Err(CreateSnapshotError::Host(error)) => return Err(error),
        // A deleted volume is not mounted.
        Err(
            CreateSnapshotError::VolumeNotFound(_)
            | CreateSnapshotError::InvalidArgument(_)
            | CreateSnapshotError::SnapshotNameTaken(_)
            | CreateSnapshotError::ResourceExhausted(_)
            | CreateSnapshotError::FailedPrecondition(_)
            | CreateSnapshotError::OperationPending(_),
        ) => return Ok(()),
    };
    if volume.backing() != Backing::Image {
        return Ok(());
    }
    let Some(mount) = volume.first_mount()? else {
        return Ok(());
    };
    let thawed = plugin.host.storage.thaw(&mount.target);
    thawed.map_err(HostError::io("thaw a file system"))
}
