//! `job restart`.

use super::args::JobRestartArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::reconcile::workflow::{find_job_to_change, restart_job};

/// Restarts the tasks of a job.
///
/// # Errors
/// Those of [`find_job_to_change`] and [`restart_job`].
pub(crate) async fn restart_named_job(
    context: &CommandContext,
    arguments: &JobRestartArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "job restart", 1);
            let scope = context.namespace()?.unwrap_or_default();
            let finding =
                find_job_to_change(&workflow, context, &scope, &arguments.id, "restart job");
            let job = finding.await?;
            let count = restart_job(&workflow, &job).await?;
            let noun = if count == 1 { "allocation" } else { "allocations" };
            context.printer.print_status(&format!("job {}: {count} {noun} restarting", job.id));
            Ok(Exit::Done)
        })
        .await
}
