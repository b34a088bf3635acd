//! Jobs and evaluations over HTTP.
//!
//! The server fills in what a job leaves out. A region that is only Nomad's default is left out too,
//! because a cluster can have another one.

use async_trait::async_trait;
use http::Method;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::client::NomadClient;
use super::request::{ApiRequest, check_addressable, check_addressable_job, unsendable_request};
use super::retrying::Access;
use crate::ports::{ApiError, Document, JobApi, JobDispatch, JobRegistration, WithDocument};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Job, JobId, JobKey, Namespace};
use nomad_csi_wire::{
    AllocationStub, EvaluationDocument, JobDeregisterResponse, JobDispatchResponse, JobDocument,
    JobPlanResponse, JobRegisterResponse, JobRequestDocument, JobStub, JobSummaryDocument,
    JobValidateResponse, PeriodicForceResponse, PlacementDocument,
};

/// Jobs per page.
const PER_PAGE: &str = "1000";

/// The versions of a job.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct JobVersions {
    versions: Vec<serde_json::Value>,
}

/// A request to register an earlier version again.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct JobRevertRequest<'a> {
    #[serde(rename = "JobID")]
    job_id: &'a str,
    job_version: u64,
}

fn text_of(truth: bool) -> &'static str {
    if truth { "true" } else { "false" }
}

/// Returns the body of a request about a job.
fn body(
    job: &JobDocument,
    fill: impl FnOnce(&mut JobRequestDocument),
    action: &str,
) -> Result<Vec<u8>, ApiError> {
    let mut job = job.clone();
    if job.region == Job::DEFAULT_REGION {
        job.region.clear();
    }
    let mut request = JobRequestDocument { job: Some(job), ..JobRequestDocument::default() };
    fill(&mut request);
    serde_json::to_vec(&request).map_err(|error| unsendable_request(action, &error.to_string()))
}

