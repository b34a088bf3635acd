//! The fake plugin as an implementation of the ports, without a protocol.
//!
//! Failures look as they do through the gRPC adapter: the same verdicts, the same deadlines in
//! virtual time, and a broken connection is `UNAVAILABLE`.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::backend::{CallError, FakeBackend, FakeCallLock};
use super::provider_state::ProviderState;
use super::refusal::Refusal;
use super::settings::PluginSettings;
use nomad_csi_model::{
    AllocId, Bytes, Capacity, ControllerCapabilities, ExternalId, ExternalNodeId, ExternalVolume,
    NodeCapabilities, PluginId, PublishContext, Secrets, Snapshot, SnapshotId, StorageStatus,
    VolumeStats, VolumeStatus,
};
use nomad_csi_ports::{
    Connector, Controller, ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot,
    CreateVolume, CreatedVolume, Delivery, ExpandVolume, ExpandedVolume, GetCapacity, Identity,
    ListSnapshots, ListVolumeHealth, ListedHealth, ModifyVolume, NodeDescription, NodeExpandVolume,
    NodeService, NodeVolumeHealth, NodeVolumeStats, Page, PageRequest, PeerProcess,
    PluginCapabilities, PluginConnection, PluginDirectory, PluginError, PluginInfo, PublishVolume,
    Rpc, SentSecrets, SentSecretsReader, StageVolume, StatusCode, ValidateVolume, verdict_of,
    verdict_unsent,
};

/// The deadline of a call in virtual time, as over gRPC.
fn deadline(rpc: Rpc) -> Duration {
    match rpc {
        Rpc::CreateVolume
        | Rpc::DeleteVolume
        | Rpc::CreateSnapshot
        | Rpc::DeleteSnapshot
        | Rpc::ControllerExpandVolume
        | Rpc::ControllerModifyVolume
        | Rpc::ControllerPublishVolume
        | Rpc::ControllerUnpublishVolume
        | Rpc::NodeStageVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeUnpublishVolume
        | Rpc::NodeExpandVolume => Duration::from_secs(30 * 60),
        Rpc::GetCapacity
        | Rpc::ControllerGetVolumeHealth
        | Rpc::NodeGetVolumeStats
        | Rpc::NodeGetVolumeHealth
        | Rpc::NodeGetStorageHealth => Duration::from_secs(10),
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo
        | Rpc::ValidateVolumeCapabilities
        | Rpc::ListVolumes
        | Rpc::ListSnapshots
        | Rpc::ControllerListVolumeHealth => Duration::from_secs(120),
    }
}

/// The ports over a [`FakeBackend`].
#[derive(Clone, Debug)]
pub struct FakePlugin {
    backend: Arc<FakeBackend>,
    /// The node; `None` for that of the settings.
    node: Option<ExternalNodeId>,
    /// The call locks that the controller's calls for a volume take, if they take any.
    call_locks: Option<FakeCallLocks>,
}

/// The volumes for which a call runs on a host.
pub(super) type FakeCallLocks = Arc<Mutex<HashSet<ExternalId>>>;

/// A call lock that a call has taken.
pub(super) struct HeldCallLock(pub(super) FakeCallLocks, pub(super) ExternalId);

impl Drop for HeldCallLock {
    fn drop(&mut self) {
        let mut call_locks = self.0.lock();
        call_locks.remove(&self.1);
    }
}

impl FakePlugin {
    /// Creates the ports of this backend.
    pub fn new(backend: Arc<FakeBackend>) -> Self {
        Self { backend, node: None, call_locks: None }
    }

    /// Creates the ports of this backend on a node that [`FakeBackend::add_node`] added.
    pub fn on_node(backend: Arc<FakeBackend>, node: ExternalNodeId) -> Self {
        Self { node: Some(node), ..Self::new(backend) }
    }

    /// The same ports, whose controller calls for a volume take these call locks.
    pub(super) fn on_call_locks(self, call_locks: FakeCallLocks) -> Self {
        Self { call_locks: Some(call_locks), ..self }
    }

    fn node(&self) -> ExternalNodeId {
        let own = || self.backend.settings().description.external_node_id;
        self.node.clone().unwrap_or_else(own)
    }

