//! The plugin of a node, as a server calls it over a connection.
//!
//! Calls of a controller and reads go to the plugin. What changes a volume on the node is refused before it is sent: a step
//! of the node does that, under the call lock of the volume.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tonic::transport::Channel;

use super::answer::Answer;
use super::field::{Transfer as _, secrets as plain_secrets};
use super::messages;
use super::messages::controller_request::{self, Call as Change};
use super::messages::node_host_client::NodeHostClient;
use super::messages::read_plugin_request::{self, Call as Read};
use super::remote_node::RemoteNode;
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    AllocId, Bytes, Capacity, ControllerCapabilities, ExternalId, ExternalVolume, NodeCapabilities,
    PluginId, PublishContext, Secrets, Snapshot, SnapshotId, StorageStatus, VolumeStats,
    VolumeStatus,
};
use nomad_csi_ports::{
    Controller, ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot, CreateVolume,
    CreatedVolume, Delivery, ExpandVolume, ExpandedVolume, GetCapacity, HostError, Identity,
    ListSnapshots, ListVolumeHealth, ListedHealth, ModifyVolume, NodeDescription, NodeExpandVolume,
    NodeService, NodeVolumeHealth, NodeVolumeStats, Page, PageRequest, PluginCapabilities,
    PluginConnection, PluginDirectory, PluginError, PluginInfo, PublishVolume, Rpc, StageVolume,
    StatusCode, ValidateVolume,
};

#[async_trait]
impl PluginDirectory for RemoteNode {
    /// Asks the node whether the instance runs. `None` also if the node does not answer.
    async fn instance(&self, plugin: &PluginId, alloc: &AllocId) -> Option<PluginConnection> {
        let remote =
            RemotePlugin { node: self.clone(), plugin: plugin.clone(), alloc: alloc.clone() };
        if !remote.is_running().await.ok()? {
            return None;
        }
        let remote = Arc::new(remote);
        Some(PluginConnection {
            identity: remote.clone(),
            controller: remote.clone(),
            node: remote,
        })
    }
}

/// An instance of a plugin on a node.
struct RemotePlugin {
    node: RemoteNode,
    plugin: PluginId,
    alloc: AllocId,
}

impl RemotePlugin {
    /// Asks whether the instance runs.
    ///
    /// # Errors
    /// If the node does not answer.
    async fn is_running(&self) -> Result<bool, HostError> {
        self.ask(Read::Find(messages::Nothing {})).await
    }

    fn instance(&self) -> Option<messages::PluginInstance> {
        Some((self.plugin.clone(), self.alloc.clone()).write())
    }

    async fn ask<A: Answer>(&self, call: Read) -> Result<A, HostError> {
        let request = messages::ReadPluginRequest { instance: self.instance(), call: Some(call) };
        self.node
            .read(request, async |mut client: NodeHostClient<Channel>, request| {
                client.read_plugin(request).await
            })
            .await
    }

    async fn read<A: Answer>(&self, rpc: Rpc, call: Read) -> Result<A, PluginError> {
        self.ask(call).await.map_err(|error| error.into_plugin_error(rpc))
    }

    async fn change<A: Answer>(&self, rpc: Rpc, call: Change) -> Result<A, PluginError> {
        let request = messages::ControllerRequest {
            term: Some(self.node.term().write()),
            instance: self.instance(),
            call: Some(call),
        };
        let answer =
            self.node.change(request, async |mut client: NodeHostClient<Channel>, request| {
                client.controller(request).await
            });
        answer.await.map_err(|error: HostError| error.into_plugin_error(rpc))
    }
}

#[async_trait]
impl Identity for RemotePlugin {
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError> {
        self.read(Rpc::GetPluginInfo, Read::PluginInfo(messages::Nothing {})).await
    }

    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError> {
        let call = Read::PluginCapabilities(messages::Nothing {});
        self.read(Rpc::GetPluginCapabilities, call).await
    }

    async fn probe(&self) -> Result<bool, PluginError> {
        self.read(Rpc::Probe, Read::Probe(messages::Nothing {})).await
    }
}

