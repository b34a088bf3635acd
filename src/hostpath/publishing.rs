//! Publishing a staged volume at target paths.
//!
//! A target path's parent is the orchestrator's, the directory itself (or the file, for a block
//! device) the plugin's: it is made before the mount and removed after it, and only if it is empty.

use std::path::Path;
use std::sync::Arc;

use super::abilities::Ability;
use super::catalog::{Backing, PlaceRecord};
use super::error::{
    Machine, NotStaged, OtherUse, PublishVolumeError, SecondTarget, Unfit, UnpublishVolumeError,
};
use super::plugin::Plugin;
use super::request::PublishRequest;
use super::staging::is_usable;
use super::volume::{At, Volume, fits, foreign};
use crate::ports::MountFlags;

/// NodePublishVolume (`csi-spec` 5.18 and its table).
pub(super) async fn publish(
    plugin: Arc<Plugin>,
    request: PublishRequest,
) -> Result<(), PublishVolumeError> {
    let mut volume = Volume::open::<PublishVolumeError>(&plugin, request.volume_id.clone()).await?;
    let path = &request.target_path;
    volume.is_outside_of_volumes(path)?;
    is_usable::<PublishVolumeError>(&volume, &request.usage).await?;
    is_staged(&volume, &request).await?;
    let flags = flags(&volume, &request);
    let is_file = volume.backing() == Backing::Block;
    let known = volume.places.get(path);
    let mut made_directory = known.is_some_and(PlaceRecord::made_directory);
    let found = volume.at(path).await?;
    match found {
        At::Nothing => made_directory |= is_absent_or_empty(path, is_file).await?,
        At::Other => return Err(foreign(path).into()),
        At::Volume(_) if !known.is_some_and(|known| is_same(known, &request)) => {
            return Err(OtherUse {
                id: volume.record.id,
                path: path.clone(),
            }
            .into());
        }
        // Nothing on a block device's mount says that it cannot be written: its device does.
        At::Volume(found) if is_file || fits(found, flags) => return Ok(()),
        At::Volume(_) => {}
    }
    may_have_another_target(&volume, &request).await?;
    let record = PlaceRecord::Target {
        usage: request.usage.clone(),
        read_only: request.read_only,
        staging_path: request.staging_path.clone(),
        made_directory,
    };
    // The record stands before the directory, so that a crash leaves no directory without one.
    volume.remember(path, record).await?;
    make_target(path, is_file).await?;
    mount(&mut volume, &request, flags, found).await?;
    tracing::info!(volume.external_id = %volume.id(), target_path = %path,
        read_only = flags.read_only, "published a volume");
    Ok(())
}

/// Makes the volume visible at the target: from its staging, or where there is none, by itself.
async fn mount(
    volume: &mut Volume,
    request: &PublishRequest,
    flags: MountFlags,
    found: At,
) -> Result<(), Machine> {
    let path = &request.target_path;
    if volume.backing() == Backing::Block {
        let device = volume.block_device(flags.read_only).await?;
        let flags = MountFlags::default();
        return volume.bind(&device, path, flags, found).await;
    }
    if volume.plugin.has(Ability::Stage) {
        let source = Path::new(&request.staging_path);
        return volume.bind(source, path, flags, found).await;
    }
    volume.mount_whole(path, &request.usage, flags, found).await
}

