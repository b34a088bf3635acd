//! Jobs and evaluations on a server, in the words of Nomad's API.
//!
//! Nomad and the agent answer the same requests. A list contains every page, sorted by ID.

use async_trait::async_trait;

use super::volume_api::{ApiError, WithDocument};
use nomad_csi_model::{JobKey, Namespace};
use nomad_csi_wire::{
    AllocationStub, EvaluationDocument, JobDeregisterResponse, JobDispatchRequest,
    JobDispatchResponse, JobDocument, JobPlanResponse, JobRegisterResponse, JobStub,
    JobSummaryDocument, JobValidateResponse, PeriodicForceResponse, PlacementDocument,
};

/// A request to run a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRegistration {
    /// The job.
    pub job: JobDocument,
    /// The index that the registered job must have; 0 for a new job. Not checked if not given.
    pub check_index: Option<u64>,
}

/// A request to run a parameterized job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobDispatch {
    /// The input of the job.
    pub request: JobDispatchRequest,
    /// The token that makes a repeated request the same request; empty if none does.
    pub idempotency_token: String,
}

/// Reads, registers and stops jobs.
#[async_trait]
pub trait JobApi: Send + Sync {
    /// Checks a job on the server. An invalid job is a successful response with an error in it.
    async fn validate_job(&self, job: &JobDocument) -> Result<JobValidateResponse, ApiError>;
    /// Returns what would happen if the job were registered.
    async fn plan_job(&self, job: &JobDocument) -> Result<WithDocument<JobPlanResponse>, ApiError>;
    /// Returns what the scheduler decides about a registered job, with what each node says; `None` if the
    /// job does not exist. Only the agent answers.
    async fn explain_placement(
        &self,
        job: &JobKey,
    ) -> Result<Option<WithDocument<PlacementDocument>>, ApiError>;
    /// Returns the same for a job as it is given. Only the agent answers.
    async fn explain_placement_of(
        &self,
        job: &JobDocument,
    ) -> Result<WithDocument<PlacementDocument>, ApiError>;
    /// Registers a job, or changes it.
    async fn register_job(
        &self,
        registration: &JobRegistration,
    ) -> Result<JobRegisterResponse, ApiError>;
    /// Stops a job, and removes it too if `purge`. An unknown job has an empty evaluation.
    async fn stop_job(&self, job: &JobKey, purge: bool) -> Result<JobDeregisterResponse, ApiError>;
    /// Makes a job from a parameterized one.
    async fn dispatch_job(
        &self,
        job: &JobKey,
        request: &JobDispatch,
    ) -> Result<JobDispatchResponse, ApiError>;
    /// Launches a periodic job before its time.
    async fn launch_job(&self, job: &JobKey) -> Result<PeriodicForceResponse, ApiError>;
    /// Returns the jobs of a namespace, or of `*`, whose ID starts with `prefix`.
    async fn list_jobs(
        &self,
        namespace: &Namespace,
        prefix: &str,
    ) -> Result<Vec<WithDocument<JobStub>>, ApiError>;
    /// Returns a job; `None` if it does not exist.
    async fn read_job(&self, job: &JobKey) -> Result<Option<WithDocument<JobDocument>>, ApiError>;
    /// Returns the versions of a job that the server keeps, newest first; `None` if the job does not exist.
    async fn read_job_versions(
        &self,
        job: &JobKey,
    ) -> Result<Option<Vec<WithDocument<JobDocument>>>, ApiError>;
    /// Registers an earlier version of a job again.
    async fn revert_job(&self, job: &JobKey, version: u64)
    -> Result<JobRegisterResponse, ApiError>;
    /// Returns how many allocations of a job are in which state; `None` if the job does not exist.
    async fn read_job_summary(&self, job: &JobKey) -> Result<Option<JobSummaryDocument>, ApiError>;
    /// Returns the allocations of a job, the oldest first.
    async fn list_job_allocations(&self, job: &JobKey) -> Result<Vec<AllocationStub>, ApiError>;
    /// Returns the evaluations of a job, the newest first.
    async fn list_job_evaluations(&self, job: &JobKey)
    -> Result<Vec<EvaluationDocument>, ApiError>;
    /// Returns an evaluation; `None` if the server has none of this ID any more.
    async fn read_evaluation(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Option<EvaluationDocument>, ApiError>;
}
