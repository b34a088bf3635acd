//! [`writers()`]: the allocations whose tasks may still write through a claim.
//!
//! A claim in use is taken back only by an approval that names its allocation (rule 16 of the claims
//! machine). The agent hears from its nodes: an allocation has ended when its node has reported so. Of a
//! node that is lost, an operator or a fence has said that nothing writes there any more.

use crate::claim::{Claim, ClaimKey, Claims};
use crate::server::error::ClaimWriter;
use crate::state::State;

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
            found.push(ClaimWriter {
                alloc: key.alloc.clone(),
                node: claim.node.clone(),
                job,
            });
        }
    }
    found
}

/// Returns the claims of these keys.
pub(super) fn of_keys<'a>(
    claims: Option<&'a Claims>,
    keys: &'a [ClaimKey],
) -> impl Iterator<Item = (&'a ClaimKey, &'a Claim)> {
    let claims = claims.map(|claims| &claims.claims);
    keys.iter()
        .filter_map(move |key| claims?.get_key_value(key))
}
