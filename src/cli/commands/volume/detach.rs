//! `volume detach`.

use super::args::DetachArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::detach_volume;

/// Detaches a volume from a node.
///
/// # Errors
/// Those of [`detach_volume`].
pub(crate) async fn detach_from_node(
    context: &CommandContext,
    arguments: &DetachArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "volume detach", 1);
            let scope = context.namespace()?.unwrap_or_default();
            detach_volume(&workflow, context, &scope, &arguments.id, &arguments.node).await?;
            Ok(Exit::Done)
        })
        .await
}