    /// Returns the connection that a connector would return.
    pub fn connection(&self) -> PluginConnection {
        let plugin = Arc::new(self.clone());
        PluginConnection { identity: plugin.clone(), controller: plugin.clone(), node: plugin }
    }

    async fn call<T: Send + 'static>(
        &self,
        rpc: Rpc,
        subject: &str,
        act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, PluginError> {
        let taken = self.take_call_lock(rpc, subject)?;
        let call_lock = FakeCallLock::Controller;
        let answer = self.call_in(call_lock, (rpc, subject), act).await;
        let is_unanswered = |error: &PluginError| error.delivery == Delivery::Unanswered;
        if let Some(taken) = taken.filter(|_| answer.as_ref().is_err_and(is_unanswered)) {
            let backend = self.backend.clone();
            tokio::spawn(async move { backend.wait_until_ended(taken.1.as_str()).await });
        }
        answer
    }

    /// Takes the call lock of a volume, or refuses as a serialized controller does.
    fn take_call_lock(&self, rpc: Rpc, subject: &str) -> Result<Option<HeldCallLock>, PluginError> {
        let is_about_volume = !subject.is_empty() && rpc != Rpc::ControllerGetVolumeHealth;
        let Some(call_locks) = self.call_locks.as_ref().filter(|_| is_about_volume) else {
            return Ok(None);
        };
        let id = ExternalId::new(subject);
        let is_free = call_locks.lock().insert(id.clone());
        if is_free {
            return Ok(Some(HeldCallLock(call_locks.clone(), id)));
        }
        Err(PluginError {
            verdict: verdict_unsent(rpc),
            delivery: Delivery::NotSent,
            ..failed(rpc, StatusCode::Aborted, "another call for the volume runs")
        })
    }

    /// Sends a call of the node service.
    async fn call_node<T: Send + 'static>(
        &self,
        rpc: Rpc,
        subject: &str,
        act: impl Fn(&mut ProviderState, &ExternalNodeId) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, PluginError> {
        let node = self.node();
        let call_lock = FakeCallLock::Node(node.clone());
        self.call_in(call_lock, (rpc, subject), move |state| act(state, &node)).await
    }

    async fn call_in<T: Send + 'static>(
        &self,
        call_lock: FakeCallLock,
        (rpc, subject): (Rpc, &str),
        act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, PluginError> {
        let call = self.backend.call(call_lock, (rpc, subject), act);
        let answer = tokio::time::timeout(deadline(rpc), call).await;
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(CallError::Refused(refusal))) => {
                Err(failed(rpc, refusal.code, &refusal.message))
            }
            Ok(Err(CallError::ConnectionLost)) => {
                Err(unanswered(rpc, StatusCode::Unavailable, "the connection broke"))
            }
            Ok(Err(CallError::NotConnected)) => Err(PluginError {
                verdict: verdict_unsent(rpc),
                delivery: Delivery::NotSent,
                ..failed(rpc, StatusCode::Unavailable, "nothing listens on the socket")
            }),
            Err(_elapsed) => Err(unanswered(rpc, StatusCode::DeadlineExceeded, "no answer")),
        }
    }

    async fn read_settings<T: Send + 'static>(
        &self,
        rpc: Rpc,
        answer: impl Fn(&PluginSettings) -> Option<T> + Send + Sync + 'static,
    ) -> Result<T, PluginError> {
        let unimplemented = || Refusal {
            code: StatusCode::Unimplemented,
            message: "the plugin has no such service".to_owned(),
        };
        self.call(rpc, "", move |world| answer(&world.settings).ok_or_else(unimplemented)).await
    }
}

fn failed(rpc: Rpc, code: StatusCode, message: &str) -> PluginError {
    PluginError {
        rpc,
        code,
        verdict: verdict_of(rpc, code),
        message: message.to_owned(),
        delivery: Delivery::Answered,
    }
}

fn unanswered(rpc: Rpc, code: StatusCode, message: &str) -> PluginError {
    PluginError { delivery: Delivery::Unanswered, ..failed(rpc, code, message) }
}

/// The answer of a teardown call, which succeeds if the object does not exist.
fn absent_is_done(answer: Result<(), PluginError>) -> Result<(), PluginError> {
    match answer {
        Err(error) if error.code == StatusCode::NotFound => Ok(()),
        answer => answer,
    }
}

