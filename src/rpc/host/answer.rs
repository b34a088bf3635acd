//! The answers of a node, each as one end of a reply.
//!
//! An answer of another call, or one that does not convert, is no answer: the call may have taken effect.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::enumeration::{from_health_kind, from_sweep, health_kind, sweep};
use super::field::{
    Malformed, Transfer, bytes, from_json, from_optional_json, from_path, json, path, required,
};
use super::messages;
use super::messages::listed_health::Entry;
use super::messages::reply::End;
use nomad_csi_model::{
    Bytes, Capacity, Condition, ControllerCapabilities, ExternalId, ExternalNodeId, ExternalVolume,
    NodeCapabilities, Quantity, RemoteVolume, Snapshot, SnapshotId, StorageStatus, TargetPath,
    VolumeStats, VolumeStatus,
};
use nomad_csi_ports::{
    AllocAccessError, AllocFile, CreatedVolume, ExpandedVolume, ListedHealth, LogChunk,
    LogPosition, NodeDescription, Page, PluginCapabilities, PluginInfo, SweepOutcome, TaskLogError,
};

/// An answer of a node.
pub(super) trait Answer: Sized {
    /// Returns the end of the reply.
    fn end(self) -> End;

    /// Reads the end of a reply.
    ///
    /// # Errors
    /// If it is the answer of another call, or does not convert.
    fn from_end(end: End) -> Result<Self, Malformed>;
}

/// Implements [`Answer`] for a type, by the variant of the reply, with a conversion in each direction.
macro_rules! answers {
    ($($type:ty: $variant:ident, $write:expr, $read:expr;)*) => {$(
        impl Answer for $type {
            fn end(self) -> End {
                let write: fn(Self) -> _ = $write;
                End::$variant(write(self))
            }

            fn from_end(end: End) -> Result<Self, Malformed> {
                let End::$variant(content) = end else {
                    return Err(Malformed(stringify!($variant)));
                };
                let read: fn(_) -> Result<Self, Malformed> = $read;
                read(content)
            }
        }
    )*};
}

answers! {
    (): Done, |()| messages::Nothing {}, |messages::Nothing {}| Ok(());
    bool: Flag, |flag| flag, Ok;
    TargetPath: TargetPathJson, |path| json(&path), |text: Vec<u8>| from_json(&text, "target_path_json");
    Bytes: Size, Self::get, |size| bytes(size, "size");
    SweepOutcome: Sweep, sweep, from_sweep;
    Vec<RemoteVolume>: Volumes, write_volumes, read_volumes;
    Vec<PathBuf>: Paths, write_paths, read_paths;
    VolumeStats: Stats, Transfer::write, Transfer::read;
    BTreeMap<String, String>: PublishContext, |entries| messages::Map { entries }, |map: messages::Map| Ok(map.entries);
    PluginInfo: PluginInfo, Transfer::write, Transfer::read;
    PluginCapabilities: PluginCapabilities, Transfer::write, Transfer::read;
    ControllerCapabilities: ControllerCapabilitiesJson, |known| json(&known), |text: Vec<u8>| from_json(&text, "controller_capabilities_json");
    NodeCapabilities: NodeCapabilitiesJson, |known| json(&known), |text: Vec<u8>| from_json(&text, "node_capabilities_json");
    NodeDescription: NodeInfo, Transfer::write, Transfer::read;
    CreatedVolume: CreatedVolume, Transfer::write, Transfer::read;
    Page<ExternalVolume>: ExternalVolumes, Transfer::write, Transfer::read;
    Capacity: Capacity, Transfer::write, Transfer::read;
    Snapshot: Snapshot, Transfer::write, Transfer::read;
    Page<Snapshot>: Snapshots, Transfer::write, Transfer::read;
    ExpandedVolume: ExpandedVolume, Transfer::write, Transfer::read;
    Vec<VolumeStatus>: Health, Transfer::write, Transfer::read;
    Page<ListedHealth>: ListedHealth, Transfer::write, Transfer::read;
    Vec<StorageStatus>: StorageStatusesJson, |statuses| json(&statuses), |text: Vec<u8>| from_json(&text, "storage_statuses_json");
    LogPosition: LogPosition, Transfer::write, Transfer::read;
    LogChunk: LogChunk, Transfer::write, Transfer::read;
    TaskLogError: TaskLogFailure, Transfer::write, Transfer::read;
    AllocAccessError: AllocFailureJson, |error| json(&error), |text: Vec<u8>| from_json(&text, "alloc_failure_json");
    AllocFile: FileJson, |file| json(&file), |text: Vec<u8>| from_json(&text, "file_json");
    Vec<AllocFile>: FilesJson, |files| json(&files), |text: Vec<u8>| from_json(&text, "files_json");
    Vec<u8>: Content, |content| content, Ok;
}

/// The end of a call of a plugin is an answer already.
impl Answer for End {
    fn end(self) -> End {
        self
    }

    fn from_end(end: End) -> Result<Self, Malformed> {
        Ok(end)
    }
}

