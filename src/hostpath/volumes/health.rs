//! Collects what is known about volumes and the storage, for [`health`](crate::health).
//!
//! The controller looks at the data of a volume, the node also at the paths where the volume is used.
//! Nothing here changes anything or waits for an operation, so health can be asked for at any time.
//! What an operation changed in the meantime is not reported.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::volume::{MountState, Volume};
use crate::catalog::{Backing, CatalogVolume, PathRecord};
use crate::data;
use crate::error::{GetVolumeError, HostError, ListVolumesError, VolumeNotFound};
use crate::health::{
    DataState, PathFacts, PathState, StorageFacts, StorageStatus, VolumeFacts, storage_statuses,
    volume_statuses,
};
use crate::plugin::{OperationKey, Plugin};
use nomad_csi_ports::MountFlags;

use nomad_csi_proto::VolumeHealth;

/// How many volumes one read of the catalogue returns for the list.
const BATCH: usize = 1000;

/// Returns the state of a volume's data. A blank volume has no data. Blocks.
pub(crate) fn data_state(plugin: &Plugin, record: &CatalogVolume) -> Result<DataState, HostError> {
    Ok(look_at_data(plugin, record)?.0)
}

/// Returns the state of a volume's data, and the bytes that are not allocated yet.
fn look_at_data(plugin: &Plugin, record: &CatalogVolume) -> Result<(DataState, u64), HostError> {
    let (id, content) = (&record.id, record.content);
    if content.is_blank {
        return Ok((DataState::Complete, content.bytes));
    }
    let data = plugin.data_dir(content.backing);
    let find = HostError::io("check the volume's data");
    let path = data.path_of(id);
    if content.backing == Backing::Directory {
        return Ok(match data.exists(id).map_err(find)? {
            true => (DataState::Complete, u64::MAX),
            false => (DataState::Missing(path), 0),
        });
    }
    Ok(match data.file(id).map_err(find)? {
        None => (DataState::Missing(path), 0),
        Some(file) if file.bytes < content.bytes => {
            let truncated =
                DataState::Truncated { path, bytes: file.bytes, expected_bytes: content.bytes };
            (truncated, 0)
        }
        Some(file) => (DataState::Complete, content.bytes.saturating_sub(file.allocated_bytes)),
    })
}

/// Implements ControllerGetVolumeHealth.
pub(crate) fn controller_health(
    plugin: &Plugin,
    id: String,
) -> Result<VolumeHealth, GetVolumeError> {
    let record = plugin.ready_volume(&id)?.ok_or(VolumeNotFound(id))?;
    Ok(health_of(plugin, &record, available_bytes(plugin)?, vec![])?)
}

/// Implements ControllerListVolumeHealth: up to `limit` volumes with a condition and an ID after
/// `after`, and the ID after which the next page begins.
pub(crate) fn list_health(
    plugin: &Plugin,
    mut after: Option<String>,
    limit: usize,
) -> Result<(Vec<VolumeHealth>, Option<String>), ListVolumesError> {
    let available = available_bytes(plugin)?;
    let mut found: Vec<VolumeHealth> = vec![];
    loop {
        let page = plugin.catalog.volume_page(after.as_deref(), BATCH);
        let (records, has_more) = page.map_err(HostError::from)?;
        for record in &records {
            let health = health_of(plugin, record, available, vec![])?;
            if health.health_statuses.is_empty() {
                continue;
            }
            if found.len() == limit {
                let last = found.last().map(|last| last.volume_id.clone());
                return Ok((found, last));
            }
            found.push(health);
        }
        after = records.last().map(|last| last.id.clone());
        if !has_more {
            return Ok((found, None));
        }
    }
}

/// Implements NodeGetVolumeHealth. The volume does not have to be in use.
pub(crate) fn node_health(
    plugin: &Arc<Plugin>,
    id: String,
) -> Result<VolumeHealth, GetVolumeError> {
    let volume = Volume::read::<GetVolumeError>(plugin, id)?;
    let paths = path_facts(&volume)?;
    Ok(health_of(plugin, &volume.record, available_bytes(plugin)?, paths)?)
}

