//! The three CSI services over the state of the fake plugin.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use nomad_csi_csi::{convert, status};
use nomad_csi_model::{ExternalId, ExternalNodeId, Secrets, SnapshotId};
use nomad_csi_ports::{
    CreateSnapshot, CreatedVolume, ListVolumeHealth, ListedHealth, ModifyVolume, Rpc, StatusCode,
};
use nomad_csi_proto as proto;
use nomad_csi_proto::controller_server::Controller;
use nomad_csi_proto::identity_server::Identity;
use nomad_csi_proto::list_snapshots_response::Entry;
use nomad_csi_proto::node_server::Node;
use nomad_csi_testing::{CallError, FakeBackend, FakeCallLock, ProviderState, Refusal};
use tonic::{Request, Response, Status, async_trait};

use super::connection::ConnectionCutter;
use super::messages::{
    attach, capacity_request, create, detach, expand, list_snapshots, listed, node_expand,
    node_volume_health, page, publish, snapshot, stage, stats_request, stats_response,
    storage_health, validate, volume_health,
};

/// The three services.
#[derive(Clone)]
pub(super) struct Service {
    pub(super) backend: Arc<FakeBackend>,
    pub(super) cutter: Arc<ConnectionCutter>,
    /// The node; `None` for that of the settings.
    pub(super) node: Option<ExternalNodeId>,
}

impl Service {
    async fn call<T: Send + 'static>(
        &self,
        rpc: Rpc,
        subject: &str,
        act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, Status> {
        self.call_in(FakeCallLock::Controller, (rpc, subject), act).await
    }

    async fn call_in<T: Send + 'static>(
        &self,
        call_lock: FakeCallLock,
        call: (Rpc, &str),
        act: impl Fn(&mut ProviderState) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, Status> {
        match self.backend.call(call_lock, call, act).await {
            Ok(answer) => Ok(answer),
            Err(CallError::Refused(refusal)) => {
                Err(Status::new(status::to_tonic(refusal.code), refusal.message))
            }
            Err(CallError::ConnectionLost | CallError::NotConnected) => {
                self.cutter.cut();
                std::future::pending().await
            }
        }
    }

    fn node(&self) -> ExternalNodeId {
        let own = || self.backend.settings().description.external_node_id;
        self.node.clone().unwrap_or_else(own)
    }

    /// Handles a call whose message is first converted to the model. A failed conversion is a
    /// violation.
    async fn read<Q: Send + Sync + 'static, T: Send + 'static>(
        &self,
        rpc: Rpc,
        subject: &str,
        read: Result<Q, &'static str>,
        act: impl Fn(&mut ProviderState, &Q) -> Result<T, Refusal> + Send + Sync + 'static,
    ) -> Result<T, Status> {
        self.call(rpc, subject, move |state| match &read {
            Ok(request) => act(state, request),
            Err(wrong) => state.violation(rpc, StatusCode::InvalidArgument, wrong),
        })
        .await
    }

    /// As `read`, for the service of this node.
    async fn read_on_node<Q: Send + Sync + 'static, T: Send + 'static>(
        &self,
        rpc: Rpc,
        subject: &str,
        read: Result<Q, &'static str>,
        act: impl Fn(&mut ProviderState, &ExternalNodeId, &Q) -> Result<T, Refusal>
        + Send
        + Sync
        + 'static,
    ) -> Result<T, Status> {
        let node = self.node();
        let call_lock = FakeCallLock::Node(node.clone());
        self.call_in(call_lock, (rpc, subject), move |state| match &read {
            Ok(request) => act(state, &node, request),
            Err(wrong) => state.violation(rpc, StatusCode::InvalidArgument, wrong),
        })
        .await
    }
}

fn volume(created: CreatedVolume) -> proto::Volume {
    proto::Volume {
        capacity_bytes: created.capacity.to_wire(),
        volume_id: created.external_id.as_str().to_owned(),
        volume_context: created.context,
        content_source: None,
        accessible_topology: created.topologies.iter().map(convert::topology).collect(),
    }
}

