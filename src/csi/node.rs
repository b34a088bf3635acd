//! [`NodeService`] over gRPC.

use std::path::{Path, PathBuf};

use async_trait::async_trait;

use super::connect::{Client, node_client};
use super::{answer_limits, attachment, convert, health, stats, status};
use nomad_csi_model::{
    Bytes, ExternalId, ExternalNodeId, NodeCapabilities, Secrets, StorageStatus, VolumeStats,
    VolumeStatus,
};
use nomad_csi_ports::{
    NodeDescription, NodeExpandVolume, NodeService, NodeVolumeHealth, NodeVolumeStats, PluginError,
    PublishVolume, Rpc, StageVolume, StatusCode,
};
use nomad_csi_proto::{
    NodeGetCapabilitiesRequest, NodeGetInfoRequest, NodeGetStorageHealthRequest,
    NodeGetVolumeHealthRequest, NodeGetVolumeStatsRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};

#[async_trait]
impl NodeService for Client {
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError> {
        let response = self
            .call(
                Rpc::NodeGetCapabilities,
                NodeGetCapabilitiesRequest {},
                async |channel, request| {
                    let mut client = node_client(channel);
                    client.node_get_capabilities(request).await
                },
            )
            .await?;
        Ok(convert::node_capabilities(&response.capabilities))
    }

    async fn node_info(&self) -> Result<NodeDescription, PluginError> {
        let rpc = Rpc::NodeGetInfo;
        let response = self
            .call(rpc, NodeGetInfoRequest {}, async |channel, request| {
                node_client(channel).node_get_info(request).await
            })
            .await?;
        if response.node_id.is_empty() {
            return Err(status::malformed(rpc, "the node ID is empty"));
        }
        if response.node_id.len() > answer_limits::NODE_ID_BYTES {
            let what = "the node ID has more than 256 bytes";
            return Err(status::malformed(rpc, what));
        }
        let max_volumes = u64::try_from(response.max_volumes_per_node)
            .map_err(|_| status::malformed(rpc, "max_volumes_per_node is negative"))?;
        Ok(NodeDescription {
            external_node_id: ExternalNodeId::new(response.node_id),
            max_volumes: (max_volumes > 0).then_some(max_volumes),
            accessible_topology: response.accessible_topology.and_then(convert::topology_from),
        })
    }

    async fn stage_volume(&self, request: StageVolume) -> Result<(), PluginError> {
        let rpc = Rpc::NodeStageVolume;
        let message = NodeStageVolumeRequest {
            volume_id: request.external_id.as_str().to_owned(),
            publish_context: request.publish_context,
            staging_target_path: text(rpc, &request.staging_path)?,
            volume_capability: Some(convert::capability(
                request.capability,
                &request.mount_options,
            )),
            secrets: convert::secrets(&request.secrets),
            volume_context: request.context,
        };
        self.call(rpc, message, async |channel, request| {
            node_client(channel).node_stage_volume(request).await
        })
        .await?;
        Ok(())
    }

    async fn unstage_volume(
        &self,
        external_id: ExternalId,
        staging_path: PathBuf,
    ) -> Result<(), PluginError> {
        let rpc = Rpc::NodeUnstageVolume;
        let message = NodeUnstageVolumeRequest {
            volume_id: external_id.as_str().to_owned(),
            staging_target_path: text(rpc, &staging_path)?,
        };
        let response = self
            .call(rpc, message, async |channel, request| {
                node_client(channel).node_unstage_volume(request).await
            })
            .await;
        status::absent_is_done(response)
    }

