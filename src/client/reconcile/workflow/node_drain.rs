//! `node drain`, `node eligibility`: which nodes get allocations.

use std::time::Duration;

use tokio::time::sleep;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::ports::DrainChange;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NodeId, one_line};

/// The pause between two reads.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets a node get new allocations, or not.
///
/// # Errors
/// If the server refuses.
pub async fn set_eligibility(
    context: &WorkflowContext<'_>,
    node: &NodeId,
    is_eligible: bool,
) -> Result<(), WorkflowError> {
    context.api.set_eligibility(node, is_eligible).await?;
    let state = if is_eligible { "eligible" } else { "ineligible" };
    context.reporter.status(&format!("node {node}: {state}"));
    Ok(())
}

/// Starts or ends the drain of a node. If `waits`, waits until a started drain is complete.
///
/// # Errors
/// If the server refuses, the node disappears, or the user interrupts. An interrupt does not end the drain.
pub async fn drain_node(
    context: &WorkflowContext<'_>,
    node: &NodeId,
    change: DrainChange,
    waits: bool,
) -> Result<(), WorkflowError> {
    context.api.change_drain(node, change).await?;
    match change {
        DrainChange::End { .. } => {
            context.reporter.status(&format!("node {node}: not draining"));
            Ok(())
        }
        DrainChange::Start { .. } => {
            context.reporter.status(&format!("node {node}: draining"));
            match waits {
                true => context.unless_interrupted(follow(context, node)).await?,
                false => Ok(()),
            }
        }
    }
}

async fn follow(context: &WorkflowContext<'_>, node: &NodeId) -> Result<(), WorkflowError> {
    let (mut reported, mut seen_away) = (None, None);
    loop {
        let Some(read) = context.api.read_node(node).await? else {
            let message = format!("node `{node}` does not exist any more");
            return Err(Diagnostic::error(Code::NodeUnknown, message).into());
        };
        let allocations = context.api.list_node_allocations(node).await?;
        let left = allocations.iter().filter(|one| {
            one.desired_status == "stop"
                && matches!(one.client_status.as_str(), "running" | "pending" | "unknown")
        });
        let left = left.count();
        if read.value.drain_strategy.is_none() && left == 0 {
            context.reporter.status(&format!("node {node}: drained"));
            return Ok(());
        }
        let away = (read.value.status != "ready").then_some(read.value.status);
        if let Some(status) = away.as_ref().filter(|_| seen_away != away) {
            let status = one_line(status);
            let line = format!("node {node}: {status}; the drain goes on when it is connected");
            context.reporter.status(&line);
        }
        seen_away = away;
        if left > 0 && reported != Some(left) {
            let line = match left {
                1 => format!("node {node}: 1 allocation is stopping"),
                left => format!("node {node}: {left} allocations are stopping"),
            };
            context.reporter.status(&line);
            reported = Some(left);
        }
        if left == 0 && reported.is_some() {
            let line = format!("node {node}: volumes are given back, then system jobs stop");
            context.reporter.status(&line);
            reported = None;
        }
        sleep(PAUSE).await;
    }
}
