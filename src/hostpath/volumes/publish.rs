//! Publishing a staged volume at target paths.
//!
//! The orchestrator owns the parent of a target path. The plugin creates the directory (or the
//! file, for a block device) before the mount, and removes it after the unmount if it is empty.

use std::path::Path;
use std::sync::Arc;

use super::stage::check_usable;
use super::volume::{ContentMade, MountState, Volume, foreign_mount, satisfies};
use crate::catalog::{Backing, DeviceNumber, PathRecord};
use crate::error::{
    ConflictingUse, FailedPrecondition, HostError, NotStaged, PublishVolumeError, SecondTarget,
    UnpublishVolumeError,
};
use crate::plugin::Plugin;
use crate::profile::PluginCapability;
use crate::request::PublishRequest;

use nomad_csi_ports::MountFlags;

/// Implements NodePublishVolume.
pub(crate) fn publish(
    plugin: &Arc<Plugin>,
    request: &PublishRequest,
) -> Result<(), PublishVolumeError> {
    let mut volume = Volume::open::<PublishVolumeError>(plugin, request.volume_id.clone())?;
    let path = &request.target_path;
    volume.check_path_outside_state_dir(path)?;
    check_usable::<PublishVolumeError>(&volume, &request.capability)?;
    check_staged(&volume, request)?;
    let flags = flags(&volume, request);
    let is_file = volume.backing() == Backing::Block;
    let known = volume.paths.get(path);
    let mut made_directory = known.is_some_and(PathRecord::made_directory);
    let found = volume.mount_state(path)?;
    match found {
        MountState::NotMounted => made_directory |= is_absent_or_empty(path, is_file)?,
        MountState::Foreign => return Err(foreign_mount(path).into()),
        MountState::Volume(_) if !known.is_some_and(|known| is_same_request(known, request)) => {
            return Err(ConflictingUse { id: volume.record.id, path: path.clone() }.into());
        }
        // The mount of a block device does not show whether it is read-only; its device does.
        MountState::Volume(found) if is_file || satisfies(found, flags) && volume.is_prepared() => {
            return Ok(());
        }
        MountState::Volume(_) | MountState::LostDevice => {}
    }
    check_single_target(&volume, request)?;
    let mut record = PathRecord::Target {
        capability: request.capability.clone(),
        read_only: request.read_only,
        staging_path: request.staging_path.clone(),
        made_directory,
        device: None,
    };
    // The record precedes the directory, so that a crash leaves no directory without a record.
    let made = if volume.plugin.has(PluginCapability::Stage) {
        ContentMade::Before
    } else {
        volume.make_content::<PublishVolumeError>()?
    };
    volume.put_path_record(path, record.clone(), made)?;
    make_target(path, is_file)?;
    if is_file && let PathRecord::Target { device, .. } = &mut record {
        *device = device_of(&volume, flags)?;
        volume.put_path_record(path, record, ContentMade::Before)?;
    }
    mount(&mut volume, request, flags, found)?;
    tracing::info!(volume.external_id = %volume.id(), target_path = %path,
        read_only = flags.read_only, "published a volume");
    Ok(())
}

/// Mounts the volume at the target: from its staging path, or directly if the plugin does not
/// stage.
fn mount(
    volume: &mut Volume,
    request: &PublishRequest,
    flags: MountFlags,
    found: MountState,
) -> Result<(), HostError> {
    let path = &request.target_path;
    if volume.backing() == Backing::Block {
        let device = volume.block_device(flags.read_only)?;
        let flags = MountFlags::default();
        return volume.bind(&device, path, flags, found);
    }
    if volume.plugin.has(PluginCapability::Stage) {
        let source = Path::new(&request.staging_path);
        return volume.bind(source, path, flags, found);
    }
    volume.mount_volume(path, &request.capability, flags, found)
}

/// Returns the number of the device that is bound for a block volume.
fn device_of(volume: &Volume, flags: MountFlags) -> Result<Option<DeviceNumber>, HostError> {
    let node = volume.block_device(flags.read_only)?;
    let action = format!("examine `{}`", node.display());
    DeviceNumber::at(&node).map_err(HostError::io(action))
}

/// Implements NodeUnpublishVolume.
pub(crate) fn unpublish(
    plugin: &Arc<Plugin>,
    volume_id: String,
    path: &str,
) -> Result<(), UnpublishVolumeError> {
    let mut volume = Volume::open::<UnpublishVolumeError>(plugin, volume_id)?;
    volume.follow_rename(path, |record| matches!(record, PathRecord::Target { .. }))?;
    let made_directory = match volume.paths.get(path) {
        Some(PathRecord::Target { made_directory, .. }) => *made_directory,
        Some(PathRecord::Staging { .. }) | None => return Ok(()),
    };
    volume.unmount::<UnpublishVolumeError>(path)?;
    if made_directory {
        remove_target(path, volume.backing() == Backing::Block)?;
    }
    volume.release_devices(path)?;
    volume.remove_path_record(path)?;
    tracing::info!(volume.external_id = %volume.id(), target_path = %path, "unpublished a volume");
    Ok(())
}

