//! Snapshots of single volumes.
//!
//! A snapshot is a separate copy, so it and its source volume can be deleted independently. Its
//! record exists before its data and after it. The next start undoes an unfinished creation.

use std::sync::Arc;

use crate::catalog::{Backing, RecordState, SnapshotRecord};
use crate::error::{
    CreateSnapshotError, DeleteSnapshotError, GetSnapshotError, HostError, InvalidArgument,
    ResourceExhausted, SnapshotNameTaken, SnapshotNotFound,
};
use crate::plugin::{OperationKey, Plugin};
use crate::profile::PluginCapability;
use crate::topology;
use crate::volumes::{self, CopyError, CopySource, FrozenVolumes, Volume};

use nomad_csi_proto as proto;

/// Implements CreateSnapshot. A name identifies one snapshot.
pub(crate) fn create(
    plugin: &Arc<Plugin>,
    name: String,
    source: String,
) -> Result<SnapshotRecord, CreateSnapshotError> {
    let _operation = plugin.begin_operation(OperationKey::SnapshotName(name.clone()))?;
    let known = plugin.catalog.snapshot_by_name(&name);
    if let Some(known) = known.map_err(HostError::from)? {
        let what = "snapshot";
        return match known.state {
            _ if known.source != source => Err(SnapshotNameTaken { name, what }.into()),
            RecordState::Ready => Ok(known),
            RecordState::Creating | RecordState::Deleting => {
                // An earlier creation failed and could not be undone. The lock prevents thawing a
                // volume that another call has frozen.
                let operation =
                    plugin.begin_operation(OperationKey::Volume(known.source.clone()))?;
                volumes::thaw(plugin, known.source.clone())?;
                drop(operation);
                undo(plugin, known)?;
                create_new(plugin, name, source)
            }
        };
    }
    create_new(plugin, name, source)
}

fn create_new(
    plugin: &Arc<Plugin>,
    name: String,
    source: String,
) -> Result<SnapshotRecord, CreateSnapshotError> {
    let volume = Volume::open::<CreateSnapshotError>(plugin, source)?;
    let copy_source = CopySource::inspect(volume)?;
    copy_source.check_consistent_copy(1)?;
    let record = new_record(plugin, &copy_source, name, None);
    put(plugin, std::slice::from_ref(&record))?;
    let copied = match copy_source.freeze() {
        Ok(frozen) => copy_all(plugin, &[(copy_source, record.clone())], frozen),
        Err(error) => Err(error),
    };
    let created_at = match copied {
        Ok(created_at) => created_at,
        Err(CopyError { error, is_frozen }) => {
            if !is_frozen {
                undo(plugin, record)?;
            }
            return Err(error.into());
        }
    };
    let ready = SnapshotRecord { state: RecordState::Ready, created_at, ..record };
    put(plugin, std::slice::from_ref(&ready))?;
    tracing::info!(snapshot.id = %ready.id, volume.external_id = %ready.source, "created a snapshot");
    Ok(ready)
}

/// Builds the record of a new snapshot.
pub(crate) fn new_record(
    plugin: &Plugin,
    copy_source: &CopySource,
    name: String,
    group: Option<String>,
) -> SnapshotRecord {
    SnapshotRecord {
        id: plugin.host.ids.uuid(),
        name,
        state: RecordState::Creating,
        source: copy_source.volume.id().to_owned(),
        created_at: 0,
        content: copy_source.content(),
        group,
    }
}

/// Copies frozen volumes, then thaws them, even after a failure. Returns the time of the copy.
pub(crate) fn copy_all(
    plugin: &Arc<Plugin>,
    copy_sources: &[(CopySource, SnapshotRecord)],
    frozen: FrozenVolumes,
) -> Result<i64, CopyError> {
    let created_at = plugin.host.clock.now();
    let mut result = Ok(());
    for (copy_source, record) in copy_sources {
        result = copy(plugin, copy_source, record);
        if result.is_err() {
            break;
        }
    }
    let thawed = frozen.thaw();
    let is_frozen = thawed.is_err();
    let result = result.and(thawed);
    result.map(|()| created_at).map_err(|error| CopyError { error, is_frozen })
}

fn copy(
    plugin: &Plugin,
    copy_source: &CopySource,
    record: &SnapshotRecord,
) -> Result<(), HostError> {
    let (from, to) = (copy_source.data(), plugin.snapshots.path_of(&record.id));
    let (id, content) = (&record.id, record.content);
    let storage = &plugin.host.storage;
    let copied = match content.backing {
        Backing::Directory => plugin.snapshots.create(id).and_then(|()| {
            if content.is_blank {
                return Ok(());
            }
            storage.copy_directory(&from, &to)
        }),
        // The volume has no file. One without content lets a reader see that.
        Backing::Image | Backing::Block if content.is_blank => {
            let unfinished = plugin.host.ids.uuid();
            let snapshots = &plugin.snapshots;
            snapshots.make_file(id, &unfinished, content.bytes, |_| Ok(()))
        }
        Backing::Image | Backing::Block => storage.copy_file(&from, &to).map(drop),
    };
    let action = format!("copy the data of volume `{}`", record.source);
    copied.map_err(HostError::io(action))
}

