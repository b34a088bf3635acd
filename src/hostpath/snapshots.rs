//! Snapshots of single volumes: cut, found, removed.
//!
//! A snapshot is a copy of its own, so it and its volume live and end independently (`csi-spec` 5.3,
//! 5.11). Like a volume it has a record before its data and after it; a cut that did not end is
//! undone at the next start.

use std::sync::Arc;

use super::catalog::{Backing, SnapshotRecord, Stage};
use super::cutting::{Cut, Frozen, NotCut};
use super::error::{
    CutSnapshotError, DeleteSnapshotError, GetSnapshotError, Invalid, Machine, NoSnapshot,
    SnapshotNameTaken,
};
use super::plugin::{Plugin, Subject};
use super::recovery;
use super::volume::Volume;
use crate::csi::proto;

/// CreateSnapshot (`csi-spec` 5.11): of one name there is one snapshot.
pub(super) async fn cut(
    plugin: Arc<Plugin>,
    name: String,
    source: String,
) -> Result<SnapshotRecord, CutSnapshotError> {
    let _operation = plugin.begin(Subject::SnapshotName(name.clone()))?;
    let wanted = name.clone();
    let known = plugin
        .blocking(move |plugin| {
            let known = plugin.catalog.snapshot_named(&wanted);
            Ok::<_, CutSnapshotError>(known.map_err(Machine::from)?)
        })
        .await?;
    if let Some(known) = known {
        let what = "a snapshot";
        return match known.stage {
            _ if known.source != source => Err(SnapshotNameTaken { name, what }.into()),
            Stage::Ready => Ok(known),
            Stage::Creating | Stage::Deleting => {
                // A cut that failed and could not be undone then. Who cuts its source now has it
                // frozen himself.
                let operation = plugin.begin(Subject::Volume(known.source.clone()))?;
                recovery::thaw(&plugin, known.source.clone()).await?;
                drop(operation);
                undo(&plugin, known).await?;
                cut_new(&plugin, name, source).await
            }
        };
    }
    cut_new(&plugin, name, source).await
}

async fn cut_new(
    plugin: &Arc<Plugin>,
    name: String,
    source: String,
) -> Result<SnapshotRecord, CutSnapshotError> {
    let volume = Volume::open::<CutSnapshotError>(plugin, source).await?;
    let cut = Cut::look(volume).await?;
    cut.is_possible(1)?;
    let record = begun(plugin, &cut, name, None);
    put(plugin, vec![record.clone()]).await?;
    let made = match cut.freeze().await {
        Ok(frozen) => copy_all(plugin, &[(cut, record.clone())], frozen).await,
        Err(not_cut) => Err(not_cut),
    };
    let cut_at = match made {
        Ok(cut_at) => cut_at,
        Err(NotCut { error, is_frozen }) => {
            if !is_frozen {
                undo(plugin, record).await?;
            }
            return Err(error.into());
        }
    };
    let ready = SnapshotRecord {
        stage: Stage::Ready,
        cut_at,
        ..record
    };
    put(plugin, vec![ready.clone()]).await?;
    tracing::info!(snapshot.id = %ready.id, volume.external_id = %ready.source, "cut a snapshot");
    Ok(ready)
}

/// The record of a snapshot that is to be cut.
pub(super) fn begun(
    plugin: &Plugin,
    cut: &Cut,
    name: String,
    group: Option<String>,
) -> SnapshotRecord {
    SnapshotRecord {
        id: plugin.host.ids.uuid(),
        name,
        stage: Stage::Creating,
        source: cut.volume.id().to_owned(),
        cut_at: 0,
        content: cut.content(),
        group,
    }
}

/// Copies volumes that are at rest, and lets them go on whatever happens. When they were at rest.
pub(super) async fn copy_all(
    plugin: &Arc<Plugin>,
    cuts: &[(Cut, SnapshotRecord)],
    frozen: Frozen,
) -> Result<i64, NotCut> {
    let cut_at = plugin.host.clock.now();
    let mut result = Ok(());
    for (cut, record) in cuts {
        result = copy(plugin, cut, record).await;
        if result.is_err() {
            break;
        }
    }
    let thawed = frozen.thaw().await;
    let is_frozen = thawed.is_err();
    let result = result.and(thawed);
    result
        .map(|()| cut_at)
        .map_err(|error| NotCut { error, is_frozen })
}