/// NodeUnpublishVolume (`csi-spec` 5.19).
pub(super) async fn unpublish(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<(), UnpublishVolumeError> {
    let mut volume = Volume::open::<UnpublishVolumeError>(&plugin, volume_id).await?;
    let made_directory = match volume.places.get(&path) {
        Some(PlaceRecord::Target { made_directory, .. }) => *made_directory,
        Some(PlaceRecord::Staging { .. }) | None => return Ok(()),
    };
    volume.unmount::<UnpublishVolumeError>(&path).await?;
    if made_directory {
        remove_target(&path, volume.backing() == Backing::Block).await?;
    }
    volume.release_devices(&path).await?;
    volume.forget(&path).await?;
    tracing::info!(volume.external_id = %volume.id(), target_path = %path, "unpublished a volume");
    Ok(())
}

/// Read-only if it is asked for in any of the ways there are.
fn flags(volume: &Volume, request: &PublishRequest) -> MountFlags {
    MountFlags {
        read_only: volume.is_read_only(&request.usage, request.read_only),
        ..request.usage.flags
    }
}

/// Whether a target on record was asked for in the same words.
fn is_same(known: &PlaceRecord, request: &PublishRequest) -> bool {
    match known {
        PlaceRecord::Staging { .. } => false,
        PlaceRecord::Target {
            usage,
            read_only,
            staging_path,
            made_directory: _,
        } => {
            *usage == request.usage
                && *read_only == request.read_only
                && *staging_path == request.staging_path
        }
    }
}

/// A volume is published from where it is staged, for what it is staged for.
async fn is_staged(volume: &Volume, request: &PublishRequest) -> Result<(), PublishVolumeError> {
    if !volume.plugin.has(Ability::Stage) {
        return Ok(());
    }
    let (id, path) = (volume.id(), &request.staging_path);
    let missing = |what: String| Err(PublishVolumeError::from(NotStaged(what)));
    if path.is_empty() {
        return missing(format!(
            "the staging path is missing: stage volume {id}, then publish it with that path"
        ));
    }
    // A block volume's staging is its device, which is set up again where it is missing.
    let is_mounted =
        volume.backing() == Backing::Block || matches!(volume.at(path).await?, At::Volume(_));
    match volume.places.get(path) {
        Some(PlaceRecord::Staging { usage }) if is_mounted => {
            if *usage == request.usage {
                return Ok(());
            }
            missing(format!(
                "volume {id} is staged at {path} with another capability; unstage it first"
            ))
        }
        Some(PlaceRecord::Staging { .. } | PlaceRecord::Target { .. }) | None => missing(format!(
            "volume {id} is not staged at {path}; stage it first"
        )),
    }
}

/// The last column of the table in `csi-spec` 5.18: with the modes of one workload, a target that
/// is mounted elsewhere forbids another.
async fn may_have_another_target(
    volume: &Volume,
    request: &PublishRequest,
) -> Result<(), PublishVolumeError> {
    if !request.usage.access_mode.has_one_target() {
        return Ok(());
    }
    for (path, record) in &volume.places {
        let is_other = matches!(record, PlaceRecord::Target { .. }) && *path != request.target_path;
        if is_other && matches!(volume.at(path).await?, At::Volume(_)) {
            return Err(SecondTarget {
                id: volume.record.id.clone(),
                other: path.clone(),
            }
            .into());
        }
    }
    Ok(())
}

/// Makes the target, unless it is there: a directory, or a file for a block device. Its parent is the
/// orchestrator's to make.
async fn make_target(path: &str, is_file: bool) -> Result<(), Machine> {
    let made = if is_file {
        let mut options = tokio::fs::OpenOptions::new();
        let made = options.write(true).create_new(true).open(path).await;
        made.map(drop)
    } else {
        tokio::fs::create_dir(path).await
    };
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Machine::files(format!("make the target {path}"))(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether nothing is at the target path; an empty directory (or file, for a block device) will do,
/// anything else would be hidden by the mount.
async fn is_absent_or_empty(path: &str, is_file: bool) -> Result<bool, Unfit> {
    use std::io::ErrorKind::NotFound;
    let unfit = |why: String| Err(Unfit(format!("the target path {path} {why}")));
    match tokio::fs::symlink_metadata(path).await {
        Err(error) if error.kind() == NotFound => return Ok(true),
        Err(error) => return unfit(format!("cannot be used: {error}")),
        Ok(found) if is_file && found.is_file() && found.len() == 0 => return Ok(false),
        Ok(_) if is_file => return unfit("is not an empty file".to_owned()),
        Ok(found) if !found.is_dir() => return unfit("is not a directory".to_owned()),
        Ok(_) => {}
    }
    let mut entries = match tokio::fs::read_dir(path).await {
        Ok(entries) => entries,
        Err(error) => return unfit(format!("cannot be read: {error}")),
    };
    match entries.next_entry().await {
        Ok(None) => Ok(false),
        Ok(Some(_)) => unfit("is not empty, and a mount would hide what is in it".to_owned()),
        Err(error) => unfit(format!("cannot be read: {error}")),
    }
}

/// Removes what publishing made. Files that somebody wrote below the mount are kept.
async fn remove_target(path: &str, is_file: bool) -> Result<(), UnpublishVolumeError> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
    let has_content = || {
        Unfit(format!(
            "{path} holds what is not in the volume (written while it was not mounted); move it away, then repeat"
        ))
    };
    let removed = if is_file {
        match tokio::fs::symlink_metadata(path).await {
            Ok(found) if found.len() > 0 => return Err(has_content().into()),
            _ => tokio::fs::remove_file(path).await,
        }
    } else {
        tokio::fs::remove_dir(path).await
    };
    match removed {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == NotFound => Ok(()),
        Err(error) if error.kind() == DirectoryNotEmpty => Err(has_content().into()),
        Err(error) => Err(Machine::files(format!("remove the target {path}"))(error).into()),
    }
}
