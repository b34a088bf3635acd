//! Arguments of `plugin`.

#[cfg(feature = "agent")]
use std::path::PathBuf;

#[cfg(feature = "agent")]
use clap::ValueHint;
use clap::{Args, Subcommand};

use crate::cli::args::{OutputArgs, ParallelismArgs, REPORT_FORMAT_HELP, ReportFormat};
#[cfg(feature = "agent")]
use crate::cli::args::{PluginProfileArgs, SecretArgs, TableFormat};
use crate::cli::durations::TimeSpan;
#[cfg(feature = "agent")]
use crate::cli::ui::CheckReportFile;
use nomad_csi_wire::Filter;

/// The subcommands of `plugin`.
#[derive(Subcommand, Debug)]
pub(crate) enum PluginCommand {
    /// List plugins, or show one
    ///
    /// ID may be the start of an ID. An exact match takes precedence. The agent also shows what the
    /// provider has left, if the plugin reports that.
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin status\n  nomad-csi plugin status ebs -o wide"
    )]
    Status(PluginStatusArgs),
    /// Show what would be lost if a plugin, or its part on a node, ended
    ///
    /// Lists the volumes that could not be used any more, and the allocations whose volumes could
    /// not be unmounted or detached. Looks at the volumes of all namespaces that the token can see,
    /// or of the namespace of `--namespace`. Changes nothing.
    ///
    /// Exits with 0 if nothing would be lost, 2 if something would, and 1 on an error.
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin impact ebs\n  nomad-csi plugin impact ebs --node worker-1 -o json"
    )]
    Impact(PluginImpactArgs),
    /// Wait until a plugin is healthy
    ///
    /// A plugin is healthy if it has a healthy node, and a healthy controller where it requires one.
    /// A plugin that does not exist is waited for too. Reports the reason for waiting whenever it
    /// changes. Exits with 3 on timeout.
    #[command(after_long_help = "Example:\n  nomad-csi plugin wait ebs --timeout 10m")]
    Wait(PluginWaitArgs),
    /// Serve the embedded plugin on a socket in its own process
    ///
    /// Volumes are images with their own file system, block devices or directories on this machine.
    /// Directories need no privileges to create. All other volumes, and all mounts, need
    /// CAP_SYS_ADMIN. Stops on Ctrl-C or SIGTERM; mounts stay. The agent starts this process
    /// itself. Other orchestrators can use it too.
    #[cfg(feature = "agent")]
    #[command(
        after_long_help = "Example:\n  nomad-csi plugin serve --endpoint unix:///run/csi.sock --state-dir /var/lib/csi"
    )]
    Serve(ServeArgs),
    /// Print what a plugin reports about itself
    ///
    /// Calls the plugin on a socket without an orchestrator and prints its name, capabilities, node
    /// and readiness. Reports violations of the CSI specification.
    #[cfg(feature = "agent")]
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin probe --endpoint unix:///run/csi.sock\n  nomad-csi plugin probe --endpoint unix:///run/csi.sock --volume vol-1"
    )]
    Probe(ProbeArgs),
    /// Show what an upgrade of a plugin would take away
    ///
    /// Compares two results of `plugin probe -o json`, one of each version. A loss is breaking if
    /// volumes that exist could not be used or removed as before.
    ///
    /// Exits with 0 if nothing is lost, 2 if features are lost, 3 if a loss is breaking, and 1 on an
    /// error.
    #[cfg(feature = "agent")]
    #[command(after_long_help = "Example:\n  nomad-csi plugin diff old.json new.json")]
    Diff(PluginDiffArgs),
    /// Check a plugin against the CSI specification
    ///
    /// Checks only what the plugin advertises. Without `--destructive`, the checks only read. With
    /// it, they create, use and delete volumes with names that begin with `nomad-csi-check-`, and
    /// clean up after Ctrl-C too. Exits with 0 if every check passes, else with 1.
    #[cfg(feature = "agent")]
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin check --endpoint unix:///run/csi.sock\n  nomad-csi plugin check --endpoint unix:///run/csi.sock --destructive"
    )]
    Check(CheckArgs),
}

