//! Recovery at start: completes or undoes what an earlier run left unfinished.
//!
//! Before the plugin answers calls, it undoes unfinished creations of volumes and snapshots (no
//! caller has their IDs) and thaws file systems that were frozen for them. It detaches devices that
//! no record needs, and sets up the devices of staged block volumes again after a reboot. The
//! orchestrator repeats its mounts. Deletions continue in the background, except those whose data is gone
//! already: they are complete before a caller repeats them.
//!
//! A node of a shared directory sets up devices only: all else is the controller's.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::catalog::{
    Backing, ContentSource, GroupRecord, PathRecord, RecordState, SnapshotRecord,
};
use super::error::{HostError, StageVolumeError};
use super::plugin::Plugin;
use super::snapshots;
use super::volumes::{self, Volume};

/// How many volumes one read of the catalogue returns.
const BATCH: usize = 1000;

/// Does everything that must be complete before the plugin answers calls.
pub(super) fn recover(plugin: &Arc<Plugin>) -> Result<(), HostError> {
    if plugin.has_controller() {
        undo_unfinished(plugin)?;
        forget_deleted(plugin)?;
        remove_unrecorded(plugin)?;
        reconcile_devices(plugin)?;
        publish_records(plugin)?;
    }
    restore_block_devices(plugin)
}

/// Writes the records that a crash kept from the nodes, and removes the files of volumes that are gone.
fn publish_records(plugin: &Plugin) -> Result<(), HostError> {
    let Some(shared) = &plugin.shared else {
        return Ok(());
    };
    let (mut ids, mut after) = (BTreeSet::new(), None);
    loop {
        let (records, has_more) = plugin.catalog.volume_page(after.as_deref(), BATCH)?;
        for record in &records {
            plugin.catalog.publish(record)?;
        }
        after = records.last().map(|last| last.id.clone());
        ids.extend(records.into_iter().map(|record| record.id));
        if !has_more {
            break;
        }
    }
    let retained = shared.retain(&ids);
    retained.map_err(HostError::io("remove the files of deleted volumes"))
}

/// Undoes unfinished creations. Runs before the plugin answers calls.
pub(super) fn undo_unfinished(plugin: &Arc<Plugin>) -> Result<(), HostError> {
    let volumes = plugin.catalog.unfinished_volumes()?;
    let snapshots = plugin.catalog.unfinished_snapshots()?;
    let mut sources = BTreeSet::new();
    for record in volumes.iter().filter(|record| record.state == RecordState::Creating) {
        if let Some(ContentSource::Volume(source)) = &record.requested.source {
            sources.insert(source.clone());
        }
    }
    for record in snapshots.iter().filter(|record| record.state == RecordState::Creating) {
        sources.insert(record.source.clone());
    }
    for source in sources {
        volumes::thaw(plugin, source)?;
    }
    for record in &volumes {
        volumes::undo_creation(plugin, record)?;
    }
    for record in snapshots {
        undo_snapshot(plugin, record)?;
    }
    Ok(())
}

/// Removes the records of volumes whose data was deleted, in one transaction.
fn forget_deleted(plugin: &Plugin) -> Result<(), HostError> {
    for record in plugin.catalog.unfinished_volumes()? {
        let data = plugin.data_dir(record.content.backing);
        let exists = data.path_of(&record.id).try_exists();
        let exists = exists.map_err(HostError::io("find the data of a deleted volume"))?;
        if record.state == RecordState::Deleting && !exists {
            plugin.catalog.remove_volume_later(record, data.handle());
        }
    }
    plugin.catalog.flush();
    Ok(())
}

