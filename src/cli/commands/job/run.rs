//! `job run`.

use super::args::JobRunArgs;
use super::submitted::read_submitted;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::ports::JobRegistration;
use nomad_csi_client::reconcile::workflow::{JobOutcome, run_job};
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Runs a job, and waits until its allocations run.
///
/// # Errors
/// If the server is the embedded agent, the file has errors, and those of [`run_job`].
pub(crate) async fn run_job_file(
    context: &CommandContext,
    arguments: &JobRunArgs,
) -> Result<Exit, CliError> {
    if context.global.is_embedded() {
        let message = "cannot run a job with `--embedded`: the job would outlive the agent, which ends with this command";
        return Err(Diagnostic::error(Code::JobNeedsAgent, message)
            .help(Code::JobNeedsAgent.advice())
            .into());
    }
    let submitted = read_submitted(context, &arguments.file)?;
    context
        .with_cluster(async |cluster| {
            submitted.require_whole(cluster).await?;
            let workflow = context.workflow(cluster, "job run", 1);
            let registration =
                JobRegistration { job: submitted.job.clone(), check_index: arguments.check_index };
            let outcome = run_job(&workflow, &registration, &arguments.waiting.wait()).await?;
            Ok(match outcome {
                JobOutcome::Done => Exit::Done,
                JobOutcome::NotPlaced => Exit::ChangesPending,
            })
        })
        .await
}
