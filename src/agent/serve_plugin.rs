//! The embedded plugin's own process: `plugin serve`, for the agent or for any other orchestrator.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::hostpath::{Config, serve};
use crate::mounts::LinuxMounter;
use crate::ports::RandomIds;

/// What the command line says of the plugin, word for word.
#[derive(Clone, Debug)]
pub struct PluginOptions {
    /// `--endpoint`: `unix://` and an absolute path.
    pub endpoint: String,
    /// `--state-dir`: where its volumes and what it knows of them are.
    pub state_dir: PathBuf,
    /// `--node-id`: what it calls this machine; its host name if not given.
    pub node_id: Option<String>,
    /// `--exit-on-stdin-eof`: whether it ends with its standard input.
    pub exit_on_stdin_eof: bool,
}

/// Serves the plugin until `stop`. Mounts stay.
///
/// # Errors
/// If it cannot begin, or the server ends by itself; the message says what to do.
pub async fn serve_plugin(
    options: PluginOptions,
    stop: CancellationToken,
) -> Result<(), Diagnostics> {
    let PluginOptions {
        endpoint,
        state_dir,
        node_id,
        exit_on_stdin_eof,
    } = options;
    let config = Config::new(&endpoint, state_dir, node_id, exit_on_stdin_eof);
    let config = config.map_err(|error| cannot(&error))?;
    let served = serve(
        config,
        Arc::new(LinuxMounter),
        Arc::new(RandomIds),
        stop.cancelled_owned(),
    );
    served.await.map_err(|error| cannot(&error))
}

fn cannot(error: &dyn std::error::Error) -> Diagnostics {
    Diagnostic::error(Code::HostpathCannotServe, error.to_string()).into()
}
