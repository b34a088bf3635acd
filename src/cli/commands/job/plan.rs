//! `job plan`.

use super::args::JobPlanArgs;
use super::submitted::read_submitted;
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{job_plan_text, json_text};
use nomad_csi_client::reconcile::workflow::report_warnings;
use nomad_csi_wire::DesiredUpdatesDocument;

/// Shows what running a job would change.
///
/// # Errors
/// If the file has errors or the server refuses.
pub(crate) async fn plan_job_file(
    context: &CommandContext,
    arguments: &JobPlanArgs,
) -> Result<Exit, CliError> {
    let submitted = read_submitted(context, &arguments.file)?;
    context
        .with_cluster(async |cluster| {
            submitted.require_whole(cluster).await?;
            let planning = cluster.plan_job(&submitted.job);
            let plan = context.interrupts.unless_interrupted(planning).await??;
            let text = match arguments.output {
                ReportFormat::Json => json_text(&plan.document),
                ReportFormat::Text => job_plan_text(&plan.value),
            };
            context.printer.print_result(&text);
            let workflow = context.workflow(cluster, "job plan", 1);
            report_warnings(&workflow, &submitted.job.id, &plan.value.warnings);
            let annotations = plan.value.annotations.iter();
            let mut updates = annotations.flat_map(|all| all.desired_updates.values());
            let failed = plan.value.failed_placements.unwrap_or_default();
            let changes = updates.any(DesiredUpdatesDocument::changes_allocations);
            Ok(match changes || !failed.is_empty() {
                true => Exit::ChangesPending,
                false => Exit::Done,
            })
        })
        .await
}
