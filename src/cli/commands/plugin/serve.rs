//! `plugin serve`: the embedded plugin as a process of its own.

use crate::agent::{PluginOptions, serve_plugin};
use crate::cli::args::PluginServe;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Serves the plugin until somebody ends it.
///
/// # Errors
/// If it cannot begin.
pub(crate) async fn run(context: &Context, arguments: &PluginServe) -> Result<Exit, CliError> {
    let options = PluginOptions {
        endpoint: arguments.endpoint.clone(),
        state_dir: context.path(&arguments.state_dir),
        node_id: arguments.node_id.clone(),
        exit_on_stdin_eof: arguments.exit_on_stdin_eof,
    };
    serve_plugin(options, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}
