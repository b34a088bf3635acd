//! `apply`: from files, or from a saved plan.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::args::{
    ChangeArgs, FILE_HELP, FileArgs, LedgerArgs, OutputArgs, ParallelismArgs, SYNTAX_HELP, SetArgs,
    SpecSyntax,
};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::submit::{Submission, submit};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::saved_plan_file::read_saved_plan;
use crate::reconcile::workflow::ApplyMode;

/// Arguments of `apply`.
#[derive(Args, Debug)]
pub(crate) struct ApplyArgs {
    /// Saved plan to apply instead of files
    ///
    /// The plan is computed again from the files that it names, for the same server and set, with
    /// the same options and approvals. A volume that changed since then is skipped (exit code 3). A
    /// plan for a set can be applied once.
    #[arg(
        value_name = "PLAN", value_hint = ValueHint::FilePath,
        conflicts_with_all = [
            "files", "syntax", "set", "ledger", "ledger_namespace", "server_version",
            "prune", "replace", "snapshot_first", "delete_data", "accept_loss",
        ]
    )]
    pub plan: Option<PathBuf>,
    #[arg(short, long = "file", value_name = "PATH", required_unless_present = "plan", value_hint = ValueHint::AnyPath, help = FILE_HELP)]
    pub files: Vec<String>,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    /// The set of the volumes.
    #[command(flatten)]
    pub set: SetArgs,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The prompt, the failures and the plugins.
    #[command(flatten)]
    pub options: ApplyOptions,
    /// Wait up to five minutes until the volumes are schedulable (exit code 3 on timeout)
    #[arg(long)]
    pub wait: bool,
    /// Override the server's soft-mandatory policies (Nomad Enterprise)
    #[arg(long)]
    pub policy_override: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The additional changes.
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
}

/// How `apply` handles prompts, failures and unhealthy plugins.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ApplyOptions {
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Apply the other changes even if some are blocked or must wait
    #[arg(long)]
    pub keep_going: bool,
    /// Do not wait for unhealthy plugins
    ///
    /// By default, the command waits up to two minutes for a plugin that has no healthy controller.
    #[arg(long)]
    pub no_wait: bool,
}

/// Applies files or a saved plan.
///
/// # Errors
/// If the saved plan cannot be read, and those of [`submit`].
pub(crate) async fn apply_specifications(
    context: &CommandContext,
    arguments: &ApplyArgs,
) -> Result<Exit, CliError> {
    let saved = match &arguments.plan {
        Some(file) => Some(read_saved_plan(context, file)?),
        None => None,
    };
    let saved = saved.as_ref();
    let files = FileArgs {
        files: arguments.files.clone(),
        syntax: arguments.syntax,
    };
    let submission = Submission {
        files: saved.map_or(&files, |saved| &saved.files),
        set: saved.map_or(&arguments.set, |saved| &saved.set),
        ledger: Some(saved.map_or(&arguments.ledger, |saved| &saved.ledger)),
        mode: ApplyMode::Apply {
            is_approved: arguments.options.yes,
            keep_going: arguments.options.keep_going,
            waits_for_plugins: !arguments.options.no_wait,
        },
        output: &arguments.output.output,
        parallelism: arguments.parallelism.parallelism,
        changes: &arguments.changes,
        policy_override: arguments.policy_override,
        waits_until_schedulable: arguments.wait,
        saved_plan: saved.map(|saved| &saved.plan),
        namespace: match saved {
            Some(saved) => saved.namespace.clone(),
            None => context.namespace()?,
        },
    };
    submit(context, &submission).await
}
