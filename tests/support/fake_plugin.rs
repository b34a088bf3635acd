//! Front 2 of the strict fake plugin: real gRPC over a Unix socket.
//!
//! The world, its rules and its faults are `ports::fake`'s. Here a lost reply is a connection that
//! really breaks, and a dead plugin one that really does not listen. What the wire alone can show is
//! checked here: messages that the specification forbids to send, the `:authority`, the deadline.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::controller_server::{Controller, ControllerServer};
use nomad_csi::csi::proto::identity_server::{Identity, IdentityServer};
use nomad_csi::csi::proto::node_server::{Node, NodeServer};
use nomad_csi::csi::proto::volume_capability::AccessType;
use nomad_csi::csi::{convert, status};
use nomad_csi::model::{
    AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, MountOptions, Secrets, Topology,
    TopologyRequest,
};
use nomad_csi::ports::fake::{CallFailed, FakeBackend, Refusal, World};
use nomad_csi::ports::{
    CreateVolume, CreatedVolume, PublishVolume, Rpc, StageVolume, StatusCode, ValidateVolume,
    VolumeSource,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::Server;
use tonic::transport::server::Connected;
use tonic::{Request, Response, Status, async_trait};
use tower::util::MapRequestLayer;

/// What came with a call, beside its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) path: String,
    pub(crate) authority: String,
    pub(crate) timeout: Option<String>,
}

