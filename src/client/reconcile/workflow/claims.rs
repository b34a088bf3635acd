//! `volume claims`, `volume claim`, `volume release`: who holds a volume.
//!
//! Only the agent shows and takes claims. The kind of the server is read first, because Nomad has
//! claims of host volumes at one of the paths. A claim outlives the command: when its wait is over or
//! the user interrupts, the claim stays, and the report says how to give it back.

use std::time::Duration;

use super::agent_only::AgentOnly;
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_node::find_node_to_change;
use super::find_volume::find_volume;
use super::reporter::ApprovalPrompt;
use crate::ports::{ClaimQuery, VolumeClaimRequest, VolumeReleaseRequest, WithDocument};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Namespace, NamespacedId, VolumeClaim, one_line, shell_quoted};

/// The longest wait that the agent grants one request.
pub const LONGEST_CLAIM_WAIT: Duration = Duration::from_secs(600);

/// Returns the claims of one volume, or of all volumes in the scope.
///
/// # Errors
/// If the server is not an agent, the volume does not exist, or the server refuses.
pub async fn list_claims(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: Option<&str>,
) -> Result<Vec<WithDocument<VolumeClaim>>, WorkflowError> {
    require_claims(context, "list the claims").await?;
    let query = match id {
        Some(id) => ClaimQuery::Volume(find_volume(context, scope, id).await?.key()),
        None => ClaimQuery::Namespace(scope.clone()),
    };
    let listing = context.api.list_claims(&query);
    Ok(context.unless_interrupted(listing).await??)
}

/// Refuses a server that does not show claims.
///
/// # Errors
/// If the server is not an agent, or cannot be reached.
pub(super) async fn require_claims(
    context: &WorkflowContext<'_>,
    action: &str,
) -> Result<(), WorkflowError> {
    let lack = AgentOnly {
        action,
        lack: "does not show claims",
        note: "only the agent of this program shows claims and takes requests for them",
        help: "run `nomad-csi volume status ID` to see the allocations that use a volume",
    };
    lack.require(context).await
}

/// Claims a volume, waits until it is published, and returns the claim. The volume of `request` may
/// be in all namespaces. `node` names the node, if one is requested, and the start of its ID has to be
/// confirmed; `wait_text` is the wait as the user wrote it.
///
/// # Errors
/// If the claim is denied or fails, or the wait is over. In the last case the claim stays.
pub async fn claim_volume(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    mut request: VolumeClaimRequest,
    node: Option<&str>,
    wait_text: &str,
) -> Result<VolumeClaim, WorkflowError> {
    require_claims(context, "claim a volume").await?;
    request.volume = resolve(context, &request.volume).await?;
    if let Some(node) = node {
        request.node =
            Some(find_node_to_change(context, prompt, node, "claim a volume on node").await?);
    }
    let (volume, alloc) = (&request.volume, &request.alloc);
    context.reporter.status(&format!(
        "volume {volume}: claiming for allocation {alloc}, waiting up to {wait_text}"
    ));
    let claiming = context.api.claim_volume(&request);
    let Ok(claimed) = context.unless_interrupted(claiming).await else {
        context.reporter.status(&format!(
            "volume {volume}: the claim stays if the server has granted it; `{}` gives it back",
            release_command(&request)
        ));
        return Err(WorkflowError::interrupted());
    };
    match claimed? {
        Some(claim) if claim.is_published => {
            context.reporter.status(&format!(
                "volume {volume}: published for allocation {alloc} on node {}",
                claim.node
            ));
            Ok(claim)
        }
        claim => Err(not_published(&request, claim.as_ref(), wait_text).into()),
    }
}

