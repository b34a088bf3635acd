//! Jobs that a client makes: from a parameterized job, and from a periodic one before its time.

use super::children::{DispatchRequest, dispatch_problem, dispatched_job, launched_job};
use super::service::{CONFLICT_RETRIES, JobService, JobWritten, Result, busy, namespace_of};
use crate::cell::{CommitError, Expected};
use crate::error::JobError;
use nomad_csi_claims::state::{EvaluationTrigger, Event, JobRecord};
use nomad_csi_model::{EvaluationId, Job, JobId, JobKey};

/// A job that was made on request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDispatched {
    /// Its ID.
    pub id: JobId,
    /// Its evaluation; `None` for a repeated request, and for a job that starts by itself.
    pub evaluation: Option<EvaluationId>,
    /// The index of its registration.
    pub create_index: u64,
    /// The index of the write.
    pub index: u64,
}

impl JobService {
    /// Makes a job from a parameterized one. The same idempotency token names the same job, as long as it is kept.
    ///
    /// # Errors
    /// If the job does not take the request. Nothing is recorded then.
    pub async fn dispatch(&self, key: &JobKey, request: &DispatchRequest) -> Result<JobDispatched> {
        let token = request.idempotency_token.as_str();
        let permit = match token {
            "" => None,
            _ => Some(self.dispatches.acquire(key.clone()).await.map_err(|_| busy(key))?),
        };
        for _ in 0..CONFLICT_RETRIES {
            let known = self.ports.cell.read(|state| state.job(key).cloned());
            let Some(known) = known.filter(|known| !known.is_purged) else {
                return Err(JobError::refused(key, "parameterized job not found").into());
            };
            check_dispatch(key, &known, request)?;
            if let Some(done) = self.dispatched_before(key, token) {
                return Ok(done);
            }
            let now = self.ports.clock.now();
            let parent = self.sealer.open(&known.current)?;
            let child = dispatched_job(&parent, request, now, &self.ports.ids.uuid());
            // The prefix becomes a part of its ID.
            self.checked(&child.key(), &child)?;
            match self.make_child(&known, &child, EvaluationTrigger::Registered, now).await {
                Ok((evaluation, index)) => {
                    drop(permit);
                    let create_index = index - u64::from(evaluation.is_some());
                    return Ok(JobDispatched { id: child.id, evaluation, create_index, index });
                }
                Err(CommitError::JobConflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(key))
    }

    /// Launches a periodic job now, whatever runs of it.
    ///
    /// # Errors
    /// If it does not exist, or does not start by itself. Nothing is recorded then.
    pub async fn launch(&self, key: &JobKey) -> Result<JobWritten> {
        for _ in 0..CONFLICT_RETRIES {
            let known = self.ports.cell.read(|state| state.job(key).cloned());
            let Some(known) = known.filter(|known| !known.is_purged) else {
                return Err(JobError::refused(key, "job not found").into());
            };
            if known.current.job.periodic.is_none() {
                return Err(JobError::refused(key, "can't force launch non-periodic job").into());
            }
            if !known.starts_by_itself() {
                let (id, namespace) = (&key.id, &key.namespace);
                let text = format!(
                    "force launch for job \"{id}\" failed: can't force run non-tracked job \"{id}\" ({namespace})"
                );
                return Err(JobError::refused(key, text).into());
            }
            let now = self.ports.clock.now();
            let parent = self.sealer.open(&known.current)?;
            let child = launched_job(&parent, now);
            let child_key = child.key();
            let is_launched = self.ports.cell.read(|state| state.job(&child_key).is_some());
            if is_launched {
                // Another launch of the same second.
                return self.evaluate(&child_key).await;
            }
            match self.make_child(&known, &child, EvaluationTrigger::Launched, now).await {
                Ok((evaluation, index)) => {
                    return Ok(JobWritten {
                        evaluation,
                        job_modify_index: index - 1,
                        index,
                        warnings: vec![],
                    });
                }
                Err(CommitError::JobConflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(key))
    }

    fn dispatched_before(&self, key: &JobKey, token: &str) -> Option<JobDispatched> {
        if token.is_empty() {
            return None;
        }
        self.ports.cell.read(|state| {
            let mut children = state.children_of(key).filter(|child| !child.is_purged);
            let known = children.find(|child| {
                let origin = child.current.job.origin.as_ref();
                let dispatch = origin.and_then(|origin| origin.dispatch.as_ref());
                dispatch.is_some_and(|dispatch| dispatch.idempotency_token == token)
            })?;
            Some(JobDispatched {
                id: known.current.job.id.clone(),
                evaluation: None,
                create_index: known.create_index,
                index: known.modify_index,
            })
        })
    }

    /// Registers a job that is made from another one, which is still as it was read.
    async fn make_child(
        &self,
        parent: &JobRecord,
        child: &Job,
        trigger: EvaluationTrigger,
        now: i64,
    ) -> std::result::Result<(Option<EvaluationId>, u64), CommitError> {
        let key = child.key();
        let evaluation = EvaluationId::new(self.ports.ids.uuid());
        let evaluation = (!child.is_template()).then_some(evaluation);
        let events = self.sealer.registration(child, evaluation.clone(), trigger);
        let events = events.into_iter().map(|event| Event::new(now, event));
        let expected = vec![
            namespace_of(&key),
            Expected::JobAt(parent.key(), Some(parent.modify_index)),
            Expected::JobAt(key, None),
        ];
        let index = self.ports.cell.commit_all(expected, events.collect()).await?;
        Ok((evaluation, index))
    }
}

/// Checks that a job takes the values of a request.
fn check_dispatch(key: &JobKey, known: &JobRecord, request: &DispatchRequest) -> Result<()> {
    let job = &known.current.job;
    let refused = |text: String| JobError::refused(key, text).into();
    let Some(rules) = job.parameterized.as_ref().filter(|_| job.is_parameterized()) else {
        let text = format!("Specified job \"{}\" is not a parameterized job", key.id);
        return Err(refused(text));
    };
    if known.is_stopped {
        return Err(refused(format!("Specified job \"{}\" is stopped", key.id)));
    }
    if let Some(text) = dispatch_problem(rules, request) {
        return Err(refused(text));
    }
    Ok(())
}