/// The fake plugin on its socket. Ends with its value.
pub(crate) struct FakePluginServer {
    pub(crate) backend: Arc<FakeBackend>,
    socket: PathBuf,
    envelopes: Arc<Mutex<Vec<Envelope>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl FakePluginServer {
    /// Listens on `socket` for as long as the plugin lives.
    pub(crate) fn start(backend: Arc<FakeBackend>, socket: &Path) -> Self {
        let cuts = Arc::new(Cuts::default());
        let envelopes = Arc::new(Mutex::new(vec![]));
        let service = Service {
            backend: backend.clone(),
            cuts: cuts.clone(),
        };
        let listener = UnixListener::bind(socket).expect("the socket can be bound");
        let (accepted, incoming) = mpsc::channel(16);
        let accept = accept(
            backend.clone(),
            socket.to_owned(),
            listener,
            cuts.clone(),
            accepted,
        );
        let serve = serve(service, envelopes.clone(), incoming);
        Self {
            backend,
            socket: socket.to_owned(),
            envelopes,
            tasks: vec![tokio::spawn(accept), tokio::spawn(serve)],
        }
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// What came with each call so far.
    pub(crate) fn envelopes(&self) -> Vec<Envelope> {
        self.envelopes.lock().unwrap().clone()
    }
}

impl Drop for FakePluginServer {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Breaks all connections at once.
#[derive(Default)]
struct Cuts(Mutex<CancellationToken>);

impl Cuts {
    fn cut(&self) {
        std::mem::take(&mut *self.0.lock().unwrap()).cancel();
    }

    fn token(&self) -> CancellationToken {
        self.0.lock().unwrap().clone()
    }
}

/// Accepts while the plugin lives; a dead one has closed its listener and its connections, and has
/// left its socket file.
async fn accept(
    backend: Arc<FakeBackend>,
    socket: PathBuf,
    first: UnixListener,
    cuts: Arc<Cuts>,
    accepted: mpsc::Sender<io::Result<Connection>>,
) {
    let mut listener = Some(first);
    loop {
        let mut lives = backend.lives();
        if !backend.is_alive() {
            drop(listener.take());
            cuts.cut();
            drop(lives.changed().await);
            continue;
        }
        let listening = listener.get_or_insert_with(|| {
            std::fs::remove_file(&socket).expect("a dead plugin leaves its socket");
            UnixListener::bind(&socket).expect("the socket can be bound again")
        });
        tokio::select! {
            stream = listening.accept() => {
                let (stream, _) = stream.expect("a connection is accepted");
                let cut = Box::pin(cuts.token().cancelled_owned());
                if accepted.send(Ok(Connection { stream, cut })).await.is_err() {
                    return;
                }
            }
            changed = lives.changed() => drop(changed),
        }
    }
}

async fn serve(
    service: Service,
    envelopes: Arc<Mutex<Vec<Envelope>>>,
    incoming: mpsc::Receiver<io::Result<Connection>>,
) {
    let record = MapRequestLayer::new(move |request: http::Request<tonic::body::Body>| {
        let text = |name: &str| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        envelopes.lock().unwrap().push(Envelope {
            path: request.uri().path().to_owned(),
            authority: request
                .uri()
                .authority()
                .map(ToString::to_string)
                .unwrap_or_default(),
            timeout: text("grpc-timeout"),
        });
        request
    });
    Server::builder()
        .layer(record)
        .add_service(IdentityServer::new(service.clone()))
        .add_service(ControllerServer::new(service.clone()))
        .add_service(NodeServer::new(service))
        .serve_with_incoming(ReceiverStream::new(incoming))
        .await
        .expect("the server serves");
}

/// A connection that can be broken from outside.
struct Connection {
    stream: UnixStream,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Connection {
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.cut.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(()) => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The three services.
#[derive(Clone)]
struct Service {
    backend: Arc<FakeBackend>,
    cuts: Arc<Cuts>,
}

impl Service {
    async fn call<T>(
        &self,
        rpc: Rpc,
        subject: &str,
        act: impl Fn(&mut World) -> Result<T, Refusal> + Send,
    ) -> Result<T, Status> {
        match self.backend.call(rpc, subject, act).await {
            Ok(answer) => Ok(answer),
            Err(CallFailed::Refused(refusal)) => {
                Err(Status::new(status::to_tonic(refusal.code), refusal.message))
            }
            Err(CallFailed::ConnectionLost | CallFailed::NotConnected) => {
                self.cuts.cut();
                std::future::pending().await
            }
        }
    }

    /// A call whose message is read into the model's words first; what cannot be read is a wrong.
    async fn read<Q: Send + Sync, T>(
        &self,
        rpc: Rpc,
        subject: &str,
        read: Result<Q, &'static str>,
        act: impl Fn(&mut World, &Q) -> Result<T, Refusal> + Send + Sync,
    ) -> Result<T, Status> {
        self.call(rpc, subject, |world| match &read {
            Ok(request) => act(world, request),
            Err(wrong) => world.wrong(rpc, StatusCode::InvalidArgument, wrong),
        })
        .await
    }
}

fn capabilities(
    list: &[proto::VolumeCapability],
) -> Result<(Vec<Capability>, MountOptions), &'static str> {
    let mut options: Option<MountOptions> = None;
    let mut all = vec![];
    for each in list {
        let (capability, mount) = capability(each)?;
        all.push(capability);
        let Some(mount) = mount else { continue };
        if options.get_or_insert_with(|| mount.clone()) != &mount {
            return Err("mount options differ from capability to capability");
        }
    }
    Ok((all, options.unwrap_or_default()))
}

fn capability(
    capability: &proto::VolumeCapability,
) -> Result<(Capability, Option<MountOptions>), &'static str> {
    let mode = capability
        .access_mode
        .as_ref()
        .ok_or("there is no access mode")?;
    let access_mode = convert::access_mode_from(mode.mode()).ok_or("the access mode is unknown")?;
    let (attachment_mode, options) = match &capability.access_type {
        None => return Err("there is no access type"),
        Some(AccessType::Block(_)) => (AttachmentMode::BlockDevice, None),
        Some(AccessType::Mount(mount)) if mount.volume_mount_group.is_empty() => {
            let options = MountOptions {
                fs_type: mount.fs_type.clone(),
                mount_flags: mount.mount_flags.clone(),
            };
            (AttachmentMode::FileSystem, Some(options))
        }
        Some(AccessType::Mount(_)) => return Err("a mount group that was never advertised"),
    };
    let capability = Capability {
        access_mode,
        attachment_mode,
    };
    Ok((capability, options))
}

fn one_capability(
    each: Option<&proto::VolumeCapability>,
) -> Result<(Capability, MountOptions), &'static str> {
    let (capability, options) = capability(each.ok_or("there is no capability")?)?;
    Ok((capability, options.unwrap_or_default()))
}

fn capacity(range: Option<proto::CapacityRange>) -> Result<CapacityRange, &'static str> {
    let Some(range) = range else {
        return Ok(CapacityRange::default());
    };
    let bytes = |bytes| {
        let bytes = u64::try_from(bytes).map_err(|_| "a size is negative")?;
        Bytes::new(bytes).ok_or("a size is too large")
    };
    let range = CapacityRange {
        min: bytes(range.required_bytes)?,
        max: bytes(range.limit_bytes)?,
    };
    if range.is_unset() {
        return Err("an empty capacity range was sent (GH-11238)");
    }
    Ok(range)
}

fn topology(
    requirement: Option<proto::TopologyRequirement>,
) -> Result<Option<TopologyRequest>, &'static str> {
    let Some(requirement) = requirement else {
        return Ok(None);
    };
    let places = |list: Vec<proto::Topology>| {
        let place = |place: proto::Topology| Topology {
            segments: place.segments,
        };
        list.into_iter().map(place).collect()
    };
    let request = TopologyRequest {
        required: places(requirement.requisite),
        preferred: places(requirement.preferred),
    };
    if request.is_empty() {
        return Err("an empty topology requirement was sent (W27)");
    }
    Ok(Some(request))
}

