//! `job status`.

use super::args::JobStatusArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::{check_namespace, found_in, print_list};
use crate::cli::commands::watching::look_or_watch;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{JobOverview, OutputFormat, job_detail, job_list};
use nomad_csi_client::ports::{ClusterApi, WatchTopic};
use nomad_csi_client::reconcile::workflow::find_job;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{JobKey, one_line};
use nomad_csi_wire::{JobDocument, JobStub};

/// Lists jobs, or shows one.
///
/// # Errors
/// If the server refuses, or the ID names no job or several.
pub(crate) async fn show_jobs(
    context: &CommandContext,
    arguments: &JobStatusArgs,
) -> Result<Exit, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let mut topics = vec![WatchTopic::Jobs(scope.clone())];
    topics.extend(arguments.id.is_some().then_some(WatchTopic::Allocations(scope)));
    let (watch, output) = (arguments.watch, &arguments.output.output);
    look_or_watch(context, watch, output, topics, async |api, output| {
        look(context, api, arguments, output).await
    })
    .await
}

async fn look(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &JobStatusArgs,
    output: &OutputFormat,
) -> Result<Exit, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let Some(id) = &arguments.id else {
        let listed = api.list_jobs(&scope, "").await?;
        if listed.is_empty() {
            check_namespace(api, &scope, "list jobs").await?;
        }
        return print_list(context, output, listed, "No running jobs", |jobs| {
            job_list(jobs, &context.time_reference(), output.is_wide())
        });
    };
    let workflow = context.workflow(api, "job status", 1);
    let action = format!("show job `{}`", one_line(id));
    let found = find_job(&workflow, &scope, id).await;
    let key = found_in(api, &scope, &action, found, Code::JobNotFound).await?;
    let Some(job) = api.read_job(&key).await? else {
        let message = format!("job `{}` was removed in the meantime", key.id);
        return Err(Diagnostic::error(Code::JobNotFound, message).into());
    };
    let text = match output.render_one(&job.document)? {
        Some(text) => text,
        None => {
            let overview = JobOverview {
                children: children(api, &key, &job.value).await?,
                job: job.value,
                summary: api.read_job_summary(&key).await?.unwrap_or_default(),
                allocations: api.list_job_allocations(&key).await?,
                evaluations: api.list_job_evaluations(&key).await?,
            };
            job_detail(&overview, &context.time_reference(), output.is_wide())
        }
    };
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

/// The jobs that were made from a job.
async fn children(
    api: &dyn ClusterApi,
    key: &JobKey,
    job: &JobDocument,
) -> Result<Vec<JobStub>, CliError> {
    if job.periodic.is_none() && job.parameterized_job.is_none() {
        return Ok(vec![]);
    }
    let listed = api.list_jobs(&key.namespace, &format!("{}/", key.id)).await?;
    let jobs = listed.into_iter().map(|reading| reading.value);
    Ok(jobs.filter(|child| child.parent_id == key.id.as_str()).collect())
}
