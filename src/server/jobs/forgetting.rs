//! Decides which records of jobs to forget: ended allocations that are too many, launches that are too many, a job that is over, and
//! a purged job with all its allocations. Pure.
//!
//! An allocation with a claim stays, and so does its job: the volume is given back first. So does one that is an instance of a
//! plugin on record: its node says when its process is gone.

use std::collections::BTreeMap;

use crate::error::LeftInstance;
use nomad_csi_claims::place::{Decision, evaluate};
use nomad_csi_claims::state::{AllocRecord, EventKind, JobEvent, JobRecord, State};
use nomad_csi_model::{AllocId, JobKey};

/// How long a purged job without allocations stays on record, so that a client that follows its last evaluation finds it.
const PURGED_STAY: i64 = 60_000_000_000;
/// How long a job that is over stays on record, for people.
const OVER_STAY: i64 = 24 * 3_600 * 1_000_000_000;
/// How many jobs of a periodic one are kept after they are over, so that frequent ones leave room for all others.
const LAUNCHES: usize = 10;
/// How many of them are purged at once.
const PURGED_AT_ONCE: usize = 100;
/// The most events of a commit that forgets jobs with their namespace.
const FORGOTTEN_AT_ONCE: usize = 1_000;
/// How many ended allocations of a slot are kept, for people and for the pauses of a failing service. A slot that may
/// fail more often keeps all that its policy counts.
const ENDED_ALLOCS: usize = 10;

/// The events that forget records now.
#[derive(Default)]
pub(super) struct Forgotten {
    pub(super) events: Vec<EventKind>,
    /// When there is more to forget, in nanoseconds since the epoch.
    pub(super) look_again_at: Option<i64>,
}

/// Returns what of a job is forgotten, given what is decided about it.
pub(super) fn forgotten(
    state: &State,
    record: &JobRecord,
    decision: &Decision,
    now: i64,
) -> Forgotten {
    let key = record.key();
    let mut slots: BTreeMap<(&str, u32), Vec<(u64, &AllocId)>> = BTreeMap::new();
    let (mut kept, mut last_change) = (0, record.latest().map_or(0, |latest| latest.create_time));
    for (id, alloc, placement) in state.allocs_of_job(&key) {
        last_change = last_change.max(alloc.modify_time);
        if is_left(state, id, alloc) {
            let slot = (&*placement.group, placement.index);
            slots.entry(slot).or_default().push((alloc.create_index, id));
        } else {
            kept += 1;
        }
    }
    let limit = |group: &str| match record.is_purged {
        true => 0,
        false => ENDED_ALLOCS.max(counted_ends(record, group)),
    };
    let mut forgotten = Forgotten { events: oldest(slots, limit), look_again_at: None };
    forgotten.events.extend(old_launches(state, record, now));
    let (stay, event) = match (record.is_purged, kept) {
        (true, 0) => (PURGED_STAY, JobEvent::Forgotten),
        (false, 0) if is_over(record, decision) => (OVER_STAY, JobEvent::Stopped { purges: true }),
        _ => return forgotten,
    };
    let until = last_change.saturating_add(stay);
    if now < until {
        forgotten.look_again_at = Some(until);
    } else {
        let event = Box::new(event);
        forgotten.events.push(EventKind::Job { job: key, event });
    }
    forgotten
}

/// Returns the events that purge all but the newest of the jobs that a periodic one has launched and that are over.
fn old_launches(state: &State, record: &JobRecord, now: i64) -> Vec<EventKind> {
    if record.current.job.periodic.is_none() {
        return vec![];
    }
    let is_kept = |child: &JobRecord| {
        let mut allocs = state.allocs_of_job(&child.key());
        child.is_purged
            || allocs.any(|(_, alloc, _)| !alloc.has_ended)
            || !is_over(child, &evaluate(state, child, now))
    };
    let children = state.children_of(&record.key());
    let over = children.filter(|child| !is_kept(child));
    let mut over: Vec<_> = over.map(|it| (it.create_index, it.key())).collect();
    over.sort_unstable();
    over.truncate(over.len().saturating_sub(LAUNCHES));
    let purge =
        |(_, job)| EventKind::Job { job, event: Box::new(JobEvent::Stopped { purges: true }) };
    over.into_iter().take(PURGED_AT_ONCE).map(purge).collect()
}

