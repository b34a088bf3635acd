//! `volume wait`.

use super::args::WaitArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::wait_for_condition;

/// Waits until a volume meets a condition.
///
/// # Errors
/// Those of [`wait_for_condition`].
pub(crate) async fn wait_for_state(
    context: &CommandContext,
    arguments: &WaitArgs,
) -> Result<Exit, CliError> {
    let WaitArgs { id, condition, timeout } = arguments;
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "volume wait", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let timeout = (timeout.0, &*timeout.to_string());
            wait_for_condition(&workflow, &scope, id, *condition, timeout).await?;
            Ok(Exit::Done)
        })
        .await
}
