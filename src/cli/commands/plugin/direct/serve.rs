//! `plugin serve`: runs the host-path plugin until it is stopped.

use std::path::{Path, PathBuf};

use super::args::ServeArgs;
use super::socket::named_socket;
use crate::agent::{PluginOptions, ProfileOptions, serve_plugin};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Runs the plugin. A signal stops it with success.
///
/// # Errors
/// If the plugin cannot start.
pub(crate) async fn serve_embedded_plugin(
    context: &CommandContext,
    arguments: &ServeArgs,
) -> Result<Exit, CliError> {
    let socket = named_socket(context, arguments.endpoint.as_deref())?;
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(|path| context.directory.join(path));
    let options = PluginOptions {
        endpoint: format!("unix://{}", text_of(&socket)?),
        state_dir: absolute(&arguments.state_dir),
        shared: absolute(&arguments.shared),
        role: arguments.role.clone(),
        detach_cuts: arguments.detach_cuts,
        node_id: arguments.node_id.clone(),
        exit_on_stdin_eof: arguments.exit_on_stdin_eof,
        allow_core_dumps: arguments.allow_core_dumps,
        metrics: arguments.metrics,
        profile: ProfileOptions::from(&arguments.profile),
    };
    serve_plugin(options, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}

/// # Errors
/// If the path is not UTF-8, as every endpoint is.
fn text_of(socket: &Path) -> Result<&str, CliError> {
    socket.to_str().ok_or_else(|| {
        let message = format!("the path of the socket is not UTF-8: `{}`", socket.display());
        Diagnostic::error(Code::CliInvalidValue, message)
            .help("use an absolute path of a socket, such as unix:///run/csi.sock")
            .into()
    })
}
