//! Publishing a staged volume at target paths.
//!
//! A target path's parent is the orchestrator's, the directory itself the plugin's: it is made
//! before the mount and removed after it, and only if it is empty.

use std::path::Path;
use std::sync::Arc;

use super::catalog::PlaceRecord;
use super::error::{
    Machine, NotStaged, OtherUse, PublishVolumeError, SecondTarget, Unfit, UnpublishVolumeError,
};
use super::plugin::Plugin;
use super::request::PublishRequest;
use super::volume::{At, Volume, fits, foreign};
use crate::ports::MountFlags;

/// NodePublishVolume (`csi-spec` 5.18 and its table).
pub(super) async fn publish(
    plugin: Arc<Plugin>,
    request: PublishRequest,
) -> Result<(), PublishVolumeError> {
    let volume = Volume::open::<PublishVolumeError>(&plugin, request.volume_id.clone()).await?;
    let path = &request.target_path;
    volume.is_outside_of_volumes(path)?;
    is_staged(&volume, &request).await?;
    let flags = flags(&request);
    let known = volume.places.get(path);
    let mut made_directory = known.is_some_and(PlaceRecord::made_directory);
    let found = volume.at(path).await?;
    match found {
        At::Nothing => made_directory |= is_absent_or_empty(path).await?,
        At::Other => return Err(foreign(path).into()),
        At::Volume(_) if !known.is_some_and(|known| is_same(known, &request)) => {
            return Err(OtherUse {
                id: volume.id,
                path: path.clone(),
            }
            .into());
        }
        At::Volume(found) if fits(found, flags) => return Ok(()),
        At::Volume(_) => {}
    }
    may_have_another_target(&volume, &request).await?;
    let record = PlaceRecord::Target {
        usage: request.usage,
        read_only: request.read_only,
        staging_path: request.staging_path.clone(),
        made_directory,
    };
    // The record stands before the directory, so that a crash leaves no directory without one.
    volume.remember(path, record).await?;
    make_target(path).await?;
    let source = Path::new(&request.staging_path);
    volume.mount(source, path, flags, found).await?;
    tracing::info!(volume.external_id = %volume.id, target_path = %path,
        read_only = flags.read_only, "published a volume");
    Ok(())
}

/// NodeUnpublishVolume (`csi-spec` 5.19).
pub(super) async fn unpublish(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<(), UnpublishVolumeError> {
    let volume = Volume::open::<UnpublishVolumeError>(&plugin, volume_id).await?;
    let made_directory = match volume.places.get(&path) {
        Some(PlaceRecord::Target { made_directory, .. }) => *made_directory,
        Some(PlaceRecord::Staging { .. }) | None => return Ok(()),
    };
    volume.unmount::<UnpublishVolumeError>(&path).await?;
    if made_directory {
        remove_target(&path).await?;
    }
    volume.forget(&path).await?;
    tracing::info!(volume.external_id = %volume.id, target_path = %path, "unpublished a volume");
    Ok(())
}

/// Read-only if it is asked for in any of the three ways there are.
fn flags(request: &PublishRequest) -> MountFlags {
    MountFlags {
        read_only: request.read_only
            || request.usage.flags.read_only
            || request.usage.access_mode.is_read_only(),
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
    let (id, path) = (&volume.id, &request.staging_path);
    let missing = |what: String| Err(PublishVolumeError::from(NotStaged(what)));
    if path.is_empty() {
        return missing(format!(
            "the staging path is missing: stage volume {id}, then publish it with that path"
        ));
    }
    let is_mounted = matches!(volume.at(path).await?, At::Volume(_));
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
                id: volume.id.clone(),
                other: path.clone(),
            }
            .into());
        }
    }
    Ok(())
}

/// Makes the target directory, unless it is there. Its parent is the orchestrator's to make.
async fn make_target(path: &str) -> Result<(), Machine> {
    match tokio::fs::create_dir(path).await {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(Machine::files(
            format!("make the target directory {path}"),
        )(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Whether nothing is at the target path; an empty directory will do, anything else would be hidden
/// by the mount.
async fn is_absent_or_empty(path: &str) -> Result<bool, Unfit> {
    use std::io::ErrorKind::NotFound;
    let unfit = |why: String| Err(Unfit(format!("the target path {path} {why}")));
    match tokio::fs::symlink_metadata(path).await {
        Err(error) if error.kind() == NotFound => return Ok(true),
        Err(error) => return unfit(format!("cannot be used: {error}")),
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

/// Removes the directory that publishing made. Files that somebody wrote below the mount are kept.
async fn remove_target(path: &str) -> Result<(), UnpublishVolumeError> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotFound};
    match tokio::fs::remove_dir(path).await {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == NotFound => Ok(()),
        Err(error) if error.kind() == DirectoryNotEmpty => Err(Unfit(format!(
            "{path} holds files that are not in the volume (written while it was not mounted); move them away, then repeat"
        ))
        .into()),
        Err(error) => {
            Err(Machine::files(format!("remove the target directory {path}"))(error).into())
        }
    }
}