/// Refuses a request that the adapter would not send.
fn refuse_unsent(rpc: Rpc, problem: Option<String>) -> Result<(), PluginError> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(PluginError {
            delivery: Delivery::NotSent,
            ..failed(rpc, StatusCode::InvalidArgument, &problem)
        }),
    }
}

#[async_trait]
impl Identity for FakePlugin {
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError> {
        self.read_settings(Rpc::GetPluginInfo, |settings| Some(settings.info.clone())).await
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError> {
        self.read_settings(Rpc::GetPluginCapabilities, |settings| Some(settings.plugin)).await
    }

    async fn probe(&self) -> Result<bool, PluginError> {
        self.read_settings(Rpc::Probe, |settings| Some(settings.ready)).await
    }
}

#[async_trait]
impl Controller for FakePlugin {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        self.read_settings(Rpc::ControllerGetCapabilities, |settings| settings.controller).await
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        let subject = request.name.clone();
        self.call(Rpc::CreateVolume, &subject, move |world| world.create(&request)).await
    }

    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError> {
        let subject = external_id.as_str().to_owned();
        let answer = self
            .call(Rpc::DeleteVolume, &subject, move |world| world.delete(&external_id, &secrets));
        absent_is_done(answer.await)
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        let subject = request.external_id.as_str().to_owned();
        self.call(Rpc::ValidateVolumeCapabilities, &subject, move |world| world.validate(&request))
            .await
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        self.call(Rpc::ListVolumes, "", move |world| world.list_volumes(&page)).await
    }

    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError> {
        let rpc = Rpc::GetCapacity;
        let reported = self.call(rpc, "", move |world| world.capacity(&request));
        let read = Capacity::read(&reported.await?);
        read.map_err(|problem| failed(rpc, StatusCode::Internal, &problem))
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        let subject = request.source.as_str().to_owned();
        self.call(Rpc::CreateSnapshot, &subject, move |world| world.create_snapshot(&request)).await
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        let subject = id.as_str().to_owned();
        let answer = self
            .call(Rpc::DeleteSnapshot, &subject, move |world| world.delete_snapshot(&id, &secrets));
        absent_is_done(answer.await)
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        self.call(Rpc::ListSnapshots, "", move |world| world.list_snapshots(&request)).await
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        let subject = request.external_id.as_str().to_owned();
        self.call(Rpc::ControllerExpandVolume, &subject, move |world| world.expand(&request)).await
    }

    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError> {
        let subject = request.external_id.as_str().to_owned();
        let rpc = Rpc::ControllerModifyVolume;
        self.call(rpc, &subject, move |world| world.modify(&request)).await
    }

    async fn volume_health(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let subject = external_id.as_str().to_owned();
        let rpc = Rpc::ControllerGetVolumeHealth;
        self.call(rpc, &subject, move |world| world.volume_health(&external_id, &secrets)).await
    }

    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        let rpc = Rpc::ControllerListVolumeHealth;
        self.call(rpc, "", move |world| world.list_volume_health(&request)).await
    }

    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        let rpc = Rpc::ControllerPublishVolume;
        refuse_unsent(rpc, request.problem())?;
        let subject = request.external_id.as_str().to_owned();
        self.call(rpc, &subject, move |world| world.attach(&request)).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        let rpc = Rpc::ControllerUnpublishVolume;
        refuse_unsent(rpc, request.problem())?;
        let subject = request.external_id.as_str().to_owned();
        let answer = self.call(rpc, &subject, move |world| world.detach(&request));
        absent_is_done(answer.await)
    }
}

#[async_trait]
impl NodeService for FakePlugin {
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError> {
        self.read_settings(Rpc::NodeGetCapabilities, |settings| settings.node).await
    }

    async fn node_info(&self) -> Result<NodeDescription, PluginError> {
        let node = self.node();
        self.read_settings(Rpc::NodeGetInfo, move |settings| {
            let description =
                NodeDescription { external_node_id: node.clone(), ..settings.description.clone() };
            settings.node.map(|_| description)
        })
        .await
    }

