//! Deleting volumes.
//!
//! The plugin marks the record as `Deleting`, removes the data, then removes the record together with
//! the next change. After a crash the next start continues. A volume without data needs one
//! transaction. A volume in use is never deleted.

use std::time::Duration;

use super::mount_source;
use crate::catalog::{Backing, CatalogVolume, RecordState};
use crate::error::{DeleteVolumeError, HostError, InUse};
use crate::plugin::{OperationKey, Plugin};

/// How often, and at what interval, the plugin looks for a device that the kernel is releasing: 2 s.
const DEVICE_RELEASE_ATTEMPTS: u32 = 200;
const DEVICE_RELEASE_INTERVAL: Duration = Duration::from_millis(10);

/// Implements DeleteVolume. Deleting an unknown volume succeeds; a volume in use is refused.
pub(crate) fn delete(plugin: &Plugin, id: &str) -> Result<(), DeleteVolumeError> {
    let _operation = plugin.begin_operation(OperationKey::Volume(id.to_owned()))?;
    let record = plugin.catalog.volume(id).map_err(HostError::from)?;
    let Some(record) = record.filter(|record| record.state != RecordState::Creating) else {
        return Ok(());
    };
    if let Some(path) = find_use(plugin, &record)? {
        let id = record.id;
        return Err(InUse { id, path }.into());
    }
    if record.content.is_blank && !has_data(plugin, &record)? {
        plugin.catalog.remove_volume(&record).map_err(HostError::from)?;
    } else {
        delete_data_and_record(plugin, record.clone())?;
    }
    if let Some(shared) = &plugin.shared {
        let forgotten = shared.forget(&record.id);
        forgotten.map_err(HostError::io("remove the files of the deleted volume"))?;
    }
    tracing::info!(volume.external_id = %record.id, volume.name = %record.name, "deleted a volume");
    Ok(())
}

fn has_data(plugin: &Plugin, record: &CatalogVolume) -> Result<bool, HostError> {
    let found = plugin.data_dir(record.content.backing).file(&record.id);
    let found = found.map_err(HostError::io("find the volume's data"))?;
    Ok(found.is_some())
}

/// Returns where a volume is in use: the node it is attached to, a mount or a device.
fn find_use(
    plugin: &Plugin,
    record: &CatalogVolume,
) -> Result<Option<std::path::PathBuf>, HostError> {
    if record.state == RecordState::Ready
        && let Some(node) = plugin.attached_nodes(record)?.into_iter().next()
    {
        return Ok(Some(node.into()));
    }
    let data = plugin.data_dir(record.content.backing).path_of(&record.id);
    let mounts = plugin.host.mounter.list()?;
    if let Some(found) = mount_source::first_mount_using(&data, &mounts) {
        return Ok(Some(found.target.clone()));
    }
    if record.content.backing == Backing::Directory {
        return Ok(None);
    }
    device_in_use(plugin, &data, record.content.backing)
}

/// Returns where the device of a volume is mounted, or the device. The kernel releases that of an image shortly after its
/// last unmount, in whichever namespace that is, so one that stays is in use. That of a block volume stays.
pub(super) fn device_in_use(
    plugin: &Plugin,
    data: &std::path::Path,
    backing: Backing,
) -> Result<Option<std::path::PathBuf>, HostError> {
    let mut attempts = match backing {
        Backing::Image => DEVICE_RELEASE_ATTEMPTS,
        Backing::Block | Backing::Directory => 0,
    };
    loop {
        let devices = plugin.host.storage.attached(data);
        let devices = devices.map_err(HostError::io("list loop devices"))?;
        let Some(device) = devices.into_iter().next() else {
            return Ok(None);
        };
        let mounts = plugin.host.mounter.list()?;
        let exposing =
            mounts.iter().find(|mount| std::path::Path::new(&mount.source) == device.path);
        if let Some(mount) = exposing {
            return Ok(Some(mount.target.clone()));
        }
        if attempts == 0 {
            return Ok(Some(device.path));
        }
        attempts -= 1;
        std::thread::sleep(DEVICE_RELEASE_INTERVAL);
    }
}

fn delete_data_and_record(plugin: &Plugin, record: CatalogVolume) -> Result<(), HostError> {
    let record = CatalogVolume { state: RecordState::Deleting, attachment: None, ..record };
    plugin.catalog.put_volume(&record)?;
    let data = plugin.data_dir(record.content.backing);
    let removed = data.remove_unsynced(&record.id);
    removed.map_err(HostError::io(format!("remove the data of volume `{}`", record.id)))?;
    plugin.catalog.remove_volume_later(record, data.handle());
    Ok(())
}
