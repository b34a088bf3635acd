//! `plugin serve`: runs the host-path plugin until it is stopped.

use super::args::ServeArgs;
use crate::agent::{PluginOptions, ProfileOptions, serve_plugin};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Runs the plugin. A signal stops it with success.
///
/// # Errors
/// If the plugin cannot start.
pub(crate) async fn serve_embedded_plugin(
    context: &CommandContext,
    arguments: &ServeArgs,
) -> Result<Exit, CliError> {
    let options = PluginOptions {
        endpoint: arguments.endpoint.clone(),
        state_dir: context.directory.join(&arguments.state_dir),
        node_id: arguments.node_id.clone(),
        exit_on_stdin_eof: arguments.exit_on_stdin_eof,
        allow_core_dumps: arguments.allow_core_dumps,
        metrics: arguments.metrics,
        profile: ProfileOptions::from(&arguments.profile),
    };
    serve_plugin(options, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}
