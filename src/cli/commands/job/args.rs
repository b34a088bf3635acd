//! Arguments of `job`.

use clap::{Args, Subcommand, ValueHint};

use super::refused_variables::RefusedVariables;
use crate::cli::args::{
    GivenVariable, OutputArgs, PluginFilesArgs, REPORT_FORMAT_HELP, ReportArgs, ReportFormat,
    SYNTAX_HELP, SpecSyntax, WatchArgs, not_empty,
};
use crate::cli::durations::TimeSpan;
use nomad_csi_client::reconcile::workflow::JobWait;

/// The subcommands of `job`.
#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// Check job files without a server
    ///
    /// Reports every problem of every file in one run, with its position and a remedy. A file is
    /// HCL, YAML or JSON in the words of Nomad's job specification, or JSON in the words of Nomad's
    /// API. Nothing is evaluated: variables and functions are errors. One warning names the parts
    /// that do not concern volumes. It does not change the exit code.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job validate db.nomad.hcl\n  nomad-csi job validate jobs/*.nomad.hcl -o json"
    )]
    Validate(JobValidateArgs),
    /// Check job files against the volumes that they use
    ///
    /// Checks the files as `job validate` does, and then whether each volume exists in the namespace of the job, with the
    /// indexes that `per_alloc` needs and the modes that the job asks for, and whether several groups write to a
    /// volume with one writer. The volumes are those that the files of `--file` declare, without a server, or those of
    /// the server. With `--plugins`, topologies and the limit of volumes of a node are checked too.
    ///
    /// Exits with 0 without errors, and with 1 otherwise.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job lint db.nomad.hcl\n  nomad-csi job lint jobs/*.nomad.hcl -f volumes/ --plugins plugins/"
    )]
    Lint(JobLintArgs),
    /// Run a job, and wait until its allocations run
    ///
    /// Checks the file first, as `job validate` does. Then the command registers the job and reports
    /// each allocation. It ends when all allocations run or have ended, or with the reason why one
    /// does not: the scheduler's reasons, a failed mount, a volume that is in use. A file with parts
    /// that this program does not read is refused on a Nomad cluster, which would run the job without
    /// them.
    ///
    /// Exits with 0 when the job runs, 2 when an allocation has no place, and 1 on an error.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job run db.nomad.hcl\n  nomad-csi job run db.nomad.hcl --check-index 41 --detach"
    )]
    Run(JobRunArgs),
    /// Show what running a job would change
    ///
    /// Exits with 0 if no allocation would be created or destroyed, 2 otherwise, and 1 on an error.
    #[command(after_long_help = "Example:\n  nomad-csi job plan db.nomad.hcl")]
    Plan(JobPlanArgs),
    /// Stop a job
    ///
    /// The command waits until the server has decided which allocations stop. Volumes are released
    /// after their tasks end.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job stop db\n  nomad-csi job stop db --purge"
    )]
    Stop(JobStopArgs),
    /// Run a parameterized job with values
    ///
    /// The job must be registered and have `parameterized`. The command makes a job from it, whose
    /// tasks get the values as `NOMAD_META_KEY` and the payload as the file that `dispatch_payload`
    /// names. Then it reports each allocation, as `job run` does.
    ///
    /// Exits with 0 when the job runs, 2 when an allocation has no place, and 1 on an error.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job dispatch import --meta set=2026-11\n  nomad-csi job dispatch import input.json --idempotency-token 17 --detach"
    )]
    Dispatch(JobDispatchArgs),
    /// Commands for jobs that start by themselves
    #[command(subcommand)]
    Periodic(JobPeriodicCommand),
    /// List the versions of a job
    ///
    /// The server keeps the newest versions, of which `job revert` registers one again.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job history db\n  nomad-csi job history db -o json"
    )]
    History(JobHistoryArgs),
    /// Register an earlier version of a job again
    ///
    /// The server checks it as a new job, and gives it a new version number. The command reports each
    /// allocation, as `job run` does.
    ///
    /// Exits with 0 when the job runs, 2 when an allocation has no place, and 1 on an error.
    #[command(after_long_help = "Example:\n  nomad-csi job revert db 3")]
    Revert(JobRevertArgs),
    /// Restart the tasks of a job
    ///
    /// Restarts the tasks of each allocation that runs, on its node: volumes stay claimed and mounted. The job does not
    /// change.
    #[command(after_long_help = "Example:\n  nomad-csi job restart db")]
    Restart(JobRestartArgs),
    /// List jobs, or show one with its volumes and allocations
    #[command(
        after_long_help = "Examples:\n  nomad-csi job status\n  nomad-csi job status db -o json"
    )]
    #[command(aliases = ["list", "ls", "get", "describe", "show"])]
    Status(JobStatusArgs),
}

/// Arguments of `job validate`.
#[derive(Args, Debug)]
pub(crate) struct JobValidateArgs {
    /// Job file, glob or `-` for standard input; repeatable
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub variables: RefusedVariables,
}

