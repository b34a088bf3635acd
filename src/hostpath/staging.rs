//! Staging a volume on the node, and measuring it there.

use std::path::Path;
use std::sync::Arc;

use super::catalog::PlaceRecord;
use super::data::{Room, room_at};
use super::error::{
    Machine, NotThere, OtherUse, StageVolumeError, Unfit, UnstageVolumeError, VolumeStatsError,
};
use super::plugin::Plugin;
use super::request::StageRequest;
use super::volume::{At, Volume, fits, foreign};

/// NodeStageVolume (`csi-spec` 5.16).
pub(super) async fn stage(
    plugin: Arc<Plugin>,
    request: StageRequest,
) -> Result<(), StageVolumeError> {
    let volume = Volume::open::<StageVolumeError>(&plugin, request.volume_id).await?;
    let path = request.staging_path;
    volume.is_outside_of_volumes(&path)?;
    is_directory(&path).await?;
    has_data(&volume).await?;
    let wanted = PlaceRecord::Staging {
        usage: request.usage,
    };
    let flags = request.usage.flags;
    let found = volume.at(&path).await?;
    match found {
        At::Nothing => {}
        At::Other => return Err(foreign(&path).into()),
        At::Volume(_) if volume.places.get(&path) != Some(&wanted) => {
            return Err(OtherUse {
                id: volume.id,
                path,
            }
            .into());
        }
        At::Volume(found) if fits(found, flags) => return Ok(()),
        At::Volume(_) => {}
    }
    volume.remember(&path, wanted).await?;
    volume.mount(&volume.data, &path, flags, found).await?;
    tracing::info!(volume.external_id = %volume.id, staging_path = %path, "staged a volume");
    Ok(())
}

/// NodeUnstageVolume (`csi-spec` 5.17). The directory is the orchestrator's.
pub(super) async fn unstage(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<(), UnstageVolumeError> {
    let volume = Volume::open::<UnstageVolumeError>(&plugin, volume_id).await?;
    match volume.places.get(&path) {
        Some(PlaceRecord::Staging { .. }) => {}
        Some(PlaceRecord::Target { .. }) | None => return Ok(()),
    }
    volume.unmount::<UnstageVolumeError>(&path).await?;
    volume.forget(&path).await?;
    tracing::info!(volume.external_id = %volume.id, staging_path = %path, "unstaged a volume");
    Ok(())
}

/// NodeGetVolumeStats (`csi-spec` 5.20): a directory shares its file system with the others, so
/// that is what is measured.
pub(super) async fn stats(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<Room, VolumeStatsError> {
    let volume = Volume::look::<VolumeStatsError>(&plugin, volume_id).await?;
    let is_there =
        volume.places.contains_key(&path) && matches!(volume.at(&path).await?, At::Volume(_));
    if !is_there {
        let id = volume.id;
        return Err(NotThere { id, path }.into());
    }
    plugin
        .blocking(move |_| {
            let action = format!("measure the file system at {path}");
            Ok(room_at(Path::new(&path)).map_err(Machine::files(action))?)
        })
        .await
}

/// The orchestrator makes the staging directory.
async fn is_directory(path: &str) -> Result<(), Unfit> {
    let unfit = |why: &str| Err(Unfit(format!("the staging path {path} {why}")));
    match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => unfit("is not a directory"),
        Err(error) => unfit(&format!(
            "cannot be used: {error}; make the directory first"
        )),
    }
}

/// A volume whose directory somebody took away cannot be mounted, and is told apart from one that
/// does not exist.
async fn has_data(volume: &Volume) -> Result<(), StageVolumeError> {
    let id = volume.id.clone();
    let find = move |plugin: &Plugin| {
        let found = plugin.data.exists(&id);
        found.map_err(Machine::files("find the volume's directory"))
    };
    if volume.plugin.blocking(find).await? {
        return Ok(());
    }
    let message = format!(
        "the data of volume {} is gone: {} was removed by something else than this plugin",
        volume.id,
        volume.data.display()
    );
    Err(Unfit(message).into())
}
