//! [`NodeHost`] over the node plugins of this machine.
//!
//! A request takes the node call lock of its volume, and runs as a task of its own
//! ([`super::volume_call_locks`]); [`super::volume_steps`] is what it does. Events are sent when a step ends,
//! also if its caller has given up. Claims are not recorded here: what this node has of a volume
//! is in the mount table and in the files beside the mount points.

use std::collections::BTreeSet;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use super::registry::{Registry, RunningInstance};
use super::volume_call_locks::{CallLockKey, PluginProcess, VolumeCallLocks};
use super::volume_files::{LeftoverMount, MountPoint, Scan, VolumeFile, kept_files};
use super::volume_steps::{VolumeSteps, run_on_files};
use nomad_csi_model::{
    AllocId, Bytes, MountRoot, NamespacedId, PluginId, RemoteVolume, TargetPath, Term, VolumeStats,
};
use nomad_csi_ports::{
    CallOrder, HostError, HostFileError, HostOperation, MountAction, MountEvent, MountObserver,
    Mounter, NodeExpandRequest, NodeHost, NodeVolumeStats, PublishRequest, StageRequest,
    StatsRequest, SweepOutcome, UnpublishRequest, UnstageRequest,
};

/// Where the volumes of plugins are on this machine.
#[derive(Clone, Debug)]
pub struct MountDirectories {
    /// The directory of all plugins, without symbolic links.
    pub base: PathBuf,
}

impl MountDirectories {
    /// Returns the root of a plugin that sees it at `in_plugin`, or at the same path.
    fn root(&self, plugin: &PluginId, in_plugin: Option<&Path>) -> Result<MountRoot, HostError> {
        MountRoot::of_plugin(&self.base, plugin, in_plugin).map_err(|problem| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, problem);
            HostError::NotPrepared(HostFileError::new("use", &self.base, &error))
        })
    }
}

/// The volumes of this machine.
#[derive(Clone)]
pub struct VolumeManager {
    registry: Arc<Registry>,
    mounter: Arc<dyn Mounter>,
    observer: Arc<dyn MountObserver>,
    directories: MountDirectories,
}

/// The call lock and the event of a request.
struct Request {
    volume: RemoteVolume,
    operation: HostOperation,
    event: Option<MountEvent>,
}

impl VolumeManager {
    /// A manager of the plugins that the registry knows.
    pub fn new(
        registry: Arc<Registry>,
        mounter: Arc<dyn Mounter>,
        observer: Arc<dyn MountObserver>,
        directories: MountDirectories,
    ) -> Self {
        Self { registry, mounter, observer, directories }
    }

    fn call_locks(&self) -> &VolumeCallLocks {
        self.registry.call_locks()
    }

    /// Runs the steps of a request under its call lock.
    async fn run<T, F>(
        &self,
        order: &CallOrder,
        request: Request,
        work: impl FnOnce(VolumeSteps) -> F + Send + 'static,
    ) -> Result<T, HostError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, HostError>> + Send + 'static,
    {
        let Request { volume, operation, event } = request;
        let plugin = &volume.plugin_id;
        let call_lock = CallLockKey::Node(volume.clone());
        let permit = self.call_locks().admit(call_lock, order, operation)?;
        let instance = self.registry.running(plugin, &order.instance)?;
        let RunningInstance { connection, node, controller, run, volumes_in_plugin, .. } = instance;
        let capabilities = node.ok_or_else(|| HostError::Unsupported {
            plugin: plugin.clone(),
            what: "the node service".into(),
        })?;
        let root = self.directories.root(plugin, volumes_in_plugin.as_deref())?;
        let process = PluginProcess { plugin: plugin.clone(), alloc: order.instance.clone(), run };
        let (mounter, observer) = (self.mounter.clone(), self.observer.clone());
        let work = move |calls| async move {
            let steps = VolumeSteps {
                root,
                node: connection.node,
                capabilities,
                attaches: controller.map(|controller| controller.publish_unpublish_volume),
                mounter,
                observer: observer.clone(),
                calls,
            };
            let result = work(steps).await;
            report(&*observer, operation, event, &result);
            result
        };
        self.call_locks().run(permit, process, work).await
    }
}

