//! `volume detach`: releases on a node what an ended allocation left behind there.
//!
//! A server releases only what is unused, and its reply does not show whether it found anything. Nomad
//! 2.0.5 replies `Unknown allocation` if there is nothing. So claims are read before and after.

use std::collections::BTreeSet;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_volume::find_volume;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, NodeId, Volume, one_line};
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
    let node = find_node(&before, node)?;
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
            return Err(WorkflowError::blocked([claimed_elsewhere(&before, &error)]));
        }
        Err(error) if error.code == Code::ApiOutcomeUnknown => Some(error),
        Err(error) => return Err(error.into()),
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
        problem.help("name the node of the allocation that claims the volume")
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
/// its ID, or the text is the full ID of any node.
fn find_node(volume: &Volume, text: &str) -> Result<NodeId, WorkflowError> {
    let allocs = volume
        .allocs
        .iter()
        .filter(|alloc| alloc.node_name == text || alloc.node_id.as_str().starts_with(text));
    let nodes: BTreeSet<&NodeId> = allocs.map(|alloc| &alloc.node_id).collect();
    let mut all = nodes.iter();
    match (all.next(), all.next()) {
        (Some(only), None) => return Ok((*only).clone()),
        (Some(_), Some(_)) => {
            let message = format!("`{}` names {} nodes", one_line(text), nodes.len());
            let ids: Vec<_> = nodes.iter().map(|id| id.as_str()).collect();
            return Err(Diagnostic::error(Code::CliAmbiguousId, message)
                .note(format!("the nodes are: {}", ids.join(", ")))
                .help("type more of the node's ID")
                .into());
        }
        (None, _) => {}
    }
    if uuid::Uuid::try_parse(text).is_ok() {
        return Ok(NodeId::new(text));
    }
    let key = volume.key();
    let text = one_line(text);
    let message = format!(
        "`{text}` names no node with an allocation of volume {key}",
        key = key.quoted()
    );
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    let nodes = volume.allocs.iter();
    let nodes: BTreeSet<String> = nodes
        .map(|alloc| format!("{} ({})", alloc.node_name, alloc.node_id))
        .collect();
    if nodes.is_empty() {
        return Err(problem
            .note(
                "the server shows no allocation of the volume, and the text is not a full node ID",
            )
            .help("run `nomad node status -verbose` to list full node IDs")
            .into());
    }
    let nodes: Vec<_> = nodes.into_iter().collect();
    let nodes = nodes.join(", ");
    Err(problem
        .help(format!(
            "name one of these nodes, or any node by its full ID: {nodes}"
        ))
        .into())
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
