//! Creating volumes.
//!
//! The plugin writes the record as `Creating`, then the data, then marks the record as `Ready`. It
//! undoes a failed creation immediately, to release its space. After a crash the next start undoes
//! it, because no caller has its ID.

use std::sync::Arc;

use super::freeze::{self, CopyError, CopySource};
use super::parameters::{self, ContentRequest};
use super::space::ensure_space;
use super::volume::Volume;
use crate::hostpath::catalog::{
    Backing, Content, ContentSource, RecordState, RequestedVolume, VolumeRecord,
};
use crate::hostpath::error::{
    CreateVolumeError, HostError, InvalidArgument, NameTaken, ResourceExhausted, SnapshotNotFound,
    TooLarge,
};
use crate::hostpath::plugin::{Operation, OperationKey, Plugin};
use crate::hostpath::profile::PluginCapability;
use crate::hostpath::request::CreateRequest;
use crate::hostpath::size::{self, SizeRange};
use crate::hostpath::topology;

use crate::ports::{CopyMethod, FileSystem};

/// The source of a new volume, locked against changes.
enum OpenSource {
    None,
    Snapshot { id: String, _operation: Operation },
    Volume(Box<CopySource>),
}

/// Implements CreateVolume. A name identifies one volume.
pub(in crate::hostpath) async fn create(
    plugin: Arc<Plugin>,
    request: CreateRequest,
) -> Result<VolumeRecord, CreateVolumeError> {
    let _operation = plugin.begin_operation(OperationKey::Name(request.name.clone()))?;
    let (name, requested) = (request.name.clone(), request.clone());
    let known = plugin
        .blocking(move |plugin| {
            let known = plugin
                .catalog
                .volume_by_name(&name)
                .map_err(HostError::from)?;
            match known {
                Some(record) if record.state == RecordState::Ready => {
                    check_same_request(plugin, record, &requested).map(Ok)
                }
                other => Ok(Err(other)),
            }
        })
        .await?;
    match known {
        Ok(existing) => return Ok(existing),
        // An earlier creation failed and could not be undone. No caller has its ID.
        Err(Some(unfinished)) => undo_earlier_creation(&plugin, unfinished).await?,
        Err(None) => {}
    }
    check_topology(&plugin, &request)?;
    let (open_source, source) =
        open_content_source(&plugin, request.requested.source.as_ref()).await?;
    let content = choose_content(&plugin, &request, source).await?;
    let record = VolumeRecord {
        id: plugin.host.ids.uuid(),
        name: request.name,
        state: RecordState::Creating,
        mutable: parameters::merged(&request.requested.parameters, &request.requested.mutable),
        requested: request.requested,
        content,
        attachment: None,
    };
    put_creating(&plugin, record.clone()).await?;
    if let Err(CopyError { error, is_frozen }) = write_content(&plugin, &record, open_source).await
    {
        // A volume that is still frozen is thawed by the next attempt or the next start.
        if !is_frozen {
            undo_after_failure(&plugin, record).await;
        }
        return Err(error.into());
    }
    let ready = VolumeRecord {
        state: RecordState::Ready,
        ..record
    };
    put(&plugin, ready.clone()).await?;
    tracing::info!(volume.external_id = %ready.id, volume.name = %ready.name,
        bytes = ready.content.bytes, "created a volume");
    Ok(ready)
}

async fn put(plugin: &Arc<Plugin>, record: VolumeRecord) -> Result<(), HostError> {
    plugin
        .blocking(move |plugin| Ok(plugin.catalog.put_volume(&record)?))
        .await
}

/// Writes the record of a new volume, which reserves its space.
async fn put_creating(plugin: &Arc<Plugin>, record: VolumeRecord) -> Result<(), CreateVolumeError> {
    plugin
        .blocking(move |plugin| {
            let _provisioning = plugin.lock_provisioning();
            if record.content.backing != Backing::Directory {
                ensure_space::<CreateVolumeError>(plugin, record.content.bytes)?;
            }
            Ok(plugin
                .catalog
                .put_volume(&record)
                .map_err(HostError::from)?)
        })
        .await
}