impl NomadClient {
    /// Sends a job to one of the questions about it, which change nothing.
    async fn ask_about<T: DeserializeOwned>(
        &self,
        job: &JobDocument,
        question: &str,
        fill: impl FnOnce(&mut JobRequestDocument),
        action: &str,
    ) -> Result<WithDocument<T>, ApiError> {
        check_addressable_job(&JobId::new(&job.id), action)?;
        let body = body(job, fill, action)?;
        let path = ["job", job.id.as_str(), question];
        let put = ApiRequest {
            query: vec![("namespace", job.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &path)
        };
        let response = self.session.call(&put, action, Access::Read).await?;
        let value = self.session.document(&response, action)?;
        let document = Document::new(String::from_utf8_lossy(&response.body));
        Ok(WithDocument { value, document })
    }
}

#[async_trait]
impl JobApi for NomadClient {
    async fn validate_job(&self, job: &JobDocument) -> Result<JobValidateResponse, ApiError> {
        let action = format!("validate job `{}`", job.id);
        let body = body(job, |_| {}, &action)?;
        let put = ApiRequest {
            query: vec![("namespace", job.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &["validate", "job"])
        };
        let response = self.session.call(&put, &action, Access::Read).await?;
        self.session.document(&response, &action)
    }

    async fn plan_job(&self, job: &JobDocument) -> Result<WithDocument<JobPlanResponse>, ApiError> {
        let action = format!("plan job `{}`", job.id);
        self.ask_about(job, "plan", |request| request.diff = true, &action).await
    }

    async fn explain_placement(
        &self,
        job: &JobKey,
    ) -> Result<Option<WithDocument<PlacementDocument>>, ApiError> {
        let action = format!("explain the placement of job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str(), "placement"];
        let get = ApiRequest {
            query: vec![("namespace", job.namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        let found = self.session.find(&get, &action, Code::JobNotFound).await?;
        Ok(found.map(|(value, document)| WithDocument { value, document }))
    }

    async fn explain_placement_of(
        &self,
        job: &JobDocument,
    ) -> Result<WithDocument<PlacementDocument>, ApiError> {
        let action = format!("explain the placement of job `{}`", job.id);
        self.ask_about(job, "placement", |_| {}, &action).await
    }

    async fn register_job(
        &self,
        registration: &JobRegistration,
    ) -> Result<JobRegisterResponse, ApiError> {
        let job = &registration.job;
        let action = format!("register job `{}`", job.id);
        let check = |request: &mut JobRequestDocument| {
            request.enforce_index = registration.check_index.is_some();
            request.job_modify_index = registration.check_index.unwrap_or_default();
        };
        let body = body(job, check, &action)?;
        let put = ApiRequest {
            query: vec![("namespace", job.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &["jobs"])
        };
        let response = self.session.call(&put, &action, Access::Write).await?;
        self.session.document(&response, &action)
    }

    async fn stop_job(&self, job: &JobKey, purge: bool) -> Result<JobDeregisterResponse, ApiError> {
        let action = format!("stop job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str()];
        let delete = ApiRequest {
            query: vec![("namespace", job.namespace.as_str()), ("purge", text_of(purge))],
            ..ApiRequest::new(Method::DELETE, &path)
        };
        let response = self.session.call(&delete, &action, Access::Write).await?;
        self.session.document(&response, &action)
    }

    async fn dispatch_job(
        &self,
        job: &JobKey,
        dispatch: &JobDispatch,
    ) -> Result<JobDispatchResponse, ApiError> {
        let action = format!("dispatch job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let body = serde_json::to_vec(&dispatch.request)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let path = ["job", job.id.as_str(), "dispatch"];
        let mut query = vec![("namespace", job.namespace.as_str())];
        let token = dispatch.idempotency_token.as_str();
        query.extend((!token.is_empty()).then_some(("idempotency_token", token)));
        let put = ApiRequest { query, body: Some(&body), ..ApiRequest::new(Method::PUT, &path) };
        let response = self.session.call(&put, &action, Access::Write).await?;
        self.session.document(&response, &action)
    }

    async fn launch_job(&self, job: &JobKey) -> Result<PeriodicForceResponse, ApiError> {
        let action = format!("launch job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str(), "periodic", "force"];
        let put = ApiRequest {
            query: vec![("namespace", job.namespace.as_str())],
            ..ApiRequest::new(Method::PUT, &path)
        };
        let response = self.session.call(&put, &action, Access::Write).await?;
        self.session.document(&response, &action)
    }

    async fn list_jobs(
        &self,
        namespace: &Namespace,
        prefix: &str,
    ) -> Result<Vec<WithDocument<JobStub>>, ApiError> {
        let mut query = vec![("namespace", namespace.as_str()), ("per_page", PER_PAGE)];
        query.extend((!prefix.is_empty()).then_some(("prefix", prefix)));
        let mut jobs = vec![];
        let add = |value: JobStub, document| {
            if value.id.starts_with(prefix) {
                jobs.push(WithDocument { value, document });
            }
        };
        let action = "list the jobs";
        self.session.list(&["jobs"], &query, action, add).await?;
        jobs.sort_by(|a, b| {
            (&a.value.id, &a.value.namespace).cmp(&(&b.value.id, &b.value.namespace))
        });
        Ok(jobs)
    }

    async fn read_job(&self, job: &JobKey) -> Result<Option<WithDocument<JobDocument>>, ApiError> {
        let action = format!("read job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str()];
        let get = in_namespace(&path, &job.namespace);
        let found = self.session.find::<JobDocument>(&get, &action, Code::JobNotFound).await?;
        Ok(found.map(|(value, document)| WithDocument { value, document }))
    }

    async fn read_job_versions(
        &self,
        job: &JobKey,
    ) -> Result<Option<Vec<WithDocument<JobDocument>>>, ApiError> {
        let action = format!("read the versions of job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str(), "versions"];
        let get = in_namespace(&path, &job.namespace);
        let found = self.session.find::<JobVersions>(&get, &action, Code::JobNotFound).await?;
        let Some((found, _)) = found else {
            return Ok(None);
        };
        let versions = found.versions.into_iter().map(|version| {
            let value = self.session.part(&version, &action)?;
            Ok(WithDocument { value, document: Document::new(version.to_string()) })
        });
        versions.collect::<Result<Vec<_>, _>>().map(Some)
    }

    async fn revert_job(
        &self,
        job: &JobKey,
        version: u64,
    ) -> Result<JobRegisterResponse, ApiError> {
        let action = format!("revert job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let request = JobRevertRequest { job_id: job.id.as_str(), job_version: version };
        let body = serde_json::to_vec(&request)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let path = ["job", job.id.as_str(), "revert"];
        let put = ApiRequest {
            query: vec![("namespace", job.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &path)
        };
        let response = self.session.call(&put, &action, Access::Write).await?;
        self.session.document(&response, &action)
    }

    async fn read_job_summary(&self, job: &JobKey) -> Result<Option<JobSummaryDocument>, ApiError> {
        let action = format!("read the summary of job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str(), "summary"];
        let get = in_namespace(&path, &job.namespace);
        let found = self.session.find(&get, &action, Code::JobNotFound).await?;
        Ok(found.map(|(summary, _)| summary))
    }

    async fn list_job_allocations(&self, job: &JobKey) -> Result<Vec<AllocationStub>, ApiError> {
        let action = format!("list the allocations of job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str(), "allocations"];
        let query = [("namespace", job.namespace.as_str())];
        let mut allocations = vec![];
        let add = |stub: AllocationStub, _| allocations.push(stub);
        self.session.list(&path, &query, &action, add).await?;
        allocations.sort_by(|a, b| (a.create_index, &a.id).cmp(&(b.create_index, &b.id)));
        Ok(allocations)
    }

    async fn list_job_evaluations(
        &self,
        job: &JobKey,
    ) -> Result<Vec<EvaluationDocument>, ApiError> {
        let action = format!("list the evaluations of job `{}`", job.id);
        check_addressable_job(&job.id, &action)?;
        let path = ["job", job.id.as_str(), "evaluations"];
        let query = [("namespace", job.namespace.as_str())];
        let mut evaluations: Vec<EvaluationDocument> = vec![];
        let add = |evaluation, _| evaluations.push(evaluation);
        self.session.list(&path, &query, &action, add).await?;
        evaluations.sort_by_key(|evaluation| std::cmp::Reverse(evaluation.create_index));
        Ok(evaluations)
    }

    async fn read_evaluation(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Option<EvaluationDocument>, ApiError> {
        if id.is_empty() {
            return Ok(None);
        }
        let action = "read an evaluation";
        check_addressable(id, action)?;
        let path = ["evaluation", id];
        let get = in_namespace(&path, namespace);
        let found = self.session.find(&get, action, Code::AllocNotFound).await?;
        Ok(found.map(|(evaluation, _)| evaluation))
    }
}

fn in_namespace<'a>(path: &'a [&'a str], namespace: &'a Namespace) -> ApiRequest<'a> {
    ApiRequest {
        query: vec![("namespace", namespace.as_str())],
        ..ApiRequest::new(Method::GET, path)
    }
}
