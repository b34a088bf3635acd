//! Claims as readers get them.

use super::backoff::{Backoff, StepAttempts};
use nomad_csi_claims::claim::{Claim, ClaimKey, ClaimProgress, Known, StepProblem, affects};
use nomad_csi_claims::state::{ClaimsRecord, State};
use nomad_csi_model::{Capability, NamespacedId, NodeId, RemoteVolume};

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
    /// True if it only reads.
    pub read_only: bool,
    /// The state.
    pub progress: ClaimProgress,
    /// True if an operator cut its tasks off, and the node kills them before the volume is released.
    pub is_cut_off: bool,
    /// The recorded state of the attachment to the node.
    pub attached: Known,
    /// The recorded state of the staging on the node.
    pub staged: Known,
    /// The recorded state of the publication for the claim.
    pub published: Known,
    /// The target path on the node.
    pub target: Option<std::path::PathBuf>,
    /// When it was granted, in nanoseconds since the epoch.
    pub granted_at: i64,
    /// The error of its last step.
    pub problem: Option<StepProblem>,
    /// The failed attempts of its step, if it waits for the next one.
    pub attempts: Option<StepAttempts>,
}

/// Returns the claims of one volume, or of all in a namespace, sorted by volume and key.
pub(super) fn claim_statuses(
    state: &State,
    backoff: &Backoff,
    is_selected: impl Fn(&NamespacedId) -> bool,
) -> Vec<ClaimStatus> {
    let mut found: Vec<_> = state
        .all_claims()
        .flat_map(|record| {
            let claims = record.claims.claims.iter();
            let selected = claims.filter(|(_, claim)| is_selected(&claim.volume));
            selected.map(|(key, claim)| status(state, record, backoff, key, claim))
        })
        .collect();
    found.sort_by(|a, b| (&a.volume, &a.key).cmp(&(&b.volume, &b.key)));
    found
}

/// Returns one claim; `None` if it is gone.
pub(super) fn claim_status(
    state: &State,
    record: &ClaimsRecord,
    backoff: &Backoff,
    key: &ClaimKey,
) -> Option<ClaimStatus> {
    let claim = record.claims.claims.get(key)?;
    Some(status(state, record, backoff, key, claim))
}

/// Returns the failed attempts of the step that the claim waits for.
fn attempts(
    backoff: &Backoff,
    record: &ClaimsRecord,
    key: &ClaimKey,
    claim: &Claim,
) -> Option<StepAttempts> {
    let waiting = backoff.waiting(&record.volume).into_iter();
    let own = waiting.filter(|(step, _)| affects(step, key, claim));
    own.map(|(_, attempts)| attempts).min_by_key(|attempts| attempts.next_at)
}

fn status(
    state: &State,
    record: &ClaimsRecord,
    backoff: &Backoff,
    key: &ClaimKey,
    claim: &Claim,
) -> ClaimStatus {
    let placement = state.alloc(&key.alloc).and_then(|alloc| alloc.placement.as_deref());
    let is_cut_off = placement.is_some_and(|placement| placement.cut_off.contains(&key.alias));
    ClaimStatus {
        remote: record.volume.clone(),
        volume: claim.volume.clone(),
        key: key.clone(),
        node: claim.node.clone(),
        capability: claim.usage.capability,
        read_only: claim.read_only,
        progress: claim.progress(),
        is_cut_off: is_cut_off && claim.is_held(),
        attached: record.claims.attached(&claim.node),
        staged: record.claims.staged(&claim.node),
        published: claim.published,
        target: claim.target.clone(),
        granted_at: claim.granted_at,
        problem: claim.problem.clone(),
        attempts: attempts(backoff, record, key, claim),
    }
}
