//! `alloc status`.

use super::args::AllocStatusArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::{check_namespace, found_in, print_list};
use crate::cli::commands::watching::look_or_watch;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{OutputFormat, allocation_detail, allocation_list};
use nomad_csi_client::ports::{ClusterApi, WatchTopic};
use nomad_csi_client::reconcile::workflow::find_allocation;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;

/// Lists allocations, or shows one.
///
/// # Errors
/// If the server refuses, or the ID names no allocation or several.
pub(crate) async fn show_allocations(
    context: &CommandContext,
    arguments: &AllocStatusArgs,
) -> Result<Exit, CliError> {
    let topics = vec![WatchTopic::Allocations(context.namespace()?.unwrap_or_default())];
    let (watch, output) = (arguments.watch, &arguments.output.output);
    look_or_watch(context, watch, output, topics, async |api, output| {
        look(context, api, arguments, output).await
    })
    .await
}

async fn look(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &AllocStatusArgs,
    output: &OutputFormat,
) -> Result<Exit, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let Some(id) = &arguments.id else {
        let listed = api.list_allocations(&scope, "").await?;
        if listed.is_empty() {
            check_namespace(api, &scope, "list allocations").await?;
        }
        return print_list(context, output, listed, "No allocations placed", |stubs| {
            allocation_list(stubs, &context.time_reference(), output.is_wide())
        });
    };
    let workflow = context.workflow(api, "alloc status", 1);
    let action = format!("show allocation `{}`", one_line(id));
    let found = find_allocation(&workflow, &scope, id).await;
    let id = found_in(api, &scope, &action, found, Code::AllocNotFound).await?;
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
