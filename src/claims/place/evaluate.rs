//! [`evaluate()`]: what a job needs, and what it has.
//!
//! Every group has slots: one per index of its `count`, or one per node for the types that run everywhere. A slot
//! keeps one running allocation of the newest version. An outdated or needless one stops, and its replacement is
//! placed at the same time: it waits for the volumes until the old one has given them back. A failed allocation is
//! replaced as its group's `reschedule` says. What each node says to a slot is part of the
//! decision, so an explanation of a placement is the placement itself.

use std::collections::{BTreeMap, BTreeSet};

use super::decision::{Decision, Placed, SlotDecision, SlotOutcome};
use super::drain::must_leave;
use super::feasible::{Candidate, PendingReservations, refusals_beside};
use super::returned::is_needed_for_sweep;
use crate::state::{AllocRecord, JobRecord, JobVersion, Placement, State};
use nomad_csi_model::{
    AllocId, ClientStatus, Node, NodeId, NodeStatus, ReschedulePolicy, TaskGroup,
};

const JOB_STOPPED: &str = "the job was stopped";
const JOB_UPDATED: &str = "the job was updated";
const NOT_NEEDED: &str = "the job needs fewer allocations";
const NODE_LOST: &str = "its node is lost";
const NODE_DOWN: &str = "its node is down";
const NODE_DRAINED: &str = "its node is drained";

/// The allocations of one slot, oldest first.
type Slot<'a> = Vec<(&'a AllocId, &'a AllocRecord, &'a Placement)>;

/// The needs of a slot.
enum Need {
    /// Nothing: this allocation runs.
    Kept(AllocId, NodeId),
    /// Nothing: the work is done, or has failed for good.
    Ended,
    /// An allocation, now.
    Alloc,
    /// An allocation at this time.
    Later(i64),
}

/// Decides what the job needs at this time, in nanoseconds since the epoch.
pub fn evaluate(state: &State, record: &JobRecord, now: i64) -> Decision {
    let mut decision = Decision::default();
    let mut slots = slots_of(state, record);
    let mut promises = PendingReservations::default();
    let mut desired: Vec<(Candidate<'_>, Option<&Node>)> = vec![];
    let groups = match record.should_run() {
        true => &record.current.job.groups[..],
        false => &[][..],
    };
    for group in groups {
        for (index, node) in places_of(state, record, group) {
            let key = (group.name.clone(), index, node.map(|node| node.id.clone()));
            let slot = slots.remove(&key).unwrap_or_default();
            let candidate = Candidate { job: &record.current.job, group, index };
            let need = decide_slot(state, record, group, &slot, now, &mut decision);
            let outcome = match need {
                Need::Kept(alloc, node) => SlotOutcome::Runs { alloc, node },
                Need::Ended => SlotOutcome::Ended,
                Need::Alloc => {
                    desired.push((candidate, node));
                    SlotOutcome::Waits
                }
                Need::Later(at) => {
                    decision.wake_at = Some(decision.wake_at.map_or(at, |known| known.min(at)));
                    SlotOutcome::PausesUntil(at)
                }
            };
            if matches!(outcome, SlotOutcome::Runs { .. } | SlotOutcome::Ended) {
                *decision.unchanged.entry(group.name.clone()).or_default() += 1;
            }
            // A desired slot follows once a node is chosen.
            if outcome != SlotOutcome::Waits {
                decision.slots.push(SlotDecision {
                    group: group.name.clone(),
                    index,
                    outcome,
                    refusals: BTreeMap::new(),
                });
            }
        }
    }
    let needless = slots.into_values().flatten();
    let needless = needless.filter(|(_, alloc, placement)| is_live(alloc, placement));
    decision.stop.extend(needless.map(|(id, alloc, placement)| {
        let reason = match record.is_stopped {
            true => JOB_STOPPED,
            false => unfit_node(state, record, alloc, placement.task_group()).unwrap_or(NOT_NEEDED),
        };
        (id.clone(), reason)
    }));
    promises.replaced = leaving(state, record, &decision);
    let mut loads = match desired.is_empty() {
        true => BTreeMap::new(),
        false => loads_of(state),
    };
    for (candidate, node) in desired {
        place(state, (candidate, node), &mut promises, &mut loads, &mut decision);
    }
    let order = |slot: &SlotDecision| {
        let position = groups.iter().position(|group| group.name == slot.group);
        (position, slot.index)
    };
    decision.slots.sort_by_key(order);
    decision
}

type SlotKey = (String, u32, Option<NodeId>);

fn slots_of<'a>(state: &'a State, record: &JobRecord) -> BTreeMap<SlotKey, Slot<'a>> {
    let is_per_node = record.current.job.job_type.is_per_node();
    let mut slots: BTreeMap<SlotKey, Slot<'a>> = BTreeMap::new();
    for (id, alloc, placement) in state.allocs_of_job(&record.key()) {
        let node = is_per_node.then(|| alloc.node.clone());
        let key = (placement.group.clone(), placement.index, node);
        slots.entry(key).or_default().push((id, alloc, placement));
    }
    for slot in slots.values_mut() {
        slot.sort_by_key(|(id, alloc, _)| (alloc.create_index, *id));
    }
    slots
}

