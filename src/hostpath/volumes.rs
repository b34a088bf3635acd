//! Making, finding and removing volumes.
//!
//! Creating: the record first, then the directory, then the record says that it is ready. Removing:
//! the record says so first, then the data goes, then the record. A crash leaves the record at the
//! step it was at; a creation is undone at the next start (nobody was told of it) unless it is
//! repeated before, a removal is taken up again.

use std::sync::Arc;

use super::catalog::{Stage, VolumeRecord};
use super::error::{CreateVolumeError, DeleteVolumeError, InUse, Machine, NameTaken, TooLarge};
use super::place;
use super::plugin::{Plugin, Subject};
use super::request::Create;

/// CreateVolume (`csi-spec` 5.2): of one name there is one volume.
pub(super) async fn create(
    plugin: Arc<Plugin>,
    request: Create,
) -> Result<VolumeRecord, CreateVolumeError> {
    let _operation = plugin.begin(Subject::Name(request.name.clone()))?;
    plugin
        .blocking(move |plugin| create_now(plugin, &request))
        .await
}

fn create_now(plugin: &Plugin, request: &Create) -> Result<VolumeRecord, CreateVolumeError> {
    let existing = plugin.catalog.named(&request.name).map_err(Machine::from)?;
    let id = match existing {
        Some(record) if record.stage == Stage::Ready => return same(record, request),
        // Begun and not finished: nobody knows of it, so it may still become what is asked for.
        Some(record) => record.id,
        None => plugin.ids.uuid(),
    };
    fits(plugin, request.wanted.required_bytes)?;
    let record = |stage| VolumeRecord {
        id: id.clone(),
        name: request.name.clone(),
        stage,
        wanted: request.wanted.clone(),
    };
    let catalog = &plugin.catalog;
    catalog
        .put(&record(Stage::Creating))
        .map_err(Machine::from)?;
    plugin
        .data
        .create(&id)
        .map_err(Machine::files("make the volume's directory"))?;
    let ready = record(Stage::Ready);
    catalog.put(&ready).map_err(Machine::from)?;
    tracing::info!(volume.external_id = %id, volume.name = %ready.name, "created a volume");
    Ok(ready)
}

/// An existing volume is the answer if it was asked for in the same words.
fn same(record: VolumeRecord, request: &Create) -> Result<VolumeRecord, CreateVolumeError> {
    let (had, wanted) = (&record.wanted, &request.wanted);
    let what =
        if (had.required_bytes, had.limit_bytes) != (wanted.required_bytes, wanted.limit_bytes) {
            "capacity"
        } else if had.usages != wanted.usages {
            "capabilities"
        } else {
            return Ok(record);
        };
    Err(NameTaken {
        name: record.name,
        what,
    }
    .into())
}

/// A directory has no size of its own, but it cannot be larger than the whole file system.
fn fits(plugin: &Plugin, required: u64) -> Result<(), CreateVolumeError> {
    let room = plugin.data.room();
    let total = room
        .map_err(Machine::files("measure the file system"))?
        .total_bytes;
    if required > total {
        return Err(TooLarge { required, total }.into());
    }
    Ok(())
}

/// DeleteVolume (`csi-spec` 5.3): what is not there is deleted; what is mounted is not touched.
pub(super) async fn delete(plugin: Arc<Plugin>, id: String) -> Result<(), DeleteVolumeError> {
    let _operation = plugin.begin(Subject::Volume(id.clone()))?;
    let wanted = id.clone();
    let record = plugin
        .blocking(move |plugin| {
            let record = plugin.catalog.volume(&wanted).map_err(Machine::from)?;
            Ok::<_, DeleteVolumeError>(record)
        })
        .await?;
    let Some(record) = record.filter(|record| record.stage != Stage::Creating) else {
        return Ok(());
    };
    let mounts = plugin.mounter.list().await.map_err(Machine::from)?;
    if let Some(found) = place::first_use(&plugin.data.path_of(&id), &mounts) {
        let path = found.target.clone();
        return Err(InUse { id, path }.into());
    }
    plugin
        .blocking(move |plugin| delete_now(plugin, record))
        .await
}

fn delete_now(plugin: &Plugin, record: VolumeRecord) -> Result<(), DeleteVolumeError> {
    let record = VolumeRecord {
        stage: Stage::Deleting,
        ..record
    };
    plugin.catalog.put(&record).map_err(Machine::from)?;
    plugin
        .data
        .remove(&record.id)
        .map_err(Machine::files(format!(
            "remove the data of volume {}",
            record.id
        )))?;
    plugin.catalog.forget(&record).map_err(Machine::from)?;
    tracing::info!(volume.external_id = %record.id, volume.name = %record.name, "deleted a volume");
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
        if let Err(error) = delete(plugin.clone(), record.id).await {
            tracing::warn!(volume.external_id = %id, %error,
                "could not finish the removal of a volume; it is tried again at the next start");
        }
    }
}

#[cfg(test)]
mod tests;
