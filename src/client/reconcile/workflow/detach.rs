//! `volume detach`: releases on a node what an ended allocation left behind there.
//!
//! A server takes a volume for detached from a node that is down, without asking it. So nothing is sent while an
//! allocation on the node may still write ([`nomad_csi_model::AllocWrites`]). Most versions of Nomad never carry a detach out
//! ([`DetachRule`]): they get no request, and the command says what releases there. The reply of a server does not
//! show whether it found anything, so claims are read before and after.

use std::collections::BTreeSet;

use super::abbreviation::{AbbreviatedChange, require_meant};
use super::claim_explanation::{explained, stuck_claims};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_node::{SHORTEST_PREFIX, find_node_to_change};
use super::find_volume::find_volume;
use super::reporter::ApprovalPrompt;
use crate::ports::{ApiError, ServerKind};
use crate::reconcile::seen_nodes::seen_nodes;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Alloc, AllocWrites, Namespace, NodeId, NodeSight, SeenNodes, Volume};
use nomad_csi_plan::{ClaimDrops, ClaimingAlloc, DetachRule};

/// The action, for the question about the start of a node's ID.
const ACTION: &str = "detach a volume from node";

/// Detaches a volume from a node, and reports what changed. The start of the node's ID has to be confirmed.
///
/// # Errors
/// If the volume or the node is unknown, an allocation there may use the volume, or the server refuses.
pub async fn detach_volume(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    scope: &Namespace,
    id: &str,
    node: &str,
) -> Result<(), WorkflowError> {
    let api = context.api;
    let before = find_volume(context, scope, id).await?;
    let node = node_of(context, prompt, &before, node).await?;
    let server = context.unless_interrupted(api.server()).await??;
    let reading = seen_nodes(api, std::slice::from_ref(&before));
    let nodes = context.unless_interrupted(reading).await?;
    if let Some(problem) = still_used(&before, &node, &nodes, &server) {
        return Err(WorkflowError::blocked([problem]));
    }
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    let key = before.key();
    match server.detach_rule() {
        DetachRule::Releases | DetachRule::Unknown => {}
        DetachRule::NeverWorks if !has_claims(&before) => {
            let line = format!("volume {key}: nothing to detach from node {node}, unchanged");
            context.reporter.status(&line);
            return Ok(());
        }
        DetachRule::NeverWorks => {
            let findings = stuck_claims(api, &before, context.clock.now()).await;
            let problem = explained(never_works(&before, &node, &server), &findings);
            return Err(WorkflowError::blocked([problem]));
        }
    }
    let lost = match api.detach_volume(&key, &node).await {
        Ok(()) => None,
        Err(error) if error.code == Code::VolumeNotAttached && !has_claims(&before) => None,
        Err(error) if error.code == Code::VolumeNotAttached => {
            let findings = stuck_claims(api, &before, context.clock.now()).await;
            let problem = explained(not_released(&before, &node, &error), &findings);
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

/// Returns whether the server has claims of the volume. The modes in force stay until the last claim is released, also one
/// that no list shows.
fn has_claims(volume: &Volume) -> bool {
    volume.is_claimed() || volume.access_mode.is_some()
}

/// Returns what releases on a server that carries no detach out.
fn waiting_help(volume: &Volume) -> String {
    format!(
        "Nomad repeats the release of an ended allocation by itself: `nomad-csi volume wait {} --for unclaimed --timeout 15m`",
        volume.key().command_words()
    )
}

/// Explains that this version of Nomad detaches nothing on request.
fn never_works(volume: &Volume, node: &NodeId, server: &ServerKind) -> Diagnostic {
    let version = match server {
        ServerKind::Nomad(version) => format!("Nomad {version}"),
        ServerKind::Agent | ServerKind::NomadUnknownVersion => "the server".to_owned(),
    };
    let message = format!(
        "cannot detach volume {} from node `{node}`: {version} detaches no volume on request",
        volume.key().quoted()
    );
    let problem = Diagnostic::error(Code::ApiUnsupported, message)
        .note("it would return `Unknown allocation`, whether there is something to detach or not; nothing was sent");
    with_claims(problem, volume).help(waiting_help(volume))
}

/// Explains that the server did not release the claims that it has. It replies the same if it has none on the node.
fn not_released(volume: &Volume, node: &NodeId, error: &ApiError) -> Diagnostic {
    let message = format!(
        "cannot detach volume {} from node `{node}`: the server released nothing",
        volume.key().quoted()
    );
    let mut problem = Diagnostic::error(Code::VolumeNotAttached, message);
    if let Some(text) = &error.server_text {
        problem = problem.note(format!("server response: {}", text.trim()));
    }
    problem = problem.note("the server replies so if it has no claim on the node, and Nomad 1.2.13, 1.3.6 and later also if it has one");
    with_claims(problem, volume).help(waiting_help(volume))
}

fn with_claims(problem: Diagnostic, volume: &Volume) -> Diagnostic {
    let claims = ClaimingAlloc::of(volume);
    let noted = |problem: Diagnostic, claim: &ClaimingAlloc| problem.note(claim.to_string());
    claims.iter().fold(problem, noted)
}

fn outcome_unknown(error: &ApiError) -> Diagnostic {
    error
        .diagnostic()
        .note("the volume is unchanged; the server may still be detaching it")
        .help("wait a moment, then run the same command again; it is safe to repeat")
}

/// Returns whether the claims or the modes in use differ.
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
    prompt: &dyn ApprovalPrompt,
    volume: &Volume,
    text: &str,
) -> Result<NodeId, WorkflowError> {
    let is_named = |alloc: &&Alloc| {
        let is_prefix = text.chars().count() >= SHORTEST_PREFIX;
        let starts = is_prefix && alloc.node_id.as_str().starts_with(text);
        alloc.node_name == text || alloc.node_id.as_str() == text || starts
    };
    let named = volume.allocs.iter().filter(is_named);
    let nodes: BTreeSet<(&NodeId, &str)> =
        named.map(|alloc| (&alloc.node_id, alloc.node_name.as_str())).collect();
    let mut nodes = nodes.into_iter();
    match (nodes.next(), nodes.next()) {
        (Some((only, name)), None) => {
            if name != text {
                let change = AbbreviatedChange { action: ACTION, id: only.as_str(), typed: text };
                require_meant(prompt, change).await?;
            }
            Ok(only.clone())
        }
        (Some(_), Some(_)) | (None, _) => find_node_to_change(context, prompt, text, ACTION).await,
    }
}

/// Explains which allocations on the node may use the volume. `None` if none does.
///
/// The agent asks the node before it takes a volume for detached, and detaches fenced nodes by itself. So what only a
/// person can know stops it less.
fn still_used(
    volume: &Volume,
    node: &NodeId,
    nodes: &SeenNodes,
    server: &ServerKind,
) -> Option<Diagnostic> {
    let is_agent = *server == ServerKind::Agent;
    let may_write = |alloc: &Alloc| match nodes.writes(alloc) {
        AllocWrites::Ended => false,
        AllocWrites::Unprovable => !is_agent,
        AllocWrites::Possible => !(is_agent && alloc.client.has_ended()),
    };
    // Which node an allocation without a record was on is unknown.
    let is_node_up = is_agent || nodes.sight(node) == NodeSight::Up;
    let claims: Vec<_> = ClaimingAlloc::of(volume)
        .into_iter()
        .filter(|claim| match &claim.alloc {
            Some(alloc) => alloc.node_id == *node && may_write(alloc),
            None => !is_node_up,
        })
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
    let drops = ClaimDrops { nodes: nodes.clone(), ..ClaimDrops::default() };
    let mut problem = Diagnostic::error(Code::VolumeInUse, message);
    for claim in &claims {
        problem = problem.note(claim.to_string());
        if !is_agent && nodes.sight(node) != NodeSight::Up {
            problem = problem.note(drops.why(claim));
        }
    }
    let is_away = matches!(nodes.sight(node), NodeSight::Away(_));
    Some(problem.help(if is_away && !is_agent {
        "start the node again: its client then stops what runs there, and reports the end"
    } else {
        "stop the jobs that use it; the server detaches the volume when their allocations end"
    }))
}
