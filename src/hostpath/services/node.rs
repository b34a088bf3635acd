//! CSI's Node service.

use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use crate::error::{InvalidArgument, StorageHealthError};
use crate::plugin::Plugin;
use crate::profile::PluginCapability;
use crate::request::{self, PublishRequest, StageCall};
use crate::{topology, volumes};

use nomad_csi_proto as proto;
use nomad_csi_proto::node_get_storage_health_response::StorageBackendHealth;
use nomad_csi_proto::node_server::Node;
use nomad_csi_proto::node_service_capability::{Rpc, Type, rpc};
use nomad_csi_proto::volume_usage::Unit;

/// Serves [`Node`].
pub(crate) struct NodeService(pub(crate) Arc<Plugin>);

#[async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<proto::NodeStageVolumeRequest>,
    ) -> Result<Response<proto::NodeStageVolumeResponse>, Status> {
        let request = StageCall::parse(request.get_ref())?;
        let work = move |plugin: &Arc<Plugin>| volumes::stage(plugin, request);
        self.0.call(work).await?;
        Ok(Response::new(proto::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<proto::NodeUnstageVolumeRequest>,
    ) -> Result<Response<proto::NodeUnstageVolumeResponse>, Status> {
        let request = request.get_ref();
        let (id, path) =
            id_and_path(&request.volume_id, "staging_target_path", &request.staging_target_path)?;
        let work = move |plugin: &Arc<Plugin>| volumes::unstage(plugin, id, &path);
        self.0.call(work).await?;
        Ok(Response::new(proto::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<proto::NodePublishVolumeRequest>,
    ) -> Result<Response<proto::NodePublishVolumeResponse>, Status> {
        let request = PublishRequest::parse(request.get_ref())?;
        let work = move |plugin: &Arc<Plugin>| volumes::publish(plugin, &request);
        self.0.call(work).await?;
        Ok(Response::new(proto::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<proto::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<proto::NodeUnpublishVolumeResponse>, Status> {
        let request = request.get_ref();
        let (id, path) = id_and_path(&request.volume_id, "target_path", &request.target_path)?;
        let work = move |plugin: &Arc<Plugin>| volumes::unpublish(plugin, id, &path);
        self.0.call(work).await?;
        Ok(Response::new(proto::NodeUnpublishVolumeResponse {}))
    }

    /// Reports an unknown volume before a malformed path: csi-sanity sends an unknown volume with a
    /// relative path and expects NOT_FOUND.
    async fn node_get_volume_stats(
        &self,
        request: Request<proto::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<proto::NodeGetVolumeStatsResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id)?;
        if request.volume_path.is_empty() {
            return Err(InvalidArgument("volume_path is missing".to_owned()).into());
        }
        let path = request::absolute("volume_path", &request.volume_path)
            .unwrap_or_else(|_| request.volume_path.clone());
        let work = move |plugin: &Arc<Plugin>| volumes::stats(plugin, id, path);
        let stats = self.0.call(work).await?;
        let usage = |unit: Unit, total, available, used| proto::VolumeUsage {
            unit: unit.into(),
            total: wire(total),
            available: wire(available),
            used: wire(used),
        };
        let usage = match stats.space {
            // The used space of a block device is unknown.
            None => vec![usage(Unit::Bytes, stats.bytes, 0, 0)],
            Some(space) => vec![
                usage(Unit::Bytes, space.total_bytes, space.available_bytes, space.used_bytes),
                usage(Unit::Inodes, space.total_inodes, space.available_inodes, space.used_inodes),
            ],
        };
        Ok(Response::new(proto::NodeGetVolumeStatsResponse {
            usage,
            ..proto::NodeGetVolumeStatsResponse::default()
        }))
    }

    /// Reports an unknown volume before a malformed path, like NodeGetVolumeStats.
    async fn node_expand_volume(
        &self,
        request: Request<proto::NodeExpandVolumeRequest>,
    ) -> Result<Response<proto::NodeExpandVolumeResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id)?;
        if request.volume_path.is_empty() {
            return Err(InvalidArgument("volume_path is missing".to_owned()).into());
        }
        let path = request::absolute("volume_path", &request.volume_path)
            .unwrap_or_else(|_| request.volume_path.clone());
        let range = request::capacity(request.capacity_range.as_ref())?;
        request::small_map("secrets", &request.secrets)?;
        let capability = request.volume_capability.as_ref();
        let capability = capability
            .map(|capability| request::volume_capability(Some(capability)))
            .transpose()?;
        let work = move |plugin: &Arc<Plugin>| {
            volumes::expand_on_node(plugin, id, path, range, capability.as_ref())
        };
        let bytes = self.0.call(work).await?;
        Ok(Response::new(proto::NodeExpandVolumeResponse { capacity_bytes: wire(bytes) }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<proto::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<proto::NodeGetCapabilitiesResponse>, Status> {
        let capability = |kind: rpc::Type| proto::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = [
            (PluginCapability::Stage, rpc::Type::StageUnstageVolume),
            (PluginCapability::Stats, rpc::Type::GetVolumeStats),
            (PluginCapability::NodeExpand, rpc::Type::ExpandVolume),
            (PluginCapability::NodeVolumeHealth, rpc::Type::GetVolumeHealth),
            (PluginCapability::StorageHealth, rpc::Type::GetStorageHealth),
            (PluginCapability::MultiWriter, rpc::Type::SingleNodeMultiWriter),
            (PluginCapability::MountGroup, rpc::Type::VolumeMountGroup),
        ];
        let has = capabilities
            .into_iter()
            .filter(|(capability, _)| self.0.has(*capability))
            .map(|(_, kind)| capability(kind));
        Ok(Response::new(proto::NodeGetCapabilitiesResponse { capabilities: has.collect() }))
    }

    /// The paths are those of the volume's records, so the request needs none.
    async fn node_get_volume_health(
        &self,
        request: Request<proto::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<proto::NodeGetVolumeHealthResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id)?;
        for (what, path) in [
            ("volume_publish_path", &request.volume_publish_path),
            ("staging_target_path", &request.staging_target_path),
        ] {
            if !path.is_empty() {
                request::absolute(what, path)?;
            }
        }
        let work = move |plugin: &Arc<Plugin>| volumes::node_health(plugin, id);
        let health = self.0.call(work).await?;
        Ok(Response::new(proto::NodeGetVolumeHealthResponse { volume_health: Some(health) }))
    }

    async fn node_get_storage_health(
        &self,
        request: Request<proto::NodeGetStorageHealthRequest>,
    ) -> Result<Response<proto::NodeGetStorageHealthResponse>, Status> {
        request::small_map("secrets", &request.get_ref().secrets)?;
        let look =
            |plugin: &Arc<Plugin>| Ok::<_, StorageHealthError>(volumes::storage_health(plugin));
        let statuses = self.0.call(look).await?.into_iter();
        let backend_health = statuses.map(|condition| StorageBackendHealth {
            status: condition.status.into(),
            reason: condition.reason.to_owned(),
            message: condition.message,
            volume_capability: None,
        });
        Ok(Response::new(proto::NodeGetStorageHealthResponse {
            backend_health: backend_health.collect(),
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<proto::NodeGetInfoRequest>,
    ) -> Result<Response<proto::NodeGetInfoResponse>, Status> {
        Ok(Response::new(proto::NodeGetInfoResponse {
            node_id: self.0.node_id.clone(),
            max_volumes_per_node: self.0.profile.attach_limit.map_or(0, i64::from),
            accessible_topology: topology::to_proto(&self.0.profile.topology),
        }))
    }
}

fn id_and_path(id: &str, what: &str, path: &str) -> Result<(String, String), Status> {
    let id = request::volume_id(id)?;
    let path = request::absolute(what, path)?;
    Ok((id, path))
}

fn wire(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
