//! The versions of a job, and the counts of its groups.
//!
//! A new count and a return to an earlier version are registrations of a recorded job with the same checks, and only if the
//! job has not changed since.

use std::collections::BTreeMap;

use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::blocking::wait_for_index;
use super::job_documents::{allocs_of, version_documents};
use super::jobs::{key, registered};
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, ServerError};
use nomad_csi_claims::state::{JobRecord, State, Table, Topic};
use nomad_csi_model::{ClientStatus, JobType};
use nomad_csi_wire::parse_boolean;

/// The body of a request that sets the count of a group. `Message` and `Meta` are for a history, which the agent has not.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct ScaleRequest {
    count: Option<i64>,
    target: BTreeMap<String, String>,
}

/// The body of a request to return to an earlier version. Tokens for Consul and Vault have no meaning here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct RevertRequest {
    #[serde(rename = "JobID")]
    job_id: String,
    job_version: Option<u64>,
    enforce_prior_version: Option<u64>,
}

/// Returns the versions of a job that are on record, newest first.
pub(super) async fn read_versions(
    request: &IncomingRequest,
    id: &str,
) -> Result<Reply, ServerError> {
    if request.parameters.text("diffs").and_then(parse_boolean).unwrap_or(false) {
        return Err(ServerError::NotOffered {
            status: StatusCode::NOT_IMPLEMENTED,
            sentence: "this agent does not compare the versions of a job: ask without `diffs` (`nomad job history` without `-p`)",
        });
    }
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Jobs)];
    wait_for_index(request, wait, topics, State::jobs_index).await?;
    let job = request.services.jobs.job(&key(request, id))?;
    let (documents, index) =
        request.services.cell.read(|state| (version_documents(state, &job), state.jobs_index()));
    let versions = documents.into_iter().map(|document| {
        let mut document = json!(document);
        // Nomad's command line reads it without a check.
        document["Stable"] = json!(false);
        document
    });
    let versions: Vec<_> = versions.collect();
    let document = json!({
        "Diffs": null,
        "Index": index,
        "KnownLeader": true,
        "LastContact": 0,
        "NextToken": "",
        "Versions": versions,
    });
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

/// Submits an earlier version of a job again.
pub(super) async fn revert(request: &IncomingRequest, id: &str) -> Result<Reply, ServerError> {
    let body: RevertRequest = request.document()?;
    let bad = |text: &str| ServerError::from(JobError::BadRequest(text.to_owned()));
    if !body.job_id.is_empty() && body.job_id != id {
        return Err(bad("Job ID does not match"));
    }
    let version = body.job_version.ok_or_else(|| bad("`JobVersion` is missing"))?;
    let jobs = &request.services.jobs;
    let record = jobs.job(&key(request, id))?;
    if let Some(earlier) = record.versions().find(|one| one.version.version == version) {
        request.require_job(&earlier.version.job)?;
    }
    let written = jobs.revert(&key(request, id), version, body.enforce_prior_version).await?;
    registered(request, &written)
}

/// Returns the counts of the groups of a job.
pub(super) async fn read_scale(request: &IncomingRequest, id: &str) -> Result<Reply, ServerError> {
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Jobs), Topic::all(Table::Allocs)];
    let index = |state: &State| state.jobs_index().max(state.allocs_index());
    wait_for_index(request, wait, topics, index).await?;
    let job = request.services.jobs.job(&key(request, id))?;
    let (document, index) =
        request.services.cell.read(|state| (scale_document(state, &job), index(state)));
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

fn scale_document(state: &State, record: &JobRecord) -> Value {
    let job = &record.current.job;
    let key = record.key();
    let groups = job.groups.iter().map(|group| {
        let allocs = allocs_of(state, &key);
        let allocs = allocs.filter(|alloc| alloc.placement.group == group.name);
        let living: Vec<_> = allocs.filter(|alloc| !alloc.record.has_ended).collect();
        let is_running = |status: &ClientStatus| *status == ClientStatus::Running;
        let running = living.iter().filter(|alloc| is_running(&alloc.client_status(state))).count();
        let counts = json!({
            "Desired": group.count,
            "Events": null,
            "Healthy": running,
            "Placed": living.len(),
            "Running": running,
            "Unhealthy": 0,
        });
        (group.name.clone(), counts)
    });
    let groups: serde_json::Map<_, _> = groups.collect();
    json!({
        "JobCreateIndex": record.create_index,
        "JobID": job.id.as_str(),
        "JobModifyIndex": record.job_modify_index,
        "JobStopped": record.is_stopped,
        "Namespace": job.namespace.as_str(),
        "TaskGroups": groups,
    })
}

/// Sets the count of a group.
pub(super) async fn scale(request: &IncomingRequest, id: &str) -> Result<Reply, ServerError> {
    let ScaleRequest { count, target } = request.document()?;
    let bad = |text: String| ServerError::from(JobError::BadRequest(text));
    let other_job = target.get("Job").filter(|job| *job != id);
    if other_job.is_some() {
        return Err(bad("job in payload does not match URL".to_owned()));
    }
    let key = key(request, id);
    let other_namespace = target
        .get("Namespace")
        .filter(|named| !named.is_empty() && **named != key.namespace.as_str());
    if let Some(named) = other_namespace {
        let message = format!("namespace {named:?} in payload is not that of the request");
        return Err(bad(message));
    }
    let group = target.get("Group").map(String::as_str).unwrap_or_default();
    let count = count.ok_or_else(|| {
        bad("`Count` is missing: this agent keeps no scaling events without a new count".to_owned())
    })?;
    let record = request.services.jobs.job(&key)?;
    let refused = match record.current.job.job_type {
        JobType::System | JobType::Sysbatch => Some("runs once on each node, and has no count"),
        JobType::Service | JobType::Batch if record.is_stopped => {
            Some("is stopped: a new count would start it; register it again")
        }
        JobType::Service | JobType::Batch => None,
    };
    if let Some(reason) = refused {
        return Err(bad(format!("job `{id}` {reason}")));
    }
    let mut job = request.services.jobs.complete(&record)?;
    let found = job.groups.iter_mut().find(|one| one.name == group);
    let found = found.ok_or_else(|| bad(format!("job `{id}` has no group {group:?}")))?;
    found.count = count;
    let written = request.services.jobs.register(job, Some(record.job_modify_index)).await?;
    registered(request, &written)
}