fn write_volumes(volumes: Vec<RemoteVolume>) -> messages::RemoteVolumes {
    messages::RemoteVolumes { volumes: volumes.into_iter().map(Transfer::write).collect() }
}

fn read_volumes(message: messages::RemoteVolumes) -> Result<Vec<RemoteVolume>, Malformed> {
    message.volumes.into_iter().map(Transfer::read).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "a conversion as all others are")]
fn write_paths(paths: Vec<PathBuf>) -> messages::Paths {
    messages::Paths { paths: paths.iter().map(|each| path(each)).collect() }
}

#[expect(clippy::unnecessary_wraps, reason = "a conversion as all others are")]
fn read_paths(message: messages::Paths) -> Result<Vec<PathBuf>, Malformed> {
    Ok(message.paths.into_iter().map(from_path).collect())
}

impl Transfer for Quantity {
    type Message = messages::Quantity;

    fn write(self) -> messages::Quantity {
        messages::Quantity { total: self.total, used: self.used, available: self.available }
    }

    fn read(message: messages::Quantity) -> Result<Self, Malformed> {
        Ok(Self { total: message.total, used: message.used, available: message.available })
    }
}

impl Transfer for Condition {
    type Message = messages::Condition;

    fn write(self) -> messages::Condition {
        messages::Condition { abnormal: self.abnormal, message: self.message }
    }

    fn read(message: messages::Condition) -> Result<Self, Malformed> {
        Ok(Self { abnormal: message.abnormal, message: message.message })
    }
}

impl Transfer for VolumeStats {
    type Message = messages::VolumeStats;

    fn write(self) -> messages::VolumeStats {
        messages::VolumeStats {
            bytes: self.bytes.map(Transfer::write),
            inodes: self.inodes.map(Transfer::write),
            condition: self.condition.map(Transfer::write),
            problems: self.problems,
        }
    }

    fn read(message: messages::VolumeStats) -> Result<Self, Malformed> {
        Ok(Self {
            bytes: message.bytes.map(Transfer::read).transpose()?,
            inodes: message.inodes.map(Transfer::read).transpose()?,
            condition: message.condition.map(Transfer::read).transpose()?,
            problems: message.problems,
        })
    }
}

impl Transfer for PluginInfo {
    type Message = messages::PluginInfo;

    fn write(self) -> messages::PluginInfo {
        messages::PluginInfo { name: self.name, vendor_version: self.vendor_version }
    }

    fn read(message: messages::PluginInfo) -> Result<Self, Malformed> {
        Ok(Self { name: message.name, vendor_version: message.vendor_version })
    }
}

impl Transfer for PluginCapabilities {
    type Message = messages::PluginCapabilities;

    fn write(self) -> messages::PluginCapabilities {
        messages::PluginCapabilities {
            controller_service: self.controller_service,
            volume_accessibility_constraints: self.volume_accessibility_constraints,
        }
    }

    fn read(message: messages::PluginCapabilities) -> Result<Self, Malformed> {
        Ok(Self {
            controller_service: message.controller_service,
            volume_accessibility_constraints: message.volume_accessibility_constraints,
        })
    }
}

impl Transfer for NodeDescription {
    type Message = messages::NodeInfo;

    fn write(self) -> messages::NodeInfo {
        messages::NodeInfo {
            node_id: self.external_node_id.as_str().to_owned(),
            max_volumes: self.max_volumes,
            topology_json: self.accessible_topology.as_ref().map(json),
        }
    }

    fn read(message: messages::NodeInfo) -> Result<Self, Malformed> {
        Ok(Self {
            external_node_id: ExternalNodeId::new(message.node_id),
            max_volumes: message.max_volumes,
            accessible_topology: from_optional_json(message.topology_json, "topology_json")?,
        })
    }
}

impl Transfer for CreatedVolume {
    type Message = messages::CreatedVolume;

    fn write(self) -> messages::CreatedVolume {
        messages::CreatedVolume {
            external_id: self.external_id.as_str().to_owned(),
            capacity: self.capacity.get(),
            context: self.context,
            topologies_json: json(&self.topologies),
        }
    }

    fn read(message: messages::CreatedVolume) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            capacity: bytes(message.capacity, "capacity")?,
            context: message.context,
            topologies: from_json(&message.topologies_json, "topologies_json")?,
        })
    }
}

impl Transfer for ExternalVolume {
    type Message = messages::ExternalVolume;

    fn write(self) -> messages::ExternalVolume {
        let nodes = self.published_nodes.iter();
        messages::ExternalVolume {
            external_id: self.external_id.as_str().to_owned(),
            capacity: self.capacity.get(),
            context: self.context,
            clone_id: self.clone_id,
            snapshot_id: self.snapshot_id,
            published_nodes: nodes.map(|node| node.as_str().to_owned()).collect(),
            condition: self.condition.map(Transfer::write),
            health: self.health.map(Transfer::write),
        }
    }

    fn read(message: messages::ExternalVolume) -> Result<Self, Malformed> {
        let nodes = message.published_nodes.into_iter();
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            capacity: bytes(message.capacity, "capacity")?,
            context: message.context,
            clone_id: message.clone_id,
            snapshot_id: message.snapshot_id,
            published_nodes: nodes.map(ExternalNodeId::new).collect(),
            condition: message.condition.map(Transfer::read).transpose()?,
            health: message.health.map(Transfer::read).transpose()?,
        })
    }
}

