//! Making, finding and removing volumes.
//!
//! Creating: the record first, then the data, then the record says that it is ready. Removing: the
//! record says so first, then the data goes, then the record. A creation that fails is undone at once, so
//! that it takes no room. A crash leaves the record at the step it was at; a creation is undone at
//! the next start (nobody was told of it), a removal is taken up again.

use std::sync::Arc;
use std::time::Duration;

use super::abilities::Ability;
use super::catalog::{Backing, Content, Source, Stage, VolumeRecord};
use super::cutting::{Cut, NotCut};
use super::error::{
    CreateVolumeError, DeleteVolumeError, Exhausted, InUse, Invalid, Machine, NameTaken,
    NoSnapshot, TooLarge,
};
use super::parameters::{self, Said};
use super::place;
use super::plugin::{Operation, Plugin, Subject};
use super::recovery;
use super::request::Create;
use super::size::{self, Range};
use super::topology;
use super::volume::Volume;
use crate::ports::{Copied, FileSystem};

/// How long a device may need to go after its last mount went.
const DEVICE_GOES: Duration = Duration::from_secs(2);

/// What a new volume is copied from, held still.
enum Original {
    Nothing,
    Snapshot { id: String, _operation: Operation },
    Volume(Box<Cut>),
}

/// CreateVolume (`csi-spec` 5.2): of one name there is one volume.
pub(super) async fn create(
    plugin: Arc<Plugin>,
    request: Create,
) -> Result<VolumeRecord, CreateVolumeError> {
    let _operation = plugin.begin(Subject::Name(request.name.clone()))?;
    let (name, wanted) = (request.name.clone(), request.clone());
    let known = plugin
        .blocking(move |plugin| {
            let known = plugin.catalog.named(&name).map_err(Machine::from)?;
            match known {
                Some(record) if record.stage == Stage::Ready => {
                    same(plugin, record, &wanted).map(Ok)
                }
                other => Ok(Err(other)),
            }
        })
        .await?;
    match known {
        Ok(existing) => return Ok(existing),
        // Begun and not finished, and it could not be undone then; nobody knows of it.
        Err(Some(begun)) => undo(&plugin, begun).await?,
        Err(None) => {}
    }
    is_reachable(&plugin, &request)?;
    let (original, source) = original(&plugin, request.wanted.source.as_ref()).await?;
    let content = content(&plugin, &request, source).await?;
    let record = VolumeRecord {
        id: plugin.host.ids.uuid(),
        name: request.name,
        stage: Stage::Creating,
        mutable: parameters::merged(&request.wanted.parameters, &request.wanted.mutable),
        wanted: request.wanted,
        content,
        attachment: None,
    };
    begin(&plugin, record.clone()).await?;
    if let Err(NotCut { error, is_frozen }) = fill(&plugin, &record, original).await {
        // What is still frozen goes on when the creation is repeated, or at the next start.
        if !is_frozen {
            give_up(&plugin, record).await;
        }
        return Err(error.into());
    }
    let ready = VolumeRecord {
        stage: Stage::Ready,
        ..record
    };
    put(&plugin, ready.clone()).await?;
    tracing::info!(volume.external_id = %ready.id, volume.name = %ready.name,
        bytes = ready.content.bytes, "created a volume");
    Ok(ready)
}

async fn put(plugin: &Arc<Plugin>, record: VolumeRecord) -> Result<(), Machine> {
    plugin
        .blocking(move |plugin| Ok(plugin.catalog.put(&record)?))
        .await
}

/// The record of a volume that is to be made: from now on its room is promised.
async fn begin(plugin: &Arc<Plugin>, record: VolumeRecord) -> Result<(), CreateVolumeError> {
    plugin
        .blocking(move |plugin| {
            let _promising = plugin.promise();
            if record.content.backing != Backing::Directory {
                has_room::<CreateVolumeError>(plugin, record.content.bytes)?;
            }
            Ok(plugin.catalog.put(&record).map_err(Machine::from)?)
        })
        .await
}

