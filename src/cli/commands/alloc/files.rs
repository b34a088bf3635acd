//! `alloc fs`.

use super::args::AllocFsArgs;
use super::log_lines::LogLines;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::print_list;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::file_list;
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_client::reconcile::workflow::find_allocation;
use nomad_csi_model::AllocId;

/// Lists a directory of an allocation, or prints a file.
///
/// # Errors
/// If the allocation or the file does not exist, or the server refuses.
pub(crate) async fn show_files(
    context: &CommandContext,
    arguments: &AllocFsArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "alloc fs", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let id = find_allocation(&workflow, &scope, &arguments.id).await?;
            let showing = show(context, cluster, &id, arguments);
            context.interrupts.unless_interrupted(showing).await?
        })
        .await
}

async fn show(
    context: &CommandContext,
    api: &dyn ClusterApi,
    id: &AllocId,
    arguments: &AllocFsArgs,
) -> Result<Exit, CliError> {
    let (path, output) = (&arguments.path, &arguments.output.output);
    let found = api.stat_file(id, path).await?;
    if found.value.is_dir {
        let files = api.list_files(id, path).await?;
        return print_list(context, output, files, "No files", |files| {
            file_list(files, &context.time_reference())
        });
    }
    if let Some(text) = output.render_one(&found.document)? {
        context.printer.print_result(&text);
        return Ok(Exit::Done);
    }
    let mut file = api.open_file(id, path).await?;
    let mut lines = LogLines::new();
    while let Some(piece) = file.next_piece().await? {
        if !context.printer.print_bytes(&piece) {
            context.printer.print_result(&lines.push(&piece));
        }
        if context.printer.is_result_closed() {
            return Ok(Exit::Done);
        }
    }
    context.printer.print_result(&lines.finish());
    Ok(Exit::Done)
}