    async fn publish_volume(&self, request: PublishVolume) -> Result<(), PluginError> {
        let rpc = Rpc::NodePublishVolume;
        let staging_path = request.staging_path.as_deref();
        let message = NodePublishVolumeRequest {
            volume_id: request.external_id.as_str().to_owned(),
            publish_context: request.publish_context,
            staging_target_path: staging_path.map_or(Ok(String::new()), |path| text(rpc, path))?,
            target_path: text(rpc, &request.target_path)?,
            volume_capability: Some(convert::capability(
                request.capability,
                &request.mount_options,
            )),
            readonly: request.read_only,
            secrets: convert::secrets(&request.secrets),
            volume_context: request.context,
        };
        self.call(rpc, message, async |channel, request| {
            node_client(channel).node_publish_volume(request).await
        })
        .await?;
        Ok(())
    }

    async fn unpublish_volume(
        &self,
        external_id: ExternalId,
        target_path: PathBuf,
    ) -> Result<(), PluginError> {
        let rpc = Rpc::NodeUnpublishVolume;
        let message = NodeUnpublishVolumeRequest {
            volume_id: external_id.as_str().to_owned(),
            target_path: text(rpc, &target_path)?,
        };
        let response = self
            .call(rpc, message, async |channel, request| {
                let mut client = node_client(channel);
                client.node_unpublish_volume(request).await
            })
            .await;
        status::absent_is_done(response)
    }

    async fn node_volume_stats(
        &self,
        request: NodeVolumeStats,
    ) -> Result<VolumeStats, PluginError> {
        let rpc = Rpc::NodeGetVolumeStats;
        let staging_path = request.staging_path.as_deref();
        let message = NodeGetVolumeStatsRequest {
            volume_id: request.external_id.as_str().to_owned(),
            volume_path: text(rpc, &request.volume_path)?,
            staging_target_path: staging_path.map_or(Ok(String::new()), |path| text(rpc, path))?,
        };
        let response = self
            .call(rpc, message, async |channel, request| {
                let mut client = node_client(channel);
                client.node_get_volume_stats(request).await
            })
            .await?;
        Ok(stats::volume_stats(response))
    }

    async fn node_volume_health(
        &self,
        request: NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let rpc = Rpc::NodeGetVolumeHealth;
        let path = |path: Option<&Path>| path.map_or(Ok(String::new()), |path| text(rpc, path));
        let message = NodeGetVolumeHealthRequest {
            volume_id: request.external_id.as_str().to_owned(),
            volume_publish_path: path(request.publish_path.as_deref())?,
            staging_target_path: path(request.staging_path.as_deref())?,
        };
        let response = self
            .call(rpc, message, async |channel, request| {
                let mut client = node_client(channel);
                client.node_get_volume_health(request).await
            })
            .await?;
        health::of_volume(rpc, request.external_id.as_str(), response.volume_health)
    }

    async fn storage_health(&self, secrets: Secrets) -> Result<Vec<StorageStatus>, PluginError> {
        let message = NodeGetStorageHealthRequest { secrets: convert::secrets(&secrets) };
        let rpc = Rpc::NodeGetStorageHealth;
        let response = self
            .call(rpc, message, async |channel, request| {
                let mut client = node_client(channel);
                client.node_get_storage_health(request).await
            })
            .await?;
        Ok(health::storage(response.backend_health))
    }

    async fn node_expand_volume(&self, request: NodeExpandVolume) -> Result<Bytes, PluginError> {
        let rpc = Rpc::NodeExpandVolume;
        status::refuse_unsent(rpc, request.problem())?;
        let message = attachment::expand_request(&request, |path| text(rpc, path))?;
        let response = self
            .call(rpc, message, async |channel, request| {
                node_client(channel).node_expand_volume(request).await
            })
            .await?;
        Ok(Bytes::from_wire(response.capacity_bytes))
    }
}

/// Converts a path to a string. CSI paths are UTF-8.
fn text(rpc: Rpc, path: &Path) -> Result<String, PluginError> {
    let text = path.to_str().ok_or_else(|| {
        let message = format!("the path `{}` is not valid UTF-8, as CSI requires", path.display());
        status::plugin_error(rpc, StatusCode::InvalidArgument, message)
    })?;
    Ok(text.to_owned())
}
