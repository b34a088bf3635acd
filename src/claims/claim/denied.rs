//! Why a claim is denied, and who is in the way (W62).

use super::key::ClaimKey;
use super::record::{Claim, ClaimProgress};
use nomad_csi_model::{AccessMode, AllocId, Capability, NodeId};

/// A claim that is in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimHolder {
    /// The allocation.
    pub alloc: AllocId,
    /// Its node.
    pub node: NodeId,
    /// The state of its claim.
    pub progress: ClaimProgress,
    /// True if it only reads.
    pub read_only: bool,
}

impl ClaimHolder {
    /// Describes a claim.
    pub fn new(key: &ClaimKey, claim: &Claim) -> Self {
        Self {
            alloc: key.alloc.clone(),
            node: claim.node.clone(),
            progress: claim.progress(),
            read_only: claim.read_only,
        }
    }
}

impl std::fmt::Display for ClaimHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let access = if self.read_only { "reads" } else { "writes" };
        write!(
            f,
            "allocation `{}` {access} on node `{}` ({})",
            self.alloc,
            self.node,
            self.progress.as_str()
        )
    }
}

/// The reason of a denial. The first words are Nomad's where Nomad has the reason too.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimDeniedReason {
    /// The allocation's claim is being released (W61).
    #[error("the earlier claim of this allocation is still being released")]
    BeingReleased,
    /// The allocation has a claim for another node or use.
    #[error("this allocation already claims the volume in another way")]
    OtherClaim,
    /// A registration of the same external volume was removed by force and is still being detached.
    #[error("the volume is still being detached after a forced deregistration")]
    Detaching,
    /// The node is lost, or not swept yet.
    #[error("node `{0}` is lost or not swept yet")]
    NodeLost(NodeId),
    /// The plugin is not healthy, or the volume does not allow writes.
    #[error("volume is currently unschedulable")]
    Unschedulable,
    /// The plugin has no room for the volume on the node (B87).
    #[error("the plugin has no room for the volume on node `{0}`")]
    Exhausted(NodeId),
    /// The attachment mode differs from that of current claims.
    #[error("cannot change attachment mode of claimed volume")]
    AttachmentMode,
    /// The capability is not among those of the volume (W11).
    #[error("the volume does not have the capability {0}")]
    Capability(Capability),
    /// The access mode in force, or the requested one, has no room for another claim.
    #[error("volume max claims reached")]
    MaxClaims {
        /// The access mode that limits the claims.
        mode: AccessMode,
    },
    /// Another claim on the node needs other modes or mount options (W48).
    #[error("the volume is used on node `{0}` with other modes or mount options")]
    OtherUsage(NodeId),
    /// The plugin's limit of volumes on the node is reached.
    #[error("node `{node}` has reached the plugin's limit of {limit} volumes")]
    NodeFull {
        /// The node.
        node: NodeId,
        /// The limit from NodeGetInfo.
        limit: u64,
    },
}

/// A claim was denied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ClaimDenied {
    /// The reason.
    pub reason: ClaimDeniedReason,
    /// The claims that are in the way; empty if none are.
    pub holders: Vec<ClaimHolder>,
}

impl ClaimDenied {
    /// Returns whether the claim can succeed later without a change of the request or of the registration.
    pub fn can_succeed_later(&self) -> bool {
        match self.reason {
            ClaimDeniedReason::BeingReleased
            | ClaimDeniedReason::Detaching
            | ClaimDeniedReason::NodeLost(_)
            | ClaimDeniedReason::Unschedulable
            | ClaimDeniedReason::Exhausted(_)
            | ClaimDeniedReason::MaxClaims { .. }
            | ClaimDeniedReason::OtherUsage(_)
            | ClaimDeniedReason::AttachmentMode
            | ClaimDeniedReason::NodeFull { .. } => true,
            ClaimDeniedReason::OtherClaim | ClaimDeniedReason::Capability(_) => false,
        }
    }
}