/// Undoes an unfinished creation of an earlier call, and thaws its source.
async fn undo_earlier_creation(
    plugin: &Arc<Plugin>,
    record: VolumeRecord,
) -> Result<(), CreateVolumeError> {
    if let Some(ContentSource::Volume(source)) = &record.requested.source {
        // The lock prevents thawing a volume that another call has frozen.
        let _operation = plugin.begin_operation(OperationKey::Volume(source.clone()))?;
        freeze::thaw(plugin, source.clone()).await?;
    }
    let undone = plugin.blocking(move |plugin| undo_creation(plugin, &record));
    Ok(undone.await?)
}

/// Undoes a failed creation to release its space. If that fails too, the next call with this name
/// or the next start does it.
async fn undo_after_failure(plugin: &Arc<Plugin>, record: VolumeRecord) {
    let id = record.id.clone();
    let undone = plugin.blocking(move |plugin| undo_creation(plugin, &record));
    if let Err(error) = undone.await {
        tracing::warn!(volume.external_id = %id, %error, "cannot undo a failed creation");
    }
}

/// Returns the existing volume if it was requested with the same arguments.
fn check_same_request(
    plugin: &Plugin,
    record: VolumeRecord,
    request: &CreateRequest,
) -> Result<VolumeRecord, CreateVolumeError> {
    let (had, requested) = (&record.requested, &request.requested);
    let capacity = |requested: &RequestedVolume| (requested.required_bytes, requested.limit_bytes);
    let topology_requirement = request.topology.as_ref();
    let is_outside_topology = topology_requirement.is_some_and(|topology_requirement| {
        !topology::satisfies(topology_requirement, &plugin.profile.topology)
    });
    let what = if capacity(had) != capacity(requested) {
        "capacity"
    } else if had.capabilities != requested.capabilities {
        "capabilities"
    } else if (&had.parameters, &had.mutable) != (&requested.parameters, &requested.mutable) {
        "parameters"
    } else if had.source != requested.source {
        "source"
    } else if is_outside_topology {
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

/// Checks that the requested topology includes this plugin.
fn check_topology(plugin: &Plugin, request: &CreateRequest) -> Result<(), CreateVolumeError> {
    let Some(topology_requirement) = &request.topology else {
        return Ok(());
    };
    if !plugin.profile.capabilities.has_topology {
        return Err(InvalidArgument(
            "volumes of this plugin have no topology; remove topology_request".to_owned(),
        )
        .into());
    }
    if topology::satisfies(topology_requirement, &plugin.profile.topology) {
        return Ok(());
    }
    let own = plugin.profile.topology.iter();
    let own: Vec<_> = own.map(|(key, value)| format!("{key}={value}")).collect();
    Err(ResourceExhausted(format!(
        "none of the required topologies matches this plugin ({})",
        own.join(", ")
    ))
    .into())
}

/// Opens and locks the source, and returns it with its format.
async fn open_content_source(
    plugin: &Arc<Plugin>,
    source: Option<&ContentSource>,
) -> Result<(OpenSource, Option<Content>), CreateVolumeError> {
    match source {
        None => Ok((OpenSource::None, None)),
        Some(ContentSource::Snapshot(id)) => {
            if !plugin.has(PluginCapability::CreateSnapshot) {
                return Err(
                    InvalidArgument("this plugin does not support snapshots".to_owned()).into(),
                );
            }
            let operation = plugin.begin_operation(OperationKey::Snapshot(id.clone()))?;
            let id = id.clone();
            let record = plugin
                .blocking(move |plugin| {
                    let found = plugin.catalog.snapshot(&id).map_err(HostError::from)?;
                    let ready = found.filter(|found| found.state == RecordState::Ready);
                    Ok::<_, CreateVolumeError>(ready.ok_or(SnapshotNotFound(id))?)
                })
                .await?;
            let open_source = OpenSource::Snapshot {
                id: record.id,
                _operation: operation,
            };
            Ok((open_source, Some(record.content)))
        }
        Some(ContentSource::Volume(id)) => {
            if !plugin.has(PluginCapability::Clone) {
                return Err(
                    InvalidArgument("this plugin does not support cloning".to_owned()).into(),
                );
            }
            let volume = Volume::open::<CreateVolumeError>(plugin, id.clone()).await?;
            let copy_source = CopySource::inspect(volume).await?;
            copy_source.check_consistent_copy(1)?;
            let content = copy_source.content();
            Ok((OpenSource::Volume(Box::new(copy_source)), Some(content)))
        }
    }
}

/// Chooses the format and size of the volume.
async fn choose_content(
    plugin: &Arc<Plugin>,
    request: &CreateRequest,
    source: Option<Content>,
) -> Result<Content, CreateVolumeError> {
    let request = request.clone();
    plugin
        .blocking(move |plugin| {
            let capabilities: Vec<_> = request.requested.capabilities.iter().cloned().collect();
            let content_request = ContentRequest {
                capabilities: &capabilities,
                parameters: &request.requested.parameters,
                has_size: request.range() != SizeRange::default(),
                source,
            };
            let features = plugin.host.storage.features();
            let mut content =
                parameters::choose(&content_request, plugin.profile.backing, &features)?;
            let requested = &request.requested;
            let mutable = parameters::merged(&requested.parameters, &requested.mutable);
            parameters::tuning(&mutable, content.backing)?;
            let total = plugin
                .directories
                .space()
                .map_err(HostError::io("measure the file system"))?
                .total_bytes;
            let required = requested.required_bytes;
            if required > total
                && (content.backing == Backing::Directory || !plugin.profile.overcommit)
            {
                return Err(TooLarge { required, total }.into());
            }
            if content.backing == Backing::Directory {
                return Ok(content);
            }
            let begins_with = source.map_or(0, |source| source.bytes);
            let least = content.file_system.map_or(0, FileSystem::min_bytes);
            let usual = if source.is_some() {
                0
            } else {
                size::DEFAULT_BYTES
            };
            content.bytes = size::choose(request.range(), begins_with.max(least), usual)?;
            if source.is_none() {
                content.file_system_bytes = content.bytes;
            }
            Ok(content)
        })
        .await
}

/// Writes the data.
async fn write_content(
    plugin: &Arc<Plugin>,
    record: &VolumeRecord,
    open_source: OpenSource,
) -> Result<(), CopyError> {
    let at_rest = |error| CopyError {
        error,
        is_frozen: false,
    };
    match open_source {
        OpenSource::None => create_empty(plugin, record).await.map_err(at_rest),
        OpenSource::Snapshot { id, _operation } => {
            let from = plugin.snapshots.path_of(&id);
            copy(plugin, record, from).await.map_err(at_rest)
        }
        OpenSource::Volume(copy_source) => {
            let from = copy_source.data();
            let frozen = copy_source.freeze().await?;
            let copied = copy(plugin, record, from).await;
            let thawed = frozen.thaw().await;
            let is_frozen = thawed.is_err();
            let done = copied.and(thawed);
            done.map_err(|error| CopyError { error, is_frozen })
        }
    }
}

async fn create_empty(plugin: &Arc<Plugin>, record: &VolumeRecord) -> Result<(), HostError> {
    let (id, content) = (record.id.clone(), record.content);
    plugin
        .blocking_io("create the volume's data", move |plugin| {
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

/// Copies a file or directory into a new volume, and extends a file to the volume's size.
async fn copy(
    plugin: &Arc<Plugin>,
    record: &VolumeRecord,
    from: std::path::PathBuf,
) -> Result<(), HostError> {
    let (id, content) = (record.id.clone(), record.content);
    plugin
        .blocking_io("copy the volume's data", move |plugin| {
            let data = plugin.data_dir(content.backing);
            data.remove(&id)?;
            let to = data.path_of(&id);
            if content.backing == Backing::Directory {
                data.create(&id)?;
                return plugin.host.storage.copy_directory(&from, &to);
            }
            let copied = plugin.host.storage.copy_file(&from, &to)?;
            tracing::debug!(
                shared = (copied == CopyMethod::Reflink),
                "copied the data of a volume"
            );
            data.grow_file(&id, content.bytes)
        })
        .await
}

/// Removes the data and record of an unfinished creation.
pub(in crate::hostpath) fn undo_creation(
    plugin: &Plugin,
    record: &VolumeRecord,
) -> Result<(), HostError> {
    if record.state != RecordState::Creating {
        return Ok(());
    }
    let data = plugin.data_dir(record.content.backing);
    let undone = match (record.content.backing, &record.requested.source) {
        // The new directory was never used, so it must be empty.
        (Backing::Directory, None) => data.remove_empty(&record.id),
        _ => data.remove(&record.id),
    };
    undone.map_err(HostError::io("undo the creation of a volume"))?;
    Ok(plugin.catalog.remove_volume(record)?)
}
