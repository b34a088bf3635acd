//! The CSI RPCs in the model's words.
//!
//! `csi` implements these over gRPC, `ports::fake` over a world in memory. An implementation makes
//! exactly one attempt per call, under its own deadline, and says with a [`Verdict`] what a failure
//! means; repeating is the caller's decision (`server::forward`). Field names and rules are those
//! of CSI 1.12, section numbers those of `csi-spec`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;

use super::storage::{
    CreateSnapshot, ExpandVolume, ExpandedVolume, ListSnapshots, Page, PageRequest,
};
use crate::model::{
    Bytes, Capability, CapacityRange, ControllerCapabilities, ExternalId, ExternalNodeId,
    ExternalVolume, MountOptions, NodeCapabilities, Secrets, Snapshot, SnapshotId, Topology,
    TopologyRequest,
};
use crate::retry::Verdict;

/// Every RPC that this program sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rpc {
    /// Identity.
    GetPluginInfo,
    /// Identity.
    GetPluginCapabilities,
    /// Identity.
    Probe,
    /// Controller.
    ControllerGetCapabilities,
    /// Controller.
    CreateVolume,
    /// Controller.
    DeleteVolume,
    /// Controller.
    ValidateVolumeCapabilities,
    /// Controller.
    ListVolumes,
    /// Controller.
    CreateSnapshot,
    /// Controller.
    DeleteSnapshot,
    /// Controller.
    ListSnapshots,
    /// Controller.
    ControllerExpandVolume,
    /// Node.
    NodeGetCapabilities,
    /// Node.
    NodeGetInfo,
    /// Node.
    NodeStageVolume,
    /// Node.
    NodeUnstageVolume,
    /// Node.
    NodePublishVolume,
    /// Node.
    NodeUnpublishVolume,
}

impl Rpc {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::GetPluginInfo,
        Self::GetPluginCapabilities,
        Self::Probe,
        Self::ControllerGetCapabilities,
        Self::CreateVolume,
        Self::DeleteVolume,
        Self::ValidateVolumeCapabilities,
        Self::ListVolumes,
        Self::CreateSnapshot,
        Self::DeleteSnapshot,
        Self::ListSnapshots,
        Self::ControllerExpandVolume,
        Self::NodeGetCapabilities,
        Self::NodeGetInfo,
        Self::NodeStageVolume,
        Self::NodeUnstageVolume,
        Self::NodePublishVolume,
        Self::NodeUnpublishVolume,
    ];

    /// The specification's name.
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
            Self::CreateSnapshot => "CreateSnapshot",
            Self::DeleteSnapshot => "DeleteSnapshot",
            Self::ListSnapshots => "ListSnapshots",
            Self::ControllerExpandVolume => "ControllerExpandVolume",
            Self::NodeGetCapabilities => "NodeGetCapabilities",
            Self::NodeGetInfo => "NodeGetInfo",
            Self::NodeStageVolume => "NodeStageVolume",
            Self::NodeUnstageVolume => "NodeUnstageVolume",
            Self::NodePublishVolume => "NodePublishVolume",
            Self::NodeUnpublishVolume => "NodeUnpublishVolume",
        }
    }
}

impl std::fmt::Display for Rpc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// gRPC's status codes, by name, so that the core need not know gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "gRPC's own names, defined by gRPC")]
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
    /// All of them.
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

    /// As the specification writes it: `FAILED_PRECONDITION`.
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

    /// As gRPC's error texts and Nomad's show it: `FailedPrecondition`.
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

/// One call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rpc} failed with {}: {message}", code.as_str())]
pub struct PluginError {
    /// The call.
    pub rpc: Rpc,
    /// What the plugin answered, or what the connection's failure counts as.
    pub code: StatusCode,
    /// What that means for the caller.
    pub verdict: Verdict,
    /// The plugin's own words. They may be shown to people; by the specification they hold no secret.
    pub message: String,
}

/// GetPluginInfo (section 5.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginInfo {
    /// The provider's reverse-domain name; never empty (B58).
    pub name: String,
    /// Opaque.
    pub vendor_version: String,
}

/// GetPluginCapabilities (section 2.2), as far as this program acts on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginCapabilities {
    /// CONTROLLER_SERVICE.
    pub controller_service: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub volume_accessibility_constraints: bool,
}

/// NodeGetInfo (section 5.21).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDescription {
    /// What ControllerPublishVolume wants as `node_id`.
    pub external_node_id: ExternalNodeId,
    /// `None` if the plugin sets no limit (0 on the wire).
    pub max_volumes: Option<u64>,
    /// Where the node is.
    pub accessible_topology: Option<Topology>,
}

/// CreateVolume (section 5.2). Its name is the idempotency key: of one name there is one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateVolume {
    /// The idempotency key, at most 128 bytes.
    pub name: String,
    /// Not sent if unset (GH-11238).
    pub capacity: CapacityRange,
    /// At least one.
    pub capabilities: Vec<Capability>,
    /// Sent with every capability that is a file system.
    pub mount_options: MountOptions,
    /// Opaque.
    pub parameters: BTreeMap<String, String>,
    /// For the provider.
    pub secrets: Secrets,
    /// What to fill it with.
    pub source: Option<VolumeSource>,
    /// Not sent if empty, or if the plugin has no topology (W27).
    pub topology: Option<TopologyRequest>,
}

