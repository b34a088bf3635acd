//! The settings of a job that may be secret: sealed before it is recorded, opened for the node that runs it.

use std::sync::Arc;

use crate::error::ServerError;
use crate::sealer::{SealError, Sealer};
use nomad_csi_claims::state::{Evaluation, EvaluationTrigger, EventKind, JobEvent, JobVersion};
use nomad_csi_model::{EvaluationId, Job, JobKey, SealedSecrets, SecretOwner, Secrets};

/// Seals and opens jobs. A clone uses the same key.
#[derive(Clone)]
pub(crate) struct JobSealer(Arc<dyn Sealer>);

impl JobSealer {
    pub(crate) fn new(sealer: Arc<dyn Sealer>) -> Self {
        Self(sealer)
    }

    /// Returns what may be secret of a job, sealed.
    pub(crate) fn seal(&self, key: &JobKey, settings: &Secrets) -> SealedSecrets {
        self.0.seal(&SecretOwner::Job(key.clone()), settings)
    }

    /// The events that register a job that was made from another one, and evaluate it.
    pub(super) fn registration(
        &self,
        job: &Job,
        evaluation: Option<EvaluationId>,
        trigger: EvaluationTrigger,
    ) -> Vec<EventKind> {
        let key = job.key();
        let mut definition = job.clone();
        let settings = definition.take_settings();
        let registered = JobEvent::Registered {
            settings: self.seal(&key, &settings),
            job: Box::new(definition),
            earlier: 0,
        };
        let evaluated = evaluation.map(|id| JobEvent::Evaluated {
            evaluation: Box::new(Evaluation::pending(id, trigger)),
        });
        let events = [registered].into_iter().chain(evaluated);
        let of_job = |event| EventKind::Job { job: key.clone(), event: Box::new(event) };
        events.map(of_job).collect()
    }

    /// Returns what may be secret of a recorded job.
    pub(super) fn settings_of(&self, version: &JobVersion) -> Result<Secrets, ServerError> {
        let owner = SecretOwner::Job(version.key());
        let opened = self.0.open(&owner, &version.settings);
        opened.map_err(|error| ServerError::Secrets { owner, error })
    }

    /// The job of a version without what may be secret, and that; `None` if the version has nothing of it in clear.
    pub(crate) fn taken_again(
        &self,
        version: &JobVersion,
    ) -> Result<Option<(Job, Secrets)>, ServerError> {
        let mut job = self.open(version)?;
        let settings = job.take_settings();
        Ok((job != version.job).then_some((job, settings)))
    }

    /// The complete job.
    pub(crate) fn open(&self, version: &JobVersion) -> Result<Job, ServerError> {
        let job = version.job.with_settings(&self.settings_of(version)?);
        job.map_err(|_| ServerError::Secrets {
            owner: SecretOwner::Job(version.key()),
            error: SealError,
        })
    }
}
