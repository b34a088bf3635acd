//! Finds the allocation that a text on the command line names: its ID, or the start of its ID.
//!
//! A full UUID needs no list. Nomad refuses a prefix that is not hexadecimal, so it is refused here
//! without a request.

use super::abbreviation::{AbbreviatedChange, require_meant};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_job::find_job;
use super::reporter::ApprovalPrompt;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{AllocId, Namespace, one_line, shell_quoted};
use nomad_csi_wire::AllocationStub;

/// How many allocations an error lists.
const MAX_LISTED: usize = 10;
/// The least number of characters of an ID that name an allocation, as in Nomad.
const SHORTEST_PREFIX: usize = 2;

/// Returns the ID of the allocation that the text names. `scope` is a namespace, or `*`.
///
/// # Errors
/// If no allocation or several match, they cannot be listed, or the user interrupts.
pub async fn find_allocation(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    text: &str,
) -> Result<AllocId, WorkflowError> {
    if uuid::Uuid::try_parse(text).is_ok() {
        return Ok(AllocId::new(text));
    }
    let is_hexadecimal = text.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
    if !is_hexadecimal || text.len() < SHORTEST_PREFIX {
        return Err(no_allocation(text).into());
    }
    // Nomad compares an even number of characters.
    let even = &text[..text.len() - text.chars().filter(|c| *c != '-').count() % 2];
    let listing = context.api.list_allocations(scope, even);
    let listed = context.unless_interrupted(listing).await??;
    let stubs = listed.into_iter().map(|reading| reading.value);
    let matching: Vec<AllocationStub> = stubs.filter(|stub| stub.id.starts_with(text)).collect();
    match matching.as_slice() {
        [] => Err(no_allocation(text).into()),
        [one] => Ok(AllocId::new(&one.id)),
        several => Err(several_allocations(several, text).into()),
    }
}

/// Returns the ID of the allocation that the text names, for a change of it: `action` is
/// `stop allocation`. The start of an ID has to be confirmed.
///
/// # Errors
/// Those of [`find_allocation`], and if the start of an ID is not confirmed.
pub async fn find_allocation_to_change(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    scope: &Namespace,
    text: &str,
    action: &str,
) -> Result<AllocId, WorkflowError> {
    let id = find_allocation(context, scope, text).await?;
    let change = AbbreviatedChange { action, id: id.as_str(), typed: text };
    require_meant(prompt, change).await?;
    Ok(id)
}

/// Returns the newest allocation of the job that the text names.
///
/// # Errors
/// If no job or several match, the job has no allocation, they cannot be listed, or the user interrupts.
pub async fn newest_allocation(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    text: &str,
) -> Result<AllocId, WorkflowError> {
    let job = find_job(context, scope, text).await?;
    let listing = context.api.list_job_allocations(&job);
    let stubs = context.unless_interrupted(listing).await??;
    let newest = stubs.iter().max_by_key(|stub| (stub.create_index, &stub.id));
    newest.map(|stub| AllocId::new(&stub.id)).ok_or_else(|| {
        let message = format!("job {} has no allocation", job.quoted());
        let help =
            format!("run `nomad-csi job status {}` to see why", shell_quoted(job.id.as_str()));
        Diagnostic::error(Code::AllocNotFound, message).help(help).into()
    })
}

fn no_allocation(text: &str) -> Diagnostic {
    let message = format!("`{}` names no allocation", one_line(text));
    Diagnostic::error(Code::AllocNotFound, message).help(format!(
        "use the ID of an allocation, or at least {SHORTEST_PREFIX} characters of it; `nomad-csi alloc status` lists them"
    ))
}

fn several_allocations(several: &[AllocationStub], text: &str) -> Diagnostic {
    let message = format!("`{}` names {} allocations", one_line(text), several.len());
    let names: Vec<String> = several
        .iter()
        .take(MAX_LISTED)
        .map(|stub| format!("{} ({})", one_line(&stub.id), one_line(&stub.name)))
        .collect();
    let more = match several.len().saturating_sub(MAX_LISTED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Diagnostic::error(Code::CliAmbiguousId, message)
        .note(format!("the allocations are: {}{more}", names.join(", ")))
        .help("type more of the allocation's ID")
}