/// Sends the event of a step. A staging that succeeds is only half of a mount, so it has none; the
/// publish that follows has it.
fn report<T>(
    observer: &dyn MountObserver,
    operation: HostOperation,
    event: Option<MountEvent>,
    result: &Result<T, HostError>,
) {
    let is_half = matches!(operation, HostOperation::Stage | HostOperation::Unstage);
    let Some(event) = event.filter(|_| result.is_err() || !is_half) else {
        return;
    };
    let error = result.as_ref().err().map(ToString::to_string);
    observer.observed(MountEvent { error, ..event });
}

fn event(
    action: MountAction,
    volume: &NamespacedId,
    alloc: Option<&AllocId>,
) -> Option<MountEvent> {
    Some(MountEvent { volume: volume.clone(), alloc: alloc.cloned(), action, error: None })
}

#[async_trait]
impl NodeHost for VolumeManager {
    async fn stage(&self, order: CallOrder, request: StageRequest) -> Result<(), HostError> {
        let call_lock = Request {
            volume: request.volume.clone(),
            operation: HostOperation::Stage,
            event: event(MountAction::Mount, &request.name, None),
        };
        let work = |steps: VolumeSteps| async move { steps.stage(request).await };
        self.run(&order, call_lock, work).await
    }

    async fn publish(
        &self,
        order: CallOrder,
        request: PublishRequest,
    ) -> Result<TargetPath, HostError> {
        let call_lock = Request {
            volume: request.volume.clone(),
            operation: HostOperation::Publish,
            event: event(MountAction::Mount, &request.name, Some(&request.alloc)),
        };
        let work = |steps: VolumeSteps| async move { steps.publish(request).await };
        self.run(&order, call_lock, work).await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: UnpublishRequest,
    ) -> Result<(), HostError> {
        let call_lock = Request {
            volume: request.volume.clone(),
            operation: HostOperation::Unpublish,
            event: event(MountAction::Unmount, &request.name, Some(&request.alloc)),
        };
        let work = |steps: VolumeSteps| async move {
            let id = &request.volume.external_id;
            let path = steps.root.target(id, &request.alloc, &request.alias);
            let mount_point = MountPoint::of_target(&steps.root, &path);
            let record = VolumeFile {
                volume: request.volume.clone(),
                name: request.name,
                target: Some((request.alloc, request.alias)),
                source: None,
            };
            steps.repair(&mount_point, record).await?;
            steps.unpublish(&request.volume, &path).await
        };
        self.run(&order, call_lock, work).await
    }

    async fn unstage(&self, order: CallOrder, request: UnstageRequest) -> Result<(), HostError> {
        let call_lock = Request {
            volume: request.volume.clone(),
            operation: HostOperation::Unstage,
            event: event(MountAction::Unmount, &request.name, None),
        };
        let work = |steps: VolumeSteps| async move {
            let path = steps.root.staging(&request.volume.external_id);
            let mount_point = MountPoint::of_staging(&steps.root, &path);
            let record = VolumeFile {
                volume: request.volume.clone(),
                name: request.name,
                target: None,
                source: None,
            };
            steps.repair(&mount_point, record).await?;
            steps.unstage(&request.volume).await
        };
        self.run(&order, call_lock, work).await
    }

    async fn expand(
        &self,
        order: CallOrder,
        request: NodeExpandRequest,
    ) -> Result<Bytes, HostError> {
        let call_lock = Request {
            volume: request.volume.clone(),
            operation: HostOperation::ExpandOnNode,
            event: None,
        };
        let work = |steps: VolumeSteps| async move { steps.expand(request).await };
        self.run(&order, call_lock, work).await
    }

