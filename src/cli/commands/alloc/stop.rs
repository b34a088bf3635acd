//! `alloc stop`.

use super::args::AllocStopArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::{find_allocation_to_change, stop_allocation};

/// Stops an allocation.
///
/// # Errors
/// Those of [`find_allocation_to_change`] and [`stop_allocation`].
pub(crate) async fn stop_named_allocation(
    context: &CommandContext,
    arguments: &AllocStopArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "alloc stop", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let (id, action) = (&arguments.id, "stop allocation");
            let id = find_allocation_to_change(&workflow, context, &scope, id, action).await?;
            stop_allocation(&workflow, &id, &arguments.waiting.wait()).await?;
            Ok(Exit::Done)
        })
        .await
}
