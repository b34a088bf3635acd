//! A controller that records the requests it receives.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::fake::FakeAgent;
use nomad_csi_model::{
    Capacity, ControllerCapabilities, ExternalId, ExternalVolume, PublishContext, Secrets,
    Snapshot, SnapshotId, VolumeStatus,
};
use nomad_csi_ports::{
    Controller, ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot, CreateVolume,
    CreatedVolume, ExpandVolume, ExpandedVolume, GetCapacity, ListSnapshots, ListVolumeHealth,
    ListedHealth, ModifyVolume, Page, PageRequest, PluginConnection, PluginError, ValidateVolume,
};
use nomad_csi_testing::FakePlugin;

#[derive(Default)]
pub(super) struct Sent {
    pub(super) creates: Mutex<Vec<CreateVolume>>,
    pub(super) validations: Mutex<Vec<ValidateVolume>>,
    pub(super) deletes: Mutex<Vec<(ExternalId, Secrets)>>,
    pub(super) expansions: Mutex<Vec<ExpandVolume>>,
}

struct Recorder {
    plugin: FakePlugin,
    sent: Arc<Sent>,
}

/// Inserts a recorder between the agent and its plugin.
pub(super) fn record(agent: &FakeAgent) -> Arc<Sent> {
    let sent = Arc::new(Sent::default());
    let plugin = FakePlugin::new(agent.backend.clone());
    let connection = PluginConnection {
        controller: Arc::new(Recorder { plugin: plugin.clone(), sent: sent.clone() }),
        ..plugin.connection()
    };
    let (id, alloc) = (FakeAgent::PLUGIN.into(), FakeAgent::ALLOC.into());
    agent.directory.insert(id, alloc, connection);
    sent
}

#[async_trait]
impl Controller for Recorder {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        self.plugin.controller_capabilities().await
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        self.sent.creates.lock().push(request.clone());
        self.plugin.create_volume(request).await
    }

    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError> {
        let sent = (external_id.clone(), secrets.clone());
        self.sent.deletes.lock().push(sent);
        self.plugin.delete_volume(external_id, secrets).await
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        self.sent.validations.lock().push(request.clone());
        self.plugin.validate_volume(request).await
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        self.plugin.list_volumes(page).await
    }

    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError> {
        self.plugin.get_capacity(request).await
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        self.plugin.create_snapshot(request).await
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        self.plugin.delete_snapshot(id, secrets).await
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        self.plugin.list_snapshots(request).await
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        self.sent.expansions.lock().push(request.clone());
        self.plugin.expand_volume(request).await
    }

    async fn volume_health(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        self.plugin.volume_health(external_id, secrets).await
    }

    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        self.plugin.list_volume_health(request).await
    }

    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError> {
        self.plugin.modify_volume(request).await
    }

    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        self.plugin.controller_publish_volume(request).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        self.plugin.controller_unpublish_volume(request).await
    }
}
