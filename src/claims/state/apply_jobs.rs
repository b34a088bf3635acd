//! The transitions of jobs and of the allocations that were placed for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::claims_record::AllocRecord;
use super::job_record::{
    AllocEvent, EarlierVersion, Evaluation, EvaluationRecord, JobEvent, JobRecord, JobVersion,
    Placement,
};
use super::shared::Shared;
use super::tables::State;
use crate::claim::EventPlace;
use nomad_csi_model::{AllocId, AllocReport, Job, JobKey, SealedSecrets};

/// Returns whether an event about a job fits.
pub(super) fn is_job_event_valid(state: &State, key: &JobKey, event: &JobEvent) -> bool {
    let record = state.jobs.get(key);
    match event {
        JobEvent::Registered { job, .. } => job.namespace == key.namespace && job.id == key.id,
        JobEvent::Stopped { purges } => {
            record.is_some_and(|record| !record.is_stopped || (*purges && !record.is_purged))
        }
        JobEvent::Evaluated { .. } => record.is_some(),
        JobEvent::Launched { until } => record.is_some_and(|record| {
            record.starts_by_itself() && record.launched_until != Some(*until)
        }),
        JobEvent::Forgotten => {
            record.is_some_and(|record| record.is_purged)
                && state.allocs_of_job(key).next().is_none()
        }
    }
}

/// Returns whether an event about a placed allocation fits.
pub(super) fn is_alloc_event_valid(state: &State, alloc: &AllocId, event: &AllocEvent) -> bool {
    let record = state.allocs.get(alloc);
    let is_running = |record: &AllocRecord| record.placement.is_some() && !record.has_ended;
    match event {
        AllocEvent::Placed { job, node, group, .. } => {
            let has_group = |record: &Arc<JobRecord>| {
                let mut groups = record.current.job.groups.iter();
                !record.is_stopped && groups.any(|one| one.name == *group)
            };
            record.is_none()
                && state.nodes.contains_key(node)
                && state.jobs.get(job).is_some_and(has_group)
        }
        AllocEvent::StopRequested { .. }
        | AllocEvent::CutOff { .. }
        | AllocEvent::Reported { .. } => record.is_some_and(is_running),
    }
}

/// Performs an event about a job.
pub(super) fn apply_job(state: &mut State, key: &JobKey, event: &JobEvent, at: EventPlace) {
    state.jobs_index = at.index;
    let serves = |state: &State| {
        let record = state.jobs.get(key);
        record.is_some_and(|record| record.current.job.served_plugins().next().is_some())
    };
    let served = serves(state);
    match event {
        JobEvent::Registered { job, settings, earlier } => {
            let current = (&**job, settings);
            registered(state, key, current, *earlier, at);
        }
        JobEvent::Stopped { purges } => change(state, key, at, |record| {
            record.is_stopped = true;
            record.is_purged |= *purges;
            record.job_modify_index = at.index;
        }),
        JobEvent::Evaluated { evaluation } => {
            change(state, key, at, |record| evaluated(record, evaluation, at));
        }
        JobEvent::Launched { until } => change(state, key, at, |record| {
            record.launched_until = Some(*until);
        }),
        JobEvent::Forgotten => state.remove_job(key),
    }
    let is_about_job = match event {
        JobEvent::Evaluated { .. } | JobEvent::Launched { .. } => false,
        JobEvent::Registered { .. } | JobEvent::Stopped { .. } | JobEvent::Forgotten => true,
    };
    if is_about_job && (served || serves(state)) {
        state.plugins_index = at.index;
    }
}

