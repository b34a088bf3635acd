//! CSI's GroupController service.

use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use super::controller::invalid;
use super::error::Invalid;
use super::group_snapshots::{self, Group};
use super::plugin::Plugin;
use super::request;
use super::snapshots;
use crate::csi::proto;
use crate::csi::proto::group_controller_server::GroupController;
use crate::csi::proto::group_controller_service_capability::{Rpc, Type, rpc};

/// Serves [`GroupController`].
pub(super) struct GroupService(pub(super) Arc<Plugin>);

#[async_trait]
impl GroupController for GroupService {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<proto::GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::GroupControllerGetCapabilitiesResponse>, Status> {
        let groups = proto::GroupControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into(),
            })),
        };
        Ok(Response::new(
            proto::GroupControllerGetCapabilitiesResponse {
                capabilities: vec![groups],
            },
        ))
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<proto::CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<proto::CreateVolumeGroupSnapshotResponse>, Status> {
        let request = request.get_ref();
        let name = request::name("group", &request.name).map_err(invalid)?;
        request::no_parameters("snapshot parameters", &request.parameters).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        if request.source_volume_ids.is_empty() {
            return Err(invalid(Invalid("source_volume_ids are missing".to_owned())));
        }
        let sources: Result<_, _> = request
            .source_volume_ids
            .iter()
            .map(|id| request::volume_id(id))
            .collect();
        let work = group_snapshots::cut(self.0.clone(), name, sources.map_err(invalid)?);
        let group = self.0.run(work).await?;
        Ok(Response::new(proto::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(message(&group)),
        }))
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<proto::DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<proto::DeleteVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let id = request::id("group", &request.group_snapshot_id).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let work = group_snapshots::delete(self.0.clone(), id, request.snapshot_ids);
        self.0.run(work).await?;
        Ok(Response::new(proto::DeleteVolumeGroupSnapshotResponse {}))
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<proto::GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<proto::GetVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let id = request::id("group", &request.group_snapshot_id).map_err(invalid)?;
        let members = request.snapshot_ids;
        let group = self
            .0
            .blocking(move |plugin| group_snapshots::get(plugin, &id, &members))
            .await?;
        Ok(Response::new(proto::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(message(&group)),
        }))
    }
}

fn message(group: &Group) -> proto::VolumeGroupSnapshot {
    proto::VolumeGroupSnapshot {
        group_snapshot_id: group.record.id.clone(),
        snapshots: group.members.iter().map(snapshots::message).collect(),
        creation_time: Some(snapshots::timestamp(group.record.cut_at)),
        ready_to_use: true,
    }
}