/// Undoes a creation that an earlier call began, with what it may have frozen.
async fn undo(plugin: &Arc<Plugin>, record: VolumeRecord) -> Result<(), CreateVolumeError> {
    if let Some(Source::Volume(source)) = &record.wanted.source {
        // Who cuts the source now has it frozen himself.
        let _operation = plugin.begin(Subject::Volume(source.clone()))?;
        recovery::thaw(plugin, source.clone()).await?;
    }
    let undone = plugin.blocking(move |plugin| recovery::undo_volume(plugin, &record));
    Ok(undone.await?)
}

/// Undoes a creation that failed, so that it takes no room. If that fails too, the next call of that
/// name does it, or the next start.
async fn give_up(plugin: &Arc<Plugin>, record: VolumeRecord) {
    let id = record.id.clone();
    let undone = plugin.blocking(move |plugin| recovery::undo_volume(plugin, &record));
    if let Err(error) = undone.await {
        tracing::warn!(volume.external_id = %id, %error, "what a creation that failed made is left");
    }
}

/// An existing volume is the answer if it was asked for in the same words.
fn same(
    plugin: &Plugin,
    record: VolumeRecord,
    request: &Create,
) -> Result<VolumeRecord, CreateVolumeError> {
    let (had, wanted) = (&record.wanted, &request.wanted);
    let capacity = |wanted: &super::catalog::Wanted| (wanted.required_bytes, wanted.limit_bytes);
    let place = request.place.as_ref();
    let is_elsewhere = place.is_some_and(|place| !topology::meets(place, &plugin.play.topology));
    let what = if capacity(had) != capacity(wanted) {
        "capacity"
    } else if had.usages != wanted.usages {
        "capabilities"
    } else if (&had.parameters, &had.mutable) != (&wanted.parameters, &wanted.mutable) {
        "parameters"
    } else if had.source != wanted.source {
        "source"
    } else if is_elsewhere {
        "topology"
    } else {
        return Ok(record);
    };
    Err(NameTaken {
        name: record.name,
        what,
    }
    .into())
}

/// A volume is where the plugin is.
fn is_reachable(plugin: &Plugin, request: &Create) -> Result<(), CreateVolumeError> {
    let Some(place) = &request.place else {
        return Ok(());
    };
    if !plugin.play.abilities.has_topology {
        return Err(Invalid(
            "volumes of this plugin have no topology, so a place cannot be asked for; remove topology_request"
                .to_owned(),
        )
        .into());
    }
    if topology::meets(place, &plugin.play.topology) {
        return Ok(());
    }
    let own = plugin.play.topology.iter();
    let own: Vec<_> = own.map(|(key, value)| format!("{key}={value}")).collect();
    Err(Exhausted(format!(
        "none of the required places is where this plugin is ({})",
        own.join(", ")
    ))
    .into())
}

/// What is to be copied, held still, and what it is.
async fn original(
    plugin: &Arc<Plugin>,
    source: Option<&Source>,
) -> Result<(Original, Option<Content>), CreateVolumeError> {
    match source {
        None => Ok((Original::Nothing, None)),
        Some(Source::Snapshot(id)) => {
            if !plugin.has(Ability::CreateSnapshot) {
                return Err(Invalid("this plugin has no snapshots".to_owned()).into());
            }
            let operation = plugin.begin(Subject::Snapshot(id.clone()))?;
            let id = id.clone();
            let record = plugin
                .blocking(move |plugin| {
                    let found = plugin.catalog.snapshot(&id).map_err(Machine::from)?;
                    let ready = found.filter(|found| found.stage == Stage::Ready);
                    Ok::<_, CreateVolumeError>(ready.ok_or(NoSnapshot(id))?)
                })
                .await?;
            let original = Original::Snapshot {
                id: record.id,
                _operation: operation,
            };
            Ok((original, Some(record.content)))
        }
        Some(Source::Volume(id)) => {
            if !plugin.has(Ability::Clone) {
                return Err(Invalid("this plugin does not clone volumes".to_owned()).into());
            }
            let volume = Volume::open::<CreateVolumeError>(plugin, id.clone()).await?;
            let cut = Cut::look(volume).await?;
            cut.is_possible(1)?;
            let content = cut.content();
            Ok((Original::Volume(Box::new(cut)), Some(content)))
        }
    }
}