/// The slots of a group: its indexes, or the nodes. A node that is not eligible or not connected keeps what runs there, and one
/// that is lost has none before it has returned.
fn places_of<'a>(
    state: &'a State,
    record: &JobRecord,
    group: &TaskGroup,
) -> Vec<(u32, Option<&'a Node>)> {
    if record.current.job.job_type.is_per_node() {
        let keeps = |node: &Node| {
            let mut allocs = state.allocs_of_job(&record.key());
            allocs.any(|(_, alloc, placement)| {
                let is_here = alloc.node == node.id && placement.group == group.name;
                is_here
                    && is_live(alloc, placement)
                    && unfit_node(state, record, alloc, Some(group)).is_none()
            })
        };
        let nodes = state.nodes().filter(|node| {
            let loss = state.node_loss(&node.id);
            let is_gone = loss.is_some_and(|loss| !loss.has_returned);
            let takes_more = node.is_eligible && node.status == NodeStatus::Ready;
            let is_usual = !is_gone && (takes_more || keeps(node));
            group.count > 0 && (is_usual || is_needed_for_sweep(state, &node.id, group))
        });
        return nodes.map(|node| (0, Some(node))).collect();
    }
    let count = u32::try_from(group.count).unwrap_or(0);
    (0..count).map(|index| (index, None)).collect()
}

/// Stops what must not run in the slot, and returns what it needs.
fn decide_slot(
    state: &State,
    record: &JobRecord,
    group: &TaskGroup,
    slot: &Slot<'_>,
    now: i64,
    decision: &mut Decision,
) -> Need {
    let mut kept = None;
    for (id, alloc, placement) in slot.iter().rev() {
        if !is_live(alloc, placement) {
            continue;
        }
        let reason = match unfit(state, record, group, alloc, placement) {
            Some(reason) => reason,
            None if kept.is_some() => NOT_NEEDED,
            None => {
                kept = Some(((*id).clone(), alloc.node.clone()));
                continue;
            }
        };
        decision.stop.push(((*id).clone(), reason));
    }
    match kept {
        Some((alloc, node)) => Need::Kept(alloc, node),
        None => need_after(&record.current, group, slot, now),
    }
}

/// Why an allocation cannot stay; `None` if it can.
fn unfit(
    state: &State,
    record: &JobRecord,
    group: &TaskGroup,
    alloc: &AllocRecord,
    placement: &Placement,
) -> Option<&'static str> {
    let is_outdated = || !is_same(&record.current, &placement.job, group);
    unfit_node(state, record, alloc, Some(group)).or_else(|| is_outdated().then_some(JOB_UPDATED))
}

/// Why an allocation cannot stay on its node; `None` if it can.
fn unfit_node(
    state: &State,
    record: &JobRecord,
    alloc: &AllocRecord,
    group: Option<&TaskGroup>,
) -> Option<&'static str> {
    if group.is_some_and(|group| is_needed_for_sweep(state, &alloc.node, group)) {
        return None;
    }
    if state.node_loss(&alloc.node).is_some() {
        return Some(NODE_LOST);
    }
    let job_type = record.current.job.job_type;
    let node = state.node(&alloc.node);
    // What runs on every node has no other place, and the node needs its plugins when it returns.
    let is_down = node.is_some_and(|node| node.status == NodeStatus::Down);
    if is_down && !job_type.is_per_node() {
        return Some(NODE_DOWN);
    }
    let leaves = node.is_none_or(|node| must_leave(state, node, job_type));
    leaves.then_some(NODE_DRAINED)
}