fn source(
    source: Option<proto::VolumeContentSource>,
) -> Result<Option<VolumeSource>, &'static str> {
    use proto::volume_content_source::Type;
    let Some(source) = source else {
        return Ok(None);
    };
    match source.r#type {
        None => Err("an empty content source was sent"),
        Some(Type::Volume(volume)) => Ok(Some(VolumeSource::Volume(volume.volume_id))),
        Some(Type::Snapshot(snapshot)) => Ok(Some(VolumeSource::Snapshot(snapshot.snapshot_id))),
    }
}

fn create(request: proto::CreateVolumeRequest) -> Result<CreateVolume, &'static str> {
    let (capabilities, mount_options) = capabilities(&request.volume_capabilities)?;
    if !request.mutable_parameters.is_empty() {
        return Err("mutable parameters that were never advertised");
    }
    Ok(CreateVolume {
        name: request.name,
        capacity: capacity(request.capacity_range)?,
        capabilities,
        mount_options,
        parameters: request.parameters,
        secrets: Secrets::from_iter(request.secrets),
        source: source(request.volume_content_source)?,
        topology: topology(request.accessibility_requirements)?,
    })
}

fn validate(
    request: proto::ValidateVolumeCapabilitiesRequest,
) -> Result<ValidateVolume, &'static str> {
    let (capabilities, mount_options) = capabilities(&request.volume_capabilities)?;
    Ok(ValidateVolume {
        external_id: ExternalId::new(request.volume_id),
        capabilities,
        mount_options,
        parameters: request.parameters,
        context: request.volume_context,
        secrets: Secrets::from_iter(request.secrets),
    })
}

fn stage(request: proto::NodeStageVolumeRequest) -> Result<StageVolume, &'static str> {
    let (capability, mount_options) = one_capability(request.volume_capability.as_ref())?;
    Ok(StageVolume {
        external_id: ExternalId::new(request.volume_id),
        publish_context: request.publish_context,
        staging_path: request.staging_target_path.into(),
        capability,
        mount_options,
        secrets: Secrets::from_iter(request.secrets),
        context: request.volume_context,
    })
}

fn publish(request: proto::NodePublishVolumeRequest) -> Result<PublishVolume, &'static str> {
    let (capability, mount_options) = one_capability(request.volume_capability.as_ref())?;
    let staging_path = request.staging_target_path;
    Ok(PublishVolume {
        external_id: ExternalId::new(request.volume_id),
        publish_context: request.publish_context,
        staging_path: (!staging_path.is_empty()).then(|| staging_path.into()),
        target_path: request.target_path.into(),
        capability,
        mount_options,
        read_only: request.readonly,
        secrets: Secrets::from_iter(request.secrets),
        context: request.volume_context,
    })
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
        let mut types = vec![
            service::Type::Unknown,
            service::Type::GroupControllerService,
        ];
        if settings.plugin.controller_service {
            types.push(service::Type::ControllerService);
        }
        if settings.plugin.volume_accessibility_constraints {
            types.push(service::Type::VolumeAccessibilityConstraints);
        }
        let capability = |kind: service::Type| proto::PluginCapability {
            r#type: Some(Type::Service(Service {
                r#type: kind.into(),
            })),
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
        // Absent means ready (B57).
        let ready = (!settings.ready).then_some(false);
        Ok(Response::new(proto::ProbeResponse { ready }))
    }
}

impl Service {
    async fn settings(&self, rpc: Rpc) -> Result<nomad_csi::ports::fake::Settings, Status> {
        self.call(rpc, "", |world| Ok(world.settings.clone())).await
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
        let can = settings
            .controller
            .ok_or_else(|| Status::unimplemented("no controller"))?;
        // One that this program does not know, as a later version of CSI would send it.
        let mut types = vec![99];
        for (has, kind) in [
            (can.create_delete_volume, rpc::Type::CreateDeleteVolume),
            (
                can.publish_unpublish_volume,
                rpc::Type::PublishUnpublishVolume,
            ),
            (can.list_volumes, rpc::Type::ListVolumes),
            (can.get_capacity, rpc::Type::GetCapacity),
            (can.create_delete_snapshot, rpc::Type::CreateDeleteSnapshot),
            (can.list_snapshots, rpc::Type::ListSnapshots),
            (can.clone_volume, rpc::Type::CloneVolume),
            (can.publish_readonly, rpc::Type::PublishReadonly),
            (can.expand_volume, rpc::Type::ExpandVolume),
            (
                can.list_volumes_published_nodes,
                rpc::Type::ListVolumesPublishedNodes,
            ),
            (can.volume_condition, rpc::Type::VolumeCondition),
            (can.get_volume, rpc::Type::GetVolume),
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
        let created = self
            .read(Rpc::CreateVolume, &name, create(request), World::create)
            .await?;
        Ok(Response::new(proto::CreateVolumeResponse {
            volume: Some(volume(created)),
        }))
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = ExternalId::new(request.volume_id);
        let secrets = Secrets::from_iter(request.secrets);
        self.call(Rpc::DeleteVolume, id.as_str(), |world| {
            world.delete(&id, &secrets)
        })
        .await?;
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
        self.read(rpc, &id, validate(request), World::validate)
            .await?;
        Ok(Response::new(proto::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(confirmed),
            message: String::new(),
        }))
    }

