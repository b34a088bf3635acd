//! The fake plugin as an implementation of the ports, without a protocol.
//!
//! Failures look as they do through the gRPC adapter: the same verdicts, the same deadlines in
//! virtual time, and a broken connection is `UNAVAILABLE`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::backend::{CallError, FakeBackend};
use super::provider_state::{ProviderState, Refusal};
use super::settings::PluginSettings;
use crate::model::{
    AllocId, ControllerCapabilities, ExternalId, ExternalVolume, NodeCapabilities, PluginId,
    Secrets, Snapshot, SnapshotId,
};
use crate::ports::connector::{Connector, PluginConnection};
use crate::ports::plugin::{
    Controller, CreateVolume, CreatedVolume, Identity, NodeDescription, NodeService,
    PluginCapabilities, PluginError, PluginInfo, PublishVolume, Rpc, StageVolume, StatusCode,
    ValidateVolume,
};
use crate::ports::plugins::PluginDirectory;
use crate::ports::storage::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, Page, PageRequest,
};
use crate::ports::verdict::{verdict_of, verdict_unsent};

/// The deadline of a call in virtual time, as over gRPC.
fn deadline(rpc: Rpc) -> Duration {
    match rpc {
        Rpc::CreateVolume
        | Rpc::DeleteVolume
        | Rpc::CreateSnapshot
        | Rpc::DeleteSnapshot
        | Rpc::ControllerExpandVolume
        | Rpc::NodeStageVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeUnpublishVolume => Duration::from_secs(30 * 60),
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo
        | Rpc::ValidateVolumeCapabilities
        | Rpc::ListVolumes
        | Rpc::ListSnapshots => Duration::from_secs(120),
    }
}

/// The ports over a [`FakeBackend`].
#[derive(Clone, Debug)]
pub struct FakePlugin {
    backend: Arc<FakeBackend>,
}

impl FakePlugin {
    /// Creates the ports of this backend.
    pub fn new(backend: Arc<FakeBackend>) -> Self {
        Self { backend }
    }

    /// Returns the connection that a connector would return.
    pub fn connection(&self) -> PluginConnection {
        let plugin = Arc::new(self.clone());
        PluginConnection {
            identity: plugin.clone(),
            controller: plugin.clone(),
            node: plugin,
        }
    }

    async fn call<T>(
        &self,
        rpc: Rpc,
        subject: &str,
        act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send,
    ) -> Result<T, PluginError> {
        let answer =
            tokio::time::timeout(deadline(rpc), self.backend.call(rpc, subject, act)).await;
        let error = |code, message: &str| PluginError {
            rpc,
            code,
            verdict: verdict_of(rpc, code),
            message: message.to_owned(),
        };
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(CallError::Refused(refusal))) => Err(error(refusal.code, &refusal.message)),
            Ok(Err(CallError::ConnectionLost)) => {
                Err(error(StatusCode::Unavailable, "the connection broke"))
            }
            Ok(Err(CallError::NotConnected)) => Err(PluginError {
                verdict: verdict_unsent(rpc),
                ..error(StatusCode::Unavailable, "nothing listens on the socket")
            }),
            Err(_elapsed) => Err(error(StatusCode::DeadlineExceeded, "no answer")),
        }
    }

    /// Sends a teardown call, which succeeds if the object does not exist.
    async fn teardown(
        &self,
        rpc: Rpc,
        id: &str,
        act: impl Fn(&mut ProviderState) -> Result<(), Refusal> + Send,
    ) -> Result<(), PluginError> {
        match self.call(rpc, id, act).await {
            Err(error) if error.code == StatusCode::NotFound => Ok(()),
            answer => answer,
        }
    }

    async fn read_settings<T>(
        &self,
        rpc: Rpc,
        answer: impl Fn(&PluginSettings) -> Option<T> + Send + Sync,
    ) -> Result<T, PluginError> {
        let unimplemented = || Refusal {
            code: StatusCode::Unimplemented,
            message: "the plugin has no such service".to_owned(),
        };
        self.call(rpc, "", |world| {
            answer(&world.settings).ok_or_else(unimplemented)
        })
        .await
    }
}

