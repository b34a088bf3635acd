//! The resources that a check has created or may have created: pure.
//!
//! A call is tracked before it is sent, and its response resolves the entry. A failure removes the
//! entry if its code proves that nothing was created; a success replaces it with the resource; the
//! opposite call removes that. A CreateVolume of unknown outcome is undone by the same CreateVolume
//! and a DeleteVolume (CSI section "Timeouts"). The clean-up removes targets, stagings and
//! attachments first, then volumes and snapshots from the newest, because they depend on older ones.

use std::path::PathBuf;

use nomad_csi_csi::{CallFailure, CsiRequest, FailureKind};
use nomad_csi_ports::StatusCode;
use nomad_csi_proto::{
    self as proto, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest,
    CreateSnapshotRequest, CreateVolumeGroupSnapshotRequest, CreateVolumeRequest,
    DeleteSnapshotRequest, DeleteVolumeGroupSnapshotRequest, DeleteVolumeRequest,
    NodePublishVolumeRequest, NodeStageVolumeRequest, NodeUnpublishVolumeRequest,
    NodeUnstageVolumeRequest,
};

/// Something that a call created or may have created.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Resource {
    /// A directory that the checks created.
    Directory(PathBuf),
    /// A volume whose ID is unknown.
    VolumeWithoutId(Box<CreateVolumeRequest>),
    /// A volume.
    Volume(String),
    /// A snapshot whose ID is unknown.
    SnapshotWithoutId(Box<CreateSnapshotRequest>),
    /// A snapshot.
    Snapshot(String),
    /// A group snapshot whose ID is unknown.
    GroupWithoutId(Box<CreateVolumeGroupSnapshotRequest>),
    /// A group snapshot and its members.
    Group { id: String, members: Vec<String> },
    /// A volume attached to a node.
    Attachment { volume: String, node: String },
    /// A volume staged at a path.
    Staging { volume: String, path: String },
    /// A volume published at a path.
    Target { volume: String, path: String },
}

impl Resource {
    /// The position in the clean-up; lower values are removed first.
    fn cleanup_order(&self) -> u8 {
        match self {
            Self::Target { .. } => 0,
            Self::Staging { .. } => 1,
            Self::Attachment { .. } => 2,
            Self::VolumeWithoutId(_)
            | Self::Volume(_)
            | Self::SnapshotWithoutId(_)
            | Self::Snapshot(_)
            | Self::GroupWithoutId(_)
            | Self::Group { .. } => 3,
            Self::Directory(_) => 4,
        }
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::VolumeWithoutId(request) => write!(f, "volume with the name {:?}", request.name),
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::SnapshotWithoutId(request) => {
                write!(f, "snapshot with the name {:?}", request.name)
            }
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
            Self::GroupWithoutId(request) => {
                write!(f, "group snapshot with the name {:?}", request.name)
            }
            Self::Group { id, .. } => write!(f, "group snapshot {id}"),
            Self::Attachment { volume, node } => {
                write!(f, "volume {volume} attached to node {node}")
            }
            Self::Staging { volume, path } => write!(f, "volume {volume} staged at {path}"),
            Self::Target { volume, path } => write!(f, "volume {volume} published at {path}"),
        }
    }
}

/// The change that a successful response makes.
pub(super) enum ResourceChange {
    /// The call created nothing.
    Nothing,
    /// The call created a resource, but the response has no ID.
    CreatedWithoutId,
    /// The resource exists.
    Exists(Resource),
    /// The resource is gone.
    Removed(Resource),
}

/// A request whose effect on resources is known.
pub(super) trait TrackedCall: CsiRequest {
    /// Returns the resource that may exist once the request is sent.
    fn may_create(&self) -> Option<Resource> {
        None
    }

    /// Returns what a successful response changes.
    fn resource_change(&self, _answer: &Self::Response) -> ResourceChange {
        ResourceChange::Nothing
    }
}

/// The resources that exist or may exist, in the order of their creation.
#[derive(Debug, Default)]
pub(super) struct ResourceTracker {
    entries: Vec<(u64, Resource)>,
    next_id: u64,
}

