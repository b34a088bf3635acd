//! Deleting volumes.
//!
//! The plugin marks the record as `Deleting`, removes the data, then removes the record. After a
//! crash the next start continues. A volume in use is never deleted.

use std::sync::Arc;
use std::time::Duration;

use super::mount_source;
use crate::hostpath::catalog::{Backing, RecordState, VolumeRecord};
use crate::hostpath::error::{DeleteVolumeError, HostError, InUse};
use crate::hostpath::plugin::{OperationKey, Plugin};

/// How long a device may exist after its last unmount.
const DEVICE_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Implements DeleteVolume. Deleting an unknown volume succeeds; a volume in use is refused.
pub(in crate::hostpath) async fn delete(
    plugin: Arc<Plugin>,
    id: String,
) -> Result<(), DeleteVolumeError> {
    let _operation = plugin.begin_operation(OperationKey::Volume(id.clone()))?;
    let record = plugin
        .blocking(move |plugin| {
            let record = plugin.catalog.volume(&id).map_err(HostError::from)?;
            Ok::<_, DeleteVolumeError>(record)
        })
        .await?;
    let Some(record) = record.filter(|record| record.state != RecordState::Creating) else {
        return Ok(());
    };
    if let Some(path) = find_use(&plugin, &record).await? {
        let id = record.id;
        return Err(InUse { id, path }.into());
    }
    plugin
        .blocking(move |plugin| delete_data_and_record(plugin, record))
        .await
}

/// Returns where a volume is in use: the node it is attached to, a mount or a device.
async fn find_use(
    plugin: &Arc<Plugin>,
    record: &VolumeRecord,
) -> Result<Option<std::path::PathBuf>, HostError> {
    if record.attachment.is_some() && record.state == RecordState::Ready {
        return Ok(Some(plugin.node_id.clone().into()));
    }
    let data = plugin.data_dir(record.content.backing).path_of(&record.id);
    let mounts = plugin.host.mounter.list().await?;
    if let Some(found) = mount_source::first_mount_using(&data, &mounts) {
        return Ok(Some(found.target.clone()));
    }
    if record.content.backing == Backing::Directory {
        return Ok(None);
    }
    let deadline = tokio::time::Instant::now() + DEVICE_RELEASE_TIMEOUT;
    loop {
        let data = data.clone();
        let devices = plugin
            .blocking_io("list loop devices", move |plugin| {
                plugin.host.storage.attached(&data)
            })
            .await?;
        let Some(device) = devices.into_iter().next() else {
            return Ok(None);
        };
        let mounts = plugin.host.mounter.list().await?;
        let exposing = mounts
            .iter()
            .find(|mount| std::path::Path::new(&mount.source) == device.path);
        if let Some(mount) = exposing {
            return Ok(Some(mount.target.clone()));
        }
        // The kernel releases a device shortly after its last unmount. A device that stays is in
        // use.
        if record.content.backing == Backing::Block || tokio::time::Instant::now() > deadline {
            return Ok(Some(device.path));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn delete_data_and_record(plugin: &Plugin, record: VolumeRecord) -> Result<(), DeleteVolumeError> {
    let record = VolumeRecord {
        state: RecordState::Deleting,
        attachment: None,
        ..record
    };
    plugin
        .catalog
        .put_volume(&record)
        .map_err(HostError::from)?;
    plugin
        .data_dir(record.content.backing)
        .remove(&record.id)
        .map_err(HostError::io(format!(
            "remove the data of volume `{}`",
            record.id
        )))?;
    plugin
        .catalog
        .remove_volume(&record)
        .map_err(HostError::from)?;
    tracing::info!(volume.external_id = %record.id, volume.name = %record.name, "deleted a volume");
    Ok(())
}
