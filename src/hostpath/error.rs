//! The errors of each RPC, and the gRPC status of each error.
//!
//! Each RPC has one enum. Each variant names its status code and what an orchestrator does next, as
//! in CSI's tables of error codes. The messages are for people: which volume, why, and what to do.
//! No message contains a secret or a mount flag.

use tonic::{Code, Status};

use super::catalog::CatalogError;
use super::size::OutOfRange;

use nomad_csi_database::FailureKind;
use nomad_csi_ports::MountError;

/// The request is not valid: INVALID_ARGUMENT. The caller must change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidArgument(pub(super) String);

impl InvalidArgument {
    pub(super) fn err<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self(reason.into()))
    }
}

impl From<InvalidArgument> for Status {
    fn from(error: InvalidArgument) -> Self {
        Self::new(Code::InvalidArgument, error.0)
    }
}

/// The host failed: the disk, the catalogue or a mount call.
#[derive(Debug, thiserror::Error)]
pub(super) enum HostError {
    /// The catalogue cannot be read or written.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// A file or directory cannot be used.
    #[error("cannot {action}: {source}")]
    Io { action: String, source: std::io::Error },
    /// A mount call failed.
    #[error("{0}: {source}", source = .0.source)]
    Mount(#[from] MountError),
    /// The task that did the work panicked or was cancelled.
    #[error("the task failed: {0}")]
    TaskFailed(#[from] tokio::task::JoinError),
}

impl HostError {
    pub(super) fn io(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    /// Returns whether the kernel denied this to the process.
    pub(super) fn is_permission_denied(&self) -> bool {
        let kind = std::io::ErrorKind::PermissionDenied;
        matches!(self, Self::Io { source, .. } if source.kind() == kind)
    }

    /// Returns the status code: RESOURCE_EXHAUSTED for a full disk, UNAVAILABLE for work that a
    /// shutdown interrupted (the caller repeats it), FAILED_PRECONDITION where an operator must act
    /// first (a missing privilege, a busy mount, a tree that cannot be copied), OUT_OF_RANGE for a file above the limit of the file
    /// system, and INTERNAL for everything else.
    fn code(&self) -> Code {
        use std::io::ErrorKind::{
            FileTooLarge, Interrupted, QuotaExceeded, ResourceBusy, StorageFull, Unsupported,
        };
        match self {
            Self::Io { source, .. } if source.kind() == Interrupted => Code::Unavailable,
            Self::Catalog(error) if error.kind == FailureKind::Full => Code::ResourceExhausted,
            Self::Io { source, .. } if source.kind() == FileTooLarge => Code::OutOfRange,
            Self::Io { source, .. } if matches!(source.kind(), ResourceBusy | Unsupported) => {
                Code::FailedPrecondition
            }
            Self::Io { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                Code::ResourceExhausted
            }
            Self::Mount(error) if error.is_missing_privilege() || error.is_busy() => {
                Code::FailedPrecondition
            }
            Self::Catalog(_) | Self::Io { .. } | Self::Mount(_) | Self::TaskFailed(_) => {
                Code::Internal
            }
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Mount(error) if error.is_missing_privilege() => format!(
                "{error}: mounting requires CAP_SYS_ADMIN; run the plugin (and the agent that starts it) as root"
            ),
            Self::Mount(error) if error.is_busy() => {
                format!("{error}: a process uses it; stop that process, then repeat")
            }
            Self::Catalog(_) | Self::Io { .. } | Self::Mount(_) | Self::TaskFailed(_) => {
                self.to_string()
            }
        }
    }
}

/// No snapshot has this ID: NOT_FOUND. The caller checks the ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("snapshot {0:?} does not exist")]
pub(super) struct SnapshotNotFound(pub(super) String);

/// No group snapshot has this ID: NOT_FOUND. The caller checks the ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("group snapshot {0:?} does not exist")]
pub(super) struct GroupNotFound(pub(super) String);

/// The node is not the one that this plugin serves: NOT_FOUND.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {requested:?} does not exist; this plugin serves node {own:?}")]
pub(super) struct NodeNotFound {
    pub(super) requested: String,
    pub(super) own: String,
}

/// A resource is used up: RESOURCE_EXHAUSTED. The caller, or an operator, frees some of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct ResourceExhausted(pub(super) String);

/// No volume has this ID: NOT_FOUND. The caller checks the ID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume {0:?} does not exist")]
pub(super) struct VolumeNotFound(pub(super) String);

/// Another call works on the same volume: ABORTED. The caller repeats after a pause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another operation on {0:?} is in progress; repeat when it is done")]
pub(super) struct OperationPending(pub(super) String);

/// The volume or path is not in the required state: FAILED_PRECONDITION. An operator must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct FailedPrecondition(pub(super) String);

/// Defines one enum per RPC. Each variant wraps a reason and has a status code.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident($reason:ty) => $code:expr,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, thiserror::Error)]
        pub(super) enum $name {
            $($(#[$variant_doc])* #[error(transparent)] $variant(#[from] $reason),)*
            /// The host failed. [`HostError::code`] maps it to a status code.
            #[error(transparent)]
            Host(#[from] HostError),
        }

        impl From<$name> for Status {
            fn from(error: $name) -> Self {
                match error {
                    $($name::$variant(reason) => Status::new($code, reason.to_string()),)*
                    $name::Host(error) => {
                        let (code, message) = (error.code(), error.message());
                        if code == Code::Internal {
                            tracing::error!(error = %message, "call failed");
                        }
                        Status::new(code, message)
                    }
                }
            }
        }
    )*};
}

errors! {
    /// CreateVolume.
    CreateVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller uses another name, or the same arguments.
        NameTaken(NameTaken) => Code::AlreadyExists,
        /// The caller requests less.
        TooLarge(TooLarge) => Code::OutOfRange,
        /// The caller requests another size.
        OutOfRange(OutOfRange) => Code::OutOfRange,
        /// An operator frees space, or the caller uses another plugin.
        ResourceExhausted(ResourceExhausted) => Code::ResourceExhausted,
        /// The caller checks the source.
        SnapshotNotFound(SnapshotNotFound) => Code::NotFound,
        /// The caller checks the source.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The source is in use and cannot be frozen. The caller unpublishes it first.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// DeleteVolume.
    DeleteVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller unpublishes it first.
        InUse(InUse) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// ControllerPublishVolume.
    ControllerPublishError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller checks the node.
        NodeNotFound(NodeNotFound) => Code::NotFound,
        /// The caller detaches first, or repeats the same request.
        ConflictingUse(ConflictingUse) => Code::AlreadyExists,
        /// The caller detaches another volume.
        ResourceExhausted(ResourceExhausted) => Code::ResourceExhausted,
        /// The caller detaches the volume from the other node first.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// ControllerUnpublishVolume.
    ControllerUnpublishError {
        /// Never returned: an unknown volume counts as detached.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller unpublishes and unstages first.
        InUse(InUse) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// ControllerExpandVolume and NodeExpandVolume.
    ExpandVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller checks the path.
        NotAtPath(NotAtPath) => Code::NotFound,
        /// The caller requests another size.
        OutOfRange(OutOfRange) => Code::OutOfRange,
        /// An operator frees space.
        ResourceExhausted(ResourceExhausted) => Code::ResourceExhausted,
        /// The caller unpublishes first.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// ControllerModifyVolume.
    ModifyVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// CreateSnapshot and CreateVolumeGroupSnapshot.
    CreateSnapshotError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller uses another name, or the same arguments.
        SnapshotNameTaken(SnapshotNameTaken) => Code::AlreadyExists,
        /// The caller requires another place.
        ResourceExhausted(ResourceExhausted) => Code::ResourceExhausted,
        /// The source is in use and cannot be frozen. The caller unpublishes it first.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// DeleteSnapshot and DeleteVolumeGroupSnapshot.
    DeleteSnapshotError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// ListSnapshots.
    ListSnapshotsError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller starts again without a token.
        InvalidToken(InvalidToken) => Code::Aborted,
    }
    /// GetSnapshot and GetVolumeGroupSnapshot.
    GetSnapshotError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        SnapshotNotFound(SnapshotNotFound) => Code::NotFound,
        /// The caller checks the ID.
        GroupNotFound(GroupNotFound) => Code::NotFound,
    }
    /// GetMetadataAllocated and GetMetadataDelta.
    MetadataError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        SnapshotNotFound(SnapshotNotFound) => Code::NotFound,
        /// The caller makes a full copy.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller uses another offset.
        OutOfRange(OutOfRange) => Code::OutOfRange,
    }
    /// ValidateVolumeCapabilities. An unsupported capability is an answer, not an error.
    ValidateVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
    }
    /// ListVolumes and ControllerListVolumeHealth.
    ListVolumesError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller starts again without a token.
        InvalidToken(InvalidToken) => Code::Aborted,
    }
    /// GetCapacity.
    GetCapacityError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
    }
    /// ControllerGetVolume, ControllerGetVolumeHealth and NodeGetVolumeHealth.
    GetVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
    }
    /// NodeStageVolume.
    StageVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller unstages first, or repeats the same request.
        ConflictingUse(ConflictingUse) => Code::AlreadyExists,
        /// The caller requests a capability that the volume has.
        IncompatibleCapability(IncompatibleCapability) => Code::FailedPrecondition,
        /// An operator checks the path.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// NodeUnstageVolume.
    UnstageVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller treats it as unstaged.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// An operator checks the path.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// NodePublishVolume.
    PublishVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller unpublishes first, or repeats the same request.
        ConflictingUse(ConflictingUse) => Code::AlreadyExists,
        /// The caller stages first.
        NotStaged(NotStaged) => Code::FailedPrecondition,
        /// The caller requests a capability that the volume has.
        IncompatibleCapability(IncompatibleCapability) => Code::FailedPrecondition,
        /// The caller unpublishes the other path first.
        SecondTarget(SecondTarget) => Code::FailedPrecondition,
        /// An operator checks the path.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// NodeUnpublishVolume.
    UnpublishVolumeError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller treats it as unpublished.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// An operator checks the path.
        FailedPrecondition(FailedPrecondition) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        OperationPending(OperationPending) => Code::Aborted,
    }
    /// NodeGetVolumeStats.
    VolumeStatsError {
        /// The caller changes the request.
        InvalidArgument(InvalidArgument) => Code::InvalidArgument,
        /// The caller checks the ID.
        VolumeNotFound(VolumeNotFound) => Code::NotFound,
        /// The caller checks the path.
        NotAtPath(NotAtPath) => Code::NotFound,
    }
    /// NodeGetStorageHealth.
    StorageHealthError {}
    /// Probe.
    ProbeError {
        /// The orchestrator restarts the plugin.
        Unhealthy(Unhealthy) => Code::FailedPrecondition,
    }
}