/// Returns the mount flags; read-only if any part of the request asks for it.
fn flags(volume: &Volume, request: &PublishRequest) -> MountFlags {
    MountFlags {
        read_only: volume.is_read_only(&request.capability, request.read_only),
        ..request.capability.flags
    }
}

/// Returns whether a recorded target was requested with the same arguments.
fn is_same_request(known: &PathRecord, request: &PublishRequest) -> bool {
    match known {
        PathRecord::Staging { .. } => false,
        PathRecord::Target {
            capability,
            read_only,
            staging_path,
            made_directory: _,
            device: _,
        } => {
            *capability == request.capability
                && *read_only == request.read_only
                && *staging_path == request.staging_path
        }
    }
}

/// Checks that the volume is staged at the given path, for the same capability.
fn check_staged(volume: &Volume, request: &PublishRequest) -> Result<(), PublishVolumeError> {
    if !volume.plugin.has(PluginCapability::Stage) {
        return Ok(());
    }
    let (id, path) = (volume.id(), &request.staging_path);
    let missing = |what: String| Err(PublishVolumeError::from(NotStaged(what)));
    if path.is_empty() {
        return missing(format!(
            "the staging path is missing: stage volume `{id}`, then publish it with that path"
        ));
    }
    // A staged block volume is a device, which is set up again if it is missing.
    let is_mounted = volume.backing() == Backing::Block
        || volume.is_prepared() && matches!(volume.mount_state(path)?, MountState::Volume(_));
    match volume.paths.get(path) {
        Some(PathRecord::Staging { capability }) if is_mounted => {
            if *capability == request.capability {
                return Ok(());
            }
            missing(format!(
                "volume `{id}` is staged at `{path}` with another capability; unstage it first"
            ))
        }
        Some(PathRecord::Staging { .. } | PathRecord::Target { .. }) | None => {
            missing(format!("volume `{id}` is not staged at `{path}`; stage it first"))
        }
    }
}

/// Refuses a second target for the access modes of a single workload (CSI, the table of
/// NodePublishVolume).
fn check_single_target(
    volume: &Volume,
    request: &PublishRequest,
) -> Result<(), PublishVolumeError> {
    if !request.capability.access_mode.has_one_target() {
        return Ok(());
    }
    for (path, record) in &volume.paths {
        let is_other = matches!(record, PathRecord::Target { .. }) && *path != request.target_path;
        // A node that lost its device may still be open.
        if is_other && volume.mount_state(path)?.is_of_plugin() {
            return Err(SecondTarget { id: volume.record.id.clone(), other: path.clone() }.into());
        }
    }
    Ok(())
}

/// Creates the target if it does not exist: a directory, or a file for a block device. The
/// orchestrator creates its parent.
fn make_target(path: &str, is_file: bool) -> Result<(), HostError> {
    let made = if is_file {
        let mut options = std::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).open(path);
        made.map(drop)
    } else {
        std::fs::create_dir(path)
    };
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(HostError::io(format!("create target `{path}`"))(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns true if the target path does not exist, and false if it is empty. Fails otherwise,
/// because a mount would hide its content.
fn is_absent_or_empty(path: &str, is_file: bool) -> Result<bool, FailedPrecondition> {
    use std::io::ErrorKind::NotFound;
    let unfit = |why: String| Err(FailedPrecondition(format!("target path `{path}` {why}")));
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == NotFound => return Ok(true),
        Err(error) => return unfit(format!("cannot be used: {error}")),
        Ok(found) if is_file && found.is_file() && found.len() == 0 => return Ok(false),
        Ok(_) if is_file => return unfit("is not an empty file".to_owned()),
        Ok(found) if !found.is_dir() => return unfit("is not a directory".to_owned()),
        Ok(_) => {}
    }
    let mut entries = match std::fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) => return unfit(format!("cannot be read: {error}")),
    };
    match entries.next() {
        None => Ok(false),
        Some(Ok(_)) => unfit("is not empty, and a mount would hide its content".to_owned()),
        Some(Err(error)) => unfit(format!("cannot be read: {error}")),
    }
}

/// Removes the target that publishing created. Keeps files that were written below the mount.
fn remove_target(path: &str, is_file: bool) -> Result<(), UnpublishVolumeError> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
    let has_content = || {
        FailedPrecondition(format!(
            "`{path}` contains files that were written while the volume was not mounted; move them away, then repeat"
        ))
    };
    let removed = if is_file {
        match std::fs::symlink_metadata(path) {
            Ok(found) if found.len() > 0 => return Err(has_content().into()),
            _ => std::fs::remove_file(path),
        }
    } else {
        std::fs::remove_dir(path)
    };
    match removed {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == NotFound => Ok(()),
        Err(error) if error.kind() == DirectoryNotEmpty => Err(has_content().into()),
        Err(error) => Err(HostError::io(format!("remove target `{path}`"))(error).into()),
    }
}
