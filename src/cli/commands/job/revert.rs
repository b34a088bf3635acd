//! `job revert`.

use super::args::JobRevertArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::{JobOutcome, find_job_to_change, revert_job};

/// Registers an earlier version of a job again, and waits until its allocations run.
///
/// # Errors
/// Those of [`find_job_to_change`] and [`revert_job`].
pub(crate) async fn revert_named_job(
    context: &CommandContext,
    arguments: &JobRevertArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "job revert", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let finding =
                find_job_to_change(&workflow, context, &scope, &arguments.id, "revert job");
            let job = finding.await?;
            let wait = arguments.waiting.wait();
            let outcome = revert_job(&workflow, &job, arguments.version, &wait).await?;
            Ok(match outcome {
                JobOutcome::Done => Exit::Done,
                JobOutcome::NotPlaced => Exit::ChangesPending,
            })
        })
        .await
}
