//! Claims as readers get them.

use crate::claim::{Claim, ClaimKey, ClaimProgress, Known, StepProblem};
use crate::model::{Capability, NamespacedId, NodeId, RemoteVolume};
use crate::state::{ClaimsRecord, State};

/// A claim with what is known of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimStatus {
    /// The external volume.
    pub remote: RemoteVolume,
    /// The registration.
    pub volume: NamespacedId,
    /// The key.
    pub key: ClaimKey,
    /// The node.
    pub node: NodeId,
    /// The modes.
    pub capability: Capability,
    /// Whether it only reads.
    pub read_only: bool,
    /// The state.
    pub progress: ClaimProgress,
    /// Whether the volume is attached to the node.
    pub attached: Known,
    /// Whether the volume is staged on the node.
    pub staged: Known,
    /// Whether the volume is published for the claim.
    pub published: Known,
    /// The target path on the node.
    pub target: Option<std::path::PathBuf>,
    /// When it was granted, in nanoseconds since the epoch.
    pub granted_at: i64,
    /// The error of its last step.
    pub problem: Option<StepProblem>,
}

/// Returns the claims of one volume, or of all in a namespace, sorted by volume and key.
pub fn claim_statuses(
    state: &State,
    is_wanted: impl Fn(&NamespacedId) -> bool,
) -> Vec<ClaimStatus> {
    let mut found: Vec<_> = state
        .all_claims()
        .flat_map(|record| {
            let claims = record.claims.claims.iter();
            claims.map(|(key, claim)| status(record, key, claim))
        })
        .filter(|status| is_wanted(&status.volume))
        .collect();
    found.sort_by(|a, b| (&a.volume, &a.key).cmp(&(&b.volume, &b.key)));
    found
}

/// Returns one claim; `None` if it is gone.
pub(super) fn claim_status(record: &ClaimsRecord, key: &ClaimKey) -> Option<ClaimStatus> {
    let claim = record.claims.claims.get(key)?;
    Some(status(record, key, claim))
}

fn status(record: &ClaimsRecord, key: &ClaimKey, claim: &Claim) -> ClaimStatus {
    ClaimStatus {
        remote: record.volume.clone(),
        volume: claim.volume.clone(),
        key: key.clone(),
        node: claim.node.clone(),
        capability: claim.usage.capability,
        read_only: claim.read_only,
        progress: claim.progress(),
        attached: record.claims.attached(&claim.node),
        staged: record.claims.staged(&claim.node),
        published: claim.published,
        target: claim.target.clone(),
        granted_at: claim.granted_at,
        problem: claim.problem.clone(),
    }
}
