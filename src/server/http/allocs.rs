//! The endpoints of allocations.

use super::blocking::wait_for_index;
use super::capabilities::{ALLOC_LIFECYCLE, READ_JOB};
use super::filtering::Paging;
use super::job_documents::{PlacedAlloc, placed_allocs};
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{JobError, ServerError};
use nomad_csi_claims::state::{State, Table, Topic};
use nomad_csi_model::AllocId;
use nomad_csi_wire::AllocationStopResponse;

type Result<T = Reply> = std::result::Result<T, ServerError>;

/// The length of a UUID in text form.
const UUID_LENGTH: usize = 36;

fn topics(_: &State) -> Vec<Topic> {
    vec![Topic::all(Table::Allocs)]
}

pub(super) async fn list(request: &IncomingRequest) -> Result {
    let page = Paging::of(&request.parameters)?;
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, State::allocs_index).await?;
    let scope = request.scope(READ_JOB)?;
    let prefix = request.parameters.prefix();
    let (stubs, index) = request.services.cell.read(|state| {
        let is_meant = |alloc: &PlacedAlloc<'_>| {
            let own = &alloc.placement.job.job.namespace;
            scope.contains(own) && alloc.id.as_str().starts_with(prefix)
        };
        let meant = placed_allocs(state).filter(is_meant);
        let stubs: Vec<_> = meant.map(|alloc| alloc.stub(state)).collect();
        (stubs, state.allocs_index())
    });
    let (documents, next) = page.page(stubs, |alloc| alloc.id.clone())?;
    let reply = Reply::json(&documents, request.pretty)?;
    Ok(reply.with_index(index).with_next_token(next))
}

pub(super) async fn read(request: &IncomingRequest, id: &str) -> Result {
    let id = complete(id)?;
    let wait = request.parameters.wait()?;
    wait_for_index(request, wait, topics, State::allocs_index).await?;
    let found = request.services.cell.read(|state| {
        let record = state.alloc(&id)?;
        let placement = record.placement.as_deref()?;
        let alloc = PlacedAlloc { id: &id, record, placement };
        let namespace = placement.job.job.namespace.clone();
        Some((namespace, alloc.document(state), state.allocs_index()))
    });
    let (namespace, document, index) = found.ok_or_else(|| JobError::NoAlloc(id.to_string()))?;
    request.require(&namespace, READ_JOB)?;
    Ok(Reply::json(&document, request.pretty)?.with_index(index))
}

pub(super) async fn stop(request: &IncomingRequest, id: &str) -> Result {
    let alloc = complete(id)?;
    require_of(request, &alloc, ALLOC_LIFECYCLE)?;
    let written = request.services.jobs.stop_alloc(&alloc).await?;
    let document =
        AllocationStopResponse { eval_id: written.evaluation_id(), index: written.index };
    Ok(Reply::json(&document, request.pretty)?.with_index(written.index))
}

/// Refuses a request about an allocation without one of these capabilities in the namespace of its job.
pub(super) fn require_of(
    request: &IncomingRequest,
    alloc: &AllocId,
    capabilities: &[&str],
) -> Result<()> {
    let namespace = request.services.cell.read(|state| {
        let placement = state.alloc(alloc)?.placement.as_deref()?;
        Some(placement.job.job.namespace.clone())
    });
    // What does not exist is refused as such.
    namespace.map_or(Ok(()), |namespace| request.require(&namespace, capabilities))
}

fn complete(id: &str) -> Result<AllocId> {
    if id.len() == UUID_LENGTH {
        return Ok(AllocId::new(id));
    }
    Err(JobError::ShortId { kind: "alloc", id: id.to_owned() }.into())
}
