//! What an earlier run left: brought to an end before anybody is answered, as far as it can wait for
//! nobody.
//!
//! A creation or a cut that did not end is undone (nobody was told of it), and a file system that
//! was frozen for it goes on. Devices that no record needs are taken away; those of block volumes
//! that are staged and lost theirs (a reboot) are set up again. Mounts are the orchestrator's to ask
//! for again. Removals are taken up in the background.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::catalog::{
    Backing, GroupRecord, PlaceRecord, SnapshotRecord, Source, Stage, VolumeRecord,
};
use super::error::Machine;
use super::group_snapshots::{self, Group};
use super::plugin::Plugin;
use super::snapshots;
use super::volume::Volume;
use super::volumes;

/// Everything that has to be done before anybody is answered.
pub(super) async fn recover(plugin: &Arc<Plugin>) -> Result<(), Machine> {
    undo(plugin).await?;
    reconcile_devices(plugin).await?;
    attach_again(plugin).await
}

/// Undoes what did not end. Before the plugin answers.
pub(super) async fn undo(plugin: &Arc<Plugin>) -> Result<(), Machine> {
    let (volumes, snapshots) = plugin
        .blocking(|plugin| {
            let volumes = plugin.catalog.unfinished()?;
            Ok::<_, Machine>((volumes, plugin.catalog.unfinished_snapshots()?))
        })
        .await?;
    let mut sources = BTreeSet::new();
    for record in volumes
        .iter()
        .filter(|record| record.stage == Stage::Creating)
    {
        if let Some(Source::Volume(source)) = &record.wanted.source {
            sources.insert(source.clone());
        }
    }
    for record in snapshots
        .iter()
        .filter(|record| record.stage == Stage::Creating)
    {
        sources.insert(record.source.clone());
    }
    for source in sources {
        thaw(plugin, source).await?;
    }
    plugin
        .blocking(move |plugin| {
            for record in volumes {
                undo_volume(plugin, &record)?;
            }
            for record in snapshots {
                undo_snapshot(plugin, record)?;
            }
            Ok::<_, Machine>(())
        })
        .await
}

/// Lets the file system of a volume go on, wherever it is mounted.
pub(super) async fn thaw(plugin: &Arc<Plugin>, id: String) -> Result<(), Machine> {
    use super::error::CutSnapshotError;
    let volume = match Volume::look::<CutSnapshotError>(plugin, id).await {
        Ok(volume) => volume,
        Err(CutSnapshotError::Machine(error)) => return Err(error),
        // A volume that is gone is mounted nowhere.
        Err(
            CutSnapshotError::NoVolume(_)
            | CutSnapshotError::Invalid(_)
            | CutSnapshotError::SnapshotNameTaken(_)
            | CutSnapshotError::Unfit(_)
            | CutSnapshotError::Pending(_),
        ) => return Ok(()),
    };
    if volume.backing() != Backing::Image {
        return Ok(());
    }
    let Some(mount) = volume.first_mount().await? else {
        return Ok(());
    };
    plugin
        .files("let a file system go on", move |plugin| {
            plugin.host.storage.thaw(&mount.target)
        })
        .await
}

/// Removes what was made of a volume whose creation did not end, and its record.
pub(super) fn undo_volume(plugin: &Plugin, record: &VolumeRecord) -> Result<(), Machine> {
    if record.stage != Stage::Creating {
        return Ok(());
    }
    let data = plugin.data_of(record.content.backing);
    let undone = match (record.content.backing, &record.wanted.source) {
        // Nobody has used it, so it is empty, and nothing else may be removed.
        (Backing::Directory, None) => data.remove_empty(&record.id),
        _ => data.remove(&record.id),
    };
    undone.map_err(Machine::files("undo the creation of a volume"))?;
    Ok(plugin.catalog.forget(record)?)
}

fn undo_snapshot(plugin: &Plugin, record: SnapshotRecord) -> Result<(), Machine> {
    match (&record.group, record.stage) {
        (None, Stage::Deleting) => snapshots::remove(plugin, record),
        (None, Stage::Creating | Stage::Ready) => {
            snapshots::remove_data(plugin, &record)?;
            Ok(plugin.catalog.forget_snapshots(&[record], None)?)
        }
        (Some(group), _) => match plugin.catalog.group(group)? {
            Some(group) => {
                let group: Group = group_snapshots::with_members(plugin, group)?;
                let is_ready = |group: &GroupRecord| group.stage == Stage::Ready;
                if is_ready(&group.record) {
                    return Ok(());
                }
                group_snapshots::remove_now(plugin, &group)
            }
            // The whole group went with another member.
            None => Ok(()),
        },
    }
}

/// Compares devices with records.
async fn reconcile_devices(plugin: &Arc<Plugin>) -> Result<(), Machine> {
    let devices = plugin
        .files("list loop devices", |plugin| {
            plugin.host.storage.attached(plugin.images.path())
        })
        .await?;
    for device in devices {
        let id = device.file.file_name().unwrap_or_default();
        let id = id.to_string_lossy().into_owned();
        let known = plugin
            .blocking(move |plugin| {
                let places = plugin.catalog.places(&id)?;
                Ok::<_, Machine>((plugin.ready(&id)?, places))
            })
            .await?;
        let is_needed = match known {
            (Some(record), places) => {
                // The device of an image goes by itself with its mount.
                record.content.backing == Backing::Image || !places.is_empty()
            }
            (None, _) => false,
        };
        if !is_needed {
            tracing::info!(device = %device.path.display(), file = %device.file.display(),
                "takes away a device that nothing needs");
            let detached = plugin
                .files("detach a device", move |plugin| {
                    plugin.host.storage.detach(&device)
                })
                .await;
            if let Err(error) = detached {
                tracing::warn!(%error, "a device stays");
            }
        }
    }
    Ok(())
}

/// Sets up the devices of block volumes that are staged and have none, as after a reboot.
async fn attach_again(plugin: &Arc<Plugin>) -> Result<(), Machine> {
    let staged = plugin
        .blocking(|plugin| Ok::<_, Machine>(plugin.catalog.staged_volumes()?))
        .await?;
    for id in staged {
        use super::error::StageVolumeError;
        let volume = match Volume::open::<StageVolumeError>(plugin, id.clone()).await {
            Ok(volume) => volume,
            Err(error) => {
                tracing::warn!(volume.external_id = %id, %error,
                    "a staged volume cannot be looked at; its device is set up when it is staged again");
                continue;
            }
        };
        if volume.backing() != Backing::Block {
            continue;
        }
        for place in volume.places.values() {
            if let PlaceRecord::Staging { usage } = place
                && let Err(error) = volume.block_device(volume.is_read_only(usage, false)).await
            {
                tracing::warn!(volume.external_id = %volume.id(), %error,
                    "the device of a staged volume cannot be set up again");
            }
        }
    }
    Ok(())
}

/// Takes up the removals that an earlier run began.
pub(super) async fn finish_removals(plugin: Arc<Plugin>) {
    let unfinished = plugin.blocking(|plugin| Ok::<_, Machine>(plugin.catalog.unfinished()?));
    let records = unfinished.await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot look for removals to finish");
        vec![]
    });
    for record in records {
        if record.stage != Stage::Deleting {
            continue;
        }
        let id = record.id.clone();
        if let Err(error) = volumes::delete(plugin.clone(), record.id).await {
            tracing::warn!(volume.external_id = %id, %error,
                "could not finish the removal of a volume; it is tried again at the next start");
        }
    }
}