/// Explains what the claim still waits for.
fn not_published(
    request: &VolumeClaimRequest,
    claim: Option<&VolumeClaim>,
    wait_text: &str,
) -> Diagnostic {
    let volume = request.volume.quoted();
    let Some(claim) = claim else {
        let message =
            format!("volume {volume} is not published: its claim was released during the wait");
        return Diagnostic::error(Code::VolumeNotYet, message)
            .help("run the same command again if the allocation still needs the volume");
    };
    let message = format!("timed out after {wait_text}: volume {volume} is not published");
    let why = match &claim.problem {
        Some(problem) => format!("{} fails: {}", problem.step, one_line(&problem.error)),
        None => format!("the claim is {}, and no step has failed", claim.state),
    };
    Diagnostic::error(Code::VolumeNotYet, message)
        .note(why)
        .note("the claim stays, and the agent goes on with it")
        .help(remedy(claim).unwrap_or("run the same command again to wait longer"))
        .help(format!("run `{}` to give the volume back", release_command(request)))
}

/// Returns the remedy of the step that fails.
fn remedy(claim: &VolumeClaim) -> Option<&str> {
    claim.problem.as_ref()?.help.as_deref()
}

fn release_command(request: &VolumeClaimRequest) -> String {
    let alias = request.alias.as_ref();
    let alias = alias.map_or_else(String::new, |alias| format!(" --alias {}", shell_quoted(alias)));
    format!(
        "nomad-csi volume release {} --alloc {}{alias}",
        request.volume.command_words(),
        shell_quoted(&request.alloc)
    )
}

/// Releases an allocation's claims of a volume, and waits until they are gone.
///
/// # Errors
/// If there is no such claim, or the wait is over. In the last case the release goes on.
pub async fn release_volume(
    context: &WorkflowContext<'_>,
    mut request: VolumeReleaseRequest,
    wait_text: &str,
) -> Result<(), WorkflowError> {
    require_claims(context, "release a volume").await?;
    request.volume = resolve(context, &request.volume).await?;
    let (volume, alloc) = (&request.volume, &request.alloc);
    let how = match request.cuts_off {
        true => "cutting off allocation",
        false => "releasing from allocation",
    };
    context.reporter.status(&format!("volume {volume}: {how} {alloc}, waiting up to {wait_text}"));
    let releasing = context.api.release_volume(&request);
    let Ok(released) = context.unless_interrupted(releasing).await else {
        context
            .reporter
            .status(&format!("volume {volume}: the release goes on if the server has received it"));
        return Err(WorkflowError::interrupted());
    };
    if released? == 0 {
        context.reporter.status(&format!("volume {volume}: released from allocation {alloc}"));
        return Ok(());
    }
    let query = ClaimQuery::Volume(volume.clone());
    let listing = context.api.list_claims(&query);
    // The release is the news: without the list, the report only has no reasons.
    let left = context.unless_interrupted(listing).await?.unwrap_or_default();
    let left = left.iter().map(|reading| &reading.value);
    let left: Vec<_> = left.filter(|claim| claim.alloc == *alloc).collect();
    Err(not_released(&request, &left, wait_text).into())
}

/// Explains what the release still waits for.
fn not_released(
    request: &VolumeReleaseRequest,
    left: &[&VolumeClaim],
    wait_text: &str,
) -> Diagnostic {
    let message = format!(
        "timed out after {wait_text}: volume {} is still being released",
        request.volume.quoted()
    );
    let mut diagnostic = Diagnostic::error(Code::VolumeNotYet, message);
    for claim in left {
        let why = match &claim.problem {
            Some(problem) => format!("{} fails: {}", problem.step, one_line(&problem.error)),
            None if claim.state == "cutting-off" => {
                format!(
                    "node `{}` kills the tasks that use it first",
                    one_line(claim.node.as_str())
                )
            }
            None => "no step has failed".to_owned(),
        };
        diagnostic = diagnostic.note(format!("the claim is {}: {why}", claim.state));
    }
    diagnostic.note("the release goes on, and the agent tries failed steps again").help(format!(
        "run `nomad-csi volume claims {}` to see how far it is",
        request.volume.command_words()
    ))
}

/// Returns the volume in its own namespace.
pub(super) async fn resolve(
    context: &WorkflowContext<'_>,
    volume: &NamespacedId,
) -> Result<NamespacedId, WorkflowError> {
    let found = find_volume(context, &volume.namespace, volume.id.as_str()).await?;
    Ok(found.key())
}
