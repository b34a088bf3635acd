//! CSI's services over the world.

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::controller_server::Controller;
use nomad_csi::csi::proto::group_controller_server::GroupController;
use nomad_csi::csi::proto::identity_server::Identity;
use nomad_csi::csi::proto::node_server::Node;
use nomad_csi::csi::proto::snapshot_metadata_server::SnapshotMetadata;
use tonic::{Request, Response, Status, async_trait};

use super::Deviation as D;
use super::Shared;
use super::world::{Answer, MOST_VOLUMES, NODE, World, ZONE};

/// All services.
#[derive(Clone)]
pub(super) struct Service(pub(super) Shared);

impl Service {
    fn answer<T>(&self, act: impl FnOnce(&mut World) -> Answer<T>) -> Result<Response<T>, Status> {
        let mut world = self.0.world();
        let answer = act(&mut world);
        match answer {
            Ok(answer) => Ok(Response::new(answer)),
            Err(status) if world.is(D::SilentRefusals) => Err(Status::new(status.code(), "")),
            Err(status) if world.is(D::TellsSecrets) => Err(Status::new(
                status.code(),
                "the password hunter2 does not help",
            )),
            Err(status) => Err(status),
        }
    }
}

#[async_trait]
impl Identity for Service {
    async fn get_plugin_info(
        &self,
        _: Request<proto::GetPluginInfoRequest>,
    ) -> Result<Response<proto::GetPluginInfoResponse>, Status> {
        self.answer(|world| {
            let name = if world.is(D::BadPluginName) {
                "exemplar_1."
            } else {
                "csi.exemplar.test"
            };
            let version = if world.is(D::NoVersion) { "" } else { "1.0.0" };
            Ok(proto::GetPluginInfoResponse {
                name: name.to_owned(),
                vendor_version: version.to_owned(),
                ..Default::default()
            })
        })
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<proto::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<proto::GetPluginCapabilitiesResponse>, Status> {
        use proto::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
        self.answer(|world| {
            let mut services = vec![
                service::Type::ControllerService,
                service::Type::VolumeAccessibilityConstraints,
                service::Type::GroupControllerService,
                service::Type::SnapshotMetadataService,
            ];
            if world.is(D::UnknownService) {
                services.push(service::Type::Unknown);
            }
            let services = services.into_iter().map(|kind| {
                Type::Service(Service {
                    r#type: kind.into(),
                })
            });
            let online = Type::VolumeExpansion(VolumeExpansion {
                r#type: volume_expansion::Type::Online.into(),
            });
            let all = services.chain([online]);
            Ok(proto::GetPluginCapabilitiesResponse {
                capabilities: all
                    .map(|kind| proto::PluginCapability { r#type: Some(kind) })
                    .collect(),
            })
        })
    }

    async fn probe(
        &self,
        _: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        self.answer(|world| {
            let ready = (!world.is(D::NotReady)).then_some(true).or(Some(false));
            Ok(proto::ProbeResponse { ready })
        })
    }
}

macro_rules! delegate {
    ($service:ident { $($name:ident: $request:ident => $response:ident;)* } $($more:tt)*) => {
        #[async_trait]
        impl $service for Service {
            $(async fn $name(
                &self,
                request: Request<proto::$request>,
            ) -> Result<Response<proto::$response>, Status> {
                self.answer(|world| world.$name(&request.into_inner()))
            })*
            $($more)*
        }
    };
}

delegate! {
    Controller {
        delete_volume: DeleteVolumeRequest => DeleteVolumeResponse;
        list_volumes: ListVolumesRequest => ListVolumesResponse;
        get_capacity: GetCapacityRequest => GetCapacityResponse;
        controller_get_volume: ControllerGetVolumeRequest => ControllerGetVolumeResponse;
        controller_publish_volume: ControllerPublishVolumeRequest => ControllerPublishVolumeResponse;
        controller_unpublish_volume: ControllerUnpublishVolumeRequest => ControllerUnpublishVolumeResponse;
        controller_expand_volume: ControllerExpandVolumeRequest => ControllerExpandVolumeResponse;
        controller_modify_volume: ControllerModifyVolumeRequest => ControllerModifyVolumeResponse;
        create_snapshot: CreateSnapshotRequest => CreateSnapshotResponse;
        delete_snapshot: DeleteSnapshotRequest => DeleteSnapshotResponse;
        list_snapshots: ListSnapshotsRequest => ListSnapshotsResponse;
        get_snapshot: GetSnapshotRequest => GetSnapshotResponse;
    }

    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let races = {
            let world = self.0.world();
            world.is(D::Racing) && world.named(&request).is_none()
        };
        if !races {
            return self.answer(|world| world.create_volume(request));
        }
        // Whoever else looks now finds nothing either.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.answer(|world| world.make_volume(request))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        self.answer(|world| world.validate_volume_capabilities(request.into_inner()))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        use proto::controller_service_capability::{Rpc, Type, rpc};
        self.answer(|world| {
            let kinds = (1..=15).filter(|kind| {
                let attach = *kind == i32::from(rpc::Type::PublishUnpublishVolume);
                !(attach && world.is(D::PublishedNodesWithoutAttach))
            });
            let capability = |kind| proto::ControllerServiceCapability {
                r#type: Some(Type::Rpc(Rpc { r#type: kind })),
            };
            Ok(proto::ControllerGetCapabilitiesResponse {
                capabilities: kinds.map(capability).collect(),
            })
        })
    }
}

delegate! {
    GroupController {
        create_volume_group_snapshot: CreateVolumeGroupSnapshotRequest => CreateVolumeGroupSnapshotResponse;
        delete_volume_group_snapshot: DeleteVolumeGroupSnapshotRequest => DeleteVolumeGroupSnapshotResponse;
        get_volume_group_snapshot: GetVolumeGroupSnapshotRequest => GetVolumeGroupSnapshotResponse;
    }

    async fn group_controller_get_capabilities(
        &self,
        _: Request<proto::GroupControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::GroupControllerGetCapabilitiesResponse>, Status> {
        use proto::group_controller_service_capability::{Rpc, Type, rpc};
        let kind = rpc::Type::CreateDeleteGetVolumeGroupSnapshot.into();
        let capability = proto::GroupControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind })),
        };
        Ok(Response::new(proto::GroupControllerGetCapabilitiesResponse {
            capabilities: vec![capability],
        }))
    }
}

