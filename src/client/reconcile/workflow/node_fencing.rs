//! `node fence`, `node unfence`: an operator's word that a node cannot write any more.
//!
//! The agent then detaches the node's volumes without the node, so that other nodes can use them. If
//! the node still runs, both write to one volume. So the command shows what it affects, and asks for
//! the ID of the node.

use std::collections::BTreeSet;

use super::approval::{Answer, Approval, require_approval};
use super::claims::require_claims;
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_node::{find_node, find_node_to_change};
use super::reporter::ApprovalPrompt;
use crate::ports::{ClaimQuery, FenceRequest};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{FenceStatement, Namespace, NodeId, VolumeClaim, one_line, shell_quoted};

/// The approvals of the command line for a fence.
#[derive(Clone, Copy, Debug)]
pub struct FenceApproval<'a> {
    /// True if the node is fenced without a question.
    pub is_approved: bool,
    /// The node of which the tasks may be cut off, although it is up.
    pub cuts_off: Option<&'a NodeId>,
    /// Why nothing can write there any more; a person is asked if neither this nor `cuts_off` is given.
    pub statement: Option<FenceStatement>,
}

/// Declares a node lost. `node` is its ID, the start of its ID, or its name.
///
/// # Errors
/// If it is not approved, the node does not exist or is lost already, or the server refuses.
pub async fn fence_node(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    node: &str,
    approval: FenceApproval<'_>,
) -> Result<(), WorkflowError> {
    require_claims(context, "fence a node").await?;
    let is_approved = approval.is_approved;
    let node = &match is_approved {
        true => find_node_to_change(context, prompt, node, "fence node").await?,
        // The approval shows the full ID, and wants it typed.
        false => find_node(context, node).await?,
    };
    if let Some(approved) = approval.cuts_off.filter(|approved| *approved != node) {
        let message = format!(
            "cannot approve risk `cuts-off` for node `{approved}`: the command fences node `{node}`"
        );
        let help = format!("remove `--approve cuts-off:{approved}`");
        return Err(Diagnostic::error(Code::CliInvalidValue, message).help(help).into());
    }
    let every = ClaimQuery::Namespace(Namespace::new(Namespace::ALL));
    let listing = context.api.list_claims(&every);
    let claims = context.unless_interrupted(listing).await??;
    let claims = claims.into_iter().map(|reading| reading.value);
    let claims: Vec<_> = claims.filter(|claim| claim.node == *node).collect();
    let statement = match approval.statement {
        None if approval.cuts_off.is_none() => Some(ask_statement(prompt, node).await?),
        given => given,
    };
    if !is_approved {
        approve(prompt, node, &claims).await?;
    }
    if context.is_interrupted() {
        return Err(WorkflowError::interrupted());
    }
    // The answer on a terminal is the full ID, below what the fence does.
    let cuts_off = !is_approved || approval.cuts_off.is_some();
    // A machine that is off has no connection.
    let cuts_off = cuts_off && statement != Some(FenceStatement::PoweredOff);
    context.api.fence_node(&FenceRequest { node, statement, cuts_off }).await?;
    let line = match claims.len() {
        0 => format!("node {node}: fenced; it had no claims"),
        1 => format!("node {node}: fenced; 1 claim is being released"),
        count => format!("node {node}: fenced; {count} claims are being released"),
    };
    context.reporter.status(&line);
    Ok(())
}

