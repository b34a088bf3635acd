//! The state that all services share, and the rule that work in progress always runs to its end.
//!
//! gRPC drops the future of a call when the caller disconnects or its deadline passes. CSI requires
//! that a cancelled call may still complete. So the work of each call runs on one blocking thread
//! from start to end, and a shutdown waits for these threads. Nothing below [`Plugin::call`] is
//! async. Only one operation runs on a volume at a time. A second one fails with ABORTED
//! immediately, so no queue builds up (CSI, "Concurrency").

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;
use tonic::Status;

use super::call_context::current_call;
use super::catalog::{Attachment, Backing, Catalog, CatalogVolume, RecordState};
use super::data::DataDir;
use super::error::{HostError, OperationPending};
use super::profile::{PluginCapability, PluginProfile};
use super::shared::{Role, SharedConfig, SharedDirectory};

use nomad_csi_model::private::create_subdirectory;
use nomad_csi_ports::{
    BlockStorage, CallMeasurements, Clock, IdSource, LoopDevice, MountCalls, StatusCode,
};

/// The ports that the plugin needs from its host.
#[derive(Clone)]
pub struct Host {
    /// Mounts and unmounts.
    pub mounter: Arc<dyn MountCalls>,
    /// Loop devices, file systems and copies.
    pub storage: Arc<dyn BlockStorage>,
    /// The time at which a snapshot is created.
    pub clock: Arc<dyn Clock>,
    /// Generates IDs of volumes and snapshots.
    pub ids: Arc<dyn IdSource>,
    /// Receives how long calls took.
    pub measurements: Arc<dyn CallMeasurements>,
}

/// The plugin: its catalogue, its data directories and its host.
pub(super) struct Plugin {
    pub(super) catalog: Catalog,
    /// The volumes that are directories.
    pub(super) directories: DataDir,
    /// The volumes that are files.
    pub(super) images: DataDir,
    /// The snapshots of both kinds.
    pub(super) snapshots: DataDir,
    pub(super) state_dir: PathBuf,
    pub(super) host: Host,
    pub(super) node_id: String,
    pub(super) profile: PluginProfile,
    /// The directory that other processes of the plugin use too.
    pub(super) shared: Option<SharedDirectory>,
    pending: Arc<Mutex<BTreeSet<OperationKey>>>,
    held: HeldDevices,
    work: TaskTracker,
}

/// The devices of block volumes in use, by volume and whether they are read-only. A process that has a loop device open can
/// ask the kernel to detach it, without a capability. The kernel does so when the last process closes the device, and
/// then gives its number to another file. While the plugin holds it, it stays the volume's.
#[derive(Debug, Default)]
struct HeldDevices(Mutex<BTreeMap<(String, bool), LoopDevice>>);

/// The object that an operation locks. A name and an ID may be equal texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OperationKey {
    /// The name of a volume during its creation.
    Name(String),
    /// The ID of a volume.
    Volume(String),
    /// The name of a snapshot or group during its creation.
    SnapshotName(String),
    /// The ID of a snapshot or group.
    Snapshot(String),
}

impl Plugin {
    /// Opens the whole plugin on a state directory, which must exist. Blocks.
    #[cfg(test)]
    pub(super) fn open(
        state_dir: &Path,
        node_id: String,
        profile: PluginProfile,
        host: Host,
    ) -> Result<Self, HostError> {
        Self::open_placed(state_dir, None, node_id, profile, host)
    }

    /// Opens the plugin, or the part of it that this process is, on a state directory, which must exist. Blocks.
    pub(super) fn open_placed(
        state_dir: &Path,
        shared: Option<&SharedConfig>,
        node_id: String,
        profile: PluginProfile,
        host: Host,
    ) -> Result<Self, HostError> {
        // Paths in the mount table contain no symbolic links.
        let state_dir =
            state_dir.canonicalize().map_err(HostError::io("find the state directory"))?;
        let shared = shared.map(|shared| SharedDirectory::open(shared, &node_id));
        let shared = shared.transpose().map_err(HostError::io("use the shared directory"))?;
        let data = shared.as_ref().map_or(&state_dir, |shared| &shared.path);
        let below = |name: &str| {
            let path = data.join(name);
            create_subdirectory(&path)
                .and_then(|_| DataDir::open(&path))
                .map_err(HostError::io(format!("create directory `{name}`")))
        };
        // Without sized volumes, expansion is impossible too.
        let mut profile = profile;
        if !host.storage.features().supports_sizes() {
            let sizes = [PluginCapability::Expand, PluginCapability::NodeExpand];
            profile.capabilities.without.extend(sizes);
        }
        if let Some(shared) = &shared {
            profile.capabilities.limit_to(shared.role);
        }
        let mut catalog = Catalog::open(&state_dir.join("catalog.redb"))?;
        if let Some(shared) = &shared
            && shared.role.has_controller()
        {
            catalog.publish_to(shared.records.clone());
        }
        let plugin = Self {
            catalog,
            directories: below("volumes")?,
            images: below("images")?,
            snapshots: below("snapshots")?,
            host,
            node_id,
            profile,
            pending: Arc::default(),
            held: HeldDevices::default(),
            work: TaskTracker::new(),
            state_dir,
            shared,
        };
        std::fs::File::open(&plugin.state_dir)
            .and_then(|directory| directory.sync_all())
            .map_err(HostError::io("make the state directory durable"))?;
        Ok(plugin)
    }

    /// Returns the directory that holds data with this backing.
    pub(super) fn data_dir(&self, backing: Backing) -> &DataDir {
        match backing {
            Backing::Directory => &self.directories,
            Backing::Image | Backing::Block => &self.images,
        }
    }

    /// Returns whether the plugin has this capability.
    pub(super) fn has(&self, capability: PluginCapability) -> bool {
        self.profile.capabilities.has(capability)
    }