    async fn stats(
        &self,
        instance: &AllocId,
        request: StatsRequest,
    ) -> Result<VolumeStats, HostError> {
        let StatsRequest { volume, target, is_staged } = request;
        if let Some(running) = self.call_locks().running_on_node(&volume) {
            return Err(HostError::Busy { volume, running });
        }
        let plugin = &volume.plugin_id;
        let instance = self.registry.running(plugin, instance)?;
        let unsupported = |what: &'static str| HostError::Unsupported {
            plugin: plugin.clone(),
            what: what.into(),
        };
        let node = instance.node.ok_or(unsupported("the node service"))?;
        if !node.reports_stats() {
            return Err(unsupported("GET_VOLUME_STATS"));
        }
        let in_plugin = instance.volumes_in_plugin.as_deref();
        let root = self.directories.root(plugin, in_plugin)?;
        let published = recorded_target(&root, &volume, &target)?;
        let staging = root.staging(&volume.external_id);
        let has_staging = node.stage_unstage_volume && is_staged;
        let call = NodeVolumeStats {
            volume_path: published.in_plugin().to_owned(),
            staging_path: has_staging.then(|| staging.in_plugin().to_owned()),
            external_id: volume.external_id,
        };
        let stats = instance.connection.node.node_volume_stats(call).await;
        let stats = stats.map_err(HostError::Plugin)?;
        Ok(VolumeStats { condition: stats.condition.filter(|_| node.volume_condition), ..stats })
    }

    async fn left_behind(&self, term: Term) -> Result<Vec<RemoteVolume>, HostError> {
        self.call_locks().obey(term)?;
        // First: a call that ends after this look has left what the next one finds.
        let busy = self.call_locks().busy_on_node();
        let directories = self.directories.clone();
        let found = run_on_files(move || scan_of_all_plugins(&directories).complete()).await;
        let found = found.map_err(HostError::NotPrepared)?;
        self.check_identified(&found).await?;
        let found = found.iter().map(LeftoverMount::volume).cloned();
        let volumes: BTreeSet<_> = found.chain(busy).collect();
        Ok(volumes.into_iter().collect())
    }

    async fn kept_files(&self, volume: &RemoteVolume) -> Result<Vec<PathBuf>, HostError> {
        let root = self.directories.root(&volume.plugin_id, None)?;
        let id = volume.external_id.clone();
        let kept = run_on_files(move || kept_files(&root, &id)).await;
        kept.map_err(HostError::NotPrepared)
    }

    async fn sweep(
        &self,
        order: CallOrder,
        volume: RemoteVolume,
    ) -> Result<SweepOutcome, HostError> {
        let call_lock =
            Request { volume: volume.clone(), operation: HostOperation::Sweep, event: None };
        let work = |steps: VolumeSteps| async move { steps.sweep(&volume).await };
        self.run(&order, call_lock, work).await
    }
}

impl VolumeManager {
    /// Refuses a mount that no record names: no sweep could undo it. The directory of a plugin may be a mount.
    async fn check_identified(&self, found: &[LeftoverMount]) -> Result<(), HostError> {
        let base = &self.directories.base;
        let mounts = self.mounter.list().await.map_err(|error| {
            let action = "read the mounts below";
            HostError::NotPrepared(HostFileError::new(action, base, &error.source))
        })?;
        let named: BTreeSet<_> = found.iter().map(LeftoverMount::mount).collect();
        let is_named = |mount: &Path| mount.ancestors().any(|at| named.contains(at));
        let is_root = |mount: &Path| mount == base || mount.parent() == Some(base);
        let mut below = mounts.into_iter().map(|mount| mount.target);
        let unnamed =
            below.find(|mount| mount.starts_with(base) && !is_root(mount) && !is_named(mount));
        match unnamed {
            None => Ok(()),
            Some(path) => Err(HostError::Unidentified { path }),
        }
    }
}

/// Returns the target of the volume that was recorded with this path on the host.
fn recorded_target(
    root: &MountRoot,
    volume: &RemoteVolume,
    path: &Path,
) -> Result<TargetPath, HostError> {
    let target = path.parent().and_then(|directory| root.target_in(directory));
    let is_own = |target: &TargetPath| {
        target.on_host() == path && path.starts_with(root.volume(&volume.external_id))
    };
    target.filter(is_own).ok_or_else(|| {
        let reason = "it is no target of the volume";
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, reason);
        HostError::NotPrepared(HostFileError::new("use", path, &error))
    })
}

/// Returns what is below the directories of all plugins, also of those that do not run. Blocks.
pub(super) fn scan_of_all_plugins(directories: &MountDirectories) -> Scan {
    let mut scan = Scan::default();
    for directory in scan.directories_in(&directories.base) {
        let root = MountRoot::new(&directory, &directory).map_err(|problem| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, problem);
            HostFileError::new("use", &directory, &error)
        });
        if let Some(root) = scan.or_unreadable(root) {
            scan.add_all(&root);
        }
    }
    scan
}

#[cfg(test)]
mod tests;
