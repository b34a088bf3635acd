//! The hosts of claim steps on this machine: its node, and its controllers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use nomad_csi_model::NodeId;
use nomad_csi_node::mounts::LinuxMounter;
use nomad_csi_node::{
    LocalControllerHost, MountDirectories, Registry, VolumeCallLocks, VolumeManager,
};
use nomad_csi_ports::{
    AllocAccess, ConnectedNode, ControllerHost, HostDirectory, MountAction, MountEvent,
    MountObserver, NodeHost, TaskLogs,
};

/// The hosts that carry out the steps of the server.
pub(super) struct StepHosts {
    /// The node.
    pub(super) node: Arc<dyn NodeHost>,
    /// The controllers.
    pub(super) controllers: Arc<dyn ControllerHost>,
    registry: Arc<Registry>,
    call_locks: VolumeCallLocks,
}

/// The logs of tasks and the access to allocations; none where the node runs no jobs.
type TaskAccess = (Option<Arc<dyn TaskLogs>>, Option<Arc<dyn AllocAccess>>);

impl StepHosts {
    /// The hosts of the plugins in `registry`, with their mounts below `mounts`. What happens to these goes to the log
    /// and to `events`.
    pub(super) fn new(
        registry: &Arc<Registry>,
        mounts: PathBuf,
        events: Arc<dyn MountObserver>,
    ) -> Self {
        let directories = MountDirectories { base: mounts };
        let (mounter, observer) = (Arc::new(LinuxMounter), Arc::new(LoggedMounts { events }));
        let node = VolumeManager::new(registry.clone(), mounter, observer, directories);
        Self {
            node: Arc::new(node),
            controllers: Arc::new(LocalControllerHost::new(registry.clone())),
            registry: registry.clone(),
            call_locks: registry.call_locks().clone(),
        }
    }

    /// Returns this machine as the only node of a server in the same process.
    pub(super) fn directory(
        &self,
        node: NodeId,
        (logs, allocs): TaskAccess,
    ) -> Arc<dyn HostDirectory> {
        let connected = ConnectedNode {
            host: self.node.clone(),
            controllers: self.controllers.clone(),
            plugins: self.registry.clone(),
            logs,
            allocs,
        };
        Arc::new(OneNode { node, connected })
    }

    /// Takes no more calls, and waits for those that run. Logs those that do not end in time; they end
    /// with the plugin's process.
    pub(super) async fn drain(&self, limit: Duration) {
        if timeout(limit, self.call_locks.drain()).await.is_ok() {
            return;
        }
        for (volume, operation) in self.call_locks.running() {
            tracing::warn!(
                plugin.id = %volume.plugin_id,
                volume.external_id = %volume.external_id,
                %operation,
                "the plugin has not answered in time"
            );
        }
    }
}

/// The node in the server's process.
struct OneNode {
    node: NodeId,
    connected: ConnectedNode,
}

impl HostDirectory for OneNode {
    fn node(&self, node: &NodeId) -> Option<ConnectedNode> {
        (*node == self.node).then(|| self.connected.clone())
    }

    fn nodes(&self) -> Vec<NodeId> {
        vec![self.node.clone()]
    }
}

/// Writes the events of mounts to the log, and passes them on.
struct LoggedMounts {
    events: Arc<dyn MountObserver>,
}

impl MountObserver for LoggedMounts {
    fn observed(&self, event: MountEvent) {
        self.events.observed(event.clone());
        let MountEvent { volume, alloc, action, error } = event;
        let alloc = alloc.map(|alloc| alloc.to_string());
        let action = match action {
            MountAction::Mount => "mount",
            MountAction::Unmount => "unmount",
            MountAction::Keep => "keep",
        };
        match error {
            None => tracing::info!(
                volume.id = %volume.id,
                volume.namespace = %volume.namespace,
                alloc.id = alloc,
                action,
                "the volume was mounted or unmounted"
            ),
            Some(kept) if action == "keep" => tracing::warn!(
                volume.id = %volume.id,
                volume.namespace = %volume.namespace,
                alloc.id = alloc,
                kept,
                "a task wrote beside the volume"
            ),
            Some(error) => tracing::warn!(
                volume.id = %volume.id,
                volume.namespace = %volume.namespace,
                alloc.id = alloc,
                action,
                error,
                "the volume could not be mounted or unmounted"
            ),
        }
    }
}
