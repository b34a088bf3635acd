//! What may be secret of a job: sealed before it is recorded, opened for the node that runs it.

use std::sync::Arc;

use crate::model::{Job, JobKey, SealedSecrets, SecretOwner, Secrets};
use crate::ports::{SealError, Sealer};
use crate::server::error::ServerError;
use crate::state::JobVersion;

/// Seals and opens jobs. A clone uses the same key.
#[derive(Clone)]
pub(in crate::server) struct JobSealer(Arc<dyn Sealer>);

impl JobSealer {
    pub(in crate::server) fn new(sealer: Arc<dyn Sealer>) -> Self {
        Self(sealer)
    }

    /// What may be secret of a job, sealed.
    pub(super) fn seal(&self, key: &JobKey, settings: &Secrets) -> SealedSecrets {
        self.0.seal(&SecretOwner::Job(key.clone()), settings)
    }

    /// What may be secret of a recorded job.
    pub(super) fn settings_of(&self, version: &JobVersion) -> Result<Secrets, ServerError> {
        let owner = SecretOwner::Job(version.key());
        let opened = self.0.open(&owner, &version.settings);
        opened.map_err(|error| ServerError::Secrets { owner, error })
    }

    /// The version with everything sealed that may be secret; `None` if it is already.
    pub(in crate::server) fn sealed_again(
        &self,
        version: &JobVersion,
    ) -> Result<Option<JobVersion>, ServerError> {
        let mut job = self.open(version)?;
        let settings = job.take_settings();
        if job == version.job {
            return Ok(None);
        }
        Ok(Some(JobVersion {
            settings: self.seal(&version.key(), &settings),
            job,
            version: version.version,
        }))
    }

    /// The complete job.
    pub(in crate::server) fn open(&self, version: &JobVersion) -> Result<Job, ServerError> {
        let job = version.job.with_settings(&self.settings_of(version)?);
        job.map_err(|_| ServerError::Secrets {
            owner: SecretOwner::Job(version.key()),
            error: SealError,
        })
    }
}
