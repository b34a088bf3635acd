//! CSI's GroupController service.

use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use crate::error::InvalidArgument;
use crate::plugin::Plugin;
use crate::request;
use crate::snapshots::{self, Group};

use nomad_csi_proto as proto;
use nomad_csi_proto::group_controller_server::GroupController;
use nomad_csi_proto::group_controller_service_capability::{Rpc, Type, rpc};

/// Serves [`GroupController`].
pub(crate) struct GroupControllerService(pub(crate) Arc<Plugin>);

#[async_trait]
impl GroupController for GroupControllerService {
    async fn group_controller_get_capabilities(
        &self,
        _: Request<proto::GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::GroupControllerGetCapabilitiesResponse>, Status> {
        let groups = proto::GroupControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into(),
            })),
        };
        Ok(Response::new(proto::GroupControllerGetCapabilitiesResponse {
            capabilities: vec![groups],
        }))
    }

    async fn create_volume_group_snapshot(
        &self,
        request: Request<proto::CreateVolumeGroupSnapshotRequest>,
    ) -> Result<Response<proto::CreateVolumeGroupSnapshotResponse>, Status> {
        let request = request.get_ref();
        let name = request::name("group", &request.name)?;
        request::no_parameters("snapshot parameters", &request.parameters)?;
        request::small_map("secrets", &request.secrets)?;
        if request.source_volume_ids.is_empty() {
            return Err(InvalidArgument("source_volume_ids are missing".to_owned()).into());
        }
        let sources: Result<_, InvalidArgument> =
            request.source_volume_ids.iter().map(|id| request::volume_id(id)).collect();
        let sources = sources?;
        let work = move |plugin: &Arc<Plugin>| snapshots::create_group(plugin, name, sources);
        let group = self.0.call(work).await?;
        Ok(Response::new(proto::CreateVolumeGroupSnapshotResponse {
            group_snapshot: Some(to_proto(&self.0, &group)),
        }))
    }

    async fn delete_volume_group_snapshot(
        &self,
        request: Request<proto::DeleteVolumeGroupSnapshotRequest>,
    ) -> Result<Response<proto::DeleteVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let id = request::id("group", &request.group_snapshot_id)?;
        request::small_map("secrets", &request.secrets)?;
        let work =
            move |plugin: &Arc<Plugin>| snapshots::delete_group(plugin, &id, &request.snapshot_ids);
        self.0.call(work).await?;
        Ok(Response::new(proto::DeleteVolumeGroupSnapshotResponse {}))
    }

    async fn get_volume_group_snapshot(
        &self,
        request: Request<proto::GetVolumeGroupSnapshotRequest>,
    ) -> Result<Response<proto::GetVolumeGroupSnapshotResponse>, Status> {
        let request = request.into_inner();
        let id = request::id("group", &request.group_snapshot_id)?;
        let members = request.snapshot_ids;
        let group = self.0.call(move |plugin| snapshots::get_group(plugin, &id, &members)).await?;
        Ok(Response::new(proto::GetVolumeGroupSnapshotResponse {
            group_snapshot: Some(to_proto(&self.0, &group)),
        }))
    }
}

fn to_proto(plugin: &Plugin, group: &Group) -> proto::VolumeGroupSnapshot {
    let members = group.members.iter();
    proto::VolumeGroupSnapshot {
        group_snapshot_id: group.record.id.clone(),
        snapshots: members.map(|member| snapshots::to_proto(plugin, member)).collect(),
        creation_time: Some(snapshots::timestamp(group.record.created_at)),
        ready_to_use: true,
    }
}
