//! Changing mutable parameters, also while a volume is in use (CSI, ControllerModifyVolume).
//!
//! Only the named parameters change, and either all of them or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parameters;
use super::volume::Volume;
use crate::error::{HostError, ModifyVolumeError};
use crate::plugin::Plugin;

/// Implements ControllerModifyVolume. The record changes first, so that new devices get the new
/// values.
pub(crate) fn modify(
    plugin: &Arc<Plugin>,
    id: String,
    changes: BTreeMap<String, String>,
) -> Result<(), ModifyVolumeError> {
    let mut volume = Volume::open::<ModifyVolumeError>(plugin, id)?;
    let tuning = parameters::tuning(&changes, volume.backing())?;
    volume.record.mutable.extend(changes);
    volume.save()?;
    let storage = &plugin.host.storage;
    for device in volume.devices()? {
        let tuned = storage.tune(&device.path, &tuning);
        tuned.map_err(HostError::io("tune a loop device"))?;
    }
    tracing::info!(volume.external_id = %volume.id(), "modified a volume");
    Ok(())
}
