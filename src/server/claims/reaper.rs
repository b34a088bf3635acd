//! Which claims are no longer in use.
//!
//! A claim is released when the tasks of its allocation have ended for good, when the allocation is
//! unknown, or when its node is lost. A node that is merely silent keeps its claims (W36). Level
//! triggered: the answer depends on the state alone, so nothing is missed by a crash or a restart.

use crate::claim::{ClaimKey, Claims};
use crate::model::RemoteVolume;
use crate::state::State;

/// Returns the claims of a volume that must be released, each with the reason.
pub(super) fn releasable(state: &State, volume: &RemoteVolume) -> Vec<(ClaimKey, &'static str)> {
    let Some(record) = state.claims(volume) else {
        return vec![];
    };
    let held = held_claims(&record.claims);
    let found = held.filter_map(|(key, node)| {
        let reason = if state.node_loss(node).is_some() {
            "its node is lost"
        } else {
            match state.alloc(&key.alloc) {
                None => "its allocation is unknown",
                Some(alloc) if alloc.has_ended => "its allocation has ended",
                Some(_) => return None,
            }
        };
        Some((key.clone(), reason))
    });
    found.collect()
}

fn held_claims(claims: &Claims) -> impl Iterator<Item = (&ClaimKey, &crate::model::NodeId)> {
    let claims = claims.claims.iter();
    let held = claims.filter(|(_, claim)| claim.is_held());
    held.map(|(key, claim)| (key, &claim.node))
}