delegate! {
    Node {
        node_stage_volume: NodeStageVolumeRequest => NodeStageVolumeResponse;
        node_unstage_volume: NodeUnstageVolumeRequest => NodeUnstageVolumeResponse;
        node_publish_volume: NodePublishVolumeRequest => NodePublishVolumeResponse;
        node_unpublish_volume: NodeUnpublishVolumeRequest => NodeUnpublishVolumeResponse;
        node_get_volume_stats: NodeGetVolumeStatsRequest => NodeGetVolumeStatsResponse;
        node_expand_volume: NodeExpandVolumeRequest => NodeExpandVolumeResponse;
    }

    async fn node_get_capabilities(
        &self,
        _: Request<proto::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<proto::NodeGetCapabilitiesResponse>, Status> {
        use proto::node_service_capability::{Rpc, Type};
        let capability = |kind| proto::NodeServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind })),
        };
        Ok(Response::new(proto::NodeGetCapabilitiesResponse {
            capabilities: (1..=6).map(capability).collect(),
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<proto::NodeGetInfoRequest>,
    ) -> Result<Response<proto::NodeGetInfoResponse>, Status> {
        self.answer(|world| {
            let node_id = match () {
                () if world.is(D::NoNodeId) => String::new(),
                () if world.is(D::ChangingNodeId) => world.id(NODE),
                () => NODE.to_owned(),
            };
            Ok(proto::NodeGetInfoResponse {
                node_id,
                max_volumes_per_node: i64::try_from(MOST_VOLUMES).unwrap_or_default(),
                accessible_topology: Some(proto::Topology {
                    segments: [(ZONE.0.to_owned(), ZONE.1.to_owned())].into(),
                }),
            })
        })
    }
}

/// A stream of messages that are all there.
type Messages<T> = tokio_stream::Iter<std::vec::IntoIter<Result<T, Status>>>;

fn messages<T>(messages: Vec<T>) -> Messages<T> {
    let all: Vec<_> = messages.into_iter().map(Ok).collect();
    tokio_stream::iter(all)
}

#[async_trait]
impl SnapshotMetadata for Service {
    type GetMetadataAllocatedStream = Messages<proto::GetMetadataAllocatedResponse>;
    type GetMetadataDeltaStream = Messages<proto::GetMetadataDeltaResponse>;

    async fn get_metadata_allocated(
        &self,
        request: Request<proto::GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        self.answer(|world| world.allocated(&request.into_inner()).map(messages))
    }

    async fn get_metadata_delta(
        &self,
        request: Request<proto::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        self.answer(|world| world.delta(&request.into_inner()).map(messages))
    }
}
