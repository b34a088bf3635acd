//! CSI's Node service.

use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use super::abilities::Ability;
use super::controller::invalid;
use super::error::Invalid;
use super::expansion;
use super::plugin::Plugin;
use super::publishing;
use super::request::{self, PublishRequest, StageRequest};
use super::staging;
use super::topology;
use crate::csi::proto;
use crate::csi::proto::node_server::Node;
use crate::csi::proto::node_service_capability::{Rpc, Type, rpc};
use crate::csi::proto::volume_usage::Unit;

/// Serves [`Node`].
pub(super) struct NodeService(pub(super) Arc<Plugin>);

#[async_trait]
impl Node for NodeService {
    async fn node_stage_volume(
        &self,
        request: Request<proto::NodeStageVolumeRequest>,
    ) -> Result<Response<proto::NodeStageVolumeResponse>, Status> {
        let request = StageRequest::parse(request.get_ref()).map_err(invalid)?;
        let work = staging::stage(self.0.clone(), request);
        self.0.run(work).await?;
        Ok(Response::new(proto::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<proto::NodeUnstageVolumeRequest>,
    ) -> Result<Response<proto::NodeUnstageVolumeResponse>, Status> {
        let request = request.get_ref();
        let (id, path) = id_and_path(
            &request.volume_id,
            "staging_target_path",
            &request.staging_target_path,
        )?;
        let work = staging::unstage(self.0.clone(), id, path);
        self.0.run(work).await?;
        Ok(Response::new(proto::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<proto::NodePublishVolumeRequest>,
    ) -> Result<Response<proto::NodePublishVolumeResponse>, Status> {
        let request = PublishRequest::parse(request.get_ref()).map_err(invalid)?;
        let work = publishing::publish(self.0.clone(), request);
        self.0.run(work).await?;
        Ok(Response::new(proto::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<proto::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<proto::NodeUnpublishVolumeResponse>, Status> {
        let request = request.get_ref();
        let (id, path) = id_and_path(&request.volume_id, "target_path", &request.target_path)?;
        let work = publishing::unpublish(self.0.clone(), id, path);
        self.0.run(work).await?;
        Ok(Response::new(proto::NodeUnpublishVolumeResponse {}))
    }

    /// Existence comes before the form of the path here: csi-sanity asks for an unknown volume at a
    /// relative path, and wants NOT_FOUND (`csi-sanity` 5.5).
    async fn node_get_volume_stats(
        &self,
        request: Request<proto::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<proto::NodeGetVolumeStatsResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        if request.volume_path.is_empty() {
            return Err(invalid(Invalid("volume_path is missing".to_owned())));
        }
        let path = request::absolute("volume_path", &request.volume_path)
            .unwrap_or_else(|_| request.volume_path.clone());
        let work = staging::stats(self.0.clone(), id, path);
        let stats = self.0.run(work).await?;
        let usage = |unit: Unit, total, available, used| proto::VolumeUsage {
            unit: unit.into(),
            total: wire(total),
            available: wire(available),
            used: wire(used),
        };
        let usage = match stats.room {
            // Of a block device nobody knows what is used.
            None => vec![usage(Unit::Bytes, stats.bytes, 0, 0)],
            Some(room) => vec![
                usage(
                    Unit::Bytes,
                    room.total_bytes,
                    room.available_bytes,
                    room.used_bytes,
                ),
                usage(
                    Unit::Inodes,
                    room.total_inodes,
                    room.available_inodes,
                    room.used_inodes,
                ),
            ],
        };
        Ok(Response::new(proto::NodeGetVolumeStatsResponse {
            usage,
            volume_condition: stats.condition,
        }))
    }

    /// Existence comes before the form of the path here too (`csi-sanity` 5.5).
    async fn node_expand_volume(
        &self,
        request: Request<proto::NodeExpandVolumeRequest>,
    ) -> Result<Response<proto::NodeExpandVolumeResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        if request.volume_path.is_empty() {
            return Err(invalid(Invalid("volume_path is missing".to_owned())));
        }
        let path = request::absolute("volume_path", &request.volume_path)
            .unwrap_or_else(|_| request.volume_path.clone());
        let range = request::capacity(request.capacity_range.as_ref()).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let usage = request.volume_capability.as_ref();
        let usage = usage.map(|usage| request::usage(Some(usage))).transpose();
        let usage = usage.map_err(invalid)?;
        let work = expansion::follow(self.0.clone(), id, path, range, usage);
        let bytes = self.0.run(work).await?;
        Ok(Response::new(proto::NodeExpandVolumeResponse {
            capacity_bytes: wire(bytes),
        }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<proto::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<proto::NodeGetCapabilitiesResponse>, Status> {
        let capability = |kind: rpc::Type| proto::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: kind.into(),
            })),
        };
        let capabilities = [
            (Ability::Stage, rpc::Type::StageUnstageVolume),
            (Ability::Stats, rpc::Type::GetVolumeStats),
            (Ability::NodeExpand, rpc::Type::ExpandVolume),
            (Ability::Condition, rpc::Type::VolumeCondition),
            (Ability::MultiWriter, rpc::Type::SingleNodeMultiWriter),
            (Ability::MountGroup, rpc::Type::VolumeMountGroup),
        ];
        let has = capabilities
            .into_iter()
            .filter(|(ability, _)| self.0.has(*ability))
            .map(|(_, kind)| capability(kind));
        Ok(Response::new(proto::NodeGetCapabilitiesResponse {
            capabilities: has.collect(),
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<proto::NodeGetInfoRequest>,
    ) -> Result<Response<proto::NodeGetInfoResponse>, Status> {
        Ok(Response::new(proto::NodeGetInfoResponse {
            node_id: self.0.node_id.clone(),
            max_volumes_per_node: self.0.play.attach_limit.map_or(0, i64::from),
            accessible_topology: topology::message(&self.0.play.topology),
        }))
    }
}

fn id_and_path(id: &str, what: &str, path: &str) -> Result<(String, String), Status> {
    let id = request::volume_id(id).map_err(invalid)?;
    let path = request::absolute(what, path).map_err(invalid)?;
    Ok((id, path))
}

fn wire(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
