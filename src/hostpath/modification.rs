//! Changing parameters of a volume while it is used: those named are changed, the others stay, and
//! either all are or none (`csi-spec` 5.9).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::ModifyVolumeError;
use super::parameters;
use super::plugin::Plugin;
use super::volume::Volume;

/// ControllerModifyVolume. The record first: a device that is set up later has the new values.
pub(super) async fn modify(
    plugin: Arc<Plugin>,
    id: String,
    changes: BTreeMap<String, String>,
) -> Result<(), ModifyVolumeError> {
    let mut volume = Volume::open::<ModifyVolumeError>(&plugin, id).await?;
    let tuning = parameters::tuning(&changes, volume.backing())?;
    volume.record.mutable.extend(changes);
    volume.save().await?;
    let devices = volume.devices().await?;
    plugin
        .files("change how a loop device works", move |plugin| {
            devices
                .iter()
                .try_for_each(|device| plugin.host.storage.tune(&device.path, &tuning))
        })
        .await?;
    tracing::info!(volume.external_id = %volume.id(), "modified a volume");
    Ok(())
}
