//! Creating volumes.
//!
//! A new volume is one transaction, which costs two syncs: its pages, then the header that names them. It
//! has no data until it is staged (`content`).
//!
//! A copy has data from the start. The plugin writes its record as `Creating`, then the data, then
//! marks the record as `Ready`. It undoes a failed copy immediately, to release its space. After a
//! crash the next start undoes it, because no caller has its ID.

use std::path::Path;
use std::sync::Arc;

use super::freeze::{self, CopyError, CopySource};
use super::parameters::{self, ContentRequest};
use super::space::provision;
use super::volume::Volume;
use crate::catalog::{
    Backing, CatalogVolume, Content, ContentSource, RecordState, RequestedVolume,
};
use crate::error::{
    CreateVolumeError, HostError, InvalidArgument, NameTaken, ResourceExhausted, SnapshotNotFound,
    TooLarge,
};
use crate::plugin::{Operation, OperationKey, Plugin};
use crate::profile::PluginCapability;
use crate::request::CreateRequest;
use crate::size::{self, SizeRange};
use crate::topology;

use nomad_csi_ports::{CopyMethod, FileSystem};

/// The source of a new volume, locked against changes.
enum OpenSource {
    Snapshot { id: String, _operation: Operation },
    Volume(Box<CopySource>),
}

/// Implements CreateVolume. A name identifies one volume.
pub(crate) fn create(
    plugin: &Arc<Plugin>,
    request: CreateRequest,
) -> Result<CatalogVolume, CreateVolumeError> {
    let _operation = plugin.begin_operation(OperationKey::Name(request.name.clone()))?;
    let known = plugin.catalog.volume_by_name(&request.name);
    match known.map_err(HostError::from)? {
        Some(record) if record.state == RecordState::Ready => {
            plugin.catalog.publish(&record).map_err(HostError::from)?;
            return check_same_request(plugin, record, &request);
        }
        // An earlier creation failed and could not be undone. No caller has its ID.
        Some(unfinished) => undo_earlier_creation(plugin, &unfinished)?,
        None => {}
    }
    check_topology(plugin, &request)?;
    let source = request.requested.source.as_ref();
    let source = source.map(|source| open_content_source(plugin, source));
    let source = source.transpose()?;
    let content = choose_content(plugin, &request, source.as_ref().map(|(_, content)| *content))?;
    let record = CatalogVolume {
        id: plugin.host.ids.uuid(),
        name: request.name,
        state: RecordState::Ready,
        mutable: parameters::merged(&request.requested.parameters, &request.requested.mutable),
        requested: request.requested,
        content,
        attachment: None,
    };
    match source {
        Some((open_source, _)) if !content.is_blank => create_copy(plugin, &record, open_source)?,
        Some(_) | None => provision::<CreateVolumeError>(plugin, &record, content.bytes)?,
    }
    tracing::info!(volume.external_id = %record.id, volume.name = %record.name,
        bytes = record.content.bytes, "created a volume");
    Ok(record)
}

/// Creates a volume with the data of its source.
fn create_copy(
    plugin: &Arc<Plugin>,
    record: &CatalogVolume,
    open_source: OpenSource,
) -> Result<(), CreateVolumeError> {
    let creating = CatalogVolume { state: RecordState::Creating, ..record.clone() };
    provision::<CreateVolumeError>(plugin, &creating, creating.content.bytes)?;
    if let Err(CopyError { error, is_frozen }) = write_content(plugin, record, open_source) {
        // A volume that is still frozen is thawed by the next attempt or the next start.
        if !is_frozen {
            undo_after_failure(plugin, &creating);
        }
        return Err(error.into());
    }
    Ok(plugin.catalog.put_volume(record).map_err(HostError::from)?)
}

/// Undoes an unfinished creation of an earlier call, and thaws its source.
fn undo_earlier_creation(
    plugin: &Arc<Plugin>,
    record: &CatalogVolume,
) -> Result<(), CreateVolumeError> {
    if let Some(ContentSource::Volume(source)) = &record.requested.source {
        // The lock prevents thawing a volume that another call has frozen.
        let _operation = plugin.begin_operation(OperationKey::Volume(source.clone()))?;
        freeze::thaw(plugin, source.clone())?;
    }
    Ok(undo_creation(plugin, record)?)
}

/// Undoes a failed creation to release its space. If that fails too, the next call with this name
/// or the next start does it.
fn undo_after_failure(plugin: &Plugin, record: &CatalogVolume) {
    if let Err(error) = undo_creation(plugin, record) {
        tracing::warn!(volume.external_id = %record.id, %error, "cannot undo a failed creation");
    }
}