/// Arguments of `plugin status`.
#[derive(Args, Debug)]
pub(crate) struct PluginStatusArgs {
    /// ID of a plugin, or the start of one
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Show only plugins for which this expression is true, such as 'NodesHealthy == 0'
    ///
    /// This command tests the expression, because no version of Nomad filters plugins.
    #[arg(long, value_name = "EXPRESSION", value_parser = Filter::parse, conflicts_with = "id")]
    pub filter: Option<Filter>,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `plugin impact`.
#[derive(Args, Debug)]
pub(crate) struct PluginImpactArgs {
    /// ID of a plugin, or the start of one
    #[arg(value_name = "ID")]
    pub id: String,
    /// Look only at the instances on this node: its name, its ID, or at least 4 characters of its ID
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
}

/// Arguments of `plugin wait`.
#[derive(Args, Debug)]
pub(crate) struct PluginWaitArgs {
    /// Exact ID of the plugin
    #[arg(value_name = "ID")]
    pub id: String,
    /// Longest time to wait, such as 30s, 5m or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: TimeSpan,
}

/// Arguments of `plugin serve`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Socket to listen on: unix:// and an absolute path that ends in .sock
    #[arg(long, value_name = "URL")]
    pub endpoint: String,
    /// Directory of the volumes and their metadata
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: PathBuf,
    /// Node ID of this machine [default: its host name]
    #[arg(long, value_name = "ID")]
    pub node_id: Option<String>,
    /// Stop at the end of standard input, when the parent process ends
    #[arg(long)]
    pub exit_on_stdin_eof: bool,
    /// Allow core dumps, which contain secrets
    #[arg(long)]
    pub allow_core_dumps: bool,
    /// Address that serves Prometheus metrics at /metrics without authentication
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<std::net::SocketAddr>,
    /// The plugin profile.
    #[command(flatten)]
    pub profile: PluginProfileArgs,
}

/// Arguments of `plugin probe`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    /// Socket of the plugin: unix:// and its path
    #[arg(long, value_name = "URL")]
    pub endpoint: String,
    /// Also show which access modes the plugin confirms for this volume, by its external ID
    #[arg(long, value_name = "ID")]
    pub volume: Option<String>,
    /// The secrets for the calls about the volume. They are never shown.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// Timeout of each call in seconds, from 1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
}

/// Arguments of `plugin diff`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(crate) struct PluginDiffArgs {
    /// Result of `plugin probe -o json` of the version in use
    #[arg(value_name = "OLD", value_hint = ValueHint::FilePath)]
    pub old: PathBuf,
    /// Result of `plugin probe -o json` of the other version
    #[arg(value_name = "NEW", value_hint = ValueHint::FilePath)]
    pub new: PathBuf,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
}

/// Arguments of `plugin check`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Socket of the plugin: unix:// and its path
    #[arg(long, value_name = "URL", required_unless_present = "list")]
    pub endpoint: Option<String>,
    /// Timeout of each call in seconds, from 1 to 3600
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Also create, use and delete volumes and snapshots
    #[arg(long)]
    pub destructive: bool,
    /// YAML or JSON file that maps parameter names to values, for created volumes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parameters: Option<PathBuf>,
    /// YAML or JSON file that maps mutable parameter names to values, to modify volumes with
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub mutable_parameters: Option<PathBuf>,
    /// The secrets of every call that accepts secrets. They are never shown.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// Directory to stage volumes in, at the same path for the plugin [default: below the temporary
    /// directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub staging: Option<PathBuf>,
    /// Directory to publish volumes in, at the same path for the plugin [default: below the
    /// temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub target: Option<PathBuf>,
    /// Also check block devices
    #[arg(long)]
    pub block: bool,
    /// Log of the plugin, to search for leaked secrets
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Size of created volumes
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub size: String,
    /// Run only these checks: an area, a check or a pattern with `*`; repeatable
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Skip these checks: an area, a check or a pattern with `*`; repeatable
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// List the checks and their requirements without calling a plugin
    #[arg(long)]
    pub list: bool,
    /// Output format: a table, or one JSON document with every call
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub output: TableFormat,
    /// Write a report to a file or to standard output (`-`); repeatable
    ///
    /// FORMAT is junit or markdown. A report on standard output replaces the output of `--output`.
    #[arg(long = "format", value_name = "FORMAT=FILE", value_delimiter = ',')]
    pub formats: Vec<CheckReportFile>,
}
