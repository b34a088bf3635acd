//! The CSI RPCs, in the types of the model.
//!
//! `csi` implements these traits over gRPC, `testing` in memory. An implementation makes exactly
//! one attempt per call, under its own deadline, and classifies a failure with a [`Verdict`].
//! `server::repeated_call` decides about retries. Field names and rules are those of CSI 1.13.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;

use super::attachment::{ControllerPublishVolume, ControllerUnpublishVolume, NodeExpandVolume};
use super::capacity::GetCapacity;
use super::health::{ListVolumeHealth, ListedHealth, NodeVolumeHealth};
use super::stats::NodeVolumeStats;
use super::storage::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, ModifyVolume, Page, PageRequest,
};
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{
    Bytes, Capability, Capacity, CapacityRange, ControllerCapabilities, ExternalId, ExternalNodeId,
    ExternalVolume, MountOptions, NodeCapabilities, PublishContext, Secrets, Snapshot, SnapshotId,
    StorageStatus, Topology, TopologyRequest, VolumeStats, VolumeStatus,
};

/// Every RPC that this program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rpc {
    /// Identity service.
    GetPluginInfo,
    /// Identity service.
    GetPluginCapabilities,
    /// Identity service.
    Probe,
    /// Controller service.
    ControllerGetCapabilities,
    /// Controller service.
    CreateVolume,
    /// Controller service.
    DeleteVolume,
    /// Controller service.
    ValidateVolumeCapabilities,
    /// Controller service.
    ListVolumes,
    /// Controller service.
    GetCapacity,
    /// Controller service.
    CreateSnapshot,
    /// Controller service.
    DeleteSnapshot,
    /// Controller service.
    ListSnapshots,
    /// Controller service.
    ControllerExpandVolume,
    /// Controller service; since CSI 1.9.
    ControllerModifyVolume,
    /// Controller service.
    ControllerPublishVolume,
    /// Controller service.
    ControllerUnpublishVolume,
    /// Controller service; since CSI 1.13.
    ControllerGetVolumeHealth,
    /// Controller service; since CSI 1.13.
    ControllerListVolumeHealth,
    /// Node service.
    NodeGetCapabilities,
    /// Node service.
    NodeGetInfo,
    /// Node service.
    NodeStageVolume,
    /// Node service.
    NodeUnstageVolume,
    /// Node service.
    NodePublishVolume,
    /// Node service.
    NodeUnpublishVolume,
    /// Node service.
    NodeExpandVolume,
    /// Node service.
    NodeGetVolumeStats,
    /// Node service; since CSI 1.13.
    NodeGetVolumeHealth,
    /// Node service; since CSI 1.13.
    NodeGetStorageHealth,
}

impl Rpc {
    /// All RPCs.
    pub const ALL: [Self; 28] = [
        Self::GetPluginInfo,
        Self::GetPluginCapabilities,
        Self::Probe,
        Self::ControllerGetCapabilities,
        Self::CreateVolume,
        Self::DeleteVolume,
        Self::ValidateVolumeCapabilities,
        Self::ListVolumes,
        Self::GetCapacity,
        Self::CreateSnapshot,
        Self::DeleteSnapshot,
        Self::ListSnapshots,
        Self::ControllerExpandVolume,
        Self::ControllerModifyVolume,
        Self::ControllerPublishVolume,
        Self::ControllerUnpublishVolume,
        Self::ControllerGetVolumeHealth,
        Self::ControllerListVolumeHealth,
        Self::NodeGetCapabilities,
        Self::NodeGetInfo,
        Self::NodeStageVolume,
        Self::NodeUnstageVolume,
        Self::NodePublishVolume,
        Self::NodeUnpublishVolume,
        Self::NodeExpandVolume,
        Self::NodeGetVolumeStats,
        Self::NodeGetVolumeHealth,
        Self::NodeGetStorageHealth,
    ];

