//! [`writers()`]: the allocations whose tasks may still write through a claim.
//!
//! A claim in use is taken back only by an approval that names its allocation (rule 16 of the claims
//! machine). The agent hears from its nodes: an allocation has ended when its node has reported so. Of a
//! node that is lost, an operator or a fence has said that nothing writes there any more.

use crate::error::ClaimWriter;
use nomad_csi_claims::claim::{Claim, ClaimKey, Claims};
use nomad_csi_claims::state::State;
use nomad_csi_model::{AllocId, JobKey, NodeId};

/// Returns who may still write through these claims, once each. A claim in release counts too where tasks
/// run: an operator may have cut it off.
pub(crate) fn writers<'a>(
    state: &State,
    claims: impl IntoIterator<Item = (&'a ClaimKey, &'a Claim)>,
) -> Vec<ClaimWriter> {
    let mut found: Vec<ClaimWriter> = vec![];
    for (key, claim) in claims {
        let alloc = state.alloc(&key.alloc).filter(|alloc| !alloc.has_ended);
        let Some(alloc) = alloc.filter(|_| state.node_loss(&claim.node).is_none()) else {
            continue;
        };
        let job = alloc.placement.as_ref().map(|placed| placed.job.key());
        let is_in_use = claim.is_held() || job.is_some();
        if is_in_use && found.iter().all(|known| known.alloc != key.alloc) {
            found.push(ClaimWriter { alloc: key.alloc.clone(), node: claim.node.clone(), job });
        }
    }
    found
}

/// Returns who may write on a node: the allocations that jobs placed there and that have not reported their end, and those
/// that hold claims there.
pub(super) fn writers_on(state: &State, node: &NodeId) -> Vec<ClaimWriter> {
    let placed = state.running_allocs(node).map(|alloc| ClaimWriter {
        alloc: alloc.clone(),
        node: node.clone(),
        job: job_of(state, alloc),
    });
    let mut found: Vec<_> = placed.collect();
    let claims = state.all_claims().flat_map(|record| record.claims.on(node));
    for writer in writers(state, claims) {
        if found.iter().all(|known| known.alloc != writer.alloc) {
            found.push(writer);
        }
    }
    found
}

fn job_of(state: &State, alloc: &AllocId) -> Option<JobKey> {
    let placement = state.alloc(alloc)?.placement.as_ref()?;
    Some(placement.job.key())
}

/// Returns the claims of these keys.
pub(super) fn of_keys<'a>(
    claims: Option<&'a Claims>,
    keys: &'a [ClaimKey],
) -> impl Iterator<Item = (&'a ClaimKey, &'a Claim)> {
    let claims = claims.map(|claims| &claims.claims);
    keys.iter().filter_map(move |key| claims?.get_key_value(key))
}