fn put(plugin: &Plugin, records: &[SnapshotRecord]) -> Result<(), HostError> {
    Ok(plugin.catalog.put_snapshots(records, None)?)
}

/// Removes the data and record of a failed creation.
fn undo(plugin: &Plugin, record: SnapshotRecord) -> Result<(), HostError> {
    remove_data(plugin, &record)?;
    Ok(plugin.catalog.remove_snapshots(&[record], None)?)
}

/// Removes the data of a snapshot. Succeeds if it does not exist.
pub(crate) fn remove_data(plugin: &Plugin, record: &SnapshotRecord) -> Result<(), HostError> {
    let removed = plugin.snapshots.remove(&record.id);
    removed.map_err(HostError::io(format!("remove the data of snapshot `{}`", record.id)))
}

/// Implements DeleteSnapshot. Deleting an unknown snapshot succeeds; a member of a group can only
/// be deleted with the group.
pub(crate) fn delete(plugin: &Plugin, id: &str) -> Result<(), DeleteSnapshotError> {
    let _operation = plugin.begin_operation(OperationKey::Snapshot(id.to_owned()))?;
    let found = plugin.catalog.snapshot(id).map_err(HostError::from)?;
    let Some(record) = found.filter(|found| found.state != RecordState::Creating) else {
        return Ok(());
    };
    if let Some(group) = record.group {
        return Err(InvalidArgument(format!(
            "snapshot `{id}` belongs to group `{group}`: delete the group with DeleteVolumeGroupSnapshot"
        ))
        .into());
    }
    Ok(delete_ready(plugin, record)?)
}

/// Deletes a snapshot, or continues an interrupted deletion.
pub(crate) fn delete_ready(plugin: &Plugin, record: SnapshotRecord) -> Result<(), HostError> {
    let record = SnapshotRecord { state: RecordState::Deleting, ..record };
    let records = [record];
    plugin.catalog.put_snapshots(&records, None)?;
    remove_data(plugin, &records[0])?;
    plugin.catalog.remove_snapshots(&records, None)?;
    tracing::info!(snapshot.id = %records[0].id, "deleted a snapshot");
    Ok(())
}

/// Returns the snapshot with this ID if it is `Ready`.
pub(crate) fn find(plugin: &Plugin, id: &str) -> Result<SnapshotRecord, GetSnapshotError> {
    let found = plugin.catalog.snapshot(id).map_err(HostError::from)?;
    let ready = found.filter(|found| found.state == RecordState::Ready);
    ready.ok_or_else(|| SnapshotNotFound(id.to_owned()).into())
}

/// Checks that the snapshot can be used where the caller requires it: where the plugin is.
pub(crate) fn check_topology(
    plugin: &Plugin,
    required: Option<&proto::TopologyRequirement>,
) -> Result<(), CreateSnapshotError> {
    let Some(required) = required else {
        return Ok(());
    };
    if !plugin.has(PluginCapability::SnapshotTopology) {
        return Err(InvalidArgument(
            "this plugin does not support accessibility_requirements of snapshots".to_owned(),
        )
        .into());
    }
    if topology::satisfies(required, &plugin.profile.topology) {
        return Ok(());
    }
    Err(ResourceExhausted(
        "no requested topology includes this plugin, so the snapshot cannot be used there"
            .to_owned(),
    )
    .into())
}

/// Builds CSI's message. A snapshot needs no processing after its creation, so it is ready to use.
pub(crate) fn to_proto(plugin: &Plugin, record: &SnapshotRecord) -> proto::Snapshot {
    let is_placed = plugin.has(PluginCapability::SnapshotTopology);
    let place = topology::to_proto(&plugin.profile.topology).filter(|_| is_placed);
    proto::Snapshot {
        size_bytes: i64::try_from(record.content.bytes).unwrap_or(i64::MAX),
        snapshot_id: record.id.clone(),
        source_volume_id: record.source.clone(),
        creation_time: Some(timestamp(record.created_at)),
        ready_to_use: true,
        group_snapshot_id: record.group.clone().unwrap_or_default(),
        accessible_topology: place.into_iter().collect(),
    }
}

/// Converts nanoseconds since the epoch.
pub(crate) fn timestamp(nanoseconds: i64) -> prost_types::Timestamp {
    const BILLION: i64 = 1_000_000_000;
    prost_types::Timestamp {
        seconds: nanoseconds.div_euclid(BILLION),
        nanos: i32::try_from(nanoseconds.rem_euclid(BILLION)).unwrap_or_default(),
    }
}
