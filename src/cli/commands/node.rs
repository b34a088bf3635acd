//! `node fence`, `node unfence`.

use clap::{Args, Subcommand};

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::reconcile::workflow::{fence_node, unfence_node};

/// The subcommands of `node`.
#[derive(Subcommand, Debug)]
pub(crate) enum NodeCommand {
    /// Declare a node lost, so that its volumes can be used elsewhere
    ///
    /// The agent ends the claims of the node, and detaches its volumes without the node. Turn the
    /// node off first, or cut it off from its storage: nothing that runs there may write any more.
    /// Where the plugin attaches no volumes, the agent cannot prevent such writes, and your word is
    /// the only protection. Asks for approval on a terminal.
    #[command(
        after_long_help = "Example:\n  nomad-csi node fence f7476465-4d6e-c0de-26d0-e383c49be941"
    )]
    Fence(FenceArgs),
    /// Let a fenced node be used again
    ///
    /// The agent first removes what is left of volumes on the node. Until then, the node gets no
    /// claims.
    #[command(
        after_long_help = "Example:\n  nomad-csi node unfence f7476465-4d6e-c0de-26d0-e383c49be941"
    )]
    Unfence(UnfenceArgs),
}

/// Arguments of `node fence`.
#[derive(Args, Debug)]
pub(crate) struct FenceArgs {
    /// Name of the node, its ID, or at least 4 characters of its ID
    #[arg(value_name = "NODE")]
    pub node: String,
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
}

/// Arguments of `node unfence`.
#[derive(Args, Debug)]
pub(crate) struct UnfenceArgs {
    /// Name of the node, its ID, or at least 4 characters of its ID
    #[arg(value_name = "NODE")]
    pub node: String,
}

/// Runs a subcommand.
///
/// # Errors
/// Those of [`fence_node`] and [`unfence_node`].
pub(crate) async fn manage_nodes(
    context: &CommandContext,
    command: &NodeCommand,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "node", 1);
            match command {
                NodeCommand::Fence(arguments) => {
                    fence_node(&workflow, context, &arguments.node, arguments.yes).await?;
                }
                NodeCommand::Unfence(arguments) => {
                    unfence_node(&workflow, &arguments.node).await?;
                }
            }
            Ok(Exit::Done)
        })
        .await
}
