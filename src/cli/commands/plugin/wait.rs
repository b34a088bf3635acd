//! `plugin wait`.

use super::args::PluginWaitArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::wait_for_plugin;
use nomad_csi_model::PluginId;

/// Waits until a plugin is healthy.
///
/// # Errors
/// Those of [`wait_for_plugin`].
pub(crate) async fn wait_until_healthy(
    context: &CommandContext,
    arguments: &PluginWaitArgs,
) -> Result<Exit, CliError> {
    let PluginWaitArgs { id, timeout } = arguments;
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "plugin wait", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let timeout = (timeout.0, &*timeout.to_string());
            wait_for_plugin(&workflow, &scope, &PluginId::new(id), timeout).await?;
            Ok(Exit::Done)
        })
        .await
}
