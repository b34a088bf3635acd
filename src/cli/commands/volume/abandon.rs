//! `volume abandon`.

use super::args::AbandonArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::abandon_creation;

/// Gives up a creation that did not end.
///
/// # Errors
/// Those of [`abandon_creation`].
pub(crate) async fn abandon(
    context: &CommandContext,
    arguments: &AbandonArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "volume abandon", 1);
            let scope = context.namespace()?.unwrap_or_default();
            abandon_creation(&workflow, context, &scope, &arguments.id, arguments.yes).await?;
            Ok(Exit::Done)
        })
        .await
}
