//! The transitions of claims, allocations and lost nodes.

use std::sync::Arc;

use super::claims_record::{AllocRecord, ClaimsRecord, NodeLoss};
use super::event::EventKind;
use super::record::{Phase, VolumeRecord};
use super::tables::State;
use crate::claim::{self, Claim, ClaimEvent, Claims, EventPlace};
use nomad_csi_model::{AllocId, NamespacedId, NodeId, NodeStatus, RemoteVolume};

/// Returns whether the event fits the claims of the volume, its registration and its allocation.
pub(super) fn is_claim_event_valid(
    state: &State,
    volume: &RemoteVolume,
    event: &ClaimEvent,
) -> bool {
    let record = state.claims.get(volume);
    let unclaimed = Claims::default();
    let claims = record.map_or(&unclaimed, |record| &record.claims);
    let fits_others = match event {
        ClaimEvent::Granted { key, claim } => {
            let is_free = !state.claim_keys.contains_key(key);
            is_free && can_be_claimed(state, volume, &claim.volume) && has_alloc(state, key, claim)
        }
        ClaimEvent::ReleaseRequested { .. }
        | ClaimEvent::StepStarted { .. }
        | ClaimEvent::StepDone { .. }
        | ClaimEvent::StepFailed { .. }
        | ClaimEvent::AccessChanged { .. }
        | ClaimEvent::NodeAssumedGone { .. }
        | ClaimEvent::NodeRebooted { .. }
        | ClaimEvent::MountsLost { .. }
        | ClaimEvent::Released { .. }
        | ClaimEvent::ExpansionRequired { .. }
        | ClaimEvent::Orphaned { .. } => true,
    };
    fits_others && claim::is_valid(claims, event)
}

/// A volume that is being deleted gets no claim (W09).
fn can_be_claimed(state: &State, volume: &RemoteVolume, key: &NamespacedId) -> bool {
    let record = state.volumes.get(key);
    record.is_some_and(|record| {
        record.phase == Phase::Registered && record.remote_volume().as_ref() == Some(volume)
    })
}

fn has_alloc(state: &State, key: &claim::ClaimKey, claim: &Claim) -> bool {
    let alloc = state.allocs.get(&key.alloc);
    alloc.is_some_and(|alloc| !alloc.has_ended && alloc.node == claim.node)
}

/// Returns whether the volume has claims, held or not: then it is neither deleted nor deregistered (B09).
pub(super) fn has_claims(state: &State, key: &NamespacedId) -> bool {
    let record = state.volumes.get(key);
    let remote = record.and_then(|record| record.remote_volume());
    let claims = remote.and_then(|volume| state.claims.get(&volume));
    claims.is_some_and(|record| {
        record.claims.tombstone(key).is_none() && record.claims.through(key).next().is_some()
    })
}

/// Returns whether an event about allocations or nodes fits.
pub(super) fn is_node_event_valid(state: &State, kind: &EventKind) -> bool {
    match kind {
        EventKind::AllocStarted { alloc, .. } => !state.allocs.contains_key(alloc),
        EventKind::AllocEnded { alloc } => {
            state.allocs.get(alloc).is_some_and(|alloc| !alloc.has_ended)
        }
        EventKind::AllocForgotten { alloc } => {
            let is_over = |record: &AllocRecord| record.placement.is_none() || record.has_ended;
            state.allocs.get(alloc).is_some_and(is_over) && state.claims_of(alloc).next().is_none()
        }
        EventKind::NodeBooted { node, .. } => state.nodes.contains_key(node),
        EventKind::NodeConnected { node, secret_hash, .. } => {
            let known = state.node_secrets.get(node);
            let is_same = known.is_none_or(|known| secret_hash.as_ref() == Some(known));
            state.nodes.contains_key(node) && is_same
        }
        EventKind::NodeDisconnected { node } => has_status(state, node, NodeStatus::Ready),
        EventKind::NodeDown { node } => has_status(state, node, NodeStatus::Disconnected),
        EventKind::NodeLost { node, .. } => {
            let loss = state.losses.get(node);
            state.nodes.contains_key(node) && loss.is_none_or(|loss| loss.has_returned)
        }
        EventKind::NodeReturned { node } => {
            let loss = state.losses.get(node);
            loss.is_some_and(|loss| !loss.has_returned)
        }
        EventKind::NodeSwept { node } => {
            let loss = state.losses.get(node);
            loss.is_some_and(|loss| loss.has_returned)
        }
        _ => true,
    }
}

fn has_status(state: &State, node: &NodeId, status: NodeStatus) -> bool {
    state.nodes.get(node).is_some_and(|node| node.status == status)
}

