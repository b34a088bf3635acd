//! What can go wrong with each RPC, and the gRPC status it is told by.
//!
//! One enum per RPC; beside each variant stands its code and what an orchestrator then does (CSI's
//! tables, `csi-spec` 3.6 and 5). The messages are for people: which volume, why, what to do. None
//! holds a secret or a mount flag.

use tonic::{Code, Status};

use super::catalog::CatalogError;
use super::size::OutOfRange;
use crate::ports::MountError;

/// The request itself is wrong: INVALID_ARGUMENT, and the caller has to change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Invalid(pub(super) String);

impl Invalid {
    pub(super) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self(reason.into()))
    }
}

/// The machine failed: the disk, the catalogue, a mount call.
#[derive(Debug, thiserror::Error)]
pub(super) enum Machine {
    /// The catalogue could not be read or written.
    #[error("{0}")]
    Catalog(#[from] CatalogError),
    /// A file or directory could not be used.
    #[error("cannot {action}: {source}")]
    Files {
        action: String,
        source: std::io::Error,
    },
    /// A mount call failed.
    #[error("{0}: {source}", source = .0.source)]
    Mount(#[from] MountError),
    /// The task that worked on it ended early.
    #[error("the work was ended: {0}")]
    Ended(#[from] tokio::task::JoinError),
}

impl Machine {
    pub(super) fn files(action: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let action = action.into();
        move |source| Self::Files { action, source }
    }

    /// Whether the kernel refused it to this process.
    pub(super) fn is_permission_denied(&self) -> bool {
        let kind = std::io::ErrorKind::PermissionDenied;
        matches!(self, Self::Files { source, .. } if source.kind() == kind)
    }

    /// A full disk is for somebody to free (RESOURCE_EXHAUSTED); what a stop of the plugin ended is
    /// to be repeated (UNAVAILABLE); mounting without the privilege and
    /// unmounting what is in use need somebody to act first (FAILED_PRECONDITION); the rest is ours
    /// (INTERNAL).
    fn code(&self) -> Code {
        use std::io::ErrorKind::{
            FileTooLarge, Interrupted, QuotaExceeded, ResourceBusy, StorageFull,
        };
        match self {
            Self::Files { source, .. } if source.kind() == Interrupted => Code::Unavailable,
            Self::Catalog(error) if error.is_full => Code::ResourceExhausted,
            Self::Files { source, .. } if source.kind() == FileTooLarge => Code::OutOfRange,
            Self::Files { source, .. } if source.kind() == ResourceBusy => Code::FailedPrecondition,
            Self::Files { source, .. } if matches!(source.kind(), StorageFull | QuotaExceeded) => {
                Code::ResourceExhausted
            }
            Self::Mount(error) if error.is_missing_privilege() || error.is_busy() => {
                Code::FailedPrecondition
            }
            Self::Catalog(_) | Self::Files { .. } | Self::Mount(_) | Self::Ended(_) => {
                Code::Internal
            }
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Mount(error) if error.is_missing_privilege() => format!(
                "{error}: mounting needs the capability CAP_SYS_ADMIN; run the plugin (and the agent that starts it) as root"
            ),
            Self::Mount(error) if error.is_busy() => {
                format!("{error}: a process still uses it; stop what runs there, then repeat")
            }
            Self::Catalog(_) | Self::Files { .. } | Self::Mount(_) | Self::Ended(_) => {
                self.to_string()
            }
        }
    }
}

/// No snapshot has that ID: NOT_FOUND, and the caller checks what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no snapshot {0:?}")]
pub(super) struct NoSnapshot(pub(super) String);

/// No group of snapshots has that ID: NOT_FOUND, and the caller checks what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no group of snapshots {0:?}")]
pub(super) struct NoGroup(pub(super) String);

/// This plugin serves one node, and it is another: NOT_FOUND.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no node {asked:?}; this plugin serves the node {own:?}")]
pub(super) struct NoNode {
    pub(super) asked: String,
    pub(super) own: String,
}

/// There is not enough of something now: RESOURCE_EXHAUSTED, and somebody has to free some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Exhausted(pub(super) String);

/// No volume has that ID: NOT_FOUND, and the caller checks what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no volume {0:?}")]
pub(super) struct NoVolume(pub(super) String);

/// Another call about the same volume is under way: ABORTED, and the caller repeats after a pause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another operation on {0:?} is under way; repeat when it is done")]
pub(super) struct Pending(pub(super) String);

/// A path cannot be used as it is: FAILED_PRECONDITION, and somebody has to look at it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unfit(pub(super) String);

/// Writes one enum: each variant wraps a reason, with its code.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident {
        $($(#[$variant_doc:meta])* $variant:ident($reason:ty) => $code:expr,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, thiserror::Error)]
        pub(super) enum $name {
            $($(#[$variant_doc])* #[error(transparent)] $variant(#[from] $reason),)*
            /// The machine failed; its own table says how.
            #[error(transparent)]
            Machine(#[from] Machine),
        }

        impl From<$name> for Status {
            fn from(error: $name) -> Self {
                match error {
                    $($name::$variant(reason) => Status::new($code, reason.to_string()),)*
                    $name::Machine(machine) => {
                        let (code, message) = (machine.code(), machine.message());
                        if code == Code::Internal {
                            tracing::error!(error = %message, "a call failed");
                        }
                        Status::new(code, message)
                    }
                }
            }
        }
    )*};
}

errors! {
    /// CreateVolume (`csi-spec` 5.2).
    CreateVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller takes another name, or the same arguments.
        NameTaken(NameTaken) => Code::AlreadyExists,
        /// The caller asks for less.
        TooLarge(TooLarge) => Code::OutOfRange,
        /// The caller asks for another size.
        OutOfRange(OutOfRange) => Code::OutOfRange,
        /// Somebody makes room, or the caller asks elsewhere.
        Exhausted(Exhausted) => Code::ResourceExhausted,
        /// The caller checks what it copies.
        NoSnapshot(NoSnapshot) => Code::NotFound,
        /// The caller checks what it copies.
        NoVolume(NoVolume) => Code::NotFound,
        /// What is copied has to come to rest first.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// DeleteVolume (5.3).
    DeleteVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller frees it first.
        InUse(InUse) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// ControllerPublishVolume (5.4).
    AttachVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller checks the node.
        NoNode(NoNode) => Code::NotFound,
        /// The caller detaches first, or asks for what is there.
        OtherUse(OtherUse) => Code::AlreadyExists,
        /// The caller detaches another volume.
        Exhausted(Exhausted) => Code::ResourceExhausted,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// ControllerUnpublishVolume (5.5).
    DetachVolumeError {
        /// Never told: what is not there is detached.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller unpublishes and unstages first.
        InUse(InUse) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// ControllerExpandVolume (5.15) and NodeExpandVolume (5.22).
    ExpandVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller checks the path.
        NotThere(NotThere) => Code::NotFound,
        /// The caller asks for another size.
        OutOfRange(OutOfRange) => Code::OutOfRange,
        /// Somebody makes room.
        Exhausted(Exhausted) => Code::ResourceExhausted,
        /// The caller unpublishes first.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// ControllerModifyVolume (5.9).
    ModifyVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// CreateSnapshot (5.11) and CreateVolumeGroupSnapshot (5.23).
    CutSnapshotError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller takes another name, or the same arguments.
        SnapshotNameTaken(SnapshotNameTaken) => Code::AlreadyExists,
        /// What is cut has to come to rest first.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// DeleteSnapshot (5.12) and DeleteVolumeGroupSnapshot (5.23).
    DeleteSnapshotError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// ListSnapshots (5.13).
    ListSnapshotsError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller begins again without a token.
        BadToken(BadToken) => Code::Aborted,
    }
    /// GetSnapshot (5.14) and GetVolumeGroupSnapshot (5.23).
    GetSnapshotError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoSnapshot(NoSnapshot) => Code::NotFound,
        /// The caller checks the ID.
        NoGroup(NoGroup) => Code::NotFound,
    }
    /// GetMetadataAllocated and GetMetadataDelta (5.24).
    MetadataError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoSnapshot(NoSnapshot) => Code::NotFound,
        /// The caller makes a full copy.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller takes another offset.
        OutOfRange(OutOfRange) => Code::OutOfRange,
    }
    /// ValidateVolumeCapabilities (5.6); what is not supported is an answer and no error.
    ValidateVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
    }
    /// ListVolumes (5.7).
    ListVolumesError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller begins again without a token.
        BadToken(BadToken) => Code::Aborted,
    }
    /// GetCapacity (5.10).
    GetCapacityError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
    }
    /// ControllerGetVolume (5.8).
    GetVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
    }
    /// NodeStageVolume (5.16).
    StageVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller unstages first, or asks for what is there.
        OtherUse(OtherUse) => Code::AlreadyExists,
        /// The caller asks for what the volume can be.
        Misfit(Misfit) => Code::FailedPrecondition,
        /// Somebody looks at the path.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// NodeUnstageVolume (5.17).
    UnstageVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller takes it for done.
        NoVolume(NoVolume) => Code::NotFound,
        /// Somebody looks at the path.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// NodePublishVolume (5.18).
    PublishVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller unpublishes first, or asks for what is there.
        OtherUse(OtherUse) => Code::AlreadyExists,
        /// The caller stages first.
        NotStaged(NotStaged) => Code::FailedPrecondition,
        /// The caller asks for what the volume can be.
        Misfit(Misfit) => Code::FailedPrecondition,
        /// The caller unpublishes the other path first.
        SecondTarget(SecondTarget) => Code::FailedPrecondition,
        /// Somebody looks at the path.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// NodeUnpublishVolume (5.19).
    UnpublishVolumeError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller takes it for done.
        NoVolume(NoVolume) => Code::NotFound,
        /// Somebody looks at the path.
        Unfit(Unfit) => Code::FailedPrecondition,
        /// The caller repeats after a pause.
        Pending(Pending) => Code::Aborted,
    }
    /// NodeGetVolumeStats (5.20).
    VolumeStatsError {
        /// The caller changes the request.
        Invalid(Invalid) => Code::InvalidArgument,
        /// The caller checks the ID.
        NoVolume(NoVolume) => Code::NotFound,
        /// The caller checks the path.
        NotThere(NotThere) => Code::NotFound,
    }
    /// Probe (5.1).
    ProbeError {
        /// The caller restarts the plugin, or tells somebody.
        Unwell(Unwell) => Code::FailedPrecondition,
    }
}