/// What a new volume is filled with; the provider's IDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeSource {
    /// A copy of a volume.
    Volume(String),
    /// A restored snapshot.
    Snapshot(String),
}

/// CreateVolume's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// Zero if not known.
    pub capacity: Bytes,
    /// Opaque; handed back on every later call.
    pub context: BTreeMap<String, String>,
    /// Empty if it can be reached from everywhere.
    pub topologies: Vec<Topology>,
}

/// ValidateVolumeCapabilities (section 5.6), with everything that is checked in one value (B22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// At least one.
    pub capabilities: Vec<Capability>,
    /// Sent with every capability that is a file system (W24).
    pub mount_options: MountOptions,
    /// As at creation.
    pub parameters: BTreeMap<String, String>,
    /// The volume's own.
    pub context: BTreeMap<String, String>,
    /// For the provider.
    pub secrets: Secrets,
}

/// NodeStageVolume (section 5.16).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// From ControllerPublishVolume.
    pub publish_context: BTreeMap<String, String>,
    /// An existing directory, one per volume and node.
    pub staging_path: PathBuf,
    /// How it is used.
    pub capability: Capability,
    /// With which options.
    pub mount_options: MountOptions,
    /// For the provider.
    pub secrets: Secrets,
    /// The volume's own.
    pub context: BTreeMap<String, String>,
}

/// NodePublishVolume (section 5.18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// From ControllerPublishVolume.
    pub publish_context: BTreeMap<String, String>,
    /// Where it is staged, if the plugin stages.
    pub staging_path: Option<PathBuf>,
    /// The plugin makes it; its parent exists.
    pub target_path: PathBuf,
    /// How it is used.
    pub capability: Capability,
    /// With which options.
    pub mount_options: MountOptions,
    /// Whether the target cannot be written through.
    pub read_only: bool,
    /// For the provider.
    pub secrets: Secrets,
    /// The volume's own.
    pub context: BTreeMap<String, String>,
}

/// CSI's Identity service.
#[async_trait]
pub trait Identity: Send + Sync {
    /// GetPluginInfo. An empty name is an error.
    async fn plugin_info(&self) -> Result<PluginInfo, PluginError>;
    /// GetPluginCapabilities.
    async fn plugin_capabilities(&self) -> Result<PluginCapabilities, PluginError>;
    /// Probe: whether it is ready; an answer that does not say so counts as ready (B57).
    async fn probe(&self) -> Result<bool, PluginError>;
}

/// CSI's Controller service.
#[async_trait]
pub trait Controller: Send + Sync {
    /// ControllerGetCapabilities.
    async fn controller_capabilities(&self) -> Result<ControllerCapabilities, PluginError>;
    /// CreateVolume.
    async fn create_volume(&self, request: CreateVolume) -> Result<CreatedVolume, PluginError>;
    /// DeleteVolume. A volume that is not there is success (W28).
    async fn delete_volume(
        &self,
        external_id: ExternalId,
        secrets: Secrets,
    ) -> Result<(), PluginError>;
    /// ValidateVolumeCapabilities: succeeds if the plugin confirms everything, or does not say
    /// (B50); fails with `Permanent` and all reasons if what it confirms lacks something (B51).
    async fn validate_volume(&self, request: ValidateVolume) -> Result<(), PluginError>;
    /// ListVolumes: a page of all that the provider has, registered or not.
    async fn list_volumes(&self, page: PageRequest) -> Result<Page<ExternalVolume>, PluginError>;
    /// CreateSnapshot. Returns when the snapshot is cut; it may not be ready yet.
    async fn create_snapshot(&self, request: CreateSnapshot) -> Result<Snapshot, PluginError>;
    /// DeleteSnapshot. A snapshot that is not there is success (W28).
    async fn delete_snapshot(&self, id: SnapshotId, secrets: Secrets) -> Result<(), PluginError>;
    /// ListSnapshots.
    async fn list_snapshots(&self, request: ListSnapshots) -> Result<Page<Snapshot>, PluginError>;
    /// ControllerExpandVolume. A volume that is large enough already is success.
    async fn expand_volume(&self, request: ExpandVolume) -> Result<ExpandedVolume, PluginError>;
}

/// CSI's Node service.
#[async_trait]
pub trait NodeService: Send + Sync {
    /// NodeGetCapabilities.
    async fn node_capabilities(&self) -> Result<NodeCapabilities, PluginError>;
    /// NodeGetInfo. An empty node ID is an error.
    async fn node_info(&self) -> Result<NodeDescription, PluginError>;
    /// NodeStageVolume.
    async fn stage_volume(&self, request: StageVolume) -> Result<(), PluginError>;
    /// NodeUnstageVolume. A volume that is not there is success.
    async fn unstage_volume(
        &self,
        external_id: ExternalId,
        staging_path: PathBuf,
    ) -> Result<(), PluginError>;
    /// NodePublishVolume.
    async fn publish_volume(&self, request: PublishVolume) -> Result<(), PluginError>;
    /// NodeUnpublishVolume. A volume that is not there is success.
    async fn unpublish_volume(
        &self,
        external_id: ExternalId,
        target_path: PathBuf,
    ) -> Result<(), PluginError>;
}
