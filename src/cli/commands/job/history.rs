//! `job history`.

use super::args::JobHistoryArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::{ask, found_in, print_list};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::job_versions;
use nomad_csi_client::reconcile::workflow::find_job;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;

/// Lists the versions of a job.
///
/// # Errors
/// If the server refuses, or the ID names no job or several.
pub(crate) async fn list_versions(
    context: &CommandContext,
    arguments: &JobHistoryArgs,
) -> Result<Exit, CliError> {
    let output = &arguments.output.output;
    ask(context, async |api| {
        let scope = context.namespace()?.unwrap_or_default();
        let workflow = context.workflow(api, "job history", 1);
        let action = format!("list the versions of job `{}`", one_line(&arguments.id));
        let found = find_job(&workflow, &scope, &arguments.id).await;
        let key = found_in(api, &scope, &action, found, Code::JobNotFound).await?;
        let Some(versions) = api.read_job_versions(&key).await? else {
            let message = format!("job `{}` was removed in the meantime", key.id);
            return Err(Diagnostic::error(Code::JobNotFound, message).into());
        };
        print_list(context, output, versions, "No versions", |versions| {
            job_versions(versions, &context.time_reference())
        })
    })
    .await
}
