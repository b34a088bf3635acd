//! A client of all CSI services with CSI's own messages, and minimal requests.

use std::path::Path;

use nomad_csi_proto as proto;
use nomad_csi_proto::controller_client::ControllerClient;
use nomad_csi_proto::group_controller_client::GroupControllerClient;
use nomad_csi_proto::identity_client::IdentityClient;
use nomad_csi_proto::node_client::NodeClient;
use nomad_csi_proto::snapshot_metadata_client::SnapshotMetadataClient;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_proto::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use tonic::Status;
use tonic::transport::{Channel, Endpoint, Uri};

/// A channel to a socket, which connects at the first call.
pub(crate) fn channel(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(
        move |_: Uri| {
            let socket = socket.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        },
    ))
}

/// The plugin's services, called with CSI's own messages.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) identity: IdentityClient<Channel>,
    pub(crate) controller: ControllerClient<Channel>,
    pub(crate) node: NodeClient<Channel>,
    pub(crate) group: GroupControllerClient<Channel>,
    pub(crate) metadata: SnapshotMetadataClient<Channel>,
}

impl Client {
    pub(crate) fn over(channel: Channel) -> Self {
        Self {
            identity: IdentityClient::new(channel.clone()),
            controller: ControllerClient::new(channel.clone()),
            node: NodeClient::new(channel.clone()),
            group: GroupControllerClient::new(channel.clone()),
            metadata: SnapshotMetadataClient::new(channel),
        }
    }

    /// Creates a volume and returns its ID.
    pub(crate) async fn create(&mut self, name: &str) -> String {
        self.try_create(named(name)).await.expect("the volume is created")
    }

    pub(crate) async fn try_create(
        &mut self,
        request: proto::CreateVolumeRequest,
    ) -> Result<String, Status> {
        let answer = self.controller.create_volume(request).await?;
        Ok(answer.into_inner().volume.expect("a volume").volume_id)
    }

    /// Creates a snapshot and returns it.
    pub(crate) async fn snapshot(
        &mut self,
        name: &str,
        source: &str,
    ) -> Result<proto::Snapshot, Status> {
        let request = proto::CreateSnapshotRequest {
            name: name.to_owned(),
            source_volume_id: source.to_owned(),
            ..Default::default()
        };
        let answer = self.controller.create_snapshot(request).await?;
        Ok(answer.into_inner().snapshot.expect("a snapshot"))
    }

    pub(crate) async fn delete_snapshot(&mut self, id: &str) -> Result<(), Status> {
        let request =
            proto::DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
        self.controller.delete_snapshot(request).await.map(drop)
    }

    /// Expands a volume. Returns its size, and whether the node must act.
    pub(crate) async fn expand(
        &mut self,
        id: &str,
        required_bytes: i64,
    ) -> Result<(i64, bool), Status> {
        let request = proto::ControllerExpandVolumeRequest {
            volume_id: id.to_owned(),
            capacity_range: Some(bytes(required_bytes, 0)),
            ..Default::default()
        };
        let answer = self.controller.controller_expand_volume(request).await?;
        let answer = answer.into_inner();
        Ok((answer.capacity_bytes, answer.node_expansion_required))
    }

    pub(crate) async fn node_expand(&mut self, id: &str, path: &Path) -> Result<i64, Status> {
        let request = proto::NodeExpandVolumeRequest {
            volume_id: id.to_owned(),
            volume_path: text(path),
            ..Default::default()
        };
        let answer = self.node.node_expand_volume(request).await?;
        Ok(answer.into_inner().capacity_bytes)
    }

    pub(crate) async fn delete(&mut self, id: &str) -> Result<(), Status> {
        let request = proto::DeleteVolumeRequest { volume_id: id.to_owned(), ..Default::default() };
        self.controller.delete_volume(request).await.map(drop)
    }

