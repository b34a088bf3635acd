//! The endpoints of jobs and evaluations.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::blocking::wait_for_index;
use super::capabilities::{LIST_JOBS, READ_JOB, VALIDATE_JOB};
use super::filtering::Paging;
use super::job_documents::{
    allocs_of, evaluation_document, job_document, job_stub, plan_document, status_of, status_word,
    summary,
};
use super::placement_document::placement_document;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, RequestError, ServerError};
use crate::jobs::{DispatchRequest, JobWritten};
use nomad_csi_claims::place::Decision;
use nomad_csi_claims::state::{Evaluation, JobRecord, State, Table, Topic};
use nomad_csi_model::{EvaluationId, Job, JobId, JobKey, Namespace};
use nomad_csi_spec::job::report_text;
use nomad_csi_wire::{
    EvaluationDocument, JobDeregisterResponse, JobDispatchRequest, JobDispatchResponse,
    JobDocument, JobEvaluateRequest, JobRegisterResponse, JobRequestDocument, JobStub,
    JobValidateResponse, PeriodicForceResponse, ignored_parts, job_from_wire, parse_boolean,
};

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) fn key(request: &IncomingRequest, id: &str) -> JobKey {
    let namespace = request.parameters.namespace_or_default();
    JobKey::new(namespace, JobId::new(id))
}

/// Returns what a list or a job shows changes with its allocations.
fn index(state: &State) -> u64 {
    state.jobs_index().max(state.allocs_index())
}

fn topics(_: &State) -> Vec<Topic> {
    [Table::Jobs, Table::Allocs].map(Topic::all).into()
}

pub(super) async fn list(request: &IncomingRequest) -> Result {
    let page = Paging::of(&request.parameters)?;
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, index).await?;
    let scope = request.scope(LIST_JOBS)?;
    let prefix = request.parameters.prefix();
    let (stubs, index): (Vec<JobStub>, u64) = request.services.cell.read(|state| {
        let jobs = state.jobs().filter(|job| {
            scope.contains(job.namespace())
                && !job.is_purged
                && job.current.job.id.as_str().starts_with(prefix)
        });
        let stubs = jobs.map(|job| job_stub(state, job)).collect();
        (stubs, index(state))
    });
    let (documents, next) = page.page(stubs, |job| format!("{}\0{}", job.namespace, job.id))?;
    let reply = Reply::json(&documents, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result {
    let key = key(request, id);
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, index).await?;
    let job = request.services.jobs.job(&key)?;
    let (document, index) =
        request.services.cell.read(|state| (job_document(state, &job), index(state)));
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

pub(super) fn read_summary(request: &IncomingRequest, id: &str) -> Result {
    let job = request.services.jobs.job(&key(request, id))?;
    let (document, index) =
        request.services.cell.read(|state| (summary(state, &job), index(state)));
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

pub(super) async fn list_allocs(request: &IncomingRequest, id: &str) -> Result {
    let key = key(request, id);
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Allocs)];
    wait_for_index(request, wait, topics, State::allocs_index).await?;
    let (documents, index) = request.services.cell.read(|state| {
        let stubs = allocs_of(state, &key).map(|alloc| alloc.stub(state));
        (stubs.collect::<Vec<_>>(), state.allocs_index())
    });
    Ok(Reply::json(&documents, request.pretty)?.with_index(index))
}

/// The evaluations of a job, newest first.
pub(super) async fn list_evaluations_of(request: &IncomingRequest, id: &str) -> Result {
    let key = key(request, id);
    evaluations(request, &Paging::default(), |job, _| *job == key).await
}

pub(super) async fn list_evaluations(request: &IncomingRequest) -> Result {
    let parameters = &request.parameters;
    let page = Paging::of(parameters)?;
    let (prefix, of_job, status) =
        (parameters.prefix(), parameters.text("job"), parameters.text("status"));
    let is_meant = |job: &JobKey, one: &Evaluation| {
        one.id.as_str().starts_with(prefix)
            && of_job.is_none_or(|id| job.id.as_str() == id)
            && status.is_none_or(|status| status_word(one.status) == status)
    };
    evaluations(request, &page, is_meant).await
}