#[async_trait]
impl Identity for Service {
    async fn get_plugin_info(
        &self,
        _: Request<proto::GetPluginInfoRequest>,
    ) -> Result<Response<proto::GetPluginInfoResponse>, Status> {
        let settings = self.settings(Rpc::GetPluginInfo).await?;
        Ok(Response::new(proto::GetPluginInfoResponse {
            name: settings.info.name,
            vendor_version: settings.info.vendor_version,
            manifest: BTreeMap::new(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<proto::GetPluginCapabilitiesRequest>,
    ) -> Result<Response<proto::GetPluginCapabilitiesResponse>, Status> {
        use proto::plugin_capability::{Service, Type, service};
        let settings = self.settings(Rpc::GetPluginCapabilities).await?;
        let mut types = vec![service::Type::Unknown, service::Type::GroupControllerService];
        if settings.plugin.controller_service {
            types.push(service::Type::ControllerService);
        }
        if settings.plugin.volume_accessibility_constraints {
            types.push(service::Type::VolumeAccessibilityConstraints);
        }
        let capability = |kind: service::Type| proto::PluginCapability {
            r#type: Some(Type::Service(Service { r#type: kind.into() })),
        };
        Ok(Response::new(proto::GetPluginCapabilitiesResponse {
            capabilities: types.into_iter().map(capability).collect(),
        }))
    }

    async fn probe(
        &self,
        _: Request<proto::ProbeRequest>,
    ) -> Result<Response<proto::ProbeResponse>, Status> {
        let settings = self.settings(Rpc::Probe).await?;
        // An absent `ready` means ready (B57).
        let ready = (!settings.ready).then_some(false);
        Ok(Response::new(proto::ProbeResponse { ready }))
    }
}

impl Service {
    async fn settings(&self, rpc: Rpc) -> Result<nomad_csi_testing::PluginSettings, Status> {
        self.call(rpc, "", |state| Ok(state.settings.clone())).await
    }
}

#[async_trait]
impl Controller for Service {
    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        use proto::controller_service_capability::{Rpc as Arm, Type, rpc};
        let settings = self.settings(Rpc::ControllerGetCapabilities).await?;
        let can = settings.controller.ok_or_else(|| Status::unimplemented("no controller"))?;
        // An unknown capability, such as one of a later version of CSI.
        let mut types = vec![99];
        for (has, kind) in [
            (can.create_delete_volume, rpc::Type::CreateDeleteVolume),
            (can.publish_unpublish_volume, rpc::Type::PublishUnpublishVolume),
            (can.list_volumes, rpc::Type::ListVolumes),
            (can.get_capacity, rpc::Type::GetCapacity),
            (can.create_delete_snapshot, rpc::Type::CreateDeleteSnapshot),
            (can.list_snapshots, rpc::Type::ListSnapshots),
            (can.clone_volume, rpc::Type::CloneVolume),
            (can.publish_readonly, rpc::Type::PublishReadonly),
            (can.expand_volume, rpc::Type::ExpandVolume),
            (can.list_volumes_published_nodes, rpc::Type::ListVolumesPublishedNodes),
            (can.volume_condition, rpc::Type::VolumeCondition),
            (can.get_volume, rpc::Type::GetVolume),
            (can.get_volume_health, rpc::Type::GetVolumeHealth),
            (can.list_volume_health, rpc::Type::ListVolumeHealth),
            (can.modify_volume, rpc::Type::ModifyVolume),
        ] {
            if has {
                types.push(kind.into());
            }
        }
        let capability = |kind: i32| proto::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Arm { r#type: kind })),
        };
        Ok(Response::new(proto::ControllerGetCapabilitiesResponse {
            capabilities: types.into_iter().map(capability).collect(),
        }))
    }

    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let request = request.into_inner();
        let name = request.name.clone();
        let created =
            self.read(Rpc::CreateVolume, &name, create(request), ProviderState::create).await?;
        Ok(Response::new(proto::CreateVolumeResponse { volume: Some(volume(created)) }))
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = ExternalId::new(request.volume_id);
        let secrets = Secrets::from_iter(request.secrets);
        let subject = id.as_str().to_owned();
        self.call(Rpc::DeleteVolume, &subject, move |state| state.delete(&id, &secrets)).await?;
        Ok(Response::new(proto::DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        use proto::validate_volume_capabilities_response::Confirmed;
        let request = request.into_inner();
        let (rpc, id) = (Rpc::ValidateVolumeCapabilities, request.volume_id.clone());
        let confirmed = Confirmed {
            volume_context: request.volume_context.clone(),
            volume_capabilities: request.volume_capabilities.clone(),
            parameters: request.parameters.clone(),
            mutable_parameters: request.mutable_parameters.clone(),
        };
        self.read(rpc, &id, validate(request), ProviderState::validate).await?;
        Ok(Response::new(proto::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(confirmed),
            message: String::new(),
        }))
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        let request = request.into_inner();
        let page = page(request.max_entries, request.starting_token);
        let page = self.read(Rpc::ListVolumes, "", page, ProviderState::list_volumes).await?;
        Ok(Response::new(proto::ListVolumesResponse {
            entries: page.entries.into_iter().map(listed).collect(),
            next_token: page.next_token.unwrap_or_default(),
        }))
    }

    async fn get_capacity(
        &self,
        request: Request<proto::GetCapacityRequest>,
    ) -> Result<Response<proto::GetCapacityResponse>, Status> {
        let request = capacity_request(request.into_inner());
        let rpc = Rpc::GetCapacity;
        let reported = self.read(rpc, "", request, ProviderState::capacity).await?;
        Ok(Response::new(proto::GetCapacityResponse {
            available_capacity: reported.available,
            maximum_volume_size: reported.maximum,
            minimum_volume_size: reported.minimum,
        }))
    }

    async fn controller_get_volume(
        &self,
        _: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        never()
    }

    async fn controller_publish_volume(
        &self,
        request: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, id) = (Rpc::ControllerPublishVolume, request.volume_id.clone());
        let publish_context = self.read(rpc, &id, attach(request), ProviderState::attach).await?;
        Ok(Response::new(proto::ControllerPublishVolumeResponse { publish_context }))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, id) = (Rpc::ControllerUnpublishVolume, request.volume_id.clone());
        self.read(rpc, &id, Ok(detach(request)), ProviderState::detach).await?;
        Ok(Response::new(proto::ControllerUnpublishVolumeResponse {}))
    }

    async fn create_snapshot(
        &self,
        request: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        let request = request.into_inner();
        let request = CreateSnapshot {
            source: ExternalId::new(request.source_volume_id),
            name: request.name,
            parameters: request.parameters,
            secrets: Secrets::from_iter(request.secrets),
        };
        let subject = request.source.as_str().to_owned();
        let cut = self
            .call(Rpc::CreateSnapshot, &subject, move |state| state.create_snapshot(&request))
            .await?;
        Ok(Response::new(proto::CreateSnapshotResponse { snapshot: Some(snapshot(&cut)) }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        let request = request.into_inner();
        let id = SnapshotId::new(request.snapshot_id);
        let secrets = Secrets::from_iter(request.secrets);
        let subject = id.as_str().to_owned();
        self.call(Rpc::DeleteSnapshot, &subject, move |state| state.delete_snapshot(&id, &secrets))
            .await?;
        Ok(Response::new(proto::DeleteSnapshotResponse {}))
    }

    async fn list_snapshots(
        &self,
        request: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        let request = list_snapshots(request.into_inner());
        let page =
            self.read(Rpc::ListSnapshots, "", request, ProviderState::list_snapshots).await?;
        let entries =
            page.entries.into_iter().map(|each| Entry { snapshot: Some(snapshot(&each)) });
        Ok(Response::new(proto::ListSnapshotsResponse {
            entries: entries.collect(),
            next_token: page.next_token.unwrap_or_default(),
        }))
    }

    async fn get_snapshot(
        &self,
        _: Request<proto::GetSnapshotRequest>,
    ) -> Result<Response<proto::GetSnapshotResponse>, Status> {
        never()
    }

    async fn controller_expand_volume(
        &self,
        request: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, id) = (Rpc::ControllerExpandVolume, request.volume_id.clone());
        let expanded = self.read(rpc, &id, expand(request), ProviderState::expand).await?;
        Ok(Response::new(proto::ControllerExpandVolumeResponse {
            capacity_bytes: expanded.capacity.to_wire(),
            node_expansion_required: expanded.node_expansion_required,
        }))
    }

    async fn controller_get_volume_health(
        &self,
        request: Request<proto::ControllerGetVolumeHealthRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeHealthResponse>, Status> {
        let request = request.into_inner();
        let (rpc, subject) = (Rpc::ControllerGetVolumeHealth, request.volume_id.clone());
        let id = ExternalId::new(request.volume_id);
        let secrets = Secrets::from_iter(request.secrets);
        let statuses =
            self.call(rpc, &subject, move |state| state.volume_health(&id, &secrets)).await?;
        Ok(Response::new(proto::ControllerGetVolumeHealthResponse {
            volume_health: Some(volume_health(subject, statuses)),
        }))
    }

    async fn controller_list_volume_health(
        &self,
        request: Request<proto::ControllerListVolumeHealthRequest>,
    ) -> Result<Response<proto::ControllerListVolumeHealthResponse>, Status> {
        let request = request.into_inner();
        let secrets = Secrets::from_iter(request.secrets);
        let page = page(request.max_entries, request.starting_token);
        let request = page.map(|page| ListVolumeHealth { page, secrets });
        let rpc = Rpc::ControllerListVolumeHealth;
        let page = self.read(rpc, "", request, ProviderState::list_volume_health).await?;
        let entries = page.entries.into_iter();
        let entry = |listed: ListedHealth| {
            volume_health(listed.external_id.as_str().to_owned(), listed.statuses)
        };
        Ok(Response::new(proto::ControllerListVolumeHealthResponse {
            entries: entries.map(entry).collect(),
            next_token: page.next_token.unwrap_or_default(),
        }))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, subject) = (Rpc::ControllerModifyVolume, request.volume_id.clone());
        let request = ModifyVolume {
            external_id: ExternalId::new(request.volume_id),
            parameters: request.mutable_parameters,
            secrets: Secrets::from_iter(request.secrets),
        };
        self.call(rpc, &subject, move |state| state.modify(&request)).await?;
        Ok(Response::new(proto::ControllerModifyVolumeResponse {}))
    }
}

/// Answers an RPC that the orchestrator never calls.
fn never<T>() -> Result<T, Status> {
    Err(Status::unimplemented("the fake plugin does not implement this RPC"))
}

#[async_trait]
impl Node for Service {
    async fn node_get_capabilities(
        &self,
        _: Request<proto::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<proto::NodeGetCapabilitiesResponse>, Status> {
        use proto::node_service_capability::{Rpc as Arm, Type, rpc};
        let settings = self.settings(Rpc::NodeGetCapabilities).await?;
        let can = settings.node.ok_or_else(|| Status::unimplemented("no node"))?;
        let mut types = vec![99];
        for (has, kind) in [
            (can.stage_unstage_volume, rpc::Type::StageUnstageVolume),
            (can.get_volume_stats, rpc::Type::GetVolumeStats),
            (can.expand_volume, rpc::Type::ExpandVolume),
            (can.volume_condition, rpc::Type::VolumeCondition),
            (can.get_volume_health, rpc::Type::GetVolumeHealth),
            (can.get_storage_health, rpc::Type::GetStorageHealth),
        ] {
            if has {
                types.push(kind.into());
            }
        }
        let capability = |kind: i32| proto::NodeServiceCapability {
            r#type: Some(Type::Rpc(Arm { r#type: kind })),
        };
        Ok(Response::new(proto::NodeGetCapabilitiesResponse {
            capabilities: types.into_iter().map(capability).collect(),
        }))
    }

    async fn node_get_info(
        &self,
        _: Request<proto::NodeGetInfoRequest>,
    ) -> Result<Response<proto::NodeGetInfoResponse>, Status> {
        let description = self.settings(Rpc::NodeGetInfo).await?.description;
        let node = self.node();
        let max = description.max_volumes.unwrap_or_default();
        let place = description.accessible_topology;
        Ok(Response::new(proto::NodeGetInfoResponse {
            node_id: node.as_str().to_owned(),
            max_volumes_per_node: i64::try_from(max).expect("a test's number is small"),
            accessible_topology: place.as_ref().map(convert::topology),
        }))
    }

    async fn node_stage_volume(
        &self,
        request: Request<proto::NodeStageVolumeRequest>,
    ) -> Result<Response<proto::NodeStageVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        let (rpc, request) = (Rpc::NodeStageVolume, stage(request));
        self.read_on_node(rpc, &id, request, ProviderState::stage).await?;
        Ok(Response::new(proto::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<proto::NodeUnstageVolumeRequest>,
    ) -> Result<Response<proto::NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, subject) = (Rpc::NodeUnstageVolume, request.volume_id.clone());
        let id = ExternalId::new(request.volume_id);
        let path = PathBuf::from(request.staging_target_path);
        let read = Ok((id, path));
        self.read_on_node(rpc, &subject, read, |state, node, (id, path)| {
            state.unstage(node, id, path)
        })
        .await?;
        Ok(Response::new(proto::NodeUnstageVolumeResponse {}))
    }

    async fn node_publish_volume(
        &self,
        request: Request<proto::NodePublishVolumeRequest>,
    ) -> Result<Response<proto::NodePublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request.volume_id.clone();
        let (rpc, request) = (Rpc::NodePublishVolume, publish(request));
        self.read_on_node(rpc, &id, request, ProviderState::publish).await?;
        Ok(Response::new(proto::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<proto::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<proto::NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, subject) = (Rpc::NodeUnpublishVolume, request.volume_id.clone());
        let id = ExternalId::new(request.volume_id);
        let path = PathBuf::from(request.target_path);
        let read = Ok((id, path));
        self.read_on_node(rpc, &subject, read, |state, node, (id, path)| {
            state.unpublish(node, id, path)
        })
        .await?;
        Ok(Response::new(proto::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        request: Request<proto::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<proto::NodeGetVolumeStatsResponse>, Status> {
        let request = request.into_inner();
        let (rpc, id) = (Rpc::NodeGetVolumeStats, request.volume_id.clone());
        let read = Ok(stats_request(request));
        let stats = self.read_on_node(rpc, &id, read, ProviderState::volume_stats).await?;
        Ok(Response::new(stats_response(stats)))
    }

    async fn node_get_volume_health(
        &self,
        request: Request<proto::NodeGetVolumeHealthRequest>,
    ) -> Result<Response<proto::NodeGetVolumeHealthResponse>, Status> {
        let request = request.into_inner();
        let (rpc, id) = (Rpc::NodeGetVolumeHealth, request.volume_id.clone());
        let read = Ok(node_volume_health(request));
        let statuses = self.read_on_node(rpc, &id, read, ProviderState::node_volume_health).await?;
        Ok(Response::new(proto::NodeGetVolumeHealthResponse {
            volume_health: Some(volume_health(id, statuses)),
        }))
    }

    async fn node_get_storage_health(
        &self,
        request: Request<proto::NodeGetStorageHealthRequest>,
    ) -> Result<Response<proto::NodeGetStorageHealthResponse>, Status> {
        let secrets = Secrets::from_iter(request.into_inner().secrets);
        let rpc = Rpc::NodeGetStorageHealth;
        let statuses = self
            .read_on_node(rpc, "", Ok(secrets), |state, _, secrets| state.storage_health(secrets))
            .await?;
        Ok(Response::new(proto::NodeGetStorageHealthResponse {
            backend_health: statuses.into_iter().map(storage_health).collect(),
        }))
    }

    async fn node_expand_volume(
        &self,
        request: Request<proto::NodeExpandVolumeRequest>,
    ) -> Result<Response<proto::NodeExpandVolumeResponse>, Status> {
        let request = request.into_inner();
        let (rpc, id) = (Rpc::NodeExpandVolume, request.volume_id.clone());
        let capacity =
            self.read_on_node(rpc, &id, node_expand(request), ProviderState::expand_on).await?;
        Ok(Response::new(proto::NodeExpandVolumeResponse { capacity_bytes: capacity.to_wire() }))
    }
}