    /// Begins an operation. A second one with the same key fails until the first is dropped.
    pub(super) fn begin_operation(&self, key: OperationKey) -> Result<Operation, OperationPending> {
        let mut pending = self.pending.lock();
        if !pending.insert(key.clone()) {
            let (OperationKey::Name(text)
            | OperationKey::Volume(text)
            | OperationKey::SnapshotName(text)
            | OperationKey::Snapshot(text)) = key;
            return Err(OperationPending(text));
        }
        Ok(Operation { key, pending: self.pending.clone() })
    }

    /// Returns whether an operation with this key is in progress.
    pub(super) fn has_operation(&self, key: &OperationKey) -> bool {
        let pending = self.pending.lock();
        pending.contains(key)
    }

    /// Keeps a device of a block volume attached, whatever others ask of it.
    pub(super) fn hold_device(&self, volume: &str, read_only: bool, device: LoopDevice) {
        let held = self.held.0.lock();
        let mut held = held;
        held.insert((volume.to_owned(), read_only), device);
    }

    /// Ends [`Self::hold_device`].
    pub(super) fn let_go_of_device(&self, volume: &str, read_only: bool) {
        let held = self.held.0.lock();
        let mut held = held;
        held.remove(&(volume.to_owned(), read_only));
    }

    /// Runs the work of one call on a blocking thread, to its end even if the caller goes away.
    pub(super) async fn call<T, E>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, Status>
    where
        T: Send + 'static,
        E: From<HostError> + Send + 'static,
        Status: From<E>,
    {
        let (plugin, call) = (self.clone(), current_call());
        let logged_work = move || {
            let result = work(&plugin).map_err(Status::from);
            if let Some(call) = call {
                let code = result.as_ref().map_or_else(status_code, |_| StatusCode::Ok);
                call.set_outcome(code);
            }
            result
        };
        let result = self.work.spawn_blocking(logged_work).await;
        result.unwrap_or_else(|ended| Err(Status::from(E::from(HostError::TaskFailed(ended)))))
    }

    /// Runs work in the background, on a blocking thread. Only a shutdown waits for it.
    pub(super) fn spawn_background(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) {
        let plugin = self.clone();
        drop(self.work.spawn_blocking(move || work(&plugin)));
    }

    /// Interrupts removals. The next start continues them.
    pub(super) fn stop_removals(&self) {
        self.directories.stop_removals();
        self.snapshots.stop_removals();
    }

    /// Returns the volume with this ID if it is `Ready`.
    pub(super) fn ready_volume(&self, id: &str) -> Result<Option<CatalogVolume>, HostError> {
        let record = match &self.shared {
            Some(shared) if shared.role == Role::Node => {
                let read = shared.records.read(id);
                read.map_err(HostError::io("read the record of the volume"))?
            }
            Some(_) | None => self.catalog.volume(id)?,
        };
        let mut record = record.filter(|record| record.state == RecordState::Ready);
        if let (Some(shared), Some(record)) = (&self.shared, &mut record) {
            let added = shared.records.add_prepared(record);
            added.map_err(HostError::io("read what a node did to the volume"))?;
        }
        Ok(record)
    }

    /// Writes the changed record of a volume. A node keeps only what it did to the content.
    pub(super) fn save_volume(&self, record: &CatalogVolume) -> Result<(), HostError> {
        match &self.shared {
            Some(shared) if shared.role == Role::Node => {
                let kept = shared.records.put_prepared(&record.id, &record.content);
                kept.map_err(HostError::io("keep what this node did to the volume"))
            }
            Some(_) | None => Ok(self.catalog.put_volume(record)?),
        }
    }

    /// Returns how a volume is attached to this node.
    pub(super) fn own_attachment(
        &self,
        record: &CatalogVolume,
    ) -> Result<Option<Attachment>, HostError> {
        match &self.shared {
            None => Ok(record.attachment.clone()),
            Some(shared) => {
                let found = shared.attachments.get(&record.id, &self.node_id);
                found.map_err(HostError::io("read the attachment of the volume"))
            }
        }
    }

    /// Returns the nodes that a volume is attached to.
    pub(super) fn attached_nodes(&self, record: &CatalogVolume) -> Result<Vec<String>, HostError> {
        match &self.shared {
            None => Ok(record.attachment.iter().map(|_| self.node_id.clone()).collect()),
            Some(shared) => {
                let nodes = shared.attachments.nodes(&record.id);
                nodes.map_err(HostError::io("list the attachments of the volume"))
            }
        }
    }

    /// Returns whether this process owns the records of volumes.
    pub(super) fn has_controller(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.role.has_controller())
    }

    /// Returns whether a volume that is detached while it is staged becomes read-only here.
    pub(super) fn detach_cuts(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.detach_cuts)
    }

    /// Returns whether volumes are used by the node service of this process, or of another one.
    pub(super) fn has_nodes(&self) -> bool {
        self.shared.is_some() || self.has(PluginCapability::Node)
    }

    /// Waits until all work is done, and refuses new work.
    pub(super) async fn wait_for_work(&self) {
        self.work.close();
        self.work.wait().await;
    }
}

fn status_code(status: &Status) -> StatusCode {
    let number = usize::try_from(i32::from(status.code())).unwrap_or_default();
    StatusCode::ALL.get(number).copied().unwrap_or(StatusCode::Unknown)
}

/// An operation in progress. It ends when this guard is dropped.
#[derive(Debug)]
pub(super) struct Operation {
    key: OperationKey,
    pending: Arc<Mutex<BTreeSet<OperationKey>>>,
}

impl Drop for Operation {
    fn drop(&mut self) {
        let mut pending = self.pending.lock();
        pending.remove(&self.key);
    }
}
