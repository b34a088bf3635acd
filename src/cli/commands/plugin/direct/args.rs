//! Arguments of the commands on a plugin itself.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::cli::args::{PluginProfileArgs, REPORT_FORMAT_HELP, ReportFormat, SecretArgs};
use crate::cli::ui::CheckReportFile;

/// The subcommands of `plugin` that need no server.
#[derive(Subcommand, Debug)]
pub(crate) enum DirectCommand {
    /// Serve the embedded plugin on a socket in its own process
    ///
    /// Volumes are images with their own file system, block devices or directories on this machine.
    /// Directories need no privileges to create. All other volumes, and all mounts, need
    /// CAP_SYS_ADMIN. Stops on Ctrl-C or SIGTERM; mounts stay. The agent starts this process
    /// itself. Other orchestrators can use it too.
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin serve --endpoint unix:///run/csi.sock --state-dir /var/lib/csi\n  nomad-csi plugin serve --endpoint unix:///run/n1.sock --shared /var/lib/shared --role node --node-id n1 --state-dir /var/lib/n1"
    )]
    Serve(ServeArgs),
    /// Print what a plugin reports about itself
    ///
    /// Calls the plugin on a socket without an orchestrator and prints its name, capabilities, node
    /// and readiness. Reports violations of the CSI specification.
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
    #[command(after_long_help = "Example:\n  nomad-csi plugin diff old.json new.json")]
    Diff(PluginDiffArgs),
    /// Check a plugin against the CSI specification
    ///
    /// Checks only what the plugin advertises. Without `--destructive`, the checks only read. With
    /// it, they create, use and delete volumes with names that begin with `nomad-csi-check-`, and
    /// clean up after Ctrl-C too.
    ///
    /// Exits with 0 if every check passes, 3 if one fails or cannot run, and 1 on an error, such as a plugin that cannot be
    /// reached.
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin check --endpoint unix:///run/csi.sock\n  nomad-csi plugin check --endpoint unix:///run/csi.sock --destructive"
    )]
    Check(CheckArgs),
}

/// Arguments of `plugin serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Socket to listen on, such as unix:///run/csi.sock [default: CSI_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Directory of the volumes and their metadata
    ///
    /// With `--shared`, only a node has one, for what it has staged.
    #[arg(
        long,
        value_name = "DIR",
        value_hint = ValueHint::DirPath,
        required_unless_present = "shared"
    )]
    pub state_dir: Option<PathBuf>,
    /// Directory of the volumes, which other processes of this plugin use too
    ///
    /// For tests with several nodes on one machine: one process is the controller, and one process
    /// per node stages the volumes, as with a network storage. A volume must be attached to a node
    /// before it is used there. Each process logs its calls to `calls.jsonl` in the directory.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub shared: Option<PathBuf>,
    /// Part of the plugin that this process is: controller, node or all [default: all]
    ///
    /// Requires `--shared`. A node also requires `--state-dir`. Only one controller, or process with
    /// both parts, can run on a shared directory.
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Make a volume that is detached while it is staged read-only on this node
    ///
    /// Requires `--shared` and `--backing directory`. A node looks for detached volumes every 200 ms.
    #[arg(long)]
    pub detach_cuts: bool,
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
#[derive(Args, Debug)]
pub(crate) struct ProbeArgs {
    /// Socket of the plugin, such as unix:///run/csi.sock [default: CSI_ENDPOINT]
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
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
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Socket of the plugin, such as unix:///run/csi.sock [default: CSI_ENDPOINT]
    #[arg(long, value_name = "URL")]
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

/// The format of a report of checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// A table for people.
    Table,
    /// One JSON document.
    Json,
}
