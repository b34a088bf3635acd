//! `alloc status`.

use super::args::AllocStatusArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{allocation_detail, allocation_list};
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_client::reconcile::workflow::find_allocation;
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Lists allocations, or shows one.
///
/// # Errors
/// If the server refuses, or the ID names no allocation or several.
pub(crate) async fn show_allocations(
    context: &CommandContext,
    arguments: &AllocStatusArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let scope = context.namespace()?.unwrap_or_default();
            let shown = async {
                match &arguments.id {
                    None => list(context, cluster, &scope, arguments).await,
                    Some(id) => one(context, cluster, (&scope, id), arguments).await,
                }
            };
            context.interrupts.unless_interrupted(shown).await?
        })
        .await
}

async fn list(
    context: &CommandContext,
    api: &dyn ClusterApi,
    scope: &Namespace,
    arguments: &AllocStatusArgs,
) -> Result<Exit, CliError> {
    let output = &arguments.output.output;
    let listed = api.list_allocations(scope, "").await?;
    let (stubs, documents): (Vec<_>, Vec<_>) =
        listed.into_iter().map(|reading| (reading.value, reading.document)).unzip();
    match output.render_list(&documents)? {
        Some(text) => context.printer.print_result(&text),
        None if stubs.is_empty() => context.printer.print_status("No allocations placed"),
        None => {
            let text = allocation_list(&stubs, &context.time_reference(), output.is_wide());
            context.printer.print_result(&text);
        }
    }
    Ok(Exit::Done)
}

async fn one(
    context: &CommandContext,
    api: &dyn ClusterApi,
    (scope, id): (&Namespace, &str),
    arguments: &AllocStatusArgs,
) -> Result<Exit, CliError> {
    let output = &arguments.output.output;
    let workflow = context.workflow(api, "alloc status", 1);
    let id = find_allocation(&workflow, scope, id).await?;
    let Some(read) = api.read_allocation(&id).await? else {
        let message = format!("allocation `{id}` does not exist");
        return Err(Diagnostic::error(Code::AllocNotFound, message).into());
    };
    let text = output.render_one(&read.document)?.unwrap_or_else(|| {
        allocation_detail(&read.value, &context.time_reference(), output.is_wide())
    });
    context.printer.print_result(&text);
    Ok(Exit::Done)
}