/// The entry of a call in progress.
pub(super) struct PendingEntry(Option<u64>);

impl ResourceTracker {
    /// Adds the resource that a call may create. Call this before sending.
    pub(super) fn track(&mut self, request: &impl TrackedCall) -> PendingEntry {
        PendingEntry(request.may_create().map(|resource| self.add(resource)))
    }

    /// Adds an existing resource.
    pub(super) fn add(&mut self, resource: Resource) -> u64 {
        self.next_id += 1;
        self.entries.push((self.next_id, resource));
        self.next_id
    }

    /// Resolves the entry of a call by its response.
    pub(super) fn resolve<C: TrackedCall>(
        &mut self,
        entry: &PendingEntry,
        request: &C,
        response: &Result<C::Response, CallFailure>,
    ) {
        match response {
            Ok(response) => match request.resource_change(response) {
                ResourceChange::CreatedWithoutId => {}
                ResourceChange::Nothing => self.drop_pending(entry),
                ResourceChange::Exists(resource) => {
                    self.drop_pending(entry);
                    if !self.entries.iter().any(|(_, one)| *one == resource) {
                        self.add(resource);
                    }
                }
                ResourceChange::Removed(resource) => self.remove(&resource),
            },
            Err(failure) if created_nothing(failure) => self.drop_pending(entry),
            Err(_) => {}
        }
    }

    fn drop_pending(&mut self, entry: &PendingEntry) {
        self.entries.retain(|(id, _)| Some(*id) != entry.0);
    }

    /// Removes a resource that no longer exists.
    pub(super) fn remove(&mut self, resource: &Resource) {
        self.entries.retain(|(_, one)| match (one, resource) {
            (Resource::Group { id: one, .. }, Resource::Group { id, .. }) => one != id,
            // ControllerUnpublishVolume without a node ID detaches from every node.
            (
                Resource::Attachment { volume: one, node: at },
                Resource::Attachment { volume, node },
            ) => one != volume || !(node.is_empty() || at == node),
            (one, resource) => one != resource,
        });
    }

    /// Takes all resources in the order in which to remove them.
    pub(super) fn take_in_cleanup_order(&mut self) -> Vec<Resource> {
        let mut entries = std::mem::take(&mut self.entries);
        entries.reverse();
        entries.sort_by_key(|(_, resource)| resource.cleanup_order());
        entries.into_iter().map(|(_, resource)| resource).collect()
    }
}

/// Returns whether a failed call certainly created nothing. Codes such as INTERNAL leave that open (CSI,
/// "Error Scheme").
fn created_nothing(failure: &CallFailure) -> bool {
    // The request was not sent.
    if matches!(failure.kind, FailureKind::NotConnected(_)) {
        return true;
    }
    match failure.code() {
        None
        | Some(
            StatusCode::Cancelled
            | StatusCode::Unknown
            | StatusCode::DeadlineExceeded
            | StatusCode::Aborted
            | StatusCode::Internal
            | StatusCode::Unavailable
            | StatusCode::DataLoss,
        ) => false,
        Some(
            StatusCode::Ok
            | StatusCode::InvalidArgument
            | StatusCode::NotFound
            | StatusCode::AlreadyExists
            | StatusCode::PermissionDenied
            | StatusCode::ResourceExhausted
            | StatusCode::FailedPrecondition
            | StatusCode::OutOfRange
            | StatusCode::Unimplemented
            | StatusCode::Unauthenticated,
        ) => true,
    }
}

macro_rules! creates_nothing {
    ($($request:ident)*) => { $(impl TrackedCall for proto::$request {})* };
}