/// Removes what a crash left without a record: unfinished files, and empty directories that earlier
/// versions created before the record. A directory with content stays, because the catalogue may have
/// been lost.
fn remove_unrecorded(plugin: &Plugin) -> Result<(), HostError> {
    for data in [&plugin.images, &plugin.snapshots] {
        let removed = data.remove_unfinished();
        removed.map_err(HostError::io("remove unfinished files"))?;
    }
    let names = plugin.directories.names();
    for id in names.map_err(HostError::io("list the volumes' directories"))? {
        if plugin.catalog.volume(&id)?.is_none()
            && let Err(error) = plugin.directories.remove_empty(&id)
        {
            tracing::warn!(directory = %plugin.directories.path_of(&id).display(), %error,
                "a directory belongs to no volume; it is not removed, because it is not empty");
        }
    }
    Ok(())
}

fn undo_snapshot(plugin: &Plugin, record: SnapshotRecord) -> Result<(), HostError> {
    match (&record.group, record.state) {
        (None, RecordState::Deleting) => snapshots::delete_ready(plugin, record),
        (None, RecordState::Creating | RecordState::Ready) => {
            snapshots::remove_data(plugin, &record)?;
            Ok(plugin.catalog.remove_snapshots(&[record], None)?)
        }
        (Some(group), _) => match plugin.catalog.group(group)? {
            Some(group) => {
                let group = snapshots::with_members(plugin, group)?;
                let is_ready = |group: &GroupRecord| group.state == RecordState::Ready;
                if is_ready(&group.record) {
                    return Ok(());
                }
                snapshots::remove_group(plugin, &group)
            }
            // Another member of the group already removed all of it.
            None => Ok(()),
        },
    }
}

/// Detaches devices that no record needs.
fn reconcile_devices(plugin: &Arc<Plugin>) -> Result<(), HostError> {
    let storage = &plugin.host.storage;
    let devices = storage.attached(plugin.images.path());
    for device in devices.map_err(HostError::io("list loop devices"))? {
        let id = device.file.file_name().unwrap_or_default();
        let id = id.to_string_lossy();
        let known = (plugin.ready_volume(&id)?, plugin.catalog.paths(&id)?);
        let is_needed = match known {
            (Some(record), paths) => {
                // The kernel detaches the device of an image with its last mount.
                record.content.backing == Backing::Image
                    || !paths.is_empty()
                    || plugin.shared.is_some() && !plugin.attached_nodes(&record)?.is_empty()
            }
            (None, _) => false,
        };
        if !is_needed {
            tracing::info!(device = %device.path.display(), file = %device.file.display(),
                "detaching an unused device");
            if let Err(error) = storage.detach(&device) {
                tracing::warn!(%error, "cannot detach an unused device");
            }
        }
    }
    Ok(())
}

/// Sets up the missing devices of staged block volumes, as after a reboot.
fn restore_block_devices(plugin: &Arc<Plugin>) -> Result<(), HostError> {
    for id in plugin.catalog.volumes_with_paths()? {
        let volume = match Volume::open::<StageVolumeError>(plugin, id.clone()) {
            Ok(volume) => volume,
            Err(error) => {
                tracing::warn!(volume.external_id = %id, %error,
                    "cannot read a staged volume; its device is set up when the volume is staged again");
                continue;
            }
        };
        let is_detached = plugin.shared.is_some() && volume.attachment.is_none();
        if volume.backing() != Backing::Block || is_detached {
            continue;
        }
        for path_record in volume.paths.values() {
            if let PathRecord::Staging { capability } = path_record
                && let Err(error) = volume.block_device(volume.is_read_only(capability, false))
            {
                tracing::warn!(volume.external_id = %volume.id(), %error,
                    "cannot set up the device of a staged volume");
            }
        }
    }
    Ok(())
}

/// Continues the deletions that an earlier run began.
pub(super) fn finish_deletions(plugin: &Plugin) {
    let records = plugin.catalog.unfinished_volumes().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot find unfinished deletions");
        vec![]
    });
    for record in records {
        if record.state != RecordState::Deleting {
            continue;
        }
        let id = &record.id;
        if let Err(error) = volumes::delete(plugin, id) {
            tracing::warn!(volume.external_id = %id, %error,
                "cannot finish the deletion of a volume; the next start tries again");
        }
    }
    plugin.catalog.flush();
}
