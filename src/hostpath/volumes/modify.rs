//! Changing mutable parameters, also while a volume is in use (CSI, ControllerModifyVolume).
//!
//! Only the named parameters change, and either all of them or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parameters;
use super::volume::Volume;
use crate::hostpath::error::ModifyVolumeError;
use crate::hostpath::plugin::Plugin;

/// Implements ControllerModifyVolume. The record changes first, so that new devices get the new
/// values.
pub(in crate::hostpath) async fn modify(
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
        .blocking_io("tune a loop device", move |plugin| {
            devices
                .iter()
                .try_for_each(|device| plugin.host.storage.tune(&device.path, &tuning))
        })
        .await?;
    tracing::info!(volume.external_id = %volume.id(), "modified a volume");
    Ok(())
}
