//! The CSI services over the plugin's state.

use nomad_csi_proto as proto;
use nomad_csi_proto::controller_server::Controller;
use nomad_csi_proto::group_controller_server::GroupController;
use nomad_csi_proto::identity_server::Identity;
use nomad_csi_proto::node_server::Node;
use nomad_csi_proto::snapshot_metadata_server::SnapshotMetadata;
use tonic::{Request, Response, Status, async_trait};

use super::deviation::Deviation as D;
use super::state::{Answer, MAX_VOLUMES, NODE, PluginState, SharedState, ZONE};

/// All services.
#[derive(Clone)]
pub(super) struct Service(pub(super) SharedState);

impl Service {
    fn answer<T>(
        &self,
        act: impl FnOnce(&mut PluginState) -> Answer<T>,
    ) -> Result<Response<T>, Status> {
        let mut state = self.0.lock();
        let answer = act(&mut state);
        match answer {
            Ok(answer) => Ok(Response::new(answer)),
            Err(status) if state.has(D::EmptyErrorMessages) => Err(Status::new(status.code(), "")),
            Err(status) if state.has(D::RevealsSecrets) => {
                Err(Status::new(status.code(), "the password hunter2 does not help"))
            }
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
        self.answer(|state| {
            let name =
                if state.has(D::BadPluginName) { "exemplar_1." } else { "csi.exemplar.test" };
            let version = if state.has(D::NoVersion) { "" } else { "1.0.0" };
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
        self.answer(|state| {
            let mut services = vec![
                service::Type::ControllerService,
                service::Type::VolumeAccessibilityConstraints,
                service::Type::GroupControllerService,
                service::Type::SnapshotMetadataService,
                service::Type::SnapshotAccessibilityConstraints,
            ];
            if state.has(D::UnknownService) {
                services.push(service::Type::Unknown);
            }
            let services =
                services.into_iter().map(|kind| Type::Service(Service { r#type: kind.into() }));
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
        self.answer(|state| {
            let ready = (!state.has(D::NotReady)).then_some(true).or(Some(false));
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
                self.answer(|state| state.$name(&request.into_inner()))
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
        controller_get_volume_health: ControllerGetVolumeHealthRequest => ControllerGetVolumeHealthResponse;
        controller_list_volume_health: ControllerListVolumeHealthRequest => ControllerListVolumeHealthResponse;
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
            let state = self.0.lock();
            state.has(D::Racing) && state.volume_with_name(&request).is_none()
        };
        if !races {
            return self.answer(|state| state.create_volume(request));
        }
        // Concurrent calls do not find the volume either.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        self.answer(|state| state.make_volume(request))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        self.answer(|state| state.validate_volume_capabilities(request.into_inner()))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        use proto::controller_service_capability::{Rpc, Type, rpc};
        self.answer(|state| {
            let kinds = (1..=17).filter(|kind| {
                let attach = *kind == i32::from(rpc::Type::PublishUnpublishVolume);
                let health = *kind == i32::from(rpc::Type::GetVolumeHealth);
                let without_attach = attach && state.has(D::PublishedNodesWithoutAttach);
                let without_health = health && state.has(D::ListHealthOnly);
                !without_attach && !without_health
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
        node_get_volume_health: NodeGetVolumeHealthRequest => NodeGetVolumeHealthResponse;
        node_get_storage_health: NodeGetStorageHealthRequest => NodeGetStorageHealthResponse;
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
            capabilities: (1..=8).map(capability).collect(),
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<proto::NodeGetInfoRequest>,
    ) -> Result<Response<proto::NodeGetInfoResponse>, Status> {
        self.answer(|state| {
            let node_id = match () {
                () if state.has(D::NoNodeId) => String::new(),
                () if state.has(D::ChangingNodeId) => state.new_id(NODE),
                () => NODE.to_owned(),
            };
            Ok(proto::NodeGetInfoResponse {
                node_id,
                max_volumes_per_node: i64::try_from(MAX_VOLUMES).unwrap_or_default(),
                accessible_topology: Some(proto::Topology {
                    segments: [(ZONE.0.to_owned(), ZONE.1.to_owned())].into(),
                }),
            })
        })
    }
}

/// A stream of messages that all exist from the start.
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
        self.answer(|state| state.allocated(&request.into_inner()).map(messages))
    }

    async fn get_metadata_delta(
        &self,
        request: Request<proto::GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        self.answer(|state| state.delta(&request.into_inner()).map(messages))
    }
}
