//! `job periodic force`.

use super::args::JobForceArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::{JobOutcome, find_job_to_change, launch_job};

/// Launches a periodic job before its time, and waits until its allocations run.
///
/// # Errors
/// Those of [`find_job_to_change`] and [`launch_job`].
pub(crate) async fn force_named_job(
    context: &CommandContext,
    arguments: &JobForceArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "job periodic force", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let finding =
                find_job_to_change(&workflow, context, &scope, &arguments.id, "launch job");
            let job = finding.await?;
            let outcome = launch_job(&workflow, &job, &arguments.waiting.wait()).await?;
            Ok(match outcome {
                JobOutcome::Done => Exit::Done,
                JobOutcome::NotPlaced => Exit::ChangesPending,
            })
        })
        .await
}
