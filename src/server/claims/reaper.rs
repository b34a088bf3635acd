//! Which claims are no longer in use.
//!
//! A claim is released when the tasks of its allocation have ended for good, when the allocation is
//! unknown, or when its node is lost. A node that is merely silent keeps its claims (W36). Level
//! triggered: the answer depends on the state alone, so nothing is missed by a crash or a restart.

use nomad_csi_claims::claim::{ClaimKey, Claims};
use nomad_csi_claims::state::State;
use nomad_csi_model::RemoteVolume;

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

fn held_claims(claims: &Claims) -> impl Iterator<Item = (&ClaimKey, &nomad_csi_model::NodeId)> {
    let claims = claims.claims.iter();
    let held = claims.filter(|(_, claim)| claim.is_held());
    held.map(|(key, claim)| (key, &claim.node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::backoff::Backoff;
    use crate::claims::view::claim_statuses;
    use nomad_csi_claims::claim::{ClaimEvent, samples};
    use nomad_csi_claims::state::samples::{key, registered, started, state_of};
    use nomad_csi_claims::state::{EventKind, StateSnapshot, StoredRecord};
    use nomad_csi_model::{AccessMode, ExternalId, PluginId};

    /// W53, B89: a claim whose allocation has no record is shown, and it is released.
    #[test]
    fn a_claim_without_its_allocation_is_shown_and_released() {
        let request = samples::request("a1", "n1", AccessMode::SingleNodeWriter);
        let (claim_key, claim) = request.granted(0);
        let volume = RemoteVolume {
            plugin_id: PluginId::new("hostpath"),
            external_id: ExternalId::new("ext-1"),
        };
        let started_alloc =
            EventKind::AllocStarted { alloc: claim_key.alloc.clone(), node: claim.node.clone() };
        let granted = ClaimEvent::Granted { key: claim_key.clone(), claim: Box::new(claim) };
        let granted = EventKind::Claim { volume: volume.clone(), event: Box::new(granted) };
        let registered = registered(&key("default", "db"), "ext-1");
        let state = state_of([started(), registered, started_alloc, granted]);
        assert_eq!(releasable(&state, &volume), []);
        let mut snapshot = StateSnapshot::from(&state);
        let is_alloc = |record: &StoredRecord| matches!(record, StoredRecord::Alloc(..));
        snapshot.records.retain(|record| !is_alloc(record));
        let state = State::from(snapshot);
        let shown = claim_statuses(&state, &Backoff::default(), |_| true);
        assert_eq!(shown.len(), 1);
        let expected = [(claim_key, "its allocation is unknown")];
        assert_eq!(releasable(&state, &volume), expected);
    }
}