/// What its data is to be, and how large.
async fn content(
    plugin: &Arc<Plugin>,
    request: &Create,
    source: Option<Content>,
) -> Result<Content, CreateVolumeError> {
    let request = request.clone();
    plugin
        .blocking(move |plugin| {
            let usages: Vec<_> = request.wanted.usages.iter().cloned().collect();
            let said = Said {
                usages: &usages,
                parameters: &request.wanted.parameters,
                has_size: request.range() != Range::default(),
                source,
            };
            let offers = plugin.host.storage.offers();
            let mut content = parameters::choose(&said, plugin.play.backing, &offers)?;
            let wanted = &request.wanted;
            let mutable = parameters::merged(&wanted.parameters, &wanted.mutable);
            parameters::tuning(&mutable, content.backing)?;
            let total = plugin
                .directories
                .room()
                .map_err(Machine::files("measure the file system"))?
                .total_bytes;
            let required = wanted.required_bytes;
            if required > total
                && (content.backing == Backing::Directory || !plugin.play.overcommit)
            {
                return Err(TooLarge { required, total }.into());
            }
            if content.backing == Backing::Directory {
                return Ok(content);
            }
            let begins_with = source.map_or(0, |source| source.bytes);
            let least = content.file_system.map_or(0, FileSystem::least_bytes);
            let usual = if source.is_some() {
                0
            } else {
                size::DEFAULT_BYTES
            };
            content.bytes = size::decide(request.range(), begins_with.max(least), usual)?;
            if source.is_none() {
                content.file_system_bytes = content.bytes;
            }
            Ok(content)
        })
        .await
}

/// So many more bytes can be promised. What is promised and not written yet counts as taken; where
/// there is plenty of room that is not looked at file by file.
pub(super) fn has_room<E>(plugin: &Plugin, more: u64) -> Result<(), E>
where
    E: From<Machine> + From<Exhausted>,
{
    if plugin.play.overcommit {
        return Ok(());
    }
    let room = plugin.directories.room();
    let free = room
        .map_err(Machine::files("measure the file system"))?
        .available_bytes;
    let promised = plugin.catalog.promised_bytes().map_err(Machine::from)?;
    if free.checked_sub(promised).is_some_and(|left| left >= more) {
        return Ok(());
    }
    let left = room_left(plugin)?;
    if left >= more {
        return Ok(());
    }
    Err(Exhausted(format!(
        "there is no room for {more} more bytes: {left} are left of the plugin's file system; delete volumes or snapshots, ask for less, or let it promise more than there is (--overcommit)"
    ))
    .into())
}

/// What can still be promised: what the file system has free, less what is promised and not written.
pub(super) fn room_left(plugin: &Plugin) -> Result<u64, Machine> {
    let measure = || Ok((plugin.directories.room()?, plugin.images.allocated_bytes()?));
    let (room, written) = measure().map_err(Machine::files("measure the file system"))?;
    let unwritten = plugin.catalog.promised_bytes()?.saturating_sub(written);
    Ok(if plugin.play.overcommit {
        room.available_bytes
    } else {
        room.available_bytes.saturating_sub(unwritten)
    })
}

/// Makes the data.
async fn fill(
    plugin: &Arc<Plugin>,
    record: &VolumeRecord,
    original: Original,
) -> Result<(), NotCut> {
    let at_rest = |error| NotCut {
        error,
        is_frozen: false,
    };
    match original {
        Original::Nothing => make_empty(plugin, record).await.map_err(at_rest),
        Original::Snapshot { id, _operation } => {
            let from = plugin.snapshots.path_of(&id);
            copy(plugin, record, from).await.map_err(at_rest)
        }
        Original::Volume(cut) => {
            let from = cut.data();
            let frozen = cut.freeze().await?;
            let copied = copy(plugin, record, from).await;
            let thawed = frozen.thaw().await;
            let is_frozen = thawed.is_err();
            let done = copied.and(thawed);
            done.map_err(|error| NotCut { error, is_frozen })
        }
    }
}