#[async_trait]
impl Identity for FakePlugin {
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError> {
        self.read_settings(Rpc::GetPluginInfo, |settings| Some(settings.info.clone()))
            .await
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError> {
        self.read_settings(Rpc::GetPluginCapabilities, |settings| Some(settings.plugin))
            .await
    }

    async fn probe(&self) -> Result<bool, PluginError> {
        self.read_settings(Rpc::Probe, |settings| Some(settings.ready))
            .await
    }
}

#[async_trait]
impl Controller for FakePlugin {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        self.read_settings(Rpc::ControllerGetCapabilities, |settings| {
            settings.controller
        })
        .await
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        self.call(Rpc::CreateVolume, &request.name, |world| {
            world.create(&request)
        })
        .await
    }

    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError> {
        self.teardown(Rpc::DeleteVolume, external_id.as_str(), |world| {
            world.delete(&external_id, &secrets)
        })
        .await
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        let rpc = Rpc::ValidateVolumeCapabilities;
        self.call(rpc, request.external_id.as_str(), |world| {
            world.validate(&request)
        })
        .await
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        self.call(Rpc::ListVolumes, "", |world| world.list_volumes(&page))
            .await
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        let subject = request.source.as_str();
        self.call(Rpc::CreateSnapshot, subject, |world| {
            world.create_snapshot(&request)
        })
        .await
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        self.teardown(Rpc::DeleteSnapshot, id.as_str(), |world| {
            world.delete_snapshot(&id, &secrets)
        })
        .await
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        self.call(Rpc::ListSnapshots, "", |world| {
            world.list_snapshots(&request)
        })
        .await
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        let subject = request.external_id.as_str();
        self.call(Rpc::ControllerExpandVolume, subject, |world| {
            world.expand(&request)
        })
        .await
    }
}

#[async_trait]
impl NodeService for FakePlugin {
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError> {
        self.read_settings(Rpc::NodeGetCapabilities, |settings| settings.node)
            .await
    }

    async fn node_info(&self) -> Result<NodeDescription, PluginError> {
        self.read_settings(Rpc::NodeGetInfo, |settings| {
            settings.node.map(|_| settings.description.clone())
        })
        .await
    }

    async fn stage_volume(&self, request: StageVolume) -> Result<(), PluginError> {
        let subject = request.external_id.as_str();
        self.call(Rpc::NodeStageVolume, subject, |world| world.stage(&request))
            .await
    }

    async fn unstage_volume(
        &self,
        external_id: ExternalId,
        staging_path: PathBuf,
    ) -> Result<(), PluginError> {
        self.teardown(Rpc::NodeUnstageVolume, external_id.as_str(), |world| {
            world.unstage(&external_id, &staging_path)
        })
        .await
    }

    async fn publish_volume(&self, request: PublishVolume) -> Result<(), PluginError> {
        let subject = request.external_id.as_str();
        self.call(Rpc::NodePublishVolume, subject, |world| {
            world.publish(&request)
        })
        .await
    }

    async fn unpublish_volume(
        &self,
        external_id: ExternalId,
        target_path: PathBuf,
    ) -> Result<(), PluginError> {
        self.teardown(Rpc::NodeUnpublishVolume, external_id.as_str(), |world| {
            world.unpublish(&external_id, &target_path)
        })
        .await
    }
}

/// Returns the same plugin for every socket.
#[derive(Clone, Debug)]
pub struct FakeConnector(pub FakePlugin);

impl Connector for FakeConnector {
    fn connect(&self, _socket: &Path) -> PluginConnection {
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

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(PluginId, AllocId), PluginConnection>> {
        self.instances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
mod tests;