/// Arguments of `job lint`.
#[derive(Args, Debug)]
pub(crate) struct JobLintArgs {
    /// Job file, glob or `-` for standard input; repeatable
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    /// Specification of volumes: file, glob or directory; repeatable [default: the volumes of the server]
    #[arg(short = 'f', long = "file", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub volumes: Vec<String>,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    /// Value of a variable of the specifications; repeatable, the last one of a name applies
    #[arg(long = "var", value_name = "NAME=VALUE", requires = "volumes")]
    pub variables: Vec<GivenVariable>,
    /// File with values of variables of the specifications; repeatable, later files win
    #[arg(long = "var-file", value_name = "FILE", value_hint = ValueHint::FilePath, requires = "volumes")]
    pub variable_files: Vec<String>,
    /// The plugins.
    #[command(flatten)]
    pub plugins: PluginFilesArgs,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// The reports.
    #[command(flatten)]
    pub reports: ReportArgs,
}

/// The file of one job.
#[derive(Args, Debug)]
pub(crate) struct JobFileArgs {
    /// Job file, or `-` for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: String,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    #[command(flatten)]
    pub variables: RefusedVariables,
}

/// Arguments of `explain placement`.
#[derive(Args, Debug)]
pub(crate) struct PlacementArgs {
    /// ID of a job, or the start of one; or a job file: a name that ends in .hcl, .json, .yaml or
    /// .yml, or `-` for standard input
    #[arg(value_name = "JOB", value_hint = ValueHint::FilePath)]
    pub job: String,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    #[command(flatten)]
    pub variables: RefusedVariables,
}

/// Whether and how long to wait.
#[derive(Args, Debug)]
pub(crate) struct WaitingArgs {
    /// End after the request, without waiting for its result
    #[arg(long)]
    pub detach: bool,
    /// Longest time to wait, such as 30s, 5m or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "10m", conflicts_with = "detach")]
    pub timeout: TimeSpan,
}

impl WaitingArgs {
    /// Returns how long to wait, if at all.
    pub(crate) fn wait(&self) -> JobWait {
        match self.detach {
            true => JobWait::Detached,
            false => JobWait::AtMost(self.timeout.0, self.timeout.to_string()),
        }
    }
}

/// Arguments of `job run`.
#[derive(Args, Debug)]
pub(crate) struct JobRunArgs {
    #[command(flatten)]
    pub file: JobFileArgs,
    /// Index that the registered job must have, as `job plan` shows it; 0 for a new job
    #[arg(long, value_name = "INDEX")]
    pub check_index: Option<u64>,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// The subcommands of `job periodic`.
#[derive(Subcommand, Debug)]
pub(crate) enum JobPeriodicCommand {
    /// Launch a periodic job before its time
    ///
    /// The launch is beside those of its times, also with `prohibit_overlap`. The command reports each
    /// allocation, as `job run` does.
    #[command(after_long_help = "Example:\n  nomad-csi job periodic force nightly")]
    Force(JobForceArgs),
}

/// Arguments of `job dispatch`.
#[derive(Args, Debug)]
pub(crate) struct JobDispatchArgs {
    /// ID of the job; on a terminal, also the start of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    /// File with the payload, up to 16 KiB, or `-` for standard input
    #[arg(value_name = "PAYLOAD", value_hint = ValueHint::FilePath)]
    pub payload: Option<String>,
    /// Value for the tasks; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    pub meta: Vec<String>,
    /// Text that names the request: the same text again runs nothing new
    #[arg(long, value_name = "TEXT")]
    pub idempotency_token: Option<String>,
    /// Text in the ID of the new job, before the time
    #[arg(long, value_name = "TEXT")]
    pub id_prefix: Option<String>,
    /// Priority of the new job, 1 to 100 [default: that of the job]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=100))]
    pub priority: Option<u8>,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// Arguments of `job periodic force`.
#[derive(Args, Debug)]
pub(crate) struct JobForceArgs {
    /// ID of the job; on a terminal, also the start of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// Arguments of `job history`.
#[derive(Args, Debug)]
pub(crate) struct JobHistoryArgs {
    /// ID of the job, or the start of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `job revert`.
#[derive(Args, Debug)]
pub(crate) struct JobRevertArgs {
    /// ID of the job; on a terminal, also the start of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    /// Number of the version, as `job history` shows it
    #[arg(value_name = "VERSION")]
    pub version: u64,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// Arguments of `job restart`.
#[derive(Args, Debug)]
pub(crate) struct JobRestartArgs {
    /// ID of the job; on a terminal, also the start of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
}

/// Arguments of `job plan`.
#[derive(Args, Debug)]
pub(crate) struct JobPlanArgs {
    #[command(flatten)]
    pub file: JobFileArgs,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
}

/// Arguments of `job stop`.
#[derive(Args, Debug)]
pub(crate) struct JobStopArgs {
    /// ID of the job; on a terminal, also the start of its ID
    #[arg(value_name = "ID", value_parser = not_empty())]
    pub id: String,
    /// Remove the job too, instead of keeping it as stopped
    ///
    /// Nomad forgets the allocations of a removed job at once, and nothing shows who still writes to their volumes. So
    /// this is refused on Nomad while an allocation of the job with volumes has not ended. The agent keeps the job
    /// until then.
    #[arg(long)]
    pub purge: bool,
    #[command(flatten)]
    pub waiting: WaitingArgs,
}

/// Arguments of `job status`.
#[derive(Args, Debug)]
pub(crate) struct JobStatusArgs {
    /// ID of the job, or the start of its ID
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether changes are shown.
    #[command(flatten)]
    pub watch: WatchArgs,
}
