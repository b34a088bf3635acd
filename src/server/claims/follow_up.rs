//! The events that are written together with the end of a step ([`follow_up()`]) or with a grant ([`first_step()`]).
//!
//! A first claim makes a step due, and the end of a step often makes the next step on the same node due, or the
//! release of a claim. Both are one durable write then. A step is only started like this if its call is sent
//! at once: under the same call lock, to the same instance of the plugin, with the permit that its predecessor had.
//! One that has to wait is not started (rule 2 of the claims machine), nor is one that was tried before,
//! which may pause.

use super::step_request::step_started;
use crate::cell::Expected;
use nomad_csi_claims::claim::{
    CallLock, ClaimEvent, ClaimKey, Claims, EventPlace, Known, Step, apply, next_steps,
};
use nomad_csi_claims::state::{AllocRecord, EventKind, State};
use nomad_csi_model::{AllocId, NodeId, RemoteVolume};

/// A step that is done.
pub(super) struct DoneStep<'a> {
    pub volume: &'a RemoteVolume,
    pub step: &'a Step,
    /// The instance of the plugin that answered.
    pub instance: &'a AllocId,
    /// The event that records its end.
    pub event: &'a ClaimEvent,
    /// True if its permit is still held, so that another call can be sent at once.
    pub has_permit: bool,
}

/// Returns the step that becomes due and can be written together with the end of this one; `None` if the
/// driver has to decide. It is a [`Step::Release`], or a step to call.
pub(super) fn follow_up(state: &State, done: &DoneStep<'_>) -> Option<Step> {
    let before = &state.claims(done.volume)?.claims;
    let call_lock = call_lock(before, done.step);
    let record = after(before, done.event);
    let facts = state.claim_facts(&done.volume.plugin_id, &record);
    let steps = next_steps(&record, &facts);
    if let Some(release) = steps.iter().find(|step| matches!(step, Step::Release(_))) {
        return Some(release.clone());
    }
    let Some(CallLock::Node(node)) = &call_lock else {
        return None;
    };
    let newest = state.node_instance(&done.volume.plugin_id, node)?;
    let can_continue = done.has_permit && newest.alloc_id == *done.instance;
    let is_untried = |step: &Step| {
        let effect = step.effect();
        effect.is_some_and(|effect| record.known(&effect) != Known::Maybe)
    };
    let mut in_call_lock =
        steps.into_iter().filter(|step| call_lock == self::call_lock(&record, step));
    in_call_lock.find(|step| can_continue && is_untried(step))
}

/// Returns the step that the first claim of a volume makes due, with the event of its start, if it is a
/// call to the claim's node. The caller holds a permit for the call.
pub(super) fn first_step(
    state: &State,
    volume: &RemoteVolume,
    granted: &ClaimEvent,
    node: &NodeId,
) -> Option<(Step, ClaimEvent)> {
    if state.claims(volume).is_some() {
        return None;
    }
    let record = after(&Claims::default(), granted);
    let facts = state.claim_facts(&volume.plugin_id, &record);
    let mut steps = next_steps(&record, &facts).into_iter();
    let (Some(step), None) = (steps.next(), steps.next()) else {
        return None;
    };
    if !matches!(step, Step::NodeStage(_) | Step::NodePublish(_)) {
        return None;
    }
    let instance = state.node_instance(&volume.plugin_id, node)?;
    let started = step_started(state, volume, &record, &step, &instance.alloc_id);
    Some((step, started))
}

/// Returns the record after an event that is about to be committed.
fn after(record: &Claims, event: &ClaimEvent) -> Claims {
    let mut record = record.clone();
    apply(&mut record, event, EventPlace { index: 0, time: 0 });
    record
}

fn call_lock(record: &Claims, step: &Step) -> Option<CallLock> {
    let node_of = |key: &ClaimKey| record.claims.get(key).map(|claim| claim.node.clone());
    step.call_lock(node_of)
}

/// Returns the events that start the step that follows, or carry it out, and what they rely on.
pub(super) fn follow_up_events(
    state: &State,
    done: &DoneStep<'_>,
    next: &Step,
) -> (Vec<Expected>, Vec<EventKind>) {
    match next {
        Step::Release(key) => release_events(state, done.volume, key),
        _ => {
            let unclaimed = Claims::default();
            let before = state.claims(done.volume);
            let before = before.map_or(&unclaimed, |record| &record.claims);
            let record = after(before, done.event);
            let event = step_started(state, done.volume, &record, next, done.instance);
            let due = Expected::StepDue(done.volume.clone(), next.clone());
            (vec![due], vec![claim_event(done.volume, event)])
        }
    }
}

/// Returns the events that remove a claim of which nothing is left, and its allocation with its last
/// claim, and what they rely on: other claims of the allocation may go at the same moment, and one of them is
/// the last. An allocation that was placed for a job stays: its job forgets it.
pub(super) fn release_events(
    state: &State,
    volume: &RemoteVolume,
    key: &ClaimKey,
) -> (Vec<Expected>, Vec<EventKind>) {
    let mut events = vec![claim_event(volume, ClaimEvent::Released { key: key.clone() })];
    let alloc = &key.alloc;
    let is_of_claims = |record: &AllocRecord| record.placement.is_none();
    let is_last = state.has_one_claim(alloc);
    if state.alloc(alloc).is_some_and(is_of_claims) && is_last {
        events.push(EventKind::AllocForgotten { alloc: alloc.clone() });
    }
    let due = Expected::StepDue(volume.clone(), Step::Release(key.clone()));
    let last = Expected::LastClaim { volume: volume.clone(), alloc: alloc.clone(), is_last };
    (vec![due, last], events)
}

/// Returns an event about the claims of a volume.
pub(super) fn claim_event(volume: &RemoteVolume, event: ClaimEvent) -> EventKind {
    EventKind::Claim { volume: volume.clone(), event: Box::new(event) }
}

#[cfg(test)]
mod tests;