async fn make_empty(plugin: &Arc<Plugin>, record: &VolumeRecord) -> Result<(), Machine> {
    let (id, content) = (record.id.clone(), record.content);
    plugin
        .files("make the volume's data", move |plugin| {
            if content.backing == Backing::Directory {
                return plugin.directories.create(&id);
            }
            plugin.images.create_file(&id, content.bytes)?;
            match content.file_system {
                Some(kind) => {
                    let file = plugin.images.path_of(&id);
                    plugin.host.storage.make_file_system(&file, kind)
                }
                None => Ok(()),
            }
        })
        .await
}

/// Copies a file or directory into a new volume, and makes a file as long as the volume.
async fn copy(
    plugin: &Arc<Plugin>,
    record: &VolumeRecord,
    from: std::path::PathBuf,
) -> Result<(), Machine> {
    let (id, content) = (record.id.clone(), record.content);
    plugin
        .files("copy the volume's data", move |plugin| {
            let data = plugin.data_of(content.backing);
            data.remove(&id)?;
            let to = data.path_of(&id);
            if content.backing == Backing::Directory {
                data.create(&id)?;
                return plugin.host.storage.copy_directory(&from, &to);
            }
            let copied = plugin.host.storage.copy_file(&from, &to)?;
            tracing::debug!(
                shared = (copied == Copied::Shared),
                "copied a volume's data"
            );
            data.grow_file(&id, content.bytes)
        })
        .await
}

/// DeleteVolume (`csi-spec` 5.3): what is not there is deleted; what is in use is not touched.
pub(super) async fn delete(plugin: Arc<Plugin>, id: String) -> Result<(), DeleteVolumeError> {
    let _operation = plugin.begin(Subject::Volume(id.clone()))?;
    let record = plugin
        .blocking(move |plugin| {
            let record = plugin.catalog.volume(&id).map_err(Machine::from)?;
            Ok::<_, DeleteVolumeError>(record)
        })
        .await?;
    let Some(record) = record.filter(|record| record.stage != Stage::Creating) else {
        return Ok(());
    };
    if let Some(path) = first_use(&plugin, &record).await? {
        let id = record.id;
        return Err(InUse { id, path }.into());
    }
    plugin
        .blocking(move |plugin| delete_now(plugin, record))
        .await
}

/// Where a volume is used, if it is: attached, mounted, or behind a device.
async fn first_use(
    plugin: &Arc<Plugin>,
    record: &VolumeRecord,
) -> Result<Option<std::path::PathBuf>, Machine> {
    if record.attachment.is_some() && record.stage == Stage::Ready {
        return Ok(Some(plugin.node_id.clone().into()));
    }
    let data = plugin.data_of(record.content.backing).path_of(&record.id);
    let mounts = plugin.host.mounter.list().await?;
    if let Some(found) = place::first_use(&data, &mounts) {
        return Ok(Some(found.target.clone()));
    }
    if record.content.backing == Backing::Directory {
        return Ok(None);
    }
    let deadline = tokio::time::Instant::now() + DEVICE_GOES;
    loop {
        let data = data.clone();
        let devices = plugin
            .files("list loop devices", move |plugin| {
                plugin.host.storage.attached(&data)
            })
            .await?;
        let Some(device) = devices.into_iter().next() else {
            return Ok(None);
        };
        let mounts = plugin.host.mounter.list().await?;
        let shown = mounts
            .iter()
            .find(|mount| std::path::Path::new(&mount.source) == device.path);
        if let Some(mount) = shown {
            return Ok(Some(mount.target.clone()));
        }
        // A device goes a moment after its mount. One that stays is somebody's.
        if record.content.backing == Backing::Block || tokio::time::Instant::now() > deadline {
            return Ok(Some(device.path));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn delete_now(plugin: &Plugin, record: VolumeRecord) -> Result<(), DeleteVolumeError> {
    let record = VolumeRecord {
        stage: Stage::Deleting,
        attachment: None,
        ..record
    };
    plugin.catalog.put(&record).map_err(Machine::from)?;
    plugin
        .data_of(record.content.backing)
        .remove(&record.id)
        .map_err(Machine::files(format!(
            "remove the data of volume {}",
            record.id
        )))?;
    plugin.catalog.forget(&record).map_err(Machine::from)?;
    tracing::info!(volume.external_id = %record.id, volume.name = %record.name, "deleted a volume");
    Ok(())
}

#[cfg(test)]
mod tests;
