//! A node that records what arrives, and answers and fails as its seed says.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::request::{Call, ReadLimit, plugin_alloc, plugin_id};
use super::samples::{Random, Sample};
use nomad_csi_model::{
    AllocId, Bytes, Capacity, ControllerCapabilities, ExternalId, ExternalVolume, NodeCapabilities,
    PluginId, PublishContext, RemoteVolume, Secrets, Snapshot, SnapshotId, StorageStatus,
    TargetPath, Term, VolumeStats, VolumeStatus,
};
use nomad_csi_ports::{
    AllocAccess, AllocAccessError, AllocFile, CallOrder, ConnectedNode, Controller, ControllerHost,
    ControllerPublishRequest, ControllerPublishVolume, ControllerUnpublishRequest,
    ControllerUnpublishVolume, CreateSnapshot, CreateVolume, CreatedVolume, ExpandVolume,
    ExpandedVolume, GetCapacity, HostError, Identity, ListSnapshots, ListVolumeHealth,
    ListedHealth, LogChunk, LogOrigin, LogPosition, ModifyVolume, NodeDescription,
    NodeExpandRequest, NodeExpandVolume, NodeHost, NodeService, NodeVolumeHealth, NodeVolumeStats,
    Page, PageRequest, PluginCapabilities, PluginConnection, PluginDirectory, PluginError,
    PluginInfo, PublishRequest, PublishVolume, StageRequest, StageVolume, StatsRequest,
    SweepOutcome, TaskLogError, TaskLogs, TaskOutput, TermGuard, UnpublishRequest, UnstageRequest,
    ValidateVolume,
};

/// The node. Clones are the same one.
#[derive(Clone)]
pub(super) struct ScriptedNode(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// The calls that arrived, that ran to their end, and that were dropped before.
    arrived: watch::Sender<usize>,
    finished: watch::Sender<usize>,
    dropped: watch::Sender<usize>,
    is_held: watch::Sender<bool>,
}

struct State {
    random: Random,
    recorded: Vec<Call>,
    newest: Term,
}

/// Counts a call as dropped, unless it ran to its end.
struct Running {
    node: ScriptedNode,
    is_finished: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Inner { finished, dropped, .. } = &*self.node.0;
        let counted = if self.is_finished { finished } else { dropped };
        counted.send_modify(|calls| *calls += 1);
    }
}

impl ScriptedNode {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(State {
                random: Random(seed),
                recorded: vec![],
                newest: Term::default(),
            }),
            arrived: watch::Sender::default(),
            finished: watch::Sender::default(),
            dropped: watch::Sender::default(),
            is_held: watch::Sender::default(),
        }))
    }

    pub(super) fn connected(&self) -> ConnectedNode {
        let node = Arc::new(self.clone());
        ConnectedNode {
            host: node.clone(),
            controllers: node.clone(),
            plugins: node.clone(),
            logs: Some(node.clone()),
            allocs: Some(node),
        }
    }

    pub(super) fn terms(&self) -> Arc<dyn TermGuard> {
        Arc::new(self.clone())
    }

    pub(super) fn recorded(&self) -> Vec<Call> {
        self.0.state.lock().recorded.clone()
    }

    /// Keeps all calls from their end, until they are released.
    pub(super) fn hold(&self) {
        self.0.is_held.send_replace(true);
    }

    pub(super) fn release(&self) {
        self.0.is_held.send_replace(false);
    }

    pub(super) async fn wait_for_arrived(&self, calls: usize) {
        wait_for(&self.0.arrived, calls).await;
    }

    pub(super) async fn wait_for_finished(&self, calls: usize) {
        wait_for(&self.0.finished, calls).await;
    }

    pub(super) async fn wait_for_dropped(&self, calls: usize) {
        wait_for(&self.0.dropped, calls).await;
    }

    /// The numbers of calls that ran to their end, and that were dropped before.
    pub(super) fn ended(&self) -> (usize, usize) {
        (*self.0.finished.borrow(), *self.0.dropped.borrow())
    }

    async fn handle<T: Sample, E: Sample>(&self, call: Call) -> Result<T, E> {
        self.0.state.lock().recorded.push(call);
        let mut running = Running { node: self.clone(), is_finished: false };
        self.0.arrived.send_modify(|calls| *calls += 1);
        let mut is_held = self.0.is_held.subscribe();
        drop(is_held.wait_for(|is_held| !is_held).await);
        running.is_finished = true;
        let random = &mut self.0.state.lock().random;
        match random.below(3) {
            0 => Err(random.sample()),
            _ => Ok(random.sample()),
        }
    }

    async fn step<T: Sample>(&self, order: &CallOrder, call: Call) -> Result<T, HostError> {
        self.obey(order.term)?;
        self.handle(call).await
    }
}