/// Returns the events that forget jobs and all their allocations at once; `None` if one of them runs something, has a claim
/// or was not stopped, or if these are more than a commit should have.
pub(crate) fn forget_stopped(state: &State, jobs: &[JobKey]) -> Option<Vec<EventKind>> {
    let mut events = vec![];
    for key in jobs {
        let record = state.job(key).filter(|record| record.is_stopped)?;
        let of_job = |event| EventKind::Job { job: key.clone(), event: Box::new(event) };
        events.extend((!record.is_purged).then(|| of_job(JobEvent::Stopped { purges: true })));
        for (id, alloc, _) in state.allocs_of_job(key) {
            if !is_left(state, id, alloc) {
                return None;
            }
            events.push(EventKind::AllocForgotten { alloc: id.clone() });
        }
        events.push(of_job(JobEvent::Forgotten));
        if events.len() > FORGOTTEN_AT_ONCE {
            return None;
        }
    }
    Some(events)
}

/// Returns the plugin instances of ended allocations of these jobs: their nodes have not reported that the processes are gone.
pub(crate) fn left_instances(state: &State, jobs: &[JobKey]) -> Vec<LeftInstance> {
    let allocs = jobs
        .iter()
        .flat_map(|job| state.allocs_of_job(job).map(move |(id, alloc, _)| (job, id, alloc)));
    let ended = allocs.filter(|(_, _, alloc)| alloc.has_ended);
    let left = ended.flat_map(|(job, id, alloc)| {
        state.plugins_of_instance(id).map(move |plugin| LeftInstance {
            job: job.id.clone(),
            alloc: id.clone(),
            node: alloc.node.clone(),
            plugin: plugin.clone(),
        })
    });
    left.collect()
}

/// Returns whether nothing of an allocation is left but its record.
fn is_left(state: &State, id: &AllocId, alloc: &AllocRecord) -> bool {
    alloc.has_ended
        && state.claims_of(id).next().is_none()
        && state.plugins_of_instance(id).next().is_none()
}

/// Returns whether a job without running allocations will not run again by itself.
pub(super) fn is_over(record: &JobRecord, decision: &Decision) -> bool {
    let is_idle =
        decision.place.is_empty() && decision.failures.is_empty() && decision.wake_at.is_none();
    let job = &record.current.job;
    is_idle && (record.is_stopped || (job.job_type.ends() && !job.is_template()))
}

/// How many ends of a slot decide whether it is replaced: those of its attempts, and the first one.
fn counted_ends(record: &JobRecord, group: &str) -> usize {
    let group = record.current.job.groups.iter().find(|it| it.name == group);
    let policy = group.and_then(|group| group.reschedule.as_ref());
    let attempts = policy.filter(|policy| !policy.unlimited).map(|policy| policy.attempts);
    attempts.map_or(0, |attempts| {
        usize::try_from(attempts).map_or(usize::MAX, |it| it.saturating_add(1))
    })
}

/// Returns the events that forget all but the newest allocations of each slot.
fn oldest(
    slots: BTreeMap<(&str, u32), Vec<(u64, &AllocId)>>,
    limit: impl Fn(&str) -> usize,
) -> Vec<EventKind> {
    let old = slots.into_iter().flat_map(|((group, _), mut slot)| {
        slot.sort_unstable();
        slot.truncate(slot.len().saturating_sub(limit(group)));
        slot
    });
    let forget = |(_, alloc): (u64, &AllocId)| EventKind::AllocForgotten { alloc: alloc.clone() };
    old.map(forget).collect()
}