/// Performs an event about claims, and shows it at every registration of the volume.
pub(super) fn apply_claim(
    state: &mut State,
    volume: &RemoteVolume,
    event: &ClaimEvent,
    at: EventPlace,
) {
    let mut record = match state.claims.get(volume) {
        Some(record) => ClaimsRecord::clone(record),
        None => ClaimsRecord {
            volume: volume.clone(),
            claims: Claims::default(),
            modify_index: at.index,
            modify_time: at.time,
        },
    };
    claim::apply(&mut record.claims, event, at);
    if let (ClaimEvent::Granted { claim, .. }, None) = (event, &record.claims.expansion)
        && let Some(event) = pending_expansion(state, &claim.volume)
    {
        claim::apply(&mut record.claims, &event, at);
    }
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.put_claims(Arc::new(record));
    state.claims_index = at.index;
    show_at_registrations(state, volume, at);
}

/// The provider has expanded the volume, and nodes have not (W17): the next claim does it.
fn pending_expansion(state: &State, key: &NamespacedId) -> Option<ClaimEvent> {
    let record = state.volumes.get(key)?;
    let to = record.provided.capacity;
    let is_pending = record.node_expansion_pending;
    is_pending.then_some(ClaimEvent::ExpansionRequired { to })
}

/// Starts the second half of an expansion on the nodes that use the volume.
pub(super) fn expand_on_nodes(state: &mut State, key: &NamespacedId, at: EventPlace) {
    let Some(event) = pending_expansion(state, key) else {
        return;
    };
    let Some(volume) = state.remote_volume(key) else {
        return;
    };
    if state.claims.contains_key(&volume) {
        apply_claim(state, &volume, &event, at);
    }
}

/// Removes the record of a volume that has no registration and no claim any more.
pub(super) fn forget_unclaimed(state: &mut State, volume: Option<&RemoteVolume>) {
    let Some(volume) = volume else { return };
    let record = state.claims.get(volume);
    let is_unclaimed = record.is_some_and(|record| record.claims.claims.is_empty());
    if is_unclaimed && state.registrations(volume).next().is_none() {
        state.remove_claims(volume);
    }
}

fn show_at_registrations(state: &mut State, volume: &RemoteVolume, at: EventPlace) {
    let registrations: Vec<_> = state.registrations(volume).cloned().collect();
    let modes = state.claims.get(volume).and_then(|record| record.claims.modes);
    for record in registrations {
        let mut record = VolumeRecord::clone(&record);
        record.used_index = at.index;
        record.used_time = at.time;
        // A volume from before capabilities were stored has those in force (B16).
        if let Some(modes) = modes
            && record.definition.capabilities.is_empty()
        {
            record.definition.capabilities = vec![modes].into();
        }
        if record.node_expansion_pending && !expands(state, volume) {
            record.node_expansion_pending = false;
        }
        state.put(Arc::new(record));
    }
}

fn expands(state: &State, volume: &RemoteVolume) -> bool {
    let record = state.claims.get(volume);
    record.is_some_and(|record| record.claims.expansion.is_some())
}

/// Records an allocation.
pub(super) fn alloc_started(state: &mut State, alloc: &AllocId, node: &NodeId, at: EventPlace) {
    let record = AllocRecord::new(node.clone(), at);
    state.put_alloc(alloc.clone(), record);
    state.allocs_index = at.index;
}

/// Records that an allocation ended.
pub(super) fn alloc_ended(state: &mut State, alloc: &AllocId, at: EventPlace) {
    if let Some(mut record) = state.allocs.get(alloc).cloned() {
        record.has_ended = true;
        record.modify_index = at.index;
        record.modify_time = at.time;
        state.put_alloc(alloc.clone(), record);
    }
    state.allocs_index = at.index;
}

/// Records the boot ID of a node. A new one makes everything doubtful that was there (rule 10 of the
/// claims machine).
pub(super) fn node_booted(state: &mut State, node: &NodeId, boot_id: &str, at: EventPlace) {
    let before = state.boots.insert(node.clone(), boot_id.to_owned());
    state.nodes_index = at.index;
    if before.as_deref() == Some(boot_id) {
        return;
    }
    for volume in claimed_on(state, node) {
        let event = ClaimEvent::NodeRebooted { node: node.clone() };
        apply_claim(state, &volume, &event, at);
    }
}

/// Returns the volumes that have anything on the node.
pub(super) fn claimed_on(state: &State, node: &NodeId) -> Vec<RemoteVolume> {
    let there = state.claims.values().filter(|record| record.claims.nodes().contains(node));
    there.map(|record| record.volume.clone()).collect()
}

/// Records that a node is lost.
pub(super) fn node_lost(state: &mut State, node: &NodeId, reason: &str, at: EventPlace) {
    let loss = NodeLoss { reason: reason.to_owned(), since: at.time, has_returned: false };
    state.losses.insert(node.clone(), loss);
    state.nodes_index = at.index;
}

/// Records that a lost node can be called for a sweep.
pub(super) fn node_returned(state: &mut State, node: &NodeId, at: EventPlace) {
    if let Some(loss) = state.losses.get_mut(node) {
        loss.has_returned = true;
    }
    state.nodes_index = at.index;
}

/// Records that nothing is left on a node that returned.
pub(super) fn node_swept(state: &mut State, node: &NodeId, at: EventPlace) {
    state.losses.remove(node);
    state.nodes_index = at.index;
}
