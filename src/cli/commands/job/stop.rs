//! `job stop`.

use super::args::JobStopArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::{find_job_to_change, stop_job};

/// Stops a job.
///
/// # Errors
/// Those of [`find_job_to_change`] and [`stop_job`].
pub(crate) async fn stop_named_job(
    context: &CommandContext,
    arguments: &JobStopArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "job stop", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let job =
                find_job_to_change(&workflow, context, &scope, &arguments.id, "stop job").await?;
            stop_job(&workflow, &job, arguments.purge, &arguments.waiting.wait()).await?;
            Ok(Exit::Done)
        })
        .await
}