creates_nothing! {
    GetPluginInfoRequest GetPluginCapabilitiesRequest ProbeRequest
    ValidateVolumeCapabilitiesRequest ListVolumesRequest GetCapacityRequest
    ControllerGetCapabilitiesRequest ListSnapshotsRequest GetSnapshotRequest
    ControllerExpandVolumeRequest ControllerGetVolumeRequest ControllerModifyVolumeRequest
    GroupControllerGetCapabilitiesRequest GetVolumeGroupSnapshotRequest
    GetMetadataAllocatedRequest GetMetadataDeltaRequest
    ControllerGetVolumeHealthRequest ControllerListVolumeHealthRequest
    NodeGetVolumeHealthRequest NodeGetStorageHealthRequest
    NodeGetVolumeStatsRequest NodeExpandVolumeRequest NodeGetCapabilitiesRequest NodeGetInfoRequest
}

impl TrackedCall for CreateVolumeRequest {
    fn may_create(&self) -> Option<Resource> {
        Some(Resource::VolumeWithoutId(Box::new(self.clone())))
    }

    fn resource_change(&self, response: &Self::Response) -> ResourceChange {
        match &response.volume {
            Some(volume) if !volume.volume_id.is_empty() => {
                ResourceChange::Exists(Resource::Volume(volume.volume_id.clone()))
            }
            Some(_) | None => ResourceChange::CreatedWithoutId,
        }
    }
}

impl TrackedCall for DeleteVolumeRequest {
    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Removed(Resource::Volume(self.volume_id.clone()))
    }
}

impl TrackedCall for CreateSnapshotRequest {
    fn may_create(&self) -> Option<Resource> {
        Some(Resource::SnapshotWithoutId(Box::new(self.clone())))
    }

    fn resource_change(&self, response: &Self::Response) -> ResourceChange {
        match &response.snapshot {
            Some(snapshot) if !snapshot.snapshot_id.is_empty() => {
                ResourceChange::Exists(Resource::Snapshot(snapshot.snapshot_id.clone()))
            }
            Some(_) | None => ResourceChange::CreatedWithoutId,
        }
    }
}

impl TrackedCall for DeleteSnapshotRequest {
    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Removed(Resource::Snapshot(self.snapshot_id.clone()))
    }
}

impl TrackedCall for CreateVolumeGroupSnapshotRequest {
    fn may_create(&self) -> Option<Resource> {
        Some(Resource::GroupWithoutId(Box::new(self.clone())))
    }

    fn resource_change(&self, response: &Self::Response) -> ResourceChange {
        match &response.group_snapshot {
            Some(group) if !group.group_snapshot_id.is_empty() => {
                ResourceChange::Exists(Resource::Group {
                    id: group.group_snapshot_id.clone(),
                    members: group
                        .snapshots
                        .iter()
                        .map(|snapshot| snapshot.snapshot_id.clone())
                        .collect(),
                })
            }
            Some(_) | None => ResourceChange::CreatedWithoutId,
        }
    }
}

impl TrackedCall for DeleteVolumeGroupSnapshotRequest {
    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Removed(Resource::Group {
            id: self.group_snapshot_id.clone(),
            members: vec![],
        })
    }
}

impl TrackedCall for ControllerPublishVolumeRequest {
    fn may_create(&self) -> Option<Resource> {
        Some(Resource::Attachment { volume: self.volume_id.clone(), node: self.node_id.clone() })
    }

    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Exists(Resource::Attachment {
            volume: self.volume_id.clone(),
            node: self.node_id.clone(),
        })
    }
}

impl TrackedCall for ControllerUnpublishVolumeRequest {
    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Removed(Resource::Attachment {
            volume: self.volume_id.clone(),
            node: self.node_id.clone(),
        })
    }
}

impl TrackedCall for NodeStageVolumeRequest {
    fn may_create(&self) -> Option<Resource> {
        Some(Resource::Staging {
            volume: self.volume_id.clone(),
            path: self.staging_target_path.clone(),
        })
    }

    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Exists(Resource::Staging {
            volume: self.volume_id.clone(),
            path: self.staging_target_path.clone(),
        })
    }
}

impl TrackedCall for NodeUnstageVolumeRequest {
    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Removed(Resource::Staging {
            volume: self.volume_id.clone(),
            path: self.staging_target_path.clone(),
        })
    }
}