#[async_trait]
impl Controller for RemotePlugin {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        let call = Read::ControllerCapabilities(messages::Nothing {});
        self.read(Rpc::ControllerGetCapabilities, call).await
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        self.change(Rpc::CreateVolume, Change::CreateVolume(request.write())).await
    }

    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError> {
        let call = controller_request::DeleteVolume {
            external_id: external_id.as_str().to_owned(),
            secrets: plain_secrets(&secrets),
        };
        self.change(Rpc::DeleteVolume, Change::DeleteVolume(call)).await
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        let call = Read::ValidateVolume(request.write());
        self.read(Rpc::ValidateVolumeCapabilities, call).await
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        self.read(Rpc::ListVolumes, Read::ListVolumes(page.write())).await
    }

    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError> {
        self.read(Rpc::GetCapacity, Read::GetCapacity(request.write())).await
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        self.change(Rpc::CreateSnapshot, Change::CreateSnapshot(request.write())).await
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        let call = controller_request::DeleteSnapshot {
            snapshot_id: id.as_str().to_owned(),
            secrets: plain_secrets(&secrets),
        };
        self.change(Rpc::DeleteSnapshot, Change::DeleteSnapshot(call)).await
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        self.read(Rpc::ListSnapshots, Read::ListSnapshots(request.write())).await
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        self.change(Rpc::ControllerExpandVolume, Change::ExpandVolume(request.write())).await
    }

    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError> {
        self.change(Rpc::ControllerModifyVolume, Change::ModifyVolume(request.write())).await
    }

    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        let call = Change::PublishVolume(request.write());
        self.change(Rpc::ControllerPublishVolume, call).await
    }

    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        let call = Change::UnpublishVolume(request.write());
        self.change(Rpc::ControllerUnpublishVolume, call).await
    }

    async fn volume_health(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let call = read_plugin_request::VolumeHealth {
            external_id: external_id.as_str().to_owned(),
            secrets: plain_secrets(&secrets),
        };
        self.read(Rpc::ControllerGetVolumeHealth, Read::VolumeHealth(call)).await
    }

    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        let call = Read::ListVolumeHealth(request.write());
        self.read(Rpc::ControllerListVolumeHealth, call).await
    }
}

/// The error of a call that only a step of the node may make.
fn refused(rpc: Rpc) -> PluginError {
    PluginError {
        rpc,
        code: StatusCode::Unimplemented,
        verdict: Verdict::Permanent,
        message: "a server changes a volume on a node only by a step of the node".to_owned(),
        delivery: Delivery::NotSent,
    }
}

#[async_trait]
impl NodeService for RemotePlugin {
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError> {
        let call = Read::NodeCapabilities(messages::Nothing {});
        self.read(Rpc::NodeGetCapabilities, call).await
    }

    async fn node_info(&self) -> Result<NodeDescription, PluginError> {
        self.read(Rpc::NodeGetInfo, Read::NodeInfo(messages::Nothing {})).await
    }

    async fn stage_volume(&self, _: StageVolume) -> Result<(), PluginError> {
        Err(refused(Rpc::NodeStageVolume))
    }

    async fn unstage_volume(&self, _: ExternalId, _: PathBuf) -> Result<(), PluginError> {
        Err(refused(Rpc::NodeUnstageVolume))
    }

    async fn publish_volume(&self, _: PublishVolume) -> Result<(), PluginError> {
        Err(refused(Rpc::NodePublishVolume))
    }

    async fn unpublish_volume(&self, _: ExternalId, _: PathBuf) -> Result<(), PluginError> {
        Err(refused(Rpc::NodeUnpublishVolume))
    }

    async fn node_expand_volume(&self, _: NodeExpandVolume) -> Result<Bytes, PluginError> {
        Err(refused(Rpc::NodeExpandVolume))
    }

    async fn node_volume_stats(
        &self,
        request: NodeVolumeStats,
    ) -> Result<VolumeStats, PluginError> {
        self.read(Rpc::NodeGetVolumeStats, Read::NodeVolumeStats(request.write())).await
    }

    async fn node_volume_health(
        &self,
        request: NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        self.read(Rpc::NodeGetVolumeHealth, Read::NodeVolumeHealth(request.write())).await
    }

    async fn storage_health(&self, secrets: Secrets) -> Result<Vec<StorageStatus>, PluginError> {
        let call = read_plugin_request::StorageHealth { secrets: plain_secrets(&secrets) };
        self.read(Rpc::NodeGetStorageHealth, Read::StorageHealth(call)).await
    }
}
