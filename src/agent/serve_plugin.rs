//! `plugin serve`: the process of the embedded plugin, for the agent or any other orchestrator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::core_dumps::restrict_core_dumps;
use super::metrics::serve_metrics_at;
use crate::telemetry::PluginMetrics;
use nomad_csi_hostpath::{Config, Host, Placement, PlacementOptions, PluginProfile, serve};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_node::mounts::{LinuxBlockStorage, LinuxMounter};
use nomad_csi_ports::{RandomIds, SystemClock};

pub use nomad_csi_hostpath::ProfileOptions;

/// The options of `plugin serve`, as given on the command line.
#[derive(Clone, Debug)]
pub struct PluginOptions {
    /// `--endpoint`: `unix://` and an absolute path.
    pub endpoint: String,
    /// `--state-dir`: the directory of its volumes and their state.
    pub state_dir: Option<PathBuf>,
    /// `--shared`: the directory that it shares with other processes of the plugin.
    pub shared: Option<PathBuf>,
    /// `--role`: the part of the plugin that it is.
    pub role: Option<String>,
    /// `--detach-cuts`: whether a detached volume becomes read-only where it is staged.
    pub detach_cuts: bool,
    /// `--node-id`: the ID of this node; by default the host name.
    pub node_id: Option<String>,
    /// `--exit-on-stdin-eof`: whether it exits with its standard input.
    pub exit_on_stdin_eof: bool,
    /// `--allow-core-dumps`: whether it may make core dumps.
    pub allow_core_dumps: bool,
    /// `--metrics`: the address that serves its metrics.
    pub metrics: Option<SocketAddr>,
    /// The profile of the plugin.
    pub profile: ProfileOptions,
}

/// Serves the plugin until `stop`. Mounts stay.
///
/// # Errors
/// If it cannot start, or the server fails.
pub async fn serve_plugin(
    options: PluginOptions,
    stop: CancellationToken,
) -> Result<(), Diagnostics> {
    let PluginOptions {
        endpoint,
        state_dir,
        shared,
        role,
        detach_cuts,
        node_id,
        exit_on_stdin_eof,
        allow_core_dumps,
        metrics: address,
        profile,
    } = options;
    restrict_core_dumps(allow_core_dumps);
    let backing = profile.backing.clone();
    let placement = PlacementOptions { state_dir, shared, role, detach_cuts, backing };
    let placement = Placement::parse(&placement).map_err(option_problems)?;
    let profile = parse_profile(&profile, "")?;
    let config = Config::new(&endpoint, placement.state_dir, node_id, exit_on_stdin_eof)
        .and_then(|config| config.with_shared(placement.shared));
    let config = config.map_err(|error| serve_problem(&error))?;
    let metrics = Arc::new(PluginMetrics::default());
    let _serving = serve_metrics_at(address, metrics.clone()).await?;
    let host = Host {
        mounter: Arc::new(LinuxMounter),
        storage: Arc::new(LinuxBlockStorage::default()),
        clock: Arc::new(SystemClock),
        ids: Arc::new(RandomIds),
        measurements: metrics,
    };
    let served = serve(config.with_profile(profile), host, stop.cancelled_owned());
    served.await.map_err(|error| serve_problem(&error))
}

/// Parses the profile of a plugin. `prefix` precedes the names of its flags in errors.
///
/// # Errors
/// All invalid values together.
pub(super) fn parse_profile(
    options: &ProfileOptions,
    prefix: &str,
) -> Result<PluginProfile, Diagnostics> {
    PluginProfile::parse(options).map_err(|problems| {
        let prefixed = |problem: String| problem.replace("--", &format!("--{prefix}"));
        option_problems(problems.into_iter().map(prefixed))
    })
}

fn option_problems(problems: impl IntoIterator<Item = String>) -> Diagnostics {
    let mut diagnostics = Diagnostics::default();
    for problem in problems {
        diagnostics.push(Diagnostic::error(Code::HostpathCannotServe, problem));
    }
    diagnostics
}

fn serve_problem(error: &dyn std::error::Error) -> Diagnostics {
    Diagnostic::error(Code::HostpathCannotServe, error.to_string()).into()
}
