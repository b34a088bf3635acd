//! Arguments of `plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[cfg(feature = "agent")]
use super::direct::DirectCommand;
use crate::cli::args::{OutputArgs, ParallelismArgs, REPORT_FORMAT_HELP, ReportFormat, WatchArgs};
use crate::cli::durations::TimeSpan;
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
    #[command(aliases = ["list", "ls", "get", "describe", "show"])]
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
    /// Write what the server knows of a plugin to a file
    ///
    /// `validate`, `plan` and `apply` check volumes against such files with `--plugins DIR`, where each is named `*.plugin.json`.
    /// The file has the provider, its version, the capabilities that all instances have, the topologies of the nodes
    /// and the least limit of volumes, without the name of any node.
    #[command(
        after_long_help = "Examples:\n  nomad-csi plugin snapshot ebs\n  nomad-csi plugin snapshot ebs --out plugins/ebs.plugin.json"
    )]
    Snapshot(PluginSnapshotArgs),
    /// The commands on a plugin itself.
    #[cfg(feature = "agent")]
    #[command(flatten)]
    Direct(DirectCommand),
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
    /// Whether changes are shown.
    #[command(flatten)]
    pub watch: WatchArgs,
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

/// Arguments of `plugin snapshot`.
#[derive(Args, Debug)]
pub(crate) struct PluginSnapshotArgs {
    /// ID of a plugin, or the start of one
    #[arg(value_name = "ID")]
    pub id: String,
    /// File to write instead of standard output; an earlier file is replaced
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
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