/// The name belongs to a volume that was asked for differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a volume named {name:?} exists with other {what}; choose another name, or ask for the same"
)]
pub(super) struct NameTaken {
    pub(super) name: String,
    /// What differs: `capacity`, `capabilities`.
    pub(super) what: &'static str,
}

/// The name belongs to a snapshot, or a group of them, of something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} named {name:?} exists with another source; choose another name, or ask for the same"
)]
pub(super) struct SnapshotNameTaken {
    pub(super) name: String,
    /// `a snapshot`, `a group of snapshots`.
    pub(super) what: &'static str,
}

/// The capability is more than the volume is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume {id} cannot be used so: {why}")]
pub(super) struct Misfit {
    pub(super) id: String,
    pub(super) why: String,
}

/// The size can never be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{required} bytes are more than the whole file system of the plugin's state directory has ({total})"
)]
pub(super) struct TooLarge {
    pub(super) required: u64,
    pub(super) total: u64,
}

/// The volume is mounted, or a process has it open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "volume {id} is in use at {}; unpublish, unstage and detach it first", path.display()
)]
pub(super) struct InUse {
    pub(super) id: String,
    pub(super) path: std::path::PathBuf,
}

/// The token is not one that this plugin gave.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the starting token is not one of this plugin's; begin again without one")]
pub(super) struct BadToken;

/// The path is in use for the same volume, differently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume {id} is mounted at {path} for another use already; undo that first")]
pub(super) struct OtherUse {
    pub(super) id: String,
    pub(super) path: String,
}

/// Nothing to publish from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotStaged(pub(super) String);

/// The access mode allows one target path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "volume {id} is published at {other} already, and its access mode allows one target path; unpublish that first"
)]
pub(super) struct SecondTarget {
    pub(super) id: String,
    pub(super) other: String,
}

/// The volume is not at that path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("volume {id} is neither staged nor published at {path:?}")]
pub(super) struct NotThere {
    pub(super) id: String,
    pub(super) path: String,
}

/// The plugin cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Unwell(pub(super) String);
