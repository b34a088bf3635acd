//! Staging a volume on the node, and its statistics there.

use std::path::Path;
use std::sync::Arc;

use super::cut::check_can_be_cut;
use super::health;
use super::volume::{MountState, Volume, foreign_mount, satisfies};
use crate::catalog::{Backing, PathRecord};
use crate::data::{FileSystemSpace, space_at};
use crate::error::{
    ConflictingUse, FailedPrecondition, HostError, IncompatibleCapability, NotAtPath,
    StageVolumeError, UnstageVolumeError, VolumeStatsError,
};
use crate::plugin::Plugin;
use crate::request::StageCall;
use crate::volume_capability::VolumeCapability;

use nomad_csi_ports::MountFlags;

/// Implements NodeStageVolume.
pub(crate) fn stage(plugin: &Arc<Plugin>, request: StageCall) -> Result<(), StageVolumeError> {
    let mut volume = Volume::open::<StageVolumeError>(plugin, request.volume_id)?;
    let (path, capability) = (request.staging_path, request.capability);
    volume.check_path_outside_state_dir(&path)?;
    check_directory(&path)?;
    check_usable::<StageVolumeError>(&volume, &capability)?;
    let requested = PathRecord::Staging { capability: capability.clone() };
    let flags = staging_flags(&volume, &capability);
    let known = volume.paths.get(&path);
    let found = match (volume.mount_state(&path)?, known) {
        (MountState::NotMounted, Some(path_record)) if volume.is_block_staged(path_record)? => {
            MountState::Volume(flags)
        }
        (found, _) => found,
    };
    match found {
        MountState::NotMounted => {}
        MountState::Foreign => return Err(foreign_mount(&path).into()),
        MountState::Volume(_) if known != Some(&requested) => {
            let id = volume.record.id;
            return Err(ConflictingUse { id, path }.into());
        }
        MountState::Volume(found) if satisfies(found, flags) && volume.is_prepared() => {
            if volume.backing() == Backing::Directory {
                // A crash may have come between the mount and this.
                volume.separate_for_cut(&path)?;
            }
            return Ok(());
        }
        MountState::Volume(_) | MountState::LostDevice => {}
    }
    let made = volume.make_content::<StageVolumeError>()?;
    volume.put_path_record(&path, requested, made)?;
    if volume.backing() == Backing::Block {
        let is_read_only = volume.is_read_only(&capability, false);
        volume.block_device(is_read_only)?;
    } else {
        volume.mount_volume(&path, &capability, flags, found)?;
    }
    tracing::info!(volume.external_id = %volume.id(), staging_path = %path, "staged a volume");
    Ok(())
}

/// Returns the flags of a staging mount. Targets decide whether they can be written, unless the
/// volume is attached read-only.
fn staging_flags(volume: &Volume, capability: &VolumeCapability) -> MountFlags {
    let attached = volume.attachment.as_ref();
    MountFlags {
        read_only: capability.flags.read_only
            || attached.is_some_and(|attached| attached.read_only),
        ..capability.flags
    }
}

/// Checks that the volume supports the capability, is attached and is intact.
pub(crate) fn check_usable<E>(volume: &Volume, capability: &VolumeCapability) -> Result<(), E>
where
    E: From<IncompatibleCapability> + From<FailedPrecondition> + From<HostError>,
{
    if let Some(why) = volume.record.content.incompatibility(capability) {
        let id = volume.record.id.clone();
        return Err(IncompatibleCapability { id, why }.into());
    }
    volume.check_attached()?;
    check_can_be_cut(volume)?;
    let data = health::data_state(&volume.plugin, &volume.record)?;
    match data.problem(volume.id()) {
        Some(problem) => Err(FailedPrecondition(problem).into()),
        None => Ok(()),
    }
}

/// Implements NodeUnstageVolume. The orchestrator owns the directory.
pub(crate) fn unstage(
    plugin: &Arc<Plugin>,
    volume_id: String,
    path: &str,
) -> Result<(), UnstageVolumeError> {
    let mut volume = Volume::open::<UnstageVolumeError>(plugin, volume_id)?;
    volume.follow_rename(path, |record| matches!(record, PathRecord::Staging { .. }))?;
    match volume.paths.get(path) {
        Some(PathRecord::Staging { .. }) => {}
        Some(PathRecord::Target { .. }) | None => return Ok(()),
    }
    volume.unmount::<UnstageVolumeError>(path)?;
    volume.release_devices(path)?;
    volume.remove_path_record(path)?;
    tracing::info!(volume.external_id = %volume.id(), staging_path = %path, "unstaged a volume");
    Ok(())
}

/// The result of NodeGetVolumeStats.
pub(crate) struct Stats {
    /// The space of the volume's file system; `None` for a block device.
    pub(crate) space: Option<FileSystemSpace>,
    /// The size of the volume.
    pub(crate) bytes: u64,
}

/// Implements NodeGetVolumeStats. For a directory it measures the machine's file system.
pub(crate) fn stats(
    plugin: &Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<Stats, VolumeStatsError> {
    let volume = Volume::read::<VolumeStatsError>(plugin, volume_id)?;
    let found = match volume.paths.get(&path) {
        None => MountState::NotMounted,
        Some(path_record) if volume.is_block_staged(path_record)? => {
            MountState::Volume(MountFlags::default())
        }
        Some(_) => volume.mount_state(&path)?,
    };
    let MountState::Volume(_) = found else {
        let id = volume.record.id;
        return Err(NotAtPath { id, path }.into());
    };
    let record = volume.record;
    let space = if record.content.backing == Backing::Block {
        None
    } else {
        let action = format!("measure the file system at `{path}`");
        Some(space_at(Path::new(&path)).map_err(HostError::io(action))?)
    };
    Ok(Stats { space, bytes: record.content.bytes })
}

/// Checks the staging directory, which the orchestrator creates.
fn check_directory(path: &str) -> Result<(), FailedPrecondition> {
    let unfit = |why: &str| Err(FailedPrecondition(format!("staging path `{path}` {why}")));
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => unfit("is not a directory"),
        Err(error) => unfit(&format!("cannot be used: {error}; create the directory first")),
    }
}
