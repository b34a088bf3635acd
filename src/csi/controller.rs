//! [`Controller`] over gRPC.

use async_trait::async_trait;

use super::connect::{Client, controller_client};
use super::{attachment, confirmation, convert, health, status, storage};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    Bytes, Capacity, ControllerCapabilities, ExternalId, ExternalVolume, PublishContext,
    ReportedCapacity, Secrets, Snapshot, SnapshotId, VolumeStatus,
};
use nomad_csi_ports::{
    Controller, ControllerPublishVolume, ControllerUnpublishVolume, CreateSnapshot, CreateVolume,
    CreatedVolume, Delivery, ExpandVolume, ExpandedVolume, GetCapacity, ListSnapshots,
    ListVolumeHealth, ListedHealth, ModifyVolume, Page, PageRequest, PluginError, Rpc, StatusCode,
    ValidateVolume,
};
use nomad_csi_proto::{
    ControllerGetCapabilitiesRequest, ControllerGetVolumeHealthRequest,
    ControllerModifyVolumeRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest,
    GetCapacityRequest, ValidateVolumeCapabilitiesRequest, Volume,
};

#[async_trait]
impl Controller for Client {
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError> {
        let response = self
            .call(
                Rpc::ControllerGetCapabilities,
                ControllerGetCapabilitiesRequest {},
                async |channel, request| {
                    let mut client = controller_client(channel);
                    client.controller_get_capabilities(request).await
                },
            )
            .await?;
        Ok(convert::controller_capabilities(&response.capabilities))
    }

    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError> {
        let response = self
            .call(Rpc::CreateVolume, create_request(request), async |channel, request| {
                controller_client(channel).create_volume(request).await
            })
            .await?;
        created_volume(response.volume)
    }

    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError> {
        let request = DeleteVolumeRequest {
            volume_id: external_id.as_str().to_owned(),
            secrets: convert::secrets(&secrets),
        };
        let response = self
            .call(Rpc::DeleteVolume, request, async |channel, request| {
                controller_client(channel).delete_volume(request).await
            })
            .await;
        status::absent_is_done(response)
    }

    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError> {
        let rpc = Rpc::ValidateVolumeCapabilities;
        let request = validate_request(request);
        let response = self
            .call(rpc, request.clone(), async |channel, request| {
                let mut client = controller_client(channel);
                client.validate_volume_capabilities(request).await
            })
            .await?;
        if !response.message.is_empty() {
            tracing::debug!(volume.external_id = %request.volume_id, message = %response.message,
                "message of the plugin about the capabilities");
        }
        let reasons = confirmation::mismatches(&request, response.confirmed.as_ref());
        if reasons.is_empty() {
            return Ok(());
        }
        Err(PluginError {
            rpc,
            code: StatusCode::InvalidArgument,
            verdict: Verdict::Permanent,
            message: format!(
                "the plugin does not confirm the capabilities: {}",
                reasons.join("; ")
            ),
            delivery: Delivery::Answered,
        })
    }

    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError> {
        let request = storage::list_volumes_request(page);
        let _permit = self.list_permit().await;
        let response = self
            .call(Rpc::ListVolumes, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.list_volumes(request).await
            })
            .await?;
        storage::listed_volumes(response)
    }

    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError> {
        let rpc = Rpc::GetCapacity;
        let message = GetCapacityRequest {
            volume_capabilities: convert::capabilities(
                &request.capabilities,
                &request.mount_options,
            ),
            parameters: request.parameters,
            accessible_topology: request.topology.as_ref().map(convert::topology),
        };
        let response = self
            .call(rpc, message, async |channel, request| {
                controller_client(channel).get_capacity(request).await
            })
            .await?;
        let reported = ReportedCapacity {
            available: response.available_capacity,
            maximum: response.maximum_volume_size,
            minimum: response.minimum_volume_size,
        };
        Capacity::read(&reported).map_err(|problem| status::malformed(rpc, &problem))
    }

    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError> {
        let rpc = Rpc::CreateSnapshot;
        let request = storage::create_snapshot_request(request);
        let response = self
            .call(rpc, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.create_snapshot(request).await
            })
            .await?;
        storage::snapshot(rpc, response.snapshot)
    }

    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError> {
        let request = DeleteSnapshotRequest {
            snapshot_id: id.as_str().to_owned(),
            secrets: convert::secrets(&secrets),
        };
        let response = self
            .call(Rpc::DeleteSnapshot, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.delete_snapshot(request).await
            })
            .await;
        status::absent_is_done(response)
    }

    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError> {
        let request = storage::list_snapshots_request(request);
        let _permit = self.list_permit().await;
        let response = self
            .call(Rpc::ListSnapshots, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.list_snapshots(request).await
            })
            .await?;
        storage::listed_snapshots(response)
    }

    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError> {
        let request = storage::expand_request(&request);
        let response = self
            .call(Rpc::ControllerExpandVolume, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.controller_expand_volume(request).await
            })
            .await?;
        Ok(ExpandedVolume {
            capacity: Bytes::from_wire(response.capacity_bytes),
            node_expansion_required: response.node_expansion_required,
        })
    }

    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError> {
        let rpc = Rpc::ControllerModifyVolume;
        let message = ControllerModifyVolumeRequest {
            volume_id: request.external_id.as_str().to_owned(),
            secrets: convert::secrets(&request.secrets),
            mutable_parameters: request.parameters,
        };
        self.call(rpc, message, async |channel, request| {
            let mut client = controller_client(channel);
            client.controller_modify_volume(request).await
        })
        .await?;
        Ok(())
    }

    async fn volume_health(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError> {
        let rpc = Rpc::ControllerGetVolumeHealth;
        let request = ControllerGetVolumeHealthRequest {
            volume_id: external_id.as_str().to_owned(),
            secrets: convert::secrets(&secrets),
        };
        let response = self
            .call(rpc, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.controller_get_volume_health(request).await
            })
            .await?;
        health::of_volume(rpc, external_id.as_str(), response.volume_health)
    }

    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError> {
        let rpc = Rpc::ControllerListVolumeHealth;
        let request = health::list_request(request);
        let _permit = self.list_permit().await;
        let response = self
            .call(rpc, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.controller_list_volume_health(request).await
            })
            .await?;
        health::listed(response)
    }

    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError> {
        let rpc = Rpc::ControllerPublishVolume;
        status::refuse_unsent(rpc, request.problem())?;
        let request = attachment::publish_request(request);
        let response = self
            .call(rpc, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.controller_publish_volume(request).await
            })
            .await?;
        Ok(response.publish_context)
    }

    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError> {
        let rpc = Rpc::ControllerUnpublishVolume;
        status::refuse_unsent(rpc, request.problem())?;
        let request = attachment::unpublish_request(&request);
        let response = self
            .call(rpc, request, async |channel, request| {
                let mut client = controller_client(channel);
                client.controller_unpublish_volume(request).await
            })
            .await;
        status::absent_is_done(response)
    }
}