    /// Returns the name in the CSI specification.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GetPluginInfo => "GetPluginInfo",
            Self::GetPluginCapabilities => "GetPluginCapabilities",
            Self::Probe => "Probe",
            Self::ControllerGetCapabilities => "ControllerGetCapabilities",
            Self::CreateVolume => "CreateVolume",
            Self::DeleteVolume => "DeleteVolume",
            Self::ValidateVolumeCapabilities => "ValidateVolumeCapabilities",
            Self::ListVolumes => "ListVolumes",
            Self::GetCapacity => "GetCapacity",
            Self::CreateSnapshot => "CreateSnapshot",
            Self::DeleteSnapshot => "DeleteSnapshot",
            Self::ListSnapshots => "ListSnapshots",
            Self::ControllerExpandVolume => "ControllerExpandVolume",
            Self::ControllerModifyVolume => "ControllerModifyVolume",
            Self::ControllerPublishVolume => "ControllerPublishVolume",
            Self::ControllerUnpublishVolume => "ControllerUnpublishVolume",
            Self::NodeGetCapabilities => "NodeGetCapabilities",
            Self::NodeGetInfo => "NodeGetInfo",
            Self::NodeStageVolume => "NodeStageVolume",
            Self::NodeUnstageVolume => "NodeUnstageVolume",
            Self::NodePublishVolume => "NodePublishVolume",
            Self::NodeUnpublishVolume => "NodeUnpublishVolume",
            Self::NodeExpandVolume => "NodeExpandVolume",
            Self::NodeGetVolumeStats => "NodeGetVolumeStats",
            Self::NodeGetVolumeHealth => "NodeGetVolumeHealth",
            Self::NodeGetStorageHealth => "NodeGetStorageHealth",
            Self::ControllerGetVolumeHealth => "ControllerGetVolumeHealth",
            Self::ControllerListVolumeHealth => "ControllerListVolumeHealth",
        }
    }
}

impl Rpc {
    /// Returns the method of gRPC: `/csi.v1.Node/NodeStageVolume`.
    pub fn method(self) -> String {
        let service = match self {
            Self::GetPluginInfo | Self::GetPluginCapabilities | Self::Probe => "Identity",
            other if other.as_str().starts_with("Node") => "Node",
            _ => "Controller",
        };
        format!("/csi.v1.{service}/{self}")
    }
}

impl std::fmt::Display for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The status codes of gRPC, without a dependency on gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "gRPC defines these codes")]
pub enum StatusCode {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl StatusCode {
    /// All codes.
    pub const ALL: [Self; 17] = [
        Self::Ok,
        Self::Cancelled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Returns the name as the CSI specification writes it: `FAILED_PRECONDITION`.
    pub const fn as_spec(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "CANCELLED",
            Self::Unknown => "UNKNOWN",
            Self::InvalidArgument => "INVALID_ARGUMENT",
            Self::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::ResourceExhausted => "RESOURCE_EXHAUSTED",
            Self::FailedPrecondition => "FAILED_PRECONDITION",
            Self::Aborted => "ABORTED",
            Self::OutOfRange => "OUT_OF_RANGE",
            Self::Unimplemented => "UNIMPLEMENTED",
            Self::Internal => "INTERNAL",
            Self::Unavailable => "UNAVAILABLE",
            Self::DataLoss => "DATA_LOSS",
            Self::Unauthenticated => "UNAUTHENTICATED",
        }
    }

    /// Returns the name as gRPC and Nomad print it: `FailedPrecondition`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "Canceled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::AlreadyExists => "AlreadyExists",
            Self::PermissionDenied => "PermissionDenied",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::FailedPrecondition => "FailedPrecondition",
            Self::Aborted => "Aborted",
            Self::OutOfRange => "OutOfRange",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
            Self::DataLoss => "DataLoss",
            Self::Unauthenticated => "Unauthenticated",
        }
    }
}

