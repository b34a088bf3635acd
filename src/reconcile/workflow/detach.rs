//! `volume detach`: releases on a node what an ended allocation left behind there.
//!
//! A server releases only what is unused, and its reply does not show whether it found anything. Nomad
//! 2.0.5 replies `Unknown allocation` if there is nothing. So claims are read before and after.

use std::collections::BTreeSet;

use super::claim_explanation::{explained, stuck_claims};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_node::{SHORTEST_PREFIX, find_node};
use super::find_volume::find_volume;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Alloc, Namespace, NodeId, Volume};
use crate::plan::ClaimingAlloc;
use crate::ports::ApiError;

/// Detaches a volume from a node, and reports what changed.
///
/// # Errors
/// If the volume or the node is unknown, an allocation there may use the volume, or the server refuses.
pub async fn detach_volume(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: &str,
    node: &str,
) -> Result<(), WorkflowError> {
    let api = context.api;
    let before = find_volume(context, scope, id).await?;
    let node = node_of(context, &before, node).await?;
    if let Some(problem) = still_used(&before, &node) {
        return Err(WorkflowError::blocked([problem]));
    }
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let key = before.key();
    let lost = match api.detach_volume(&key, &node).await {
        Ok(()) => None,
        Err(error) if error.code == Code::VolumeNotAttached && !before.is_claimed() => None,
        Err(error) if error.code == Code::VolumeNotAttached => {
            let findings = stuck_claims(api, &before, context.clock.now()).await;
            let problem = not_released(&before, &node, &error)
                .unwrap_or_else(|| claimed_elsewhere(&before, &error));
            let problem = explained(problem, &findings);
            return Err(WorkflowError::blocked([problem]));
        }
        Err(error) if error.code == Code::ApiOutcomeUnknown => Some(error),
        Err(error) => {
            let findings = stuck_claims(api, &before, context.clock.now()).await;
            return Err(explained(error.diagnostic(), &findings).into());
        }
    };
    let now = match (api.read_volume(&key).await, lost) {
        (Ok(now), None) => now,
        (Ok(now), Some(_)) if now.as_ref().is_none_or(|now| differs(&before, &now.value)) => now,
        (Ok(_), Some(error)) => return Err(outcome_unknown(&error).into()),
        (Err(error), lost) => return Err(lost.unwrap_or(error).into()),
    };
    let line = match now {
        None => format!("volume {key}: no longer registered"),
        Some(now) if differs(&before, &now.value) => {
            format!("volume {key}: detached from node {node}")
        }
        Some(_) => format!("volume {key}: nothing to detach from node {node}, unchanged"),
    };
    context.reporter.status(&line);
    Ok(())
}

/// Explains that an ended allocation on the node keeps its claim. Nomad has the claim, although it replies
/// that it has none. `None` if no allocation there claims the volume.
fn not_released(volume: &Volume, node: &NodeId, error: &ApiError) -> Option<Diagnostic> {
    let is_here = |claim: &ClaimingAlloc| {
        let alloc = claim.alloc.as_ref();
        alloc.is_some_and(|alloc| alloc.node_id == *node)
    };
    let claim = ClaimingAlloc::of(volume).into_iter().find(is_here)?;
    let message = format!(
        "cannot detach volume {} from node `{node}`: the server did not release the claim there",
        volume.key().quoted()
    );
    let mut problem = Diagnostic::error(Code::VolumeInUse, message);
    if let Some(text) = &error.server_text {
        problem = problem.note(format!("server response: {}", text.trim()));
    }
    Some(problem.note(claim.to_string()))
}

/// Explains that nothing is attached to the node while allocations elsewhere, or unknown ones, claim
/// the volume.
fn claimed_elsewhere(volume: &Volume, error: &ApiError) -> Diagnostic {
    let claims = ClaimingAlloc::of(volume);
    let has_unknown = claims.iter().any(|claim| claim.alloc.is_none());
    let noted = |problem: Diagnostic, claim: &ClaimingAlloc| problem.note(claim.to_string());
    let problem = claims.iter().fold(error.diagnostic(), noted);
    if has_unknown {
        problem.help("if nothing has the volume mounted, run `volume deregister --force` to remove claims of allocations that the server no longer has, then register the volume again")
    } else {
        problem
    }
}

fn outcome_unknown(error: &ApiError) -> Diagnostic {
    error
        .diagnostic()
        .note("the volume is unchanged; the server may still be detaching it")
        .help("wait a moment, then run the same command again; it is safe to repeat")
}

/// Whether the claims or the modes in use differ.
fn differs(before: &Volume, now: &Volume) -> bool {
    let of = |volume: &Volume| {
        (
            volume.read_allocs.clone(),
            volume.write_allocs.clone(),
            volume.access_mode,
            volume.attachment_mode,
        )
    };
    of(before) != of(now)
}

/// Returns the node: one of the volume's allocations is on it and the text is its name or the start of
/// its ID, or the text names any node. A token that cannot list nodes can so name those of the volume.
async fn node_of(
    context: &WorkflowContext<'_>,
    volume: &Volume,
    text: &str,
) -> Result<NodeId, WorkflowError> {
    let is_named = |alloc: &&Alloc| {
        let is_prefix = text.chars().count() >= SHORTEST_PREFIX;
        let starts = is_prefix && alloc.node_id.as_str().starts_with(text);
        alloc.node_name == text || alloc.node_id.as_str() == text || starts
    };
    let named = volume.allocs.iter().filter(is_named);
    let nodes: BTreeSet<&NodeId> = named.map(|alloc| &alloc.node_id).collect();
    let mut nodes = nodes.into_iter();
    match (nodes.next(), nodes.next()) {
        (Some(only), None) => Ok(only.clone()),
        (Some(_), Some(_)) | (None, _) => find_node(context, text).await,
    }
}

/// Explains which allocations on the node may use the volume. `None` if none does.
fn still_used(volume: &Volume, node: &NodeId) -> Option<Diagnostic> {
    let is_here = |claim: &ClaimingAlloc| {
        let alloc = claim.alloc.as_ref();
        claim.is_live() && alloc.is_some_and(|alloc| alloc.node_id == *node)
    };
    let claims: Vec<_> = ClaimingAlloc::of(volume)
        .into_iter()
        .filter(is_here)
        .collect();
    let count = match claims.len() {
        0 => return None,
        1 => "1 allocation".to_owned(),
        count => format!("{count} allocations"),
    };
    let message = format!(
        "cannot detach volume {} from node `{node}`: {count} may use it there",
        volume.key().quoted()
    );
    let mut problem = Diagnostic::error(Code::VolumeInUse, message);
    for claim in claims {
        problem = problem.note(claim.to_string());
    }
    Some(problem.help(
        "stop the jobs that use it; the server detaches the volume when their allocations end",
    ))
}