fn registered(
    state: &mut State,
    key: &JobKey,
    (job, settings): (&Job, &SealedSecrets),
    earlier: usize,
    at: EventPlace,
) {
    let before = state.jobs.get(key);
    let current = JobVersion {
        job: job.clone(),
        settings: settings.clone(),
        version: before.map_or(0, |record| record.current.version + 1),
    };
    let record = JobRecord {
        current: Shared::from(current),
        earlier: before.map_or_else(Vec::new, |record| kept_versions(record, earlier)),
        is_stopped: false,
        is_purged: false,
        evaluations: before.map_or_else(Vec::new, |record| record.evaluations.clone()),
        create_index: before.map_or(at.index, |record| record.create_index),
        modify_index: at.index,
        job_modify_index: at.index,
        submit_time: at.time,
        launched_until: job.periodic.is_some().then_some(at.time),
    };
    state.put_job(Arc::new(record));
}

/// The newest versions of a job that is replaced. Readers do not see those of a purged one.
fn kept_versions(before: &JobRecord, count: usize) -> Vec<EarlierVersion> {
    if before.is_purged {
        return vec![];
    }
    let versions = before.versions().take(count.min(JobRecord::MAX_EARLIER));
    let mut kept: Vec<_> = versions.collect();
    kept.reverse();
    kept
}

fn evaluated(record: &mut JobRecord, evaluation: &Evaluation, at: EventPlace) {
    let known = record.evaluations.iter_mut().find(|known| known.result.id == evaluation.id);
    if let Some(known) = known {
        known.result = evaluation.clone();
        known.modify_index = at.index;
        known.modify_time = at.time;
        return;
    }
    record.evaluations.push(EvaluationRecord {
        result: evaluation.clone(),
        create_index: at.index,
        modify_index: at.index,
        create_time: at.time,
        modify_time: at.time,
    });
    let excess = record.evaluations.len().saturating_sub(JobRecord::MAX_EVALUATIONS);
    record.evaluations.drain(..excess);
}

fn change(state: &mut State, key: &JobKey, at: EventPlace, edit: impl FnOnce(&mut JobRecord)) {
    if let Some(record) = state.jobs.get_mut(key) {
        let record = Arc::make_mut(record);
        edit(record);
        record.modify_index = at.index;
    }
}

/// Performs an event about a placed allocation.
pub(super) fn apply_alloc(state: &mut State, alloc: &AllocId, event: &AllocEvent, at: EventPlace) {
    state.allocs_index = at.index;
    match event {
        AllocEvent::Placed { job, node, group, index, evaluation, runs_plugin: _ } => {
            let Some(record) = state.jobs.get(job) else {
                return;
            };
            let placement = Placement {
                job: record.current.clone(),
                group: group.clone(),
                index: *index,
                evaluation: evaluation.clone(),
                stop_reason: None,
                cut_off: BTreeSet::new(),
                report: None,
            };
            let record = AllocRecord {
                placement: Some(Box::new(placement)),
                ..AllocRecord::new(node.clone(), at)
            };
            state.put_alloc(alloc.clone(), record);
        }
        AllocEvent::StopRequested { reason } => change_placement(state, alloc, at, |placement| {
            placement.stop_reason.get_or_insert_with(|| reason.clone());
        }),
        AllocEvent::CutOff { alias } => change_placement(state, alloc, at, |placement| {
            placement.cut_off.insert(alias.clone());
        }),
        AllocEvent::Reported { report } => reported(state, alloc, report, at),
    }
}

/// A terminal status ends the allocation: then its claims are released.
fn reported(state: &mut State, alloc: &AllocId, report: &AllocReport, at: EventPlace) {
    change_placement(state, alloc, at, |placement| {
        placement.report = Some(report.clone());
    });
    if report.status.is_terminal()
        && let Some(mut record) = state.allocs.get(alloc).cloned()
    {
        record.has_ended = true;
        state.put_alloc(alloc.clone(), record);
    }
}

fn change_placement(
    state: &mut State,
    alloc: &AllocId,
    at: EventPlace,
    edit: impl FnOnce(&mut Placement),
) {
    let Some(mut record) = state.allocs.get(alloc).cloned() else {
        return;
    };
    if let Some(placement) = record.placement.as_deref_mut() {
        edit(placement);
    }
    record.modify_index = at.index;
    record.modify_time = at.time;
    state.put_alloc(alloc.clone(), record);
}

#[cfg(test)]
mod tests;
