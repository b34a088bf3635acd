//! `alloc restart` and `alloc signal`.

use super::args::{AllocRestartArgs, AllocSignalArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::find_allocation_to_change;

/// Restarts the tasks of an allocation.
///
/// # Errors
/// Those of [`find_allocation_to_change`], and if the server refuses.
pub(crate) async fn restart_named_allocation(
    context: &CommandContext,
    arguments: &AllocRestartArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "alloc restart", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let (id, action) = (&arguments.id, "restart allocation");
            let id = find_allocation_to_change(&workflow, context, &scope, id, action).await?;
            let task = arguments.task.as_deref().unwrap_or_default();
            cluster.restart_allocation(&id, task).await?;
            context.printer.print_status(&format!("allocation {id}: restarting"));
            Ok(Exit::Done)
        })
        .await
}

/// Sends a signal to the tasks of an allocation.
///
/// # Errors
/// Those of [`find_allocation_to_change`], and if the server refuses.
pub(crate) async fn signal_named_allocation(
    context: &CommandContext,
    arguments: &AllocSignalArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "alloc signal", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let (id, action) = (&arguments.id, "send a signal to allocation");
            let id = find_allocation_to_change(&workflow, context, &scope, id, action).await?;
            let task = arguments.task.as_deref().unwrap_or_default();
            cluster.signal_allocation(&id, task, &arguments.signal).await?;
            context.printer.print_status(&format!("allocation {id}: signal sent"));
            Ok(Exit::Done)
        })
        .await
}
