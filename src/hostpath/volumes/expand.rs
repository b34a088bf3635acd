//! Expanding volumes, also while they are in use.
//!
//! The controller extends the file and reports whether the node must act. The device and the file
//! system of a volume in use must follow; an unused volume follows at its next staging. If a file
//! system cannot grow while it is mounted, the request is refused before any change, and the plugin
//! advertises OFFLINE expansion. A volume never shrinks.

use std::sync::Arc;

use super::space::{ensure_space, provision};
use super::volume::{MountState, Volume};
use crate::catalog::Backing;
use crate::error::{ExpandVolumeError, FailedPrecondition, HostError, InvalidArgument, NotAtPath};
use crate::plugin::Plugin;
use crate::profile::PluginCapability;
use crate::size::{self, OutOfRange, SizeRange};
use crate::volume_capability::VolumeCapability;

/// The new size, and whether the node must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) bytes: u64,
    pub(crate) needs_node_expansion: bool,
}

/// Implements ControllerExpandVolume.
pub(crate) fn expand(
    plugin: &Arc<Plugin>,
    id: String,
    range: SizeRange,
    capability: Option<&VolumeCapability>,
) -> Result<Expanded, ExpandVolumeError> {
    let mut volume = Volume::open::<ExpandVolumeError>(plugin, id)?;
    check_capability(&volume, capability)?;
    let is_used = !volume.devices()?.is_empty();
    if is_used && range.required > volume.record.content.bytes {
        check_online_growth(&volume)?;
    }
    grow_file(&mut volume, range)?;
    let has_node = plugin.has_nodes() && plugin.has(PluginCapability::NodeExpand);
    if is_used && !has_node {
        // Without node expansion, the controller does all the work.
        resize_devices(&volume)?;
        grow_file_system(&mut volume)?;
    }
    Ok(Expanded { bytes: volume.record.content.bytes, needs_node_expansion: is_used && has_node })
}

fn check_capability(
    volume: &Volume,
    capability: Option<&VolumeCapability>,
) -> Result<(), InvalidArgument> {
    match capability.and_then(|capability| volume.record.content.incompatibility(capability)) {
        Some(incompatibility) => InvalidArgument::err(incompatibility),
        None => Ok(()),
    }
}

fn check_online_growth(volume: &Volume) -> Result<(), ExpandVolumeError> {
    let features = volume.plugin.host.storage.features();
    match volume.record.content.file_system {
        Some(kind) if features.offline_growth_only.contains(&kind) => {
            Err(offline_only(volume.id()).into())
        }
        Some(_) | None => Ok(()),
    }
}

fn offline_only(id: &str) -> FailedPrecondition {
    FailedPrecondition(format!(
        "volume `{id}` is in use, and growing its mounted file system requires CAP_SYS_RESOURCE, which this plugin lacks: unpublish and unstage the volume, then expand it; it grows when it is staged again"
    ))
}

/// Extends the file, which a blank volume does not have, then updates the record. A crash in between
/// leaves a file that is longer than the volume, which is harmless.
fn grow_file(volume: &mut Volume, range: SizeRange) -> Result<(), ExpandVolumeError> {
    let now = volume.record.content.bytes;
    if volume.backing() == Backing::Directory {
        return Err(OutOfRange(format!(
            "volume `{}` is a directory without a size: it can use all space of its file system",
            volume.id()
        ))
        .into());
    }
    if range.limit != 0 && range.limit < now {
        return Err(OutOfRange(format!(
            "volume `{}` has {now} bytes, and a volume cannot shrink",
            volume.id()
        ))
        .into());
    }
    if range.required <= now {
        return Ok(volume.plugin.catalog.publish(&volume.record).map_err(HostError::from)?);
    }
    let bytes = size::choose(range, now, now)?;
    let plugin = &volume.plugin;
    ensure_space::<ExpandVolumeError>(plugin, bytes - now)?;
    if !volume.record.content.is_blank {
        let grown = plugin.images.grow_file(volume.id(), bytes);
        grown.map_err(HostError::io("extend the volume's file"))?;
    }
    let mut record = volume.record.clone();
    record.content.bytes = bytes;
    provision::<ExpandVolumeError>(plugin, &record, bytes - now)?;
    volume.record = record;
    tracing::info!(volume.external_id = %volume.id(), bytes, "expanded a volume");
    Ok(())
}

/// Implements NodeExpandVolume: device and file system follow the file.
pub(crate) fn expand_on_node(
    plugin: &Arc<Plugin>,
    id: String,
    path: String,
    range: SizeRange,
    capability: Option<&VolumeCapability>,
) -> Result<u64, ExpandVolumeError> {
    let mut volume = Volume::open::<ExpandVolumeError>(plugin, id)?;
    let is_there = match volume.paths.get(&path) {
        None => false,
        Some(path_record) => {
            matches!(volume.mount_state(&path)?, MountState::Volume(_))
                || volume.is_block_staged(path_record)?
        }
    };
    if !is_there {
        let id = volume.record.id;
        return Err(NotAtPath { id, path }.into());
    }
    check_capability(&volume, capability)?;
    if volume.backing() == Backing::Directory {
        return Ok(0);
    }
    // If the controller does not expand volumes, the node extends the file.
    let is_of_controller = plugin.has(PluginCapability::Expand) || !plugin.has_controller();
    if range.required > volume.record.content.bytes && is_of_controller {
        return Err(OutOfRange(format!(
            "volume `{}` has {} bytes; expand it with the controller first",
            volume.id(),
            volume.record.content.bytes
        ))
        .into());
    }
    grow_file(&mut volume, range)?;
    resize_devices(&volume)?;
    grow_file_system(&mut volume)?;
    Ok(volume.record.content.bytes)
}

fn resize_devices(volume: &Volume) -> Result<(), HostError> {
    let storage = &volume.plugin.host.storage;
    for device in volume.devices()? {
        let resized = storage.resize(&device.path);
        resized.map_err(HostError::io("resize loop devices"))?;
    }
    Ok(())
}

fn grow_file_system(volume: &mut Volume) -> Result<(), ExpandVolumeError> {
    let content = volume.record.content;
    let Some(kind) = content.file_system else {
        return Ok(());
    };
    if content.file_system_bytes >= content.bytes {
        return Ok(());
    }
    let mount = volume.first_mount()?;
    let writable = mount.filter(|entry| !entry.flags.read_only);
    let Some(mount) = writable.map(|entry| entry.target) else {
        return Err(FailedPrecondition(format!(
            "the file system of volume `{}` cannot grow while it is mounted read-only; it grows when it is staged again",
            volume.id()
        ))
        .into());
    };
    let storage = &volume.plugin.host.storage;
    let grown = storage.grow_file_system(&mount, kind, content.bytes);
    match grown.map_err(HostError::io("grow the file system")) {
        Err(error) if error.is_permission_denied() => {
            return Err(offline_only(volume.id()).into());
        }
        grown => grown?,
    }
    volume.record.content.file_system_bytes = content.bytes;
    volume.save()?;
    Ok(())
}