    async fn list_volumes(
        &self,
        _: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        never()
    }

    async fn get_capacity(
        &self,
        _: Request<proto::GetCapacityRequest>,
    ) -> Result<Response<proto::GetCapacityResponse>, Status> {
        never()
    }

    async fn controller_get_volume(
        &self,
        _: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        never()
    }

    async fn controller_publish_volume(
        &self,
        _: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        never()
    }

    async fn controller_unpublish_volume(
        &self,
        _: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        never()
    }

    async fn create_snapshot(
        &self,
        _: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        never()
    }

    async fn delete_snapshot(
        &self,
        _: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        never()
    }

    async fn list_snapshots(
        &self,
        _: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        never()
    }

    async fn get_snapshot(
        &self,
        _: Request<proto::GetSnapshotRequest>,
    ) -> Result<Response<proto::GetSnapshotResponse>, Status> {
        never()
    }

    async fn controller_expand_volume(
        &self,
        _: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        never()
    }

    async fn controller_modify_volume(
        &self,
        _: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        never()
    }
}

/// The orchestrator has no port for this RPC.
fn never<T>() -> Result<T, Status> {
    Err(Status::unimplemented("the fake does not have this"))
}

#[async_trait]
impl Node for Service {
    async fn node_get_capabilities(
        &self,
        _: Request<proto::NodeGetCapabilitiesRequest>,
    ) -> Result<Response<proto::NodeGetCapabilitiesResponse>, Status> {
        use proto::node_service_capability::{Rpc as Arm, Type, rpc};
        let settings = self.settings(Rpc::NodeGetCapabilities).await?;
        let can = settings
            .node
            .ok_or_else(|| Status::unimplemented("no node"))?;
        let mut types = vec![99];
        for (has, kind) in [
            (can.stage_unstage_volume, rpc::Type::StageUnstageVolume),
            (can.get_volume_stats, rpc::Type::GetVolumeStats),
            (can.expand_volume, rpc::Type::ExpandVolume),
            (can.volume_condition, rpc::Type::VolumeCondition),
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
        let max = description.max_volumes.unwrap_or_default();
        let place = description.accessible_topology;
        Ok(Response::new(proto::NodeGetInfoResponse {
            node_id: description.external_node_id.as_str().to_owned(),
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
        self.read(Rpc::NodeStageVolume, &id, stage(request), World::stage)
            .await?;
        Ok(Response::new(proto::NodeStageVolumeResponse {}))
    }

    async fn node_unstage_volume(
        &self,
        request: Request<proto::NodeUnstageVolumeRequest>,
    ) -> Result<Response<proto::NodeUnstageVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = ExternalId::new(request.volume_id);
        let path = PathBuf::from(request.staging_target_path);
        self.call(Rpc::NodeUnstageVolume, id.as_str(), |world| {
            world.unstage(&id, &path)
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
        self.read(
            Rpc::NodePublishVolume,
            &id,
            publish(request),
            World::publish,
        )
        .await?;
        Ok(Response::new(proto::NodePublishVolumeResponse {}))
    }

    async fn node_unpublish_volume(
        &self,
        request: Request<proto::NodeUnpublishVolumeRequest>,
    ) -> Result<Response<proto::NodeUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = ExternalId::new(request.volume_id);
        let path = PathBuf::from(request.target_path);
        self.call(Rpc::NodeUnpublishVolume, id.as_str(), |world| {
            world.unpublish(&id, &path)
        })
        .await?;
        Ok(Response::new(proto::NodeUnpublishVolumeResponse {}))
    }

    async fn node_get_volume_stats(
        &self,
        _: Request<proto::NodeGetVolumeStatsRequest>,
    ) -> Result<Response<proto::NodeGetVolumeStatsResponse>, Status> {
        never()
    }

    async fn node_expand_volume(
        &self,
        _: Request<proto::NodeExpandVolumeRequest>,
    ) -> Result<Response<proto::NodeExpandVolumeResponse>, Status> {
        never()
    }
}