/// Returns whether an update left the group and what it depends on as it was.
fn is_same(current: &JobVersion, placed: &JobVersion, group: &TaskGroup) -> bool {
    if current.version == placed.version {
        return true;
    }
    let before = placed.job.groups.iter().find(|one| one.name == group.name);
    // Only the scheduler reads these.
    let placed_alike =
        |group: &TaskGroup| TaskGroup { count: 0, canaries: 0, reschedule: None, ..group.clone() };
    current.settings == placed.settings
        && current.job.job_type == placed.job.job_type
        && current.job.constraints == placed.job.constraints
        && current.job.datacenters == placed.job.datacenters
        && before.is_some_and(|before| placed_alike(before) == placed_alike(group))
}

fn is_live(alloc: &AllocRecord, placement: &Placement) -> bool {
    !alloc.has_ended && placement.stop_reason.is_none()
}

/// Returns what a slot without a running allocation needs, after what happened there.
fn need_after(current: &JobVersion, group: &TaskGroup, slot: &Slot<'_>, now: i64) -> Need {
    let ended = slot.iter().filter(|(_, alloc, placement)| {
        let is_own = placement.job.version == current.version;
        alloc.has_ended && placement.stop_reason.is_none() && is_own
    });
    let ended: Vec<_> = ended.collect();
    let Some((_, last, placement)) = ended.last() else {
        return Need::Alloc;
    };
    let job_type = current.job.job_type;
    let report = placement.report.as_ref();
    let is_complete = report.is_some_and(|report| report.status == ClientStatus::Complete);
    if job_type.ends() && is_complete {
        return Need::Ended;
    }
    let replaced = ended.iter().skip(1);
    let replaced: Vec<i64> = replaced.map(|(_, alloc, _)| alloc.create_time).collect();
    let default = ReschedulePolicy::of_type(job_type);
    let policy = group.reschedule.as_ref().unwrap_or(&default);
    let Some(pause) = policy.next_pause(&replaced, last.modify_time) else {
        return Need::Ended;
    };
    let pause = i64::try_from(pause.as_nanos()).unwrap_or(i64::MAX);
    let at = last.modify_time.saturating_add(pause);
    // The end of an allocation that lies ahead was recorded before the clock was set back.
    match now >= at || last.modify_time > now {
        true => Need::Alloc,
        false => Need::Later(at),
    }
}

/// The allocations of the job that are stopping or will: a new one may wait for their volumes.
fn leaving(state: &State, record: &JobRecord, decision: &Decision) -> BTreeSet<AllocId> {
    let own = state.allocs_of_job(&record.key());
    let stopping =
        own.filter(|(_, alloc, placement)| !is_live(alloc, placement)).map(|(id, ..)| id.clone());
    let stopped = decision.stop.iter().map(|(id, _)| id.clone());
    stopping.chain(stopped).collect()
}

/// How many allocations each node runs.
fn loads_of(state: &State) -> BTreeMap<NodeId, usize> {
    let mut loads = BTreeMap::new();
    for (_, alloc) in state.allocs() {
        if !alloc.has_ended && alloc.placement.is_some() {
            *loads.entry(alloc.node.clone()).or_default() += 1;
        }
    }
    loads
}

/// Places a candidate on the given node, or on the one with the fewest allocations, rather not on one that is swept.
fn place(
    state: &State,
    (candidate, only): (Candidate<'_>, Option<&Node>),
    promises: &mut PendingReservations,
    loads: &mut BTreeMap<NodeId, usize>,
    decision: &mut Decision,
) {
    let nodes: Vec<&Node> = match only {
        Some(node) => vec![node],
        None => state.nodes().collect(),
    };
    let mut refused = BTreeMap::new();
    let mut takers = vec![];
    for node in nodes {
        let reasons = refusals_beside(state, candidate, node, promises);
        match reasons.is_empty() {
            true => takers.push(node),
            false => drop(refused.insert(node.id.clone(), reasons)),
        }
    }
    let load = |node: &&&Node| {
        let is_swept = is_needed_for_sweep(state, &node.id, candidate.group);
        (is_swept, loads.get(&node.id).copied(), node.id.clone())
    };
    let group = candidate.group.name.clone();
    let outcome = match takers.iter().min_by_key(load) {
        Some(node) => {
            promises.add(state, candidate, &node.id);
            *loads.entry(node.id.clone()).or_default() += 1;
            decision.place.push(Placed {
                group: group.clone(),
                index: candidate.index,
                node: node.id.clone(),
            });
            SlotOutcome::Placed(node.id.clone())
        }
        None => {
            let failure = decision.failures.entry(group.clone()).or_default();
            failure.queued += 1;
            failure.nodes.extend(refused.clone());
            SlotOutcome::Waits
        }
    };
    decision.slots.push(SlotDecision { group, index: candidate.index, outcome, refusals: refused });
}

#[cfg(test)]
mod tests;
