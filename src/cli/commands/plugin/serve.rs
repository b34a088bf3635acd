//! `plugin serve`: the host-path plugin, until it is told to stop.

use crate::agent::{PlayOptions, PluginOptions, serve_plugin};
use crate::cli::args::Serve;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;

/// Serves it. Being told to stop is no interruption of it: it ends well.
///
/// # Errors
/// If it cannot start.
pub(crate) async fn run(context: &Context, arguments: &Serve) -> Result<Exit, CliError> {
    let options = PluginOptions {
        endpoint: arguments.endpoint.clone(),
        state_dir: context.directory.join(&arguments.state_dir),
        node_id: arguments.node_id.clone(),
        exit_on_stdin_eof: arguments.exit_on_stdin_eof,
        play: PlayOptions::from(&arguments.play),
    };
    serve_plugin(options, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}