fn create_request(request: CreateVolume) -> CreateVolumeRequest {
    CreateVolumeRequest {
        capacity_range: convert::capacity_range(request.capacity),
        volume_capabilities: convert::capabilities(&request.capabilities, &request.mount_options),
        secrets: convert::secrets(&request.secrets),
        volume_content_source: request.source.as_ref().map(convert::content_source),
        accessibility_requirements: convert::topology_requirement(request.topology.as_ref()),
        name: request.name,
        parameters: request.parameters,
        mutable_parameters: Default::default(),
    }
}

/// A response without a volume or without its ID is invalid: a volume of unknown ID may exist.
fn created_volume(volume: Option<Volume>) -> Result<CreatedVolume, PluginError> {
    let malformed = |what| status::malformed(Rpc::CreateVolume, what);
    let volume = volume.ok_or_else(|| malformed("the volume is missing"))?;
    if volume.volume_id.is_empty() {
        return Err(malformed("the volume has no ID"));
    }
    Ok(CreatedVolume {
        external_id: ExternalId::new(volume.volume_id),
        capacity: Bytes::from_wire(volume.capacity_bytes),
        context: volume.volume_context,
        topologies: volume
            .accessible_topology
            .into_iter()
            .filter_map(convert::topology_from)
            .collect(),
    })
}

fn validate_request(request: ValidateVolume) -> ValidateVolumeCapabilitiesRequest {
    ValidateVolumeCapabilitiesRequest {
        volume_id: request.external_id.as_str().to_owned(),
        volume_capabilities: convert::capabilities(&request.capabilities, &request.mount_options),
        secrets: convert::secrets(&request.secrets),
        volume_context: request.context,
        parameters: request.parameters,
        mutable_parameters: Default::default(),
    }
}
