//! Staging a volume on the node, and measuring it there.

use std::path::Path;
use std::sync::Arc;

use super::abilities::Ability;
use super::catalog::{Backing, PlaceRecord};
use super::condition;
use super::data::{Room, room_at};
use super::error::{
    Machine, Misfit, NotThere, OtherUse, StageVolumeError, Unfit, UnstageVolumeError,
    VolumeStatsError,
};
use super::plugin::Plugin;
use super::request::StageRequest;
use super::usage::Usage;
use super::volume::{At, Volume, fits, foreign};
use crate::csi::proto;
use crate::ports::MountFlags;

/// NodeStageVolume (`csi-spec` 5.16).
pub(super) async fn stage(
    plugin: Arc<Plugin>,
    request: StageRequest,
) -> Result<(), StageVolumeError> {
    let mut volume = Volume::open::<StageVolumeError>(&plugin, request.volume_id).await?;
    let (path, usage) = (request.staging_path, request.usage);
    volume.is_outside_of_volumes(&path)?;
    is_directory(&path).await?;
    is_usable::<StageVolumeError>(&volume, &usage).await?;
    let wanted = PlaceRecord::Staging {
        usage: usage.clone(),
    };
    let flags = staging_flags(&volume, &usage);
    let known = volume.places.get(&path);
    let found = match (volume.at(&path).await?, known) {
        (At::Nothing, Some(place)) if volume.is_block_staged(place).await? => At::Volume(flags),
        (found, _) => found,
    };
    match found {
        At::Nothing => {}
        At::Other => return Err(foreign(&path).into()),
        At::Volume(_) if known != Some(&wanted) => {
            let id = volume.record.id;
            return Err(OtherUse { id, path }.into());
        }
        At::Volume(found) if fits(found, flags) => return Ok(()),
        At::Volume(_) => {}
    }
    volume.remember(&path, wanted).await?;
    if volume.backing() == Backing::Block {
        let is_read_only = volume.is_read_only(&usage, false);
        volume.block_device(is_read_only).await?;
    } else {
        volume.mount_whole(&path, &usage, flags, found).await?;
    }
    tracing::info!(volume.external_id = %volume.id(), staging_path = %path, "staged a volume");
    Ok(())
}

/// A staging is mounted with the flags it was asked for; who may write is a target's to say, unless
/// nobody may.
fn staging_flags(volume: &Volume, usage: &Usage) -> MountFlags {
    let attached = volume.record.attachment.as_ref();
    MountFlags {
        read_only: usage.flags.read_only || attached.is_some_and(|attached| attached.read_only),
        ..usage.flags
    }
}

/// Whether a volume can be used so, and now.
pub(super) async fn is_usable<E>(volume: &Volume, usage: &Usage) -> Result<(), E>
where
    E: From<Misfit> + From<Unfit> + From<Machine> + Send + 'static,
{
    if let Some(why) = usage.misfit(&volume.record.content) {
        let id = volume.record.id.clone();
        return Err(Misfit { id, why }.into());
    }
    volume.is_attached()?;
    let record = volume.record.clone();
    let trouble = volume
        .plugin
        .blocking(move |plugin| condition::trouble(plugin, &record));
    match trouble.await? {
        Some(trouble) => Err(Unfit(trouble).into()),
        None => Ok(()),
    }
}

/// NodeUnstageVolume (`csi-spec` 5.17). The directory is the orchestrator's.
pub(super) async fn unstage(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<(), UnstageVolumeError> {
    let mut volume = Volume::open::<UnstageVolumeError>(&plugin, volume_id).await?;
    match volume.places.get(&path) {
        Some(PlaceRecord::Staging { .. }) => {}
        Some(PlaceRecord::Target { .. }) | None => return Ok(()),
    }
    volume.unmount::<UnstageVolumeError>(&path).await?;
    volume.release_devices(&path).await?;
    volume.forget(&path).await?;
    tracing::info!(volume.external_id = %volume.id(), staging_path = %path, "unstaged a volume");
    Ok(())
}

/// What NodeGetVolumeStats tells.
pub(super) struct Stats {
    /// Of the file system, if the volume has one.
    pub(super) room: Option<Room>,
    /// How large a block volume is.
    pub(super) bytes: u64,
    pub(super) condition: Option<proto::VolumeCondition>,
}

/// NodeGetVolumeStats (`csi-spec` 5.20): the volume's own file system is measured; a directory's is
/// the machine's.
pub(super) async fn stats(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<Stats, VolumeStatsError> {
    let volume = Volume::look::<VolumeStatsError>(&plugin, volume_id).await?;
    let found = match volume.places.get(&path) {
        None => At::Nothing,
        Some(place) if volume.is_block_staged(place).await? => At::Volume(MountFlags::default()),
        Some(_) => volume.at(&path).await?,
    };
    let At::Volume(_) = found else {
        let id = volume.record.id;
        return Err(NotThere { id, path }.into());
    };
    let record = volume.record;
    plugin
        .blocking(move |plugin| {
            let action = format!("measure the file system at {path}");
            let room = if record.content.backing == Backing::Block {
                None
            } else {
                Some(room_at(Path::new(&path)).map_err(Machine::files(action))?)
            };
            let condition = if plugin.has(Ability::Condition) {
                Some(condition::message(condition::trouble(plugin, &record)?))
            } else {
                None
            };
            Ok(Stats {
                room,
                bytes: record.content.bytes,
                condition,
            })
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