async fn evaluations(
    request: &IncomingRequest,
    page: &Paging,
    is_meant: impl Fn(&JobKey, &Evaluation) -> bool,
) -> Result {
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Jobs)];
    wait_for_index(request, wait, topics, State::jobs_index).await?;
    let scope = request.scope(READ_JOB)?;
    let (mut documents, index) = request.services.cell.read(|state| {
        let jobs = state.jobs().filter(|job| scope.contains(job.namespace()));
        let all = jobs.flat_map(|job| job.evaluations.iter().map(move |one| (job, one)));
        let meant = all.filter(|(job, one)| is_meant(&job.key(), &one.result));
        let documents: Vec<EvaluationDocument> =
            meant.map(|(job, one)| evaluation_document(state, job, one, false)).collect();
        (documents, state.jobs_index())
    });
    // The newest is the first.
    let place =
        |one: &EvaluationDocument| format!("{:020}\0{}", u64::MAX - one.create_index, one.id);
    documents.sort_by_cached_key(place);
    let (documents, next) = page.page(documents, place)?;
    let reply = Reply::json(&documents, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read_evaluation(request: &IncomingRequest, id: &str) -> Result {
    let id = EvaluationId::new(id);
    let wait = request.parameters.wait()?;
    let topics = |_: &State| vec![Topic::all(Table::Jobs)];
    wait_for_index(request, wait, topics, State::jobs_index).await?;
    let related = request.parameters.get("related");
    let with_related = related.and_then(parse_boolean).unwrap_or(false);
    let found = request.services.cell.read(|state| {
        let (job, record) = state.evaluation(&id)?;
        let document = evaluation_document(state, job, record, with_related);
        Some((job.namespace().clone(), document, state.jobs_index()))
    });
    let found = found.ok_or_else(|| JobError::NoEvaluation(id.to_string()))?;
    let (namespace, document, index) = found;
    request.require(&namespace, READ_JOB)?;
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

/// The allocations that an evaluation placed.
pub(super) fn list_allocs_of_evaluation(request: &IncomingRequest, id: &str) -> Result {
    let id = EvaluationId::new(id);
    let scope = request.scope_in(Namespace::new(Namespace::ALL), READ_JOB)?;
    let (documents, index) = request.services.cell.read(|state| {
        let job = state.evaluation(&id).map(|(job, _)| job.key());
        let allocs = job.iter().flat_map(|job| allocs_of(state, job));
        let placed = allocs.filter(|alloc| {
            alloc.placement.evaluation == id && scope.contains(&alloc.placement.job.job.namespace)
        });
        let stubs: Vec<_> = placed.map(|alloc| alloc.stub(state)).collect();
        (stubs, state.allocs_index())
    });
    Ok(Reply::json(&documents, request.pretty)?.with_index(index))
}

/// The agent has no deployments, which Nomad's clients read as `null`.
pub(super) fn no_deployment(request: &IncomingRequest) -> Result {
    Reply::json(&None::<()>, request.pretty)
}

pub(super) fn no_deployments(request: &IncomingRequest) -> Result {
    Reply::json(&[(); 0], request.pretty)
}

pub(super) async fn register(request: &IncomingRequest, id: Option<&str>) -> Result {
    let document: JobRequestDocument = request.document()?;
    let enforced = document.enforce_index.then_some(document.job_modify_index);
    let stopped = document.job.as_ref().and_then(|job| stopped_as_shown(request, job));
    let ignored = document.job.as_ref().and_then(ignored_parts);
    let (job, enforced) = match stopped {
        Some(stopped) => {
            let job = request.services.jobs.complete(&stopped)?;
            (job, enforced.or(Some(stopped.job_modify_index)))
        }
        None => (job_of(request, document)?, enforced),
    };
    if let Some(id) = id.filter(|id| *id != job.id.as_str()) {
        let body = job.id.to_string();
        return Err(JobError::OtherName { path: id.to_owned(), body }.into());
    }
    request.require_job(&job)?;
    let mut written = request.services.jobs.register(job, enforced).await?;
    written.warnings.splice(..0, ignored);
    registered(request, &written)
}

/// Returns the recorded job of a document that is what a client saw of it after its stop, so that `nomad job start` starts it:
/// that command sends back what it was shown, and reports success also if the server refuses it.
fn stopped_as_shown(request: &IncomingRequest, document: &JobDocument) -> Option<Arc<JobRecord>> {
    let fallback = request.parameters.namespace_or_default();
    // A dispatched job has problems as it is shown; others are what a client has added.
    let sent = job_from_wire(document, &fallback);
    let known = request.services.jobs.job(&sent.0.key()).ok();
    let stopped = known.filter(|known| known.is_stopped)?;
    let mut shown = (request.services.cell).read(|state| job_document(state, &stopped));
    shown.stop = false;
    (job_from_wire(&shown, &fallback) == sent).then_some(stopped)
}

pub(super) fn registered(request: &IncomingRequest, written: &JobWritten) -> Result {
    let document = JobRegisterResponse {
        eval_create_index: written.index,
        eval_id: written.evaluation_id(),
        index: written.index,
        job_modify_index: written.job_modify_index,
        warnings: written.warnings.join("\n"),
        ..JobRegisterResponse::default()
    };
    Ok(Reply::json(&document, request.pretty)?.with_index(written.index))
}

/// The job of a request. Words without a meaning are reported with Nomad's text.
fn job_of(request: &IncomingRequest, document: JobRequestDocument) -> Result<Job> {
    let document = document.job.ok_or(JobError::Missing)?;
    let fallback = request.parameters.namespace_or_default();
    let (job, problems) = job_from_wire(&document, &fallback);
    if problems.is_empty() {
        return Ok(job);
    }
    let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
    let job = JobKey::new(job.namespace, job.id);
    let text = texts.join("; ");
    Err(JobError::Invalid { job, text }.into())
}

pub(super) async fn deregister(request: &IncomingRequest, id: &str) -> Result {
    let purges = match request.parameters.text("purge") {
        None => false,
        Some(text) => parse_boolean(text)
            .ok_or_else(|| JobError::BadRequest(format!("purge is not a boolean: {text}")))?,
    };
    let written = request.services.jobs.stop(&key(request, id), purges).await?;
    let document = JobDeregisterResponse {
        eval_create_index: written.index,
        eval_id: written.evaluation_id(),
        index: written.index,
        job_modify_index: written.job_modify_index,
        ..JobDeregisterResponse::default()
    };
    Ok(Reply::json(&document, request.pretty)?.with_index(written.index))
}

pub(super) async fn evaluate(request: &IncomingRequest, id: &str) -> Result {
    let is_forced = match request.body.bytes.is_empty() {
        true => false,
        false => {
            let document: JobEvaluateRequest = request.document()?;
            document.eval_options.force_reschedule
        }
    };
    if is_forced {
        let text = "ForceReschedule is not supported: this agent replaces a failed allocation at the time that its \
                    `reschedule` says; stop the allocation to replace it now";
        return Err(JobError::BadRequest(text.to_owned()).into());
    }
    let written = request.services.jobs.evaluate(&key(request, id)).await?;
    registered(request, &written)
}

/// Makes a job from a parameterized one.
pub(super) async fn dispatch(request: &IncomingRequest, id: &str) -> Result {
    let document: JobDispatchRequest = request.document()?;
    if !matches!(document.job_id.as_str(), "") && document.job_id != id {
        let text = "Job ID does not match".to_owned();
        return Err(JobError::BadRequest(text).into());
    }
    let token = request.parameters.get("idempotency_token");
    let dispatch = DispatchRequest {
        meta: document.meta,
        payload: document.payload,
        id_prefix: document.id_prefix_template,
        priority: document.priority,
        idempotency_token: token.unwrap_or_default().to_owned(),
    };
    let key = key(request, id);
    let done = request.services.jobs.dispatch(&key, &dispatch).await?;
    let is_evaluated = done.evaluation.is_some();
    let document = JobDispatchResponse {
        dispatched_job_id: done.id.to_string(),
        eval_create_index: if is_evaluated { done.index } else { 0 },
        eval_id: done.evaluation.map(|id| id.to_string()).unwrap_or_default(),
        index: done.index,
        job_create_index: done.create_index,
    };
    Ok(Reply::json(&document, request.pretty)?.with_index(done.index))
}

/// Launches a periodic job now.
pub(super) async fn force_periodic(request: &IncomingRequest, id: &str) -> Result {
    let written = request.services.jobs.launch(&key(request, id)).await?;
    let document = PeriodicForceResponse {
        eval_create_index: written.index,
        eval_id: written.evaluation_id(),
        index: written.index,
    };
    Ok(Reply::json(&document, request.pretty)?.with_index(written.index))
}

pub(super) fn plan(request: &IncomingRequest) -> Result {
    let document: JobRequestDocument = request.document()?;
    let ignored = document.job.as_ref().and_then(ignored_parts);
    let job = job_of(request, document)?;
    request.require_job(&job)?;
    let mut plan = request.services.jobs.plan(&job)?;
    plan.warnings.splice(..0, ignored);
    let document = request.services.cell.read(|state| plan_document(state, &job, &plan));
    Reply::json(&document, request.pretty)
}

/// Returns what the scheduler decides about a recorded job, with what each node says. Nomad has no such request.
pub(super) fn explain_placement(request: &IncomingRequest, id: &str) -> Result {
    let key = key(request, id);
    let decision = request.services.jobs.placement(&key)?;
    placement(request, &key, &decision)
}

/// The same for a job that is not recorded.
pub(super) fn explain_placement_of(request: &IncomingRequest) -> Result {
    let job = job_of(request, request.document()?)?;
    request.require_job(&job)?;
    let plan = request.services.jobs.plan(&job)?;
    let key = job.key();
    placement(request, &key, &plan.decision)
}

fn placement(request: &IncomingRequest, key: &JobKey, decision: &Decision) -> Result {
    let document = request.services.cell.read(|state| placement_document(state, key, decision));
    Reply::json(&document, request.pretty)
}

/// Forgets jobs that are over, with their allocations.
pub(super) async fn collect_garbage(request: &IncomingRequest) -> Result {
    let over: Vec<JobKey> = request.services.cell.read(|state| {
        let over = state.jobs().filter(|job| {
            let lives = allocs_of(state, &job.key()).any(|alloc| !alloc.record.has_ended);
            !job.is_purged && !lives && status_of(state, job) == "dead"
        });
        over.map(|job| job.key()).collect()
    });
    for job in over {
        request.services.jobs.stop(&job, true).await?;
    }
    Ok(Reply::empty())
}

/// How long a validation waits for those of others.
const VALIDATION_WAIT: Duration = Duration::from_secs(30);

/// Waits until the text of a client may be worked on: one of the operator's and one of others at a time.
pub(super) async fn validation_permit(request: &IncomingRequest) -> Result<OwnedSemaphorePermit> {
    let permits = &request.services.validations;
    let permits = match request.operator.is_ok() {
        true => permits.operator.clone(),
        false => permits.everyone.clone(),
    };
    let permit = timeout(VALIDATION_WAIT, permits.acquire_owned()).await;
    permit.map_err(|_| RequestError::ValidationsBusy)?.map_err(|_| ServerError::Stopping)
}

/// Validates a job. An invalid one is no error of the request. Anyone may ask, and compiling patterns takes time, so one is
/// validated at a time, away from the threads that everything else needs.
pub(super) async fn validate_job(request: &IncomingRequest) -> Result {
    let document: JobRequestDocument = request.document()?;
    let document = document.job.ok_or(JobError::Missing)?;
    let fallback = request.parameters.namespace_or_default();
    let namespace = match document.namespace.as_str() {
        "" => fallback.clone(),
        name => Namespace::new(name),
    };
    request.require(&namespace, VALIDATE_JOB)?;
    let jobs = request.services.jobs.clone();
    let permit = validation_permit(request).await?;
    let validated = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let (job, words) = job_from_wire(&document, &fallback);
        let problems = jobs.problems(&job);
        (job, words, problems, ignored_parts(&document))
    });
    let (job, words, problems, ignored) = validated.await.map_err(|_| ServerError::Stopping)?;
    let words = words.iter().map(ToString::to_string);
    let errors: Vec<String> = words.chain(report_text(&job, &problems)).collect();
    let document = JobValidateResponse {
        driver_config_validated: true,
        error: errors.join("\n"),
        validation_errors: (!errors.is_empty()).then_some(errors),
        warnings: ignored.unwrap_or_default(),
    };
    Reply::json(&document, request.pretty)
}