impl Transfer for Capacity {
    type Message = messages::Capacity;

    fn write(self) -> messages::Capacity {
        messages::Capacity {
            available: self.available.get(),
            maximum_volume_size: self.maximum_volume_size.map(Bytes::get),
            minimum_volume_size: self.minimum_volume_size.map(Bytes::get),
        }
    }

    fn read(message: messages::Capacity) -> Result<Self, Malformed> {
        let optional = |size: Option<u64>, name| size.map(|size| bytes(size, name)).transpose();
        Ok(Self {
            available: bytes(message.available, "available")?,
            maximum_volume_size: optional(message.maximum_volume_size, "maximum_volume_size")?,
            minimum_volume_size: optional(message.minimum_volume_size, "minimum_volume_size")?,
        })
    }
}

impl Transfer for Snapshot {
    type Message = messages::Snapshot;

    fn write(self) -> messages::Snapshot {
        messages::Snapshot {
            id: self.id.as_str().to_owned(),
            source: self.source.as_str().to_owned(),
            size: self.size.get(),
            create_time: self.create_time,
            is_ready: self.is_ready,
        }
    }

    fn read(message: messages::Snapshot) -> Result<Self, Malformed> {
        Ok(Self {
            id: SnapshotId::new(message.id),
            source: ExternalId::new(message.source),
            size: bytes(message.size, "size")?,
            create_time: message.create_time,
            is_ready: message.is_ready,
        })
    }
}

impl Transfer for ExpandedVolume {
    type Message = messages::ExpandedVolume;

    fn write(self) -> messages::ExpandedVolume {
        messages::ExpandedVolume {
            capacity: self.capacity.get(),
            node_expansion_required: self.node_expansion_required,
        }
    }

    fn read(message: messages::ExpandedVolume) -> Result<Self, Malformed> {
        Ok(Self {
            capacity: bytes(message.capacity, "capacity")?,
            node_expansion_required: message.node_expansion_required,
        })
    }
}

impl Transfer for VolumeStatus {
    type Message = messages::VolumeStatus;

    fn write(self) -> messages::VolumeStatus {
        messages::VolumeStatus {
            kind: Some(health_kind(self.kind)),
            reason: self.reason,
            message: self.message,
        }
    }

    fn read(message: messages::VolumeStatus) -> Result<Self, Malformed> {
        Ok(Self {
            kind: from_health_kind(message.kind)?,
            reason: message.reason,
            message: message.message,
        })
    }
}

impl Transfer for Vec<VolumeStatus> {
    type Message = messages::VolumeStatuses;

    fn write(self) -> messages::VolumeStatuses {
        messages::VolumeStatuses { statuses: self.into_iter().map(Transfer::write).collect() }
    }

    fn read(message: messages::VolumeStatuses) -> Result<Self, Malformed> {
        message.statuses.into_iter().map(Transfer::read).collect()
    }
}

impl Transfer for ListedHealth {
    type Message = Entry;

    fn write(self) -> Entry {
        Entry {
            external_id: self.external_id.as_str().to_owned(),
            health: Some(self.statuses.write()),
        }
    }

    fn read(message: Entry) -> Result<Self, Malformed> {
        Ok(Self {
            external_id: ExternalId::new(message.external_id),
            statuses: required(message.health, "health")?,
        })
    }
}

/// Implements [`Transfer`] for the pages of a list.
macro_rules! pages {
    ($($entry:ty: $message:ident;)*) => {$(
        impl Transfer for Page<$entry> {
            type Message = messages::$message;

            fn write(self) -> messages::$message {
                messages::$message {
                    entries: self.entries.into_iter().map(Transfer::write).collect(),
                    next_token: self.next_token,
                }
            }

            fn read(message: messages::$message) -> Result<Self, Malformed> {
                let entries = message.entries.into_iter().map(Transfer::read);
                Ok(Self { entries: entries.collect::<Result<_, _>>()?, next_token: message.next_token })
            }
        }
    )*};
}

pages! {
    ExternalVolume: ExternalVolumes;
    Snapshot: Snapshots;
    ListedHealth: ListedHealth;
}

impl Transfer for LogChunk {
    type Message = messages::LogChunk;

    fn write(self) -> messages::LogChunk {
        messages::LogChunk { data: self.data, file: self.file, next: Some(self.next.write()) }
    }

    fn read(message: messages::LogChunk) -> Result<Self, Malformed> {
        Ok(Self { data: message.data, file: message.file, next: required(message.next, "next")? })
    }
}

impl Transfer for TaskLogError {
    type Message = messages::TaskLogFailure;

    fn write(self) -> messages::TaskLogFailure {
        messages::TaskLogFailure { task: self.task, reason: self.reason }
    }

    fn read(message: messages::TaskLogFailure) -> Result<Self, Malformed> {
        Ok(Self { task: message.task, reason: message.reason })
    }
}