impl TrackedCall for NodePublishVolumeRequest {
    fn may_create(&self) -> Option<Resource> {
        Some(Resource::Target { volume: self.volume_id.clone(), path: self.target_path.clone() })
    }

    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Exists(Resource::Target {
            volume: self.volume_id.clone(),
            path: self.target_path.clone(),
        })
    }
}

impl TrackedCall for NodeUnpublishVolumeRequest {
    fn resource_change(&self, _: &Self::Response) -> ResourceChange {
        ResourceChange::Removed(Resource::Target {
            volume: self.volume_id.clone(),
            path: self.target_path.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_proto::{CreateVolumeResponse, Volume};

    fn create(name: &str) -> CreateVolumeRequest {
        CreateVolumeRequest { name: name.to_owned(), ..Default::default() }
    }

    fn created(id: &str) -> Result<CreateVolumeResponse, CallFailure> {
        Ok(CreateVolumeResponse {
            volume: Some(Volume { volume_id: id.to_owned(), ..Default::default() }),
        })
    }

    fn failed(reached: FailureKind) -> Result<CreateVolumeResponse, CallFailure> {
        Err(CallFailure {
            kind: reached,
            message: String::new(),
            repeats_secret: false,
            has_details: false,
        })
    }

    fn after(response: &Result<CreateVolumeResponse, CallFailure>) -> Vec<Resource> {
        let mut tracker = ResourceTracker::default();
        let request = create("a");
        let entry = tracker.track(&request);
        tracker.resolve(&entry, &request, response);
        tracker.take_in_cleanup_order()
    }

    #[test]
    fn a_refused_call_leaves_no_entry_and_an_unknown_outcome_leaves_the_name() {
        let name = vec![Resource::VolumeWithoutId(Box::new(create("a")))];
        for (response, expected) in [
            (created("v"), vec![Resource::Volume("v".into())]),
            (failed(FailureKind::Answered(StatusCode::AlreadyExists)), vec![]),
            (failed(FailureKind::Answered(StatusCode::Internal)), name.clone()),
            (failed(FailureKind::TimedOut), name.clone()),
            (failed(FailureKind::ConnectionLost), name.clone()),
            (failed(FailureKind::NotConnected(None)), vec![]),
        ] {
            assert_eq!(after(&response), expected, "{response:?}");
        }
    }

    #[test]
    fn a_call_without_a_response_keeps_its_entry() {
        let mut tracker = ResourceTracker::default();
        let _never_settled = tracker.track(&create("a"));
        assert_eq!(
            tracker.take_in_cleanup_order(),
            [Resource::VolumeWithoutId(Box::new(create("a")))]
        );
    }

    #[test]
    fn a_volume_created_twice_is_one_entry_and_a_deleted_one_is_none() {
        let mut tracker = ResourceTracker::default();
        for _ in 0..2 {
            let entry = tracker.track(&create("a"));
            tracker.resolve(&entry, &create("a"), &created("v"));
        }
        assert_eq!(tracker.entries.len(), 1);
        let delete = DeleteVolumeRequest { volume_id: "v".into(), ..Default::default() };
        let entry = tracker.track(&delete);
        tracker.resolve(&entry, &delete, &Ok(proto::DeleteVolumeResponse {}));
        assert_eq!(tracker.take_in_cleanup_order(), []);
    }

    #[test]
    fn dependent_resources_are_removed_first() {
        let mut tracker = ResourceTracker::default();
        let staging = Resource::Staging { volume: "v".into(), path: "/s".into() };
        let target = Resource::Target { volume: "v".into(), path: "/t".into() };
        let order = [
            Resource::Directory("/d".into()),
            Resource::Volume("v".into()),
            staging.clone(),
            Resource::Snapshot("s".into()),
            target.clone(),
            Resource::Volume("restored".into()),
        ];
        for resource in order {
            tracker.add(resource);
        }
        assert_eq!(
            tracker.take_in_cleanup_order(),
            [
                target,
                staging,
                Resource::Volume("restored".into()),
                Resource::Snapshot("s".into()),
                Resource::Volume("v".into()),
                Resource::Directory("/d".into()),
            ]
        );
    }
}
