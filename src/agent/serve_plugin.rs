//! The embedded plugin's own process: `plugin serve`, for the agent or for any other orchestrator.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::hostpath::{Config, Host, Play, serve};
use crate::mounts::{LinuxBlockStorage, LinuxMounter};
use crate::ports::{RandomIds, SystemClock};

pub use crate::hostpath::PlayOptions;

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
    /// Which plugin it plays.
    pub play: PlayOptions,
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
        play,
    } = options;
    let play = parse_play(&play, "")?;
    let config = Config::new(&endpoint, state_dir, node_id, exit_on_stdin_eof);
    let config = config.map_err(|error| cannot(&error))?;
    let host = Host {
        mounter: Arc::new(LinuxMounter),
        storage: Arc::new(LinuxBlockStorage::default()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
    };
    let served = serve(config.playing(play), host, stop.cancelled_owned());
    served.await.map_err(|error| cannot(&error))
}

/// Which plugin is played; `prefix` stands before the names of flags that were used.
///
/// # Errors
/// Every word that cannot be used.
pub(super) fn parse_play(options: &PlayOptions, prefix: &str) -> Result<Play, Diagnostics> {
    Play::parse(options).map_err(|problems| {
        let mut told = Diagnostics::default();
        for problem in problems {
            let problem = problem.replace("--", &format!("--{prefix}"));
            told.push(Diagnostic::error(Code::HostpathCannotServe, problem));
        }
        told
    })
}

fn cannot(error: &dyn std::error::Error) -> Diagnostics {
    Diagnostic::error(Code::HostpathCannotServe, error.to_string()).into()
}