/// Asks why nothing can write on the node any more.
async fn ask_statement(
    prompt: &dyn ApprovalPrompt,
    node: &NodeId,
) -> Result<FenceStatement, WorkflowError> {
    let (off, cut_off) = (FenceStatement::POWERED_OFF, FenceStatement::CUT_OFF_STORAGE);
    let is_asked = prompt.is_interactive();
    if is_asked {
        let question =
            format!("Is the machine off, or cut off from its storage? Type {off} or {cut_off}: ");
        let given = prompt.ask(None, &question).await?;
        if let Some(statement) = FenceStatement::parse(&given, false) {
            return Ok(statement);
        }
    }
    let message = format!(
        "cannot fence node `{node}`: nothing says why it cannot write to its volumes any more"
    );
    let seen = match is_asked {
        true => format!("the answer is neither `{off}` nor `{cut_off}`; nothing was changed"),
        false => "standard input is not a terminal; nothing was changed".to_owned(),
    };
    let problem = Diagnostic::error(Code::CliApprovalNeeded, message)
        .note(seen)
        .help(format!("turn the machine off, and add `--{off}`"))
        .help(format!("or cut it off from all of its storage, and add `--{cut_off}`"))
        .help(format!(
            "to end what a connected node runs, add `--approve cuts-off:{}`",
            shell_quoted(node.as_str())
        ));
    Err(WorkflowError::approval_required([problem]))
}

/// Lets a lost node be used again; `node` is its ID, the start of its ID, or its name. The agent first removes what is left there.
///
/// # Errors
/// If the node does not exist or is not lost, or the server refuses.
pub async fn unfence_node(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    node: &str,
) -> Result<(), WorkflowError> {
    require_claims(context, "unfence a node").await?;
    let node = &find_node_to_change(context, prompt, node, "unfence node").await?;
    context.api.unfence_node(node).await?;
    context.reporter.status(&format!(
        "node {node}: unfenced; the agent removes what is left there before the node is used again"
    ));
    Ok(())
}

async fn approve(
    prompt: &dyn ApprovalPrompt,
    node: &NodeId,
    claims: &[VolumeClaim],
) -> Result<(), WorkflowError> {
    let approval = Approval {
        action: &format!("fence node `{}`", one_line(node.as_str())),
        details: Some(&impact(node, claims)),
        question: &format!("Type {node} to fence it: "),
        answer: Answer::Exactly(node.as_str()),
    };
    require_approval(prompt, approval).await
}

/// Returns what fencing does, and what it relies on.
fn impact(node: &NodeId, claims: &[VolumeClaim]) -> String {
    let volumes: BTreeSet<_> = claims.iter().map(|claim| claim.volume.to_string()).collect();
    let what = if volumes.is_empty() {
        format!("node {node} has no claims")
    } else {
        let names: Vec<_> = volumes.into_iter().collect();
        format!(
            "the volumes of node {node} are detached, and their claims there end: {}",
            names.join(", ")
        )
    };
    format!(
        "{what}. Nothing that runs on the node may write to its volumes any more. Where the plugin attaches no volumes, your word is the only protection against two writers"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_model::{AllocId, ExternalId, NamespacedId, PluginId, VolumeAlias, VolumeId};

    fn claim(volume: &str, alloc: &str) -> VolumeClaim {
        VolumeClaim {
            volume: NamespacedId::new(Namespace::default(), VolumeId::new(volume)),
            alloc: AllocId::new(alloc),
            alias: VolumeAlias::new(volume),
            node: NodeId::new("n1"),
            plugin_id: PluginId::new("p"),
            external_id: ExternalId::new("e"),
            access_mode: "single-node-writer".to_owned(),
            attachment_mode: "file-system".to_owned(),
            read_only: false,
            state: "published".to_owned(),
            is_published: true,
            target_path: "/t".to_owned(),
            granted_at: 1,
            failed_attempts: 0,
            next_attempt: None,
            problem: None,
        }
    }

    #[test]
    fn the_impact_names_each_volume_once_and_what_protects_it() {
        let node = NodeId::new("n1");
        let text = impact(&node, &[claim("b", "1"), claim("a", "1"), claim("b", "2")]);
        assert!(text.contains("end: a, b. "), "{text}");
        assert!(text.contains("only protection"), "{text}");
        let text = impact(&node, &[]);
        assert!(text.starts_with("node n1 has no claims. "), "{text}");
        assert!(text.contains("only protection"), "{text}");
    }
}
