//! Staging and publishing: real bind mounts.
//!
//! A staging is a bind mount of the volume's directory, a target a bind mount of the staging; what
//! each was made for is in the catalogue, whether it is there in the mount table. The record is
//! written before the mount and removed after it, so what is mounted is always on record, and a
//! record without a mount (a crash, a reboot) means only that it has to be made again. Nothing here
//! unmounts what it has not made, deletes more than an empty directory of its own, or is recursive.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::catalog::PlaceRecord;
use super::data::{Room, room_at};
use super::error::{
    Machine, NoVolume, NotStaged, NotThere, OtherUse, PublishVolumeError, SecondTarget,
    StageVolumeError, Unfit, UnpublishVolumeError, UnstageVolumeError, VolumeStatsError,
};
use super::place::Place;
use super::plugin::{Operation, Plugin, Subject};
use super::request::{PublishRequest, StageRequest};
use crate::ports::{MountEntry, MountFlags};

/// What is at a path.
enum At {
    /// No mount.
    Nothing,
    /// A mount of this volume, with these flags.
    Volume(MountFlags),
    /// A mount of something else.
    Other,
}

/// A volume during one operation: what is on record, and what is mounted.
struct Volume {
    plugin: Arc<Plugin>,
    id: String,
    data: PathBuf,
    places: BTreeMap<String, PlaceRecord>,
    _operation: Operation,
}

impl Volume {
    /// Begins an operation on a volume that exists.
    async fn open<E>(plugin: &Arc<Plugin>, id: String) -> Result<Self, E>
    where
        E: From<Machine> + From<NoVolume> + From<super::error::Pending> + Send + 'static,
    {
        let operation = plugin.begin(Subject::Volume(id.clone()))?;
        let known = id.clone();
        let places = plugin
            .blocking(move |plugin| {
                plugin.ready(&known)?.ok_or(NoVolume(known.clone()))?;
                let places = plugin.catalog.places(&known).map_err(Machine::from)?;
                Ok::<_, E>(places)
            })
            .await?;
        Ok(Self {
            plugin: plugin.clone(),
            data: plugin.data.path_of(&id),
            id,
            places,
            _operation: operation,
        })
    }

    /// What is mounted at `path` now.
    async fn at(&self, path: &str) -> Result<At, Machine> {
        let mounter = &self.plugin.mounter;
        let Some(entry) = mounter.entry(Path::new(path)).await? else {
            return Ok(At::Nothing);
        };
        let mounts = mounter.list().await?;
        Ok(if self.is_shown_by(&entry, &mounts) {
            At::Volume(entry.flags)
        } else {
            At::Other
        })
    }

    fn is_shown_by(&self, entry: &MountEntry, mounts: &[MountEntry]) -> bool {
        Place::of(&self.data, mounts).is_some_and(|place| place.is_shown_by(entry))
    }

    /// Records what `path` is for.
    async fn remember(&self, path: &str, record: PlaceRecord) -> Result<(), Machine> {
        let (id, path) = (self.id.clone(), path.to_owned());
        self.plugin
            .blocking(move |plugin| {
                Ok::<_, Machine>(plugin.catalog.put_place(&id, &path, &record)?)
            })
            .await
    }

    /// Binds `source` at `path`, for which a record stands. A mount of this volume with other flags,
    /// left by a crash between the two calls of a bind, is replaced.
    async fn mount(&self, source: &Path, path: &str, flags: MountFlags) -> Result<(), Machine> {
        let target = Path::new(path);
        if let At::Volume(_) = self.at(path).await? {
            self.plugin.mounter.unmount(target).await?;
        }
        Ok(self.plugin.mounter.bind(source, target, flags).await?)
    }

    /// Unmounts this volume from `path`, as often as it is mounted there. Says what is there then.
    async fn unmount(&self, path: &str) -> Result<At, Machine> {
        loop {
            match self.at(path).await? {
                At::Volume(_) => self.plugin.mounter.unmount(Path::new(path)).await?,
                rest @ (At::Nothing | At::Other) => return Ok(rest),
            }
        }
    }

    async fn forget(&self, path: &str) -> Result<(), Machine> {
        let (id, path) = (self.id.clone(), path.to_owned());
        self.plugin
            .blocking(move |plugin| Ok::<_, Machine>(plugin.catalog.forget_place(&id, &path)?))
            .await
    }

    /// A directory of the plugin's own is no place to mount on.
    fn is_foreign_to_plugin(&self, path: &str) -> Result<(), Unfit> {
        if Path::new(path).starts_with(self.plugin.data.path()) {
            return Err(Unfit(format!("{path} lies among the plugin's own volumes")));
        }
        Ok(())
    }
}

/// Whether a mount forbids at least what is wanted, and is read-only just if it is wanted.
fn fits(found: MountFlags, wanted: MountFlags) -> bool {
    found.and(wanted) == found && found.read_only == wanted.read_only
}

fn foreign(path: &str) -> Unfit {
    Unfit(format!(
        "something else is mounted at {path}; unmount it, or use another path"
    ))
}