/// The name belongs to a volume that was requested with other arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "volume {name:?} exists with different {what}; use another name, or repeat the same request"
)]
pub(super) struct NameTaken {
    pub(super) name: String,
    /// The field that differs, such as `capacity` or `capabilities`.
    pub(super) what: &'static str,
}

/// The name belongs to a snapshot or group with another source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} {name:?} exists with a different source; use another name, or repeat the same request"
)]
pub(super) struct SnapshotNameTaken {
    pub(super) name: String,
    /// `snapshot` or `group snapshot`.
    pub(super) what: &'static str,
}

/// The volume does not have the requested capability.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume `{id}` does not support this capability: {why}")]
pub(super) struct IncompatibleCapability {
    pub(super) id: String,
    pub(super) why: String,
}

/// The file system is smaller than the requested size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{required} bytes are more than the file system of the plugin's state directory has ({total})"
)]
pub(super) struct TooLarge {
    pub(super) required: u64,
    pub(super) total: u64,
}

/// The volume is attached or mounted, or a process has it open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "volume `{id}` is in use at `{}`; unpublish, unstage and detach it first", path.display()
)]
pub(super) struct InUse {
    pub(super) id: String,
    pub(super) path: std::path::PathBuf,
}

/// This plugin did not issue the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the starting token is not valid; start again without one")]
pub(super) struct InvalidToken;

/// The volume is already in use at this path, with other arguments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "volume `{id}` is already in use at `{path}` with other arguments; unpublish or unstage it there first"
)]
pub(super) struct ConflictingUse {
    pub(super) id: String,
    pub(super) path: String,
}

/// The volume is not staged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotStaged(pub(super) String);

/// The access mode allows only one target path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "volume `{id}` is already published at `{other}`, and its access mode allows one target path; unpublish that path first"
)]
pub(super) struct SecondTarget {
    pub(super) id: String,
    pub(super) other: String,
}

/// The volume is not mounted at this path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume `{id}` is neither staged nor published at {path:?}")]
pub(super) struct NotAtPath {
    pub(super) id: String,
    pub(super) path: String,
}

/// The plugin cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unhealthy(pub(super) String);
