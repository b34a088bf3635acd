//! `node status`.

use super::args::NodeStatusArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::{ask, print_list};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{NodeOverview, node_detail, node_list};
use nomad_csi_client::reconcile::workflow::find_node;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Lists nodes, or shows one.
///
/// # Errors
/// If the server refuses, or the text names no node or several.
pub(super) async fn show_nodes(
    context: &CommandContext,
    arguments: &NodeStatusArgs,
) -> Result<Exit, CliError> {
    let output = &arguments.output.output;
    ask(context, async |api| {
        let Some(node) = &arguments.node else {
            let listed = api.list_node_stubs().await?;
            return print_list(context, output, listed, "No nodes registered", |nodes| {
                node_list(nodes, output.is_wide())
            });
        };
        let workflow = context.workflow(api, "node status", 1);
        let id = find_node(&workflow, node).await?;
        let Some(read) = api.read_node(&id).await? else {
            let message = format!("node `{id}` does not exist");
            return Err(Diagnostic::error(Code::NodeUnknown, message)
                .help("run `nomad-csi node status` to list the nodes")
                .into());
        };
        let text = match output.render_one(&read.document)? {
            Some(text) => text,
            None => {
                let overview = NodeOverview {
                    node: read.value,
                    allocations: api.list_node_allocations(&id).await?,
                };
                node_detail(&overview, &context.time_reference(), output.is_wide())
            }
        };
        context.printer.print_result(&text);
        Ok(Exit::Done)
    })
    .await
}