    async fn stage_volume(&self, request: StageVolume) -> Result<(), PluginError> {
        let subject = request.external_id.as_str().to_owned();
        self.call_node(Rpc::NodeStageVolume, &subject, move |world, node| {
            world.stage(node, &request)
        })
        .await
    }

    async fn unstage_volume(
        &self,
        external_id: ExternalId,
        staging_path: PathBuf,
    ) -> Result<(), PluginError> {
        let subject = external_id.as_str().to_owned();
        let answer = self.call_node(Rpc::NodeUnstageVolume, &subject, move |world, node| {
            world.unstage(node, &external_id, &staging_path)
        });
        absent_is_done(answer.await)
    }

    async fn publish_volume(&self, request: PublishVolume) -> Result<(), PluginError> {
        let subject = request.external_id.as_str().to_owned();
        self.call_node(Rpc::NodePublishVolume, &subject, move |world, node| {
            world.publish(node, &request)
        })
        .await
    }

    async fn unpublish_volume(
        &self,
        external_id: ExternalId,
        target_path: PathBuf,
    ) -> Result<(), PluginError> {
        let subject = external_id.as_str().to_owned();
        let answer = self.call_node(Rpc::NodeUnpublishVolume, &subject, move |world, node| {
            world.unpublish(node, &external_id, &target_path)
        });
        absent_is_done(answer.await)
    }

    async fn node_volume_stats(
        &self,
        request: NodeVolumeStats,
    ) -> Result<VolumeStats, PluginError> {
        let subject = request.external_id.as_str().to_owned();
        let rpc = Rpc::NodeGetVolumeStats;
        self.call_node(rpc, &subject, move |world, node| {
            let reported = world.volume_stats(node, &request)?;
            Ok(VolumeStats::read(&reported.quantities, reported.condition))
        })
        .await
    }

    async fn node_volume_health(
        &self,
        request: NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let subject = request.external_id.as_str().to_owned();
        let rpc = Rpc::NodeGetVolumeHealth;
        self.call_node(rpc, &subject, move |world, node| world.node_volume_health(node, &request))
            .await
    }

    async fn storage_health(&self, secrets: Secrets) -> Result<Vec<StorageStatus>, PluginError> {
        let rpc = Rpc::NodeGetStorageHealth;
        self.call_node(rpc, "", move |world, _| world.storage_health(&secrets)).await
    }

    async fn node_expand_volume(&self, request: NodeExpandVolume) -> Result<Bytes, PluginError> {
        let rpc = Rpc::NodeExpandVolume;
        refuse_unsent(rpc, request.problem())?;
        let subject = request.external_id.as_str().to_owned();
        self.call_node(rpc, &subject, move |world, node| world.expand_on(node, &request)).await
    }
}

/// Nothing was sent before.
#[derive(Clone, Copy, Debug)]
pub struct NothingSent;

#[async_trait]
impl SentSecretsReader for NothingSent {
    async fn sent(&self, _: Option<&PluginId>) -> SentSecrets {
        SentSecrets::default()
    }
}

/// Returns the same plugin for every socket.
#[derive(Clone, Debug)]
pub struct FakeConnector(pub FakePlugin);

impl Connector for FakeConnector {
    fn connect(&self, _: &Path, _: Option<PeerProcess>, _: &SentSecrets) -> PluginConnection {
        self.0.connection()
    }
}

/// The running plugin instances that a test defines.
#[derive(Default)]
pub struct FakeDirectory {
    instances: Mutex<BTreeMap<(PluginId, AllocId), PluginConnection>>,
}

impl FakeDirectory {
    /// Adds an instance of `plugin` that `alloc` runs.
    pub fn insert(&self, plugin: PluginId, alloc: AllocId, connection: PluginConnection) {
        self.lock().insert((plugin, alloc), connection);
    }

    /// Removes the instance.
    pub fn remove(&self, plugin: &PluginId, alloc: &AllocId) {
        self.lock().remove(&(plugin.clone(), alloc.clone()));
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, BTreeMap<(PluginId, AllocId), PluginConnection>> {
        self.instances.lock()
    }
}

#[async_trait]
impl PluginDirectory for FakeDirectory {
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        let key = (plugin.clone(), alloc.clone());
        self.lock().get(&key).cloned()
    }
}

#[cfg(test)]
mod attachment_tests;
#[cfg(test)]
mod tests;