/// Implements NodeGetStorageHealth. A failure to look is a condition, not an error.
pub(crate) fn storage_health(plugin: &Plugin) -> Vec<StorageStatus> {
    let catalog = plugin.catalog.volume("").map(drop);
    let mut facts = StorageFacts {
        available_bytes: available_bytes(plugin).map_err(|error| error.to_string()),
        refuses_writes: data::refuses_writes(&plugin.state_dir).unwrap_or(false),
        catalog: catalog.map_err(|error| error.to_string()),
    };
    for fault in &plugin.profile.health_faults {
        fault.inject_storage(&mut facts);
    }
    storage_statuses(&facts)
}

fn available_bytes(plugin: &Plugin) -> Result<u64, HostError> {
    let space = plugin.directories.space();
    let space = space.map_err(HostError::io("measure the file system"))?;
    Ok(space.available_bytes)
}

fn health_of(
    plugin: &Plugin,
    record: &CatalogVolume,
    available_bytes: u64,
    paths: Vec<PathFacts>,
) -> Result<VolumeHealth, HostError> {
    let (data, unwritten_bytes) = look_at_data(plugin, record)?;
    let mut facts =
        VolumeFacts { id: record.id.clone(), data, unwritten_bytes, available_bytes, paths };
    for fault in &plugin.profile.health_faults {
        let data = plugin.data_dir(record.content.backing).path_of(&record.id);
        fault.inject(&mut facts, data);
    }
    Ok(VolumeHealth { health_statuses: volume_statuses(&facts), volume_id: facts.id })
}

/// Returns the state of each path with a record, unless an operation changes the paths in the meantime.
fn path_facts(volume: &Volume) -> Result<Vec<PathFacts>, HostError> {
    let facts: Vec<_> = volume
        .paths
        .iter()
        .map(|(path, record)| PathFacts {
            path: path.clone(),
            state: path_state(volume, path, record)
                .unwrap_or_else(|error| PathState::Unreadable(error.to_string())),
        })
        .collect();
    let plugin = &volume.plugin;
    if plugin.has_operation(&OperationKey::Volume(volume.id().to_owned())) {
        return Ok(vec![]);
    }
    let is_unchanged = plugin.catalog.paths(volume.id())? == volume.paths;
    Ok(if is_unchanged { facts } else { vec![] })
}

fn path_state(volume: &Volume, path: &str, record: &PathRecord) -> Result<PathState, HostError> {
    let is_file = volume.backing() != Backing::Directory;
    if volume.backing() == Backing::Block && matches!(record, PathRecord::Staging { .. }) {
        return Ok(match volume.is_block_staged(record)? {
            true => usable_device(),
            false => PathState::DeviceLost,
        });
    }
    Ok(match volume.mount_state(path)? {
        MountState::NotMounted => PathState::NotMounted,
        MountState::LostDevice => PathState::DeviceLost,
        MountState::Foreign if is_file => PathState::DeviceLost,
        MountState::Foreign => PathState::OtherMount,
        MountState::Volume(_) if volume.backing() == Backing::Block => usable_device(),
        MountState::Volume(flags) => file_system_state(volume, Path::new(path), flags)
            .map_err(HostError::io("read the file system"))?,
    })
}

/// A device has no file system that could report anything.
const fn usable_device() -> PathState {
    PathState::Usable { file_system_errors: 0, refuses_writes: false, is_full: false }
}

fn file_system_state(volume: &Volume, path: &Path, flags: MountFlags) -> io::Result<PathState> {
    // A failed file system refuses to be read.
    std::fs::read_dir(path)?.next().transpose()?;
    let space = data::space_at(path)?;
    let refuses_writes = !flags.read_only && data::refuses_writes(path)?;
    let Some(kind) = volume.record.content.file_system else {
        // The space of a directory is that of the plugin's file system.
        return Ok(PathState::Usable { file_system_errors: 0, refuses_writes, is_full: false });
    };
    let storage = &volume.plugin.host.storage;
    let mut file_system_errors = 0;
    for device in storage.attached(&volume.data)? {
        file_system_errors += storage.file_system_errors(&device.path, kind)?;
    }
    let has_inodes = space.total_inodes == 0 || space.available_inodes > 0;
    Ok(PathState::Usable {
        file_system_errors,
        refuses_writes,
        is_full: space.available_bytes == 0 || !has_inodes,
    })
}