/// A plugin call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rpc} failed with {}: {message}", code.as_str())]
pub struct PluginError {
    /// The RPC.
    pub rpc: Rpc,
    /// The plugin's status code, or the code that stands for the connection's failure.
    pub code: StatusCode,
    /// The consequence for the caller.
    pub verdict: Verdict,
    /// The plugin's message. CSI forbids secrets in it, so it can be shown.
    pub message: String,
    /// How far the call came.
    pub delivery: Delivery,
}

/// How far a failed call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The plugin never got it.
    NotSent,
    /// The connection broke, or the time limit passed: the plugin may still work on it.
    Unanswered,
    /// The plugin answered.
    Answered,
}

/// The response of GetPluginInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// The plugin's name in reverse-domain notation; never empty.
    pub name: String,
    /// The plugin's version, opaque.
    pub vendor_version: String,
}

/// The plugin capabilities that this program uses (GetPluginCapabilities).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginCapabilities {
    /// CONTROLLER_SERVICE.
    pub controller_service: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub volume_accessibility_constraints: bool,
}

/// The response of NodeGetInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// The `node_id` for ControllerPublishVolume.
    pub external_node_id: ExternalNodeId,
    /// The maximum number of volumes; `None` if the plugin reports no limit (0 on the wire).
    pub max_volumes: Option<u64>,
    /// The topology of the node.
    pub accessible_topology: Option<Topology>,
}

/// The request of CreateVolume. The name is the idempotency key: one name is one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateVolume {
    /// The idempotency key, at most 128 bytes.
    pub name: String,
    /// The requested size; not sent if unset, because some plugins refuse a zero (Nomad GH-11238).
    pub capacity: CapacityRange,
    /// The capabilities, at least one.
    pub capabilities: Vec<Capability>,
    /// Sent with every file-system capability.
    pub mount_options: MountOptions,
    /// The provider's parameters, opaque.
    pub parameters: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
    /// The source of the content.
    pub source: Option<VolumeSource>,
    /// Not sent if empty, or if the plugin does not support topologies (W27).
    pub topology: Option<TopologyRequest>,
}

/// The source of a new volume's content, by the provider's ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// Clones a volume.
    Volume(String),
    /// Restores a snapshot.
    Snapshot(String),
}

/// The response of CreateVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The size; zero if unknown.
    pub capacity: Bytes,
    /// The volume context, opaque; later calls send it back.
    pub context: BTreeMap<String, String>,
    /// Where the volume is accessible; empty if everywhere.
    pub topologies: Vec<Topology>,
}

/// The request of ValidateVolumeCapabilities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The capabilities, at least one.
    pub capabilities: Vec<Capability>,
    /// Sent with every file-system capability.
    pub mount_options: MountOptions,
    /// The same parameters as at creation.
    pub parameters: BTreeMap<String, String>,
    /// The volume context.
    pub context: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// The request of NodeStageVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The publish context from ControllerPublishVolume.
    pub publish_context: BTreeMap<String, String>,
    /// An existing directory, one per volume and node.
    pub staging_path: PathBuf,
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
    /// The provider's secrets.
    pub secrets: Secrets,
    /// The volume context.
    pub context: BTreeMap<String, String>,
}

/// The request of NodePublishVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The publish context from ControllerPublishVolume.
    pub publish_context: BTreeMap<String, String>,
    /// The staging path, if the plugin stages volumes.
    pub staging_path: Option<PathBuf>,
    /// The path that the plugin creates; its parent exists.
    pub target_path: PathBuf,
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
    /// True if the target refuses writes.
    pub read_only: bool,
    /// The provider's secrets.
    pub secrets: Secrets,
    /// The volume context.
    pub context: BTreeMap<String, String>,
}

/// The Identity service of CSI.
#[async_trait]
pub trait Identity: Send + Sync {
    /// GetPluginInfo. An empty name is an error.
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError>;
    /// GetPluginCapabilities.
    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError>;
    /// Probe: whether the plugin is ready. A response without a value means ready (CSI, "Probe").
    async fn probe(&self) -> Result<bool, PluginError>;
}