/// Returns the existing volume if it was requested with the same arguments.
fn check_same_request(
    plugin: &Plugin,
    record: CatalogVolume,
    request: &CreateRequest,
) -> Result<CatalogVolume, CreateVolumeError> {
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
    Err(NameTaken { name: record.name, what }.into())
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
fn open_content_source(
    plugin: &Arc<Plugin>,
    source: &ContentSource,
) -> Result<(OpenSource, Content), CreateVolumeError> {
    match source {
        ContentSource::Snapshot(id) => {
            if !plugin.has(PluginCapability::CreateSnapshot) {
                return Err(
                    InvalidArgument("this plugin does not support snapshots".to_owned()).into()
                );
            }
            let operation = plugin.begin_operation(OperationKey::Snapshot(id.clone()))?;
            let found = plugin.catalog.snapshot(id).map_err(HostError::from)?;
            let ready = found.filter(|found| found.state == RecordState::Ready);
            let record = ready.ok_or_else(|| SnapshotNotFound(id.clone()))?;
            let open_source = OpenSource::Snapshot { id: record.id, _operation: operation };
            Ok((open_source, record.content))
        }
        ContentSource::Volume(id) => {
            if !plugin.has(PluginCapability::Clone) {
                return Err(
                    InvalidArgument("this plugin does not support cloning".to_owned()).into()
                );
            }
            let volume = Volume::open::<CreateVolumeError>(plugin, id.clone())?;
            let copy_source = CopySource::inspect(volume)?;
            copy_source.check_consistent_copy(1)?;
            let content = copy_source.content();
            Ok((OpenSource::Volume(Box::new(copy_source)), content))
        }
    }
}

/// Chooses the format and size of the volume.
fn choose_content(
    plugin: &Plugin,
    request: &CreateRequest,
    source: Option<Content>,
) -> Result<Content, CreateVolumeError> {
    let requested = &request.requested;
    let capabilities: Vec<_> = requested.capabilities.iter().cloned().collect();
    let content_request = ContentRequest {
        capabilities: &capabilities,
        parameters: &requested.parameters,
        has_size: request.range() != SizeRange::default(),
        source,
    };
    let features = plugin.host.storage.features();
    let mut content = parameters::choose(&content_request, plugin.profile.backing, &features)?;
    let mutable = parameters::merged(&requested.parameters, &requested.mutable);
    parameters::tuning(&mutable, content.backing)?;
    check_total(plugin, requested.required_bytes, content.backing)?;
    content.is_blank |= source.is_none();
    if content.backing == Backing::Directory {
        // A copy is opened to its users when it is made.
        content.is_prepared = !content.is_blank;
        return Ok(content);
    }
    let begins_with = source.map_or(0, |source| source.bytes);
    let min_bytes = content.file_system.map_or(0, FileSystem::min_bytes);
    let usual = match source {
        Some(_) => 0,
        None => size::DEFAULT_BYTES,
    };
    content.bytes = size::choose(request.range(), begins_with.max(min_bytes), usual)?;
    Ok(content)
}

/// Refuses a size that the file system can never hold.
fn check_total(plugin: &Plugin, required: u64, backing: Backing) -> Result<(), CreateVolumeError> {
    let space = plugin.directories.space();
    let space = space.map_err(HostError::io("measure the file system"))?;
    let total = space.total_bytes;
    let is_limited = backing == Backing::Directory || !plugin.profile.overcommit;
    if required > total && is_limited {
        return Err(TooLarge { required, total }.into());
    }
    Ok(())
}

/// Writes the data.
fn write_content(
    plugin: &Plugin,
    record: &CatalogVolume,
    open_source: OpenSource,
) -> Result<(), CopyError> {
    let at_rest = |error| CopyError { error, is_frozen: false };
    match open_source {
        OpenSource::Snapshot { id, _operation } => {
            let from = plugin.snapshots.path_of(&id);
            copy(plugin, record, &from).map_err(at_rest)
        }
        OpenSource::Volume(copy_source) => {
            let from = copy_source.data();
            let frozen = copy_source.freeze()?;
            let copied = copy(plugin, record, &from);
            let thawed = frozen.thaw();
            let is_frozen = thawed.is_err();
            let done = copied.and(thawed);
            done.map_err(|error| CopyError { error, is_frozen })
        }
    }
}

/// Copies a file or directory into a new volume, and extends a file to the volume's size.
fn copy(plugin: &Plugin, record: &CatalogVolume, from: &Path) -> Result<(), HostError> {
    let (id, content) = (&record.id, record.content);
    let data = plugin.data_dir(content.backing);
    let to = data.path_of(id);
    let copy = || {
        data.remove(id)?;
        if content.backing == Backing::Directory {
            data.create(id)?;
            return plugin.host.storage.copy_directory(from, &to);
        }
        let copied = plugin.host.storage.copy_file(from, &to)?;
        tracing::debug!(shared = (copied == CopyMethod::Reflink), "copied the data of a volume");
        data.grow_file(id, content.bytes)
    };
    copy().map_err(HostError::io("copy the volume's data"))
}

/// Removes the data and record of an unfinished creation.
pub(crate) fn undo_creation(plugin: &Plugin, record: &CatalogVolume) -> Result<(), HostError> {
    if record.state != RecordState::Creating {
        return Ok(());
    }
    let data = plugin.data_dir(record.content.backing);
    let undone = match (record.content.backing, &record.requested.source) {
        // Earlier versions created the directory here. It was never used, so it must be empty.
        (Backing::Directory, None) => data.remove_empty(&record.id),
        _ => data.remove(&record.id),
    };
    undone.map_err(HostError::io("undo the creation of a volume"))?;
    Ok(plugin.catalog.remove_volume(record)?)
}