/// NodeStageVolume (`csi-spec` 5.16).
pub(super) async fn stage(
    plugin: Arc<Plugin>,
    request: StageRequest,
) -> Result<(), StageVolumeError> {
    let volume = Volume::open::<StageVolumeError>(&plugin, request.volume_id).await?;
    let path = request.staging_path;
    volume.is_foreign_to_plugin(&path)?;
    is_directory(&path).await?;
    has_data(&volume).await?;
    let wanted = PlaceRecord::Staging {
        usage: request.usage,
    };
    let flags = request.usage.flags;
    match (volume.at(&path).await?, volume.places.get(&path)) {
        (At::Other, _) => return Err(foreign(&path).into()),
        (At::Volume(found), Some(known)) if *known == wanted && fits(found, flags) => return Ok(()),
        (At::Volume(_), Some(known)) if *known != wanted => {
            return Err(OtherUse {
                id: volume.id,
                done: "staged",
                path,
            }
            .into());
        }
        (At::Volume(_) | At::Nothing, _) => {}
    }
    volume.remember(&path, wanted).await?;
    volume.mount(&volume.data, &path, flags).await?;
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
    let rest = volume.unmount(&path).await?;
    if volume.places.contains_key(&path) {
        if matches!(rest, At::Other) {
            return Err(foreign(&path).into());
        }
        volume.forget(&path).await?;
        tracing::info!(volume.external_id = %volume.id, staging_path = %path, "unstaged a volume");
    }
    Ok(())
}

/// NodePublishVolume (`csi-spec` 5.18 and its table).
pub(super) async fn publish(
    plugin: Arc<Plugin>,
    request: PublishRequest,
) -> Result<(), PublishVolumeError> {
    let volume = Volume::open::<PublishVolumeError>(&plugin, request.volume_id.clone()).await?;
    let path = &request.target_path;
    volume.is_foreign_to_plugin(path)?;
    is_staged(&volume, &request).await?;
    let flags = MountFlags {
        read_only: request.read_only
            || request.usage.flags.read_only
            || request.usage.access_mode.is_read_only(),
        ..request.usage.flags
    };
    let known = volume.places.get(path);
    let mut made_directory = known.is_some_and(PlaceRecord::made_directory);
    match (volume.at(path).await?, known) {
        (At::Other, _) => return Err(foreign(path).into()),
        (At::Volume(found), Some(known)) if is_same(known, &request) && fits(found, flags) => {
            return Ok(());
        }
        (At::Volume(_), Some(known)) if !is_same(known, &request) => {
            return Err(OtherUse {
                id: volume.id,
                done: "published",
                path: path.clone(),
            }
            .into());
        }
        (At::Volume(_), _) => {}
        (At::Nothing, _) => {
            let is_absent = is_absent_or_empty(path).await?;
            made_directory = made_directory || is_absent;
        }
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
    volume.mount(source, path, flags).await?;
    tracing::info!(volume.external_id = %volume.id, target_path = %path,
        read_only = flags.read_only, "published a volume");
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

/// NodeUnpublishVolume (`csi-spec` 5.19).
pub(super) async fn unpublish(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<(), UnpublishVolumeError> {
    let volume = Volume::open::<UnpublishVolumeError>(&plugin, volume_id).await?;
    let rest = volume.unmount(&path).await?;
    let Some(known) = volume.places.get(&path) else {
        return Ok(());
    };
    if matches!(rest, At::Other) {
        return Err(foreign(&path).into());
    }
    if known.made_directory() {
        remove_target(&path).await?;
    }
    volume.forget(&path).await?;
    tracing::info!(volume.external_id = %volume.id, target_path = %path, "unpublished a volume");
    Ok(())
}

/// NodeGetVolumeStats (`csi-spec` 5.20): a directory shares its file system with the others, so
/// that is what is measured.
pub(super) async fn stats(
    plugin: Arc<Plugin>,
    volume_id: String,
    path: String,
) -> Result<Room, VolumeStatsError> {
    let known = volume_id.clone();
    let places = plugin
        .blocking(move |plugin| {
            plugin.ready(&known)?.ok_or(NoVolume(known.clone()))?;
            let places = plugin.catalog.places(&known).map_err(Machine::from)?;
            Ok::<_, VolumeStatsError>(places)
        })
        .await?;
    let data = plugin.data.path_of(&volume_id);
    let is_there = match places.contains_key(&path) {
        true => {
            let entry = plugin.mounter.entry(Path::new(&path)).await;
            let mounts = plugin.mounter.list().await.map_err(Machine::from)?;
            let place = Place::of(&data, &mounts);
            let entry = entry.map_err(Machine::from)?;
            entry.is_some_and(|entry| place.is_some_and(|place| place.is_shown_by(&entry)))
        }
        false => false,
    };
    if !is_there {
        let id = volume_id;
        return Err(NotThere { id, path }.into());
    }
    plugin
        .blocking(move |_| {
            let action = format!("measure the file system at {path}");
            Ok(room_at(Path::new(&path)).map_err(Machine::files(action))?)
        })
        .await
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
    let is_there = volume
        .plugin
        .blocking(move |plugin| {
            let found = plugin.data.exists(&id);
            found.map_err(Machine::files("find the volume's directory"))
        })
        .await?;
    if is_there {
        return Ok(());
    }
    let message = format!(
        "the data of volume {} is gone: {} was removed by something else than this plugin",
        volume.id,
        volume.data.display()
    );
    Err(Unfit(message).into())
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