    pub(crate) async fn stage(
        &mut self,
        id: &str,
        path: &Path,
        capability: proto::VolumeCapability,
    ) -> Result<(), Status> {
        let request = proto::NodeStageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: text(path),
            volume_capability: Some(capability),
            ..Default::default()
        };
        self.node.node_stage_volume(request).await.map(drop)
    }

    pub(crate) async fn unstage(&mut self, id: &str, path: &Path) -> Result<(), Status> {
        let request = proto::NodeUnstageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: text(path),
        };
        self.node.node_unstage_volume(request).await.map(drop)
    }

    pub(crate) async fn publish(&mut self, request: Publish<'_>) -> Result<(), Status> {
        let request = proto::NodePublishVolumeRequest {
            volume_id: request.id.to_owned(),
            staging_target_path: text(request.staging),
            target_path: text(request.target),
            volume_capability: Some(request.capability),
            readonly: request.read_only,
            ..Default::default()
        };
        self.node.node_publish_volume(request).await.map(drop)
    }

    pub(crate) async fn unpublish(&mut self, id: &str, path: &Path) -> Result<(), Status> {
        let request =
            proto::NodeUnpublishVolumeRequest { volume_id: id.to_owned(), target_path: text(path) };
        self.node.node_unpublish_volume(request).await.map(drop)
    }

    /// Returns the statuses of a volume that the controller reports.
    pub(crate) async fn health(&mut self, id: &str) -> Result<Vec<Reported>, Status> {
        let request = proto::ControllerGetVolumeHealthRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        let answer = self.controller.controller_get_volume_health(request).await;
        Ok(reported(id, answer?.into_inner().volume_health))
    }

    /// Returns the statuses of a volume that the node reports.
    pub(crate) async fn node_health(&mut self, id: &str) -> Result<Vec<Reported>, Status> {
        let request =
            proto::NodeGetVolumeHealthRequest { volume_id: id.to_owned(), ..Default::default() };
        let answer = self.node.node_get_volume_health(request).await;
        Ok(reported(id, answer?.into_inner().volume_health))
    }

    /// Returns the IDs on one page, and the token of the next page.
    pub(crate) async fn list(
        &mut self,
        max_entries: i32,
        starting_token: &str,
    ) -> Result<(Vec<String>, String), Status> {
        let request =
            proto::ListVolumesRequest { max_entries, starting_token: starting_token.to_owned() };
        let page = self.controller.list_volumes(request).await?.into_inner();
        let id = |entry: proto::list_volumes_response::Entry| entry.volume.unwrap().volume_id;
        Ok((page.entries.into_iter().map(id).collect(), page.next_token))
    }
}

/// A status and its reason.
pub(crate) type Reported = (proto::VolumeHealthErrorType, String);

fn reported(id: &str, health: Option<proto::VolumeHealth>) -> Vec<Reported> {
    let health = health.expect("the health is set");
    assert_eq!(health.volume_id, id);
    let entries = health.health_statuses.into_iter();
    entries.map(|entry| (entry.status(), entry.reason)).collect()
}

/// The arguments of NodePublishVolume.
#[derive(Clone)]
pub(crate) struct Publish<'a> {
    pub(crate) id: &'a str,
    pub(crate) staging: &'a Path,
    pub(crate) target: &'a Path,
    pub(crate) capability: proto::VolumeCapability,
    pub(crate) read_only: bool,
}

fn text(path: &Path) -> String {
    path.to_str().expect("test paths are Unicode").to_owned()
}

/// A minimal CreateVolume request.
pub(crate) fn named(name: &str) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: vec![mount(Mode::SingleNodeWriter, &[])],
        ..Default::default()
    }
}

/// A capacity range.
pub(crate) fn bytes(required_bytes: i64, limit_bytes: i64) -> proto::CapacityRange {
    proto::CapacityRange { required_bytes, limit_bytes }
}

/// A CreateVolume request with this size.
pub(crate) fn sized(name: &str, required_bytes: i64) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest { capacity_range: Some(bytes(required_bytes, 0)), ..named(name) }
}

/// A capability for a block device.
pub(crate) fn block(mode: Mode) -> proto::VolumeCapability {
    proto::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Block(BlockVolume {})),
    }
}

/// The content source for a clone of a volume.
pub(crate) fn clone_of(volume_id: &str) -> Option<proto::VolumeContentSource> {
    use proto::volume_content_source::{Type, VolumeSource};
    let volume_id = volume_id.to_owned();
    Some(proto::VolumeContentSource { r#type: Some(Type::Volume(VolumeSource { volume_id })) })
}

/// The content source for the restore of a snapshot.
pub(crate) fn restore_of(snapshot_id: &str) -> Option<proto::VolumeContentSource> {
    use proto::volume_content_source::{SnapshotSource, Type};
    let snapshot_id = snapshot_id.to_owned();
    Some(proto::VolumeContentSource {
        r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id })),
    })
}

/// A capability for any file system, with this access mode and these flags.
pub(crate) fn mount(mode: Mode, flags: &[&str]) -> proto::VolumeCapability {
    proto::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume {
            mount_flags: flags.iter().map(ToString::to_string).collect(),
            ..Default::default()
        })),
    }
}