/// How long a test waits for what has to happen.
const LIMIT: Duration = Duration::from_secs(20);

async fn wait_for(count: &watch::Sender<usize>, calls: usize) {
    let mut count = count.subscribe();
    let reached = count.wait_for(|so_far| *so_far >= calls);
    let waited = tokio::time::timeout(LIMIT, reached).await;
    assert!(waited.is_ok(), "timed out: not {calls} calls");
}

impl TermGuard for ScriptedNode {
    fn obey(&self, term: Term) -> Result<(), HostError> {
        let newest = &mut self.0.state.lock().newest;
        if term < *newest {
            return Err(HostError::OldTerm { desired: term, newest: *newest });
        }
        *newest = term;
        Ok(())
    }
}

#[async_trait]
impl NodeHost for ScriptedNode {
    async fn stage(&self, order: CallOrder, request: StageRequest) -> Result<(), HostError> {
        self.step(&order.clone(), Call::Stage(order, request)).await
    }

    async fn publish(
        &self,
        order: CallOrder,
        request: PublishRequest,
    ) -> Result<TargetPath, HostError> {
        self.step(&order.clone(), Call::Publish(order, request)).await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: UnpublishRequest,
    ) -> Result<(), HostError> {
        self.step(&order.clone(), Call::Unpublish(order, request)).await
    }

    async fn unstage(&self, order: CallOrder, request: UnstageRequest) -> Result<(), HostError> {
        self.step(&order.clone(), Call::Unstage(order, request)).await
    }

    async fn expand(
        &self,
        order: CallOrder,
        request: NodeExpandRequest,
    ) -> Result<Bytes, HostError> {
        self.step(&order.clone(), Call::Expand(order, request)).await
    }

    async fn left_behind(&self, term: Term) -> Result<Vec<RemoteVolume>, HostError> {
        self.obey(term)?;
        self.handle(Call::LeftBehind(term)).await
    }

    async fn stats(
        &self,
        instance: &AllocId,
        request: StatsRequest,
    ) -> Result<VolumeStats, HostError> {
        self.handle(Call::Stats(instance.clone(), request)).await
    }

    async fn kept_files(&self, volume: &RemoteVolume) -> Result<Vec<PathBuf>, HostError> {
        self.handle(Call::KeptFiles(volume.clone())).await
    }

    async fn sweep(
        &self,
        order: CallOrder,
        volume: RemoteVolume,
    ) -> Result<SweepOutcome, HostError> {
        self.step(&order.clone(), Call::Sweep(order, volume)).await
    }
}

#[async_trait]
impl ControllerHost for ScriptedNode {
    async fn publish(
        &self,
        order: CallOrder,
        request: ControllerPublishRequest,
    ) -> Result<PublishContext, HostError> {
        self.step(&order.clone(), Call::Attach(order, request)).await
    }

    async fn unpublish(
        &self,
        order: CallOrder,
        request: ControllerUnpublishRequest,
    ) -> Result<(), HostError> {
        self.step(&order.clone(), Call::Detach(order, request)).await
    }
}

#[async_trait]
impl PluginDirectory for ScriptedNode {
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        let is_there = *plugin == plugin_id() && *alloc == plugin_alloc();
        let node = Arc::new(self.clone());
        is_there.then(|| PluginConnection {
            identity: node.clone(),
            controller: node.clone(),
            node,
        })
    }
}

#[async_trait]
impl Identity for ScriptedNode {
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError> {
        self.handle(Call::PluginInfo()).await
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError> {
        self.handle(Call::PluginCapabilities()).await
    }

    async fn probe(&self) -> Result<bool, PluginError> {
        self.handle(Call::Probe()).await
    }
}

#[async_trait]
impl Controller for ScriptedNode {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        self.handle(Call::ControllerCapabilities()).await
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        self.handle(Call::CreateVolume(request)).await
    }

