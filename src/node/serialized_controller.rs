//! A controller whose calls take the call lock of their volume.
//!
//! The registry hands it out, so every caller of this process takes the same call locks: CSI wants one call per
//! volume at a time, also if it changes nothing. Lists, capacity and health pass. A call lock that is busy answers `ABORTED` as CSI
//! names it, with the verdict of a call that was not sent.

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;

use super::volume_call_locks::{CallLockKey, PluginCalls, PluginProcess, VolumeCallLocks};
use nomad_csi_model::{
    Capacity, ControllerCapabilities, ExternalId, ExternalVolume, PublishContext, RemoteVolume,
    Secrets, Snapshot, SnapshotId, VolumeStatus,
};
use nomad_csi_ports::{
    Controller, ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot, CreateVolume,
    CreatedVolume, ExpandVolume, ExpandedVolume, GetCapacity, HostError, HostOperation,
    ListSnapshots, ListVolumeHealth, ListedHealth, ModifyVolume, Page, PageRequest, PluginError,
    Rpc, ValidateVolume,
};

/// A controller on the call locks of this process.
pub(super) struct SerializedController {
    pub(super) inner: Arc<dyn Controller>,
    pub(super) call_locks: VolumeCallLocks,
    pub(super) process: PluginProcess,
}

impl SerializedController {
    fn volume(&self, external_id: &ExternalId) -> CallLockKey {
        CallLockKey::Controller(RemoteVolume {
            plugin_id: self.process.plugin.clone(),
            external_id: external_id.clone(),
        })
    }

    async fn call<T, F>(
        &self,
        (key, operation, rpc): (CallLockKey, HostOperation, Rpc),
        call: impl FnOnce(Arc<dyn Controller>) -> F,
    ) -> Result<T, PluginError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PluginError>> + Send + 'static,
    {
        let call = call(self.inner.clone());
        let result = match self.call_locks.admit_unordered(key, operation) {
            Err(refused) => Err(refused),
            Ok(permit) => {
                let work = |calls: PluginCalls| async move { calls.send(call).await };
                self.call_locks.run(permit, self.process.clone(), work).await
            }
        };
        result.map_err(|error: HostError| error.into_plugin_error(rpc))
    }
}

#[async_trait]
impl Controller for SerializedController {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        self.inner.controller_capabilities().await
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        let key = CallLockKey::Creation(self.process.plugin.clone(), request.name.clone());
        let call_lock = (key, HostOperation::Create, Rpc::CreateVolume);
        self.call(call_lock, |inner| async move { inner.create_volume(request).await }).await
    }

    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError> {
        let key = self.volume(&external_id);
        let call_lock = (key, HostOperation::Delete, Rpc::DeleteVolume);
        self.call(call_lock, |inner| async move { inner.delete_volume(external_id, secrets).await })
            .await
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        let key = self.volume(&request.external_id);
        let rpc = Rpc::ValidateVolumeCapabilities;
        self.call((key, HostOperation::Validate, rpc), |inner| async move {
            inner.validate_volume(request).await
        })
        .await
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        self.inner.list_volumes(page).await
    }

    async fn volume_health(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        self.inner.volume_health(external_id, secrets).await
    }

    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        self.inner.list_volume_health(request).await
    }

    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError> {
        self.inner.get_capacity(request).await
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        let key = self.volume(&request.source);
        let call_lock = (key, HostOperation::Snapshot, Rpc::CreateSnapshot);
        self.call(call_lock, |inner| async move { inner.create_snapshot(request).await }).await
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        let key = CallLockKey::Snapshot(self.process.plugin.clone(), id.clone());
        let call_lock = (key, HostOperation::Delete, Rpc::DeleteSnapshot);
        self.call(call_lock, |inner| async move { inner.delete_snapshot(id, secrets).await }).await
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        self.inner.list_snapshots(request).await
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        let key = self.volume(&request.external_id);
        let call_lock = (key, HostOperation::Expand, Rpc::ControllerExpandVolume);
        self.call(call_lock, |inner| async move { inner.expand_volume(request).await }).await
    }

    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError> {
        let key = self.volume(&request.external_id);
        let call_lock = (key, HostOperation::Modify, Rpc::ControllerModifyVolume);
        self.call(call_lock, |inner| async move { inner.modify_volume(request).await }).await
    }

    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        let key = self.volume(&request.external_id);
        let call_lock = (key, HostOperation::Attach, Rpc::ControllerPublishVolume);
        self.call(call_lock, |inner| async move { inner.controller_publish_volume(request).await })
            .await
    }

    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        let key = self.volume(&request.external_id);
        let call_lock = (key, HostOperation::Detach, Rpc::ControllerUnpublishVolume);
        self.call(
            call_lock,
            |inner| async move { inner.controller_unpublish_volume(request).await },
        )
        .await
    }
}
