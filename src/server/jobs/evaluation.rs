//! The events that a decision about a job becomes.
//!
//! A submission or a stop makes a pending evaluation. The scheduler completes it. What could not be placed waits in
//! a blocked evaluation, which changes only if the reasons do, and is complete when everything is placed.

use nomad_csi_claims::place::Decision;
use nomad_csi_claims::state::{
    AllocEvent, Evaluation, EvaluationStatus, EvaluationTrigger, EventKind, JobEvent, JobRecord,
};
use nomad_csi_model::{AllocId, EvaluationId, JobKey};
use nomad_csi_ports::IdSource;

/// Returns the events of a decision; none if nothing changes.
pub(super) fn events_of(
    record: &JobRecord,
    decision: &Decision,
    ids: &dyn IdSource,
) -> Vec<EventKind> {
    let key = record.key();
    let mut evaluations = evaluations_of(record, decision, ids);
    let cause = evaluations.first().map(|one| one.id.clone());
    let cause =
        cause.or_else(|| Some(with_status(record, EvaluationStatus::Blocked).next()?.id.clone()));
    let cause = match (cause, decision.place.is_empty()) {
        (Some(id), _) => id,
        (None, true) => EvaluationId::new(""),
        (None, false) => {
            let id = EvaluationId::new(ids.uuid());
            evaluations.push(Evaluation {
                status: EvaluationStatus::Complete,
                ..Evaluation::pending(id.clone(), EvaluationTrigger::Queued)
            });
            id
        }
    };
    let stops = decision.stop.iter().map(|(alloc, reason)| EventKind::PlacedAlloc {
        alloc: alloc.clone(),
        event: Box::new(AllocEvent::StopRequested { reason: (*reason).to_owned() }),
    });
    let placements = decision.place.iter().map(|placed| EventKind::PlacedAlloc {
        alloc: AllocId::new(ids.uuid()),
        event: Box::new(AllocEvent::Placed {
            job: key.clone(),
            node: placed.node.clone(),
            group: placed.group.clone(),
            index: placed.index,
            evaluation: cause.clone(),
            runs_plugin: runs_plugin(record, &placed.group),
        }),
    });
    let mut events: Vec<_> = stops.chain(placements).collect();
    events.extend(evaluations.into_iter().map(|one| evaluated(&key, one)));
    events
}

fn runs_plugin(record: &JobRecord, group: &str) -> bool {
    let groups = record.current.job.groups.iter();
    let mut tasks = groups.filter(|one| one.name == group).flat_map(|one| &one.tasks);
    tasks.any(|task| task.csi_plugin.is_some())
}

/// Returns the event of a new or changed evaluation.
pub(super) fn evaluated(key: &JobKey, evaluation: Evaluation) -> EventKind {
    EventKind::Job {
        job: key.clone(),
        event: Box::new(JobEvent::Evaluated { evaluation: Box::new(evaluation) }),
    }
}

fn with_status(record: &JobRecord, status: EvaluationStatus) -> impl Iterator<Item = &Evaluation> {
    let all = record.evaluations.iter().map(|one| &one.result);
    all.filter(move |one| one.status == status)
}

/// The evaluations that change, the one that was asked for first.
fn evaluations_of(record: &JobRecord, decision: &Decision, ids: &dyn IdSource) -> Vec<Evaluation> {
    let pending: Vec<_> = with_status(record, EvaluationStatus::Pending).collect();
    let mut blocked: Vec<_> = with_status(record, EvaluationStatus::Blocked).cloned().collect();
    let failures = &decision.failures;
    let mut changed: Vec<Evaluation> = vec![];
    let mut waiting = None;
    if !failures.is_empty() {
        waiting = Some(match blocked.pop() {
            Some(known) if pending.is_empty() => known,
            known => {
                blocked.extend(known);
                Evaluation {
                    status: EvaluationStatus::Blocked,
                    previous: pending.last().map(|one| one.id.clone()),
                    ..Evaluation::pending(EvaluationId::new(ids.uuid()), EvaluationTrigger::Queued)
                }
            }
        });
    }
    changed.extend(pending.into_iter().cloned().map(|one| Evaluation {
        status: EvaluationStatus::Complete,
        blocked: waiting.as_ref().map(|waiting| waiting.id.clone()),
        failures: failures.clone(),
        ..one
    }));
    let over = match failures.is_empty() {
        true => EvaluationStatus::Complete,
        false => EvaluationStatus::Cancelled,
    };
    changed.extend(blocked.into_iter().map(|one| Evaluation {
        status: over,
        failures: Default::default(),
        ..one
    }));
    let is_new =
        |one: &Evaluation| one.failures != *failures || record.evaluation(&one.id).is_none();
    changed
        .extend(waiting.filter(is_new).map(|one| Evaluation { failures: failures.clone(), ..one }));
    changed
}

#[cfg(test)]
mod tests;
