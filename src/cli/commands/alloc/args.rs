//! Arguments of `alloc`.

use clap::{Arg, Args, Subcommand};

use crate::cli::args::{OutputArgs, WatchArgs, not_empty};
use crate::cli::commands::job::WaitingArgs;

/// The subcommands of `alloc`.
#[derive(Subcommand, Debug)]
pub(crate) enum AllocCommand {
    /// List allocations, or show one with its volumes and tasks
    #[command(
        after_long_help = "Examples:\n  nomad-csi alloc status\n  nomad-csi alloc status 3761b601 -o json"
    )]
    #[command(aliases = ["list", "ls", "get", "describe", "show"])]
    Status(AllocStatusArgs),
    /// Print what a task writes
    ///
    /// Prints the whole log, or its last lines with `-n`. `--follow` waits for more until Ctrl-C.
    #[command(
        after_long_help = "Examples:\n  nomad-csi alloc logs 3761b601\n  nomad-csi alloc logs -f --stderr -n 20 3761b601 web"
    )]
    #[command(arg = namespace_without_letter())]
    Logs(AllocLogsArgs),
    /// Show the files of an allocation
    ///
    /// Lists a directory, or prints a file. `alloc/` is what the tasks share, and `TASK/local/` what one task has.
    /// The secrets of a task are never shown. In a pipe or a file, the bytes are those of the file; on a terminal, what could
    /// be obeyed is shown as text.
    #[command(
        after_long_help = "Examples:\n  nomad-csi alloc fs 3761b601\n  nomad-csi alloc fs 3761b601 web/local/config.json"
    )]
    Fs(AllocFsArgs),
    /// Restart a task of an allocation, or all that run
    ///
    /// The task gets its kill signal and runs again, on the same node: volumes stay claimed and mounted. It does not
    /// count in the task's `restart` policy. The command ends before the task has ended.
    #[command(
        after_long_help = "Examples:\n  nomad-csi alloc restart 3761b601-4d6e-c0de-26d0-e383c49be941\n  nomad-csi alloc restart 3761b601-4d6e-c0de-26d0-e383c49be941 web"
    )]
    Restart(AllocRestartArgs),
    /// Send a signal to a task of an allocation, or to all that run
    #[command(
        after_long_help = "Example:\n  nomad-csi alloc signal 3761b601-4d6e-c0de-26d0-e383c49be941 web --signal SIGHUP"
    )]
    Signal(AllocSignalArgs),
    /// Stop an allocation, which its job replaces
    ///
    /// The command waits until the server has decided about the replacement.
    #[command(
        after_long_help = "Example:\n  nomad-csi alloc stop 3761b601-4d6e-c0de-26d0-e383c49be941 --detach"
    )]
    Stop(AllocStopArgs),
}

/// Arguments of `alloc status`.
#[derive(Args, Debug)]
pub(crate) struct AllocStatusArgs {
    /// ID of the allocation, or at least 2 characters of its ID
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether changes are shown.
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// Arguments of `alloc logs`.
#[derive(Args, Debug)]
pub(crate) struct AllocLogsArgs {
    /// ID of the allocation, or at least 2 characters of its ID; with `--job` that of the job
    #[arg(value_name = "ID")]
    pub id: String,
    /// Print the log of a job's newest allocation
    #[arg(long)]
    pub job: bool,
    /// Name of the task; only if the allocation has several
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Wait for what the task writes later
    #[arg(long, short)]
    pub follow: bool,
    /// Print standard error instead of standard output
    #[arg(long)]
    pub stderr: bool,
    /// Number of lines at the end of the log to start with [default: all]
    #[arg(short = 'n', long, value_name = "LINES", value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub lines: Option<u32>,
}

/// Arguments of `alloc stop`.
#[derive(Args, Debug)]
pub(crate) struct AllocStopArgs {
    /// ID of the allocation; on a terminal, also at least 2 characters of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// Arguments of `alloc fs`.
#[derive(Args, Debug)]
pub(crate) struct AllocFsArgs {
    /// ID of the allocation, or at least 2 characters of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    /// Path in the directory of the allocation
    #[arg(value_name = "PATH", default_value = "/")]
    pub path: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `alloc restart`.
#[derive(Args, Debug)]
pub(crate) struct AllocRestartArgs {
    /// ID of the allocation; on a terminal, also at least 2 characters of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    /// Name of the task [default: all that run]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
}

/// Arguments of `alloc signal`.
#[derive(Args, Debug)]
pub(crate) struct AllocSignalArgs {
    /// ID of the allocation; on a terminal, also at least 2 characters of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    /// Name of the task [default: all that run]
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
    /// Name of the signal, such as SIGHUP
    #[arg(short, long, value_name = "SIGNAL", value_parser = not_empty())]
    pub signal: String,
}

/// Returns `--namespace` of `alloc logs`, where `-n` is a number of lines, as in Nomad.
fn namespace_without_letter() -> Arg {
    Arg::new("namespace")
        .long("namespace")
        .value_name("NAME")
        .help_heading("Server")
        .help("Namespace; `*` means all namespaces. `-n` is the number of lines")
}