async fn copy(plugin: &Arc<Plugin>, cut: &Cut, record: &SnapshotRecord) -> Result<(), Machine> {
    let (from, id, backing) = (cut.data(), record.id.clone(), record.content.backing);
    plugin
        .files(
            format!("copy the data of volume {}", record.source),
            move |plugin| {
                let to = plugin.snapshots.path_of(&id);
                if backing == Backing::Directory {
                    plugin.snapshots.create(&id)?;
                    return plugin.host.storage.copy_directory(&from, &to);
                }
                plugin.host.storage.copy_file(&from, &to).map(drop)
            },
        )
        .await
}

async fn put(plugin: &Arc<Plugin>, records: Vec<SnapshotRecord>) -> Result<(), Machine> {
    plugin
        .blocking(move |plugin| Ok(plugin.catalog.put_snapshots(&records, None)?))
        .await
}

/// Removes what a cut made that failed.
async fn undo(plugin: &Arc<Plugin>, record: SnapshotRecord) -> Result<(), Machine> {
    plugin
        .blocking(move |plugin| {
            remove_data(plugin, &record)?;
            Ok(plugin.catalog.forget_snapshots(&[record], None)?)
        })
        .await
}

/// Removes a snapshot's data; none there is success.
pub(super) fn remove_data(plugin: &Plugin, record: &SnapshotRecord) -> Result<(), Machine> {
    let removed = plugin.snapshots.remove(&record.id);
    removed.map_err(Machine::files(format!(
        "remove the data of snapshot {}",
        record.id
    )))
}

/// DeleteSnapshot (`csi-spec` 5.12): what is not there is deleted; a member of a group goes with it.
pub(super) async fn delete(plugin: Arc<Plugin>, id: String) -> Result<(), DeleteSnapshotError> {
    let _operation = plugin.begin(Subject::Snapshot(id.clone()))?;
    plugin
        .blocking(move |plugin| {
            let found = plugin.catalog.snapshot(&id).map_err(Machine::from)?;
            let Some(record) = found.filter(|found| found.stage != Stage::Creating) else {
                return Ok(());
            };
            if let Some(group) = record.group {
                return Err(Invalid(format!(
                    "snapshot {id} belongs to the group {group}, and can only be deleted with it: call DeleteVolumeGroupSnapshot"
                ))
                .into());
            }
            remove(plugin, record).map_err(DeleteSnapshotError::from)
        })
        .await
}

/// Removes a snapshot that exists, or whose removal was begun.
pub(super) fn remove(plugin: &Plugin, record: SnapshotRecord) -> Result<(), Machine> {
    let record = SnapshotRecord {
        stage: Stage::Deleting,
        ..record
    };
    let records = [record];
    plugin.catalog.put_snapshots(&records, None)?;
    remove_data(plugin, &records[0])?;
    plugin.catalog.forget_snapshots(&records, None)?;
    tracing::info!(snapshot.id = %records[0].id, "deleted a snapshot");
    Ok(())
}

/// The snapshot of that ID, if it exists for callers.
pub(super) fn find(plugin: &Plugin, id: &str) -> Result<SnapshotRecord, GetSnapshotError> {
    let found = plugin.catalog.snapshot(id).map_err(Machine::from)?;
    let ready = found.filter(|found| found.stage == Stage::Ready);
    ready.ok_or_else(|| NoSnapshot(id.to_owned()).into())
}

/// A snapshot as CSI tells of it. There is nothing to do after the cut, so it is ready.
pub(super) fn message(record: &SnapshotRecord) -> proto::Snapshot {
    proto::Snapshot {
        size_bytes: i64::try_from(record.content.bytes).unwrap_or(i64::MAX),
        snapshot_id: record.id.clone(),
        source_volume_id: record.source.clone(),
        creation_time: Some(timestamp(record.cut_at)),
        ready_to_use: true,
        group_snapshot_id: record.group.clone().unwrap_or_default(),
    }
}

/// Nanoseconds since the epoch as the wire has them.
pub(super) fn timestamp(nanoseconds: i64) -> prost_types::Timestamp {
    const BILLION: i64 = 1_000_000_000;
    prost_types::Timestamp {
        seconds: nanoseconds.div_euclid(BILLION),
        nanos: i32::try_from(nanoseconds.rem_euclid(BILLION)).unwrap_or_default(),
    }
}