/// The Controller service of CSI.
#[async_trait]
pub trait Controller: Send + Sync {
    /// ControllerGetCapabilities.
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError>;
    /// CreateVolume.
    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError>;
    /// DeleteVolume. Succeeds if the volume does not exist.
    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError>;
    /// ValidateVolumeCapabilities. Succeeds if the plugin confirms every capability, or gives no
    /// answer. Fails with `Permanent` and all reasons if the confirmation is incomplete.
    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError>;
    /// ListVolumes: one page of all volumes of the provider, registered or not.
    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError>;
    /// GetCapacity: what the provider has left for volumes like this.
    async fn get_capacity(&self, request: GetCapacity) -> Result<Capacity, PluginError>;
    /// CreateSnapshot. Returns after the snapshot is created; it may not be ready to use yet.
    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError>;
    /// DeleteSnapshot. Succeeds if the snapshot does not exist.
    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError>;
    /// ListSnapshots.
    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError>;
    /// ControllerExpandVolume. Succeeds if the volume is already large enough.
    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError>;
    /// ControllerModifyVolume: changes the named mutable parameters. A refusal as invalid has changed none.
    async fn modify_volume(&self, request: ModifyVolume) -> Result<(), PluginError>;
    /// ControllerPublishVolume. Returns the publish context unchanged.
    async fn controller_publish_volume(
        &self,
        request: ControllerPublishVolume,
    ) -> Result<PublishContext, PluginError>;
    /// ControllerUnpublishVolume. Succeeds if the volume is not attached to the node.
    async fn controller_unpublish_volume(
        &self,
        request: ControllerUnpublishVolume,
    ) -> Result<(), PluginError>;
    /// ControllerGetVolumeHealth: the adverse conditions of one volume.
    async fn volume_health(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<Vec<VolumeStatus>, PluginError>;
    /// ControllerListVolumeHealth: one page of the volumes with an adverse condition.
    async fn list_volume_health(
        &self,
        request: ListVolumeHealth,
    ) -> Result<Page<ListedHealth>, PluginError>;
}

/// The Node service of CSI.
#[async_trait]
pub trait NodeService: Send + Sync {
    /// NodeGetCapabilities.
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError>;
    /// NodeGetInfo. An empty node ID is an error.
    async fn node_info(&self) -> Result<NodeDescription, PluginError>;
    /// NodeStageVolume.
    async fn stage_volume(&self, request: StageVolume) -> Result<(), PluginError>;
    /// NodeUnstageVolume. Succeeds if the volume is not staged.
    async fn unstage_volume(
        &self,
        external_id: ExternalId,
        staging_path: PathBuf,
    ) -> Result<(), PluginError>;
    /// NodePublishVolume.
    async fn publish_volume(&self, request: PublishVolume) -> Result<(), PluginError>;
    /// NodeUnpublishVolume. Succeeds if the volume is not published.
    async fn unpublish_volume(
        &self,
        external_id: ExternalId,
        target_path: PathBuf,
    ) -> Result<(), PluginError>;
    /// NodeExpandVolume. Returns the size; zero if the plugin does not report it.
    async fn node_expand_volume(&self, request: NodeExpandVolume) -> Result<Bytes, PluginError>;
    /// NodeGetVolumeStats: how much a volume has of bytes and inodes on this node.
    async fn node_volume_stats(&self, request: NodeVolumeStats)
    -> Result<VolumeStats, PluginError>;
    /// NodeGetVolumeHealth: the adverse conditions of a volume on this node.
    async fn node_volume_health(
        &self,
        request: NodeVolumeHealth,
    ) -> Result<Vec<VolumeStatus>, PluginError>;
    /// NodeGetStorageHealth: the adverse conditions of the storage, as this node sees it.
    async fn storage_health(&self, secrets: Secrets) -> Result<Vec<StorageStatus>, PluginError>;
}
