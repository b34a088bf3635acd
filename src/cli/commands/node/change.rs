//! `node eligibility`, `node drain`, `node fence`, `node unfence`.

use super::args::{DrainArgs, NodeCommand};
use super::status::show_nodes;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::ports::DrainChange;
use nomad_csi_client::reconcile::workflow::{
    FenceApproval, drain_node, fence_node, find_node_to_change, set_eligibility, unfence_node,
};

/// Runs a subcommand.
///
/// # Errors
/// Those of the workflow that it runs.
pub(crate) async fn manage_nodes(
    context: &CommandContext,
    command: &NodeCommand,
) -> Result<Exit, CliError> {
    if let NodeCommand::Status(arguments) = command {
        return show_nodes(context, arguments).await;
    }
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "node", 1);
            match command {
                NodeCommand::Fence(arguments) => {
                    let approved = FenceApproval {
                        is_approved: arguments.yes,
                        cuts_off: arguments.approve.as_ref(),
                        statement: arguments.statement(),
                    };
                    fence_node(&workflow, context, &arguments.node, approved).await?;
                }
                NodeCommand::Unfence(arguments) => {
                    unfence_node(&workflow, context, &arguments.node).await?;
                }
                NodeCommand::Eligibility(arguments) => {
                    let node = &arguments.node;
                    let action = "change the eligibility of node";
                    let node = find_node_to_change(&workflow, context, node, action).await?;
                    set_eligibility(&workflow, &node, arguments.enable).await?;
                }
                NodeCommand::Drain(arguments) => {
                    let node = &arguments.node;
                    let action = "change the drain of node";
                    let node = find_node_to_change(&workflow, context, node, action).await?;
                    let change = drain_change(arguments);
                    drain_node(&workflow, &node, change, !arguments.detach).await?;
                }
                NodeCommand::Status(_) => {}
            }
            Ok(Exit::Done)
        })
        .await
}

fn drain_change(arguments: &DrainArgs) -> DrainChange {
    match arguments.enable {
        true => DrainChange::Start {
            deadline: (!arguments.no_deadline).then_some(arguments.deadline.0),
            ignores_system_jobs: arguments.ignore_system,
        },
        false => DrainChange::End { keeps_ineligible: arguments.keep_ineligible },
    }
}