    async fn delete_volume(&self, id: ExternalId, secrets: Secrets) -> Result<(), PluginError> {
        self.handle(Call::DeleteVolume(id, secrets)).await
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        self.handle(Call::Validate(request)).await
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        self.handle(Call::ListVolumes(page)).await
    }

    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError> {
        self.handle(Call::GetCapacity(request)).await
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        self.handle(Call::CreateSnapshot(request)).await
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        self.handle(Call::DeleteSnapshot(id, secrets)).await
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        self.handle(Call::ListSnapshots(request)).await
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        self.handle(Call::ExpandVolume(request)).await
    }

    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError> {
        self.handle(Call::ModifyVolume(request)).await
    }

    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        self.handle(Call::ControllerPublish(request)).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        self.handle(Call::ControllerUnpublish(request)).await
    }

    async fn volume_health(
        &self,
        id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        self.handle(Call::VolumeHealth(id, secrets)).await
    }

    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        self.handle(Call::ListVolumeHealth(request)).await
    }
}

#[async_trait]
impl NodeService for ScriptedNode {
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError> {
        self.handle(Call::NodeCapabilities()).await
    }

    async fn node_info(&self) -> Result<NodeDescription, PluginError> {
        self.handle(Call::NodeInfo()).await
    }

    async fn stage_volume(&self, _: StageVolume) -> Result<(), PluginError> {
        panic!("a server stages by a step of the node")
    }

    async fn unstage_volume(&self, _: ExternalId, _: PathBuf) -> Result<(), PluginError> {
        panic!("a server unstages by a step of the node")
    }

    async fn publish_volume(&self, _: PublishVolume) -> Result<(), PluginError> {
        panic!("a server publishes by a step of the node")
    }

    async fn unpublish_volume(&self, _: ExternalId, _: PathBuf) -> Result<(), PluginError> {
        panic!("a server unpublishes by a step of the node")
    }

    async fn node_expand_volume(&self, _: NodeExpandVolume) -> Result<Bytes, PluginError> {
        panic!("a server expands by a step of the node")
    }

    async fn node_volume_stats(
        &self,
        request: NodeVolumeStats,
    ) -> Result<VolumeStats, PluginError> {
        self.handle(Call::NodeVolumeStats(request)).await
    }

    async fn node_volume_health(
        &self,
        request: NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        self.handle(Call::NodeVolumeHealth(request)).await
    }

    async fn storage_health(&self, secrets: Secrets) -> Result<Vec<StorageStatus>, PluginError> {
        self.handle(Call::StorageHealth(secrets)).await
    }
}

#[async_trait]
impl TaskLogs for ScriptedNode {
    async fn has_files(&self, output: &TaskOutput) -> Result<bool, TaskLogError> {
        self.handle(Call::HasFiles(output.clone())).await
    }

    async fn locate(
        &self,
        output: &TaskOutput,
        origin: LogOrigin,
        offset: u64,
    ) -> Result<LogPosition, TaskLogError> {
        self.handle(Call::Locate(output.clone(), origin, offset)).await
    }

    async fn read(
        &self,
        output: &TaskOutput,
        position: LogPosition,
        limit: u64,
    ) -> Result<LogChunk, TaskLogError> {
        self.handle(Call::ReadLog(output.clone(), position, ReadLimit(limit))).await
    }

    async fn wait_for_more(
        &self,
        output: &TaskOutput,
        position: LogPosition,
    ) -> Result<(), TaskLogError> {
        self.handle(Call::WaitForMore(output.clone(), position)).await
    }
}

#[async_trait]
impl AllocAccess for ScriptedNode {
    async fn restart(&self, alloc: &AllocId, task: Option<&str>) -> Result<(), AllocAccessError> {
        self.handle(Call::RestartTask(alloc.clone(), task.map(str::to_owned))).await
    }

    async fn signal(
        &self,
        alloc: &AllocId,
        task: Option<&str>,
        signal: &str,
    ) -> Result<(), AllocAccessError> {
        let (task, signal) = (task.map(str::to_owned), signal.to_owned());
        self.handle(Call::SignalTask(alloc.clone(), task, signal)).await
    }

    async fn stat(&self, alloc: &AllocId, path: &str) -> Result<AllocFile, AllocAccessError> {
        self.handle(Call::StatFile(alloc.clone(), path.to_owned())).await
    }

    async fn list(&self, alloc: &AllocId, path: &str) -> Result<Vec<AllocFile>, AllocAccessError> {
        self.handle(Call::ListFiles(alloc.clone(), path.to_owned())).await
    }

    async fn read(
        &self,
        alloc: &AllocId,
        path: &str,
        offset: u64,
        limit: u64,
    ) -> Result<Vec<u8>, AllocAccessError> {
        let call = Call::ReadFile(alloc.clone(), path.to_owned(), offset, ReadLimit(limit));
        self.handle(call).await
    }
}
