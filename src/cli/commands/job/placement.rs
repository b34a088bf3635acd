//! `explain placement`.

use super::args::{JobFileArgs, PlacementArgs};
use super::submitted::read_submitted;
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{json_text, placement_text};
use nomad_csi_client::files::is_passing;
use nomad_csi_client::ports::{ClusterApi, ServerKind, WithDocument};
use nomad_csi_client::reconcile::workflow::find_job;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_wire::PlacementDocument;

/// The ends of the names of job files.
const FILE_ENDS: [&str; 4] = [".hcl", ".json", ".yaml", ".yml"];

/// Shows where the allocations of a job run or would run, and why not elsewhere.
///
/// # Errors
/// If the file has errors, the job does not exist, or the server is not an agent.
pub(crate) async fn explain_placement(
    context: &CommandContext,
    arguments: &PlacementArgs,
) -> Result<Exit, CliError> {
    arguments.variables.require_none()?;
    let is_file = |name: &str| {
        let has_end = FILE_ENDS.iter().any(|end| name.ends_with(end));
        name == "-" || has_end || name.contains('/') && is_passing(&context.directory.join(name))
    };
    let submitted = match is_file(&arguments.job) {
        true => {
            let file = JobFileArgs {
                file: arguments.job.clone(),
                syntax: arguments.syntax,
                variables: arguments.variables.clone(),
            };
            Some(read_submitted(context, &file)?)
        }
        false => None,
    };
    context
        .with_cluster(async |cluster| {
            require_agent(cluster).await?;
            let placement = match &submitted {
                Some(submitted) => {
                    let asking = cluster.explain_placement_of(&submitted.job);
                    context.interrupts.unless_interrupted(asking).await??
                }
                None => of_job(context, cluster, &arguments.job).await?,
            };
            context.printer.print_result(&match arguments.output {
                ReportFormat::Json => json_text(&placement.document),
                ReportFormat::Text => placement_text(&placement.value),
            });
            let waits = |outcome: &str| outcome == "wait";
            let mut slots = placement.value.slots.iter();
            Ok(match slots.any(|slot| waits(&slot.outcome)) {
                true => Exit::ChangesPending,
                false => Exit::Done,
            })
        })
        .await
}

async fn of_job(
    context: &CommandContext,
    api: &dyn ClusterApi,
    text: &str,
) -> Result<WithDocument<PlacementDocument>, CliError> {
    let workflow = context.workflow(api, "explain placement", 1);
    let scope = context.namespace()?.unwrap_or_default();
    let job = find_job(&workflow, &scope, text).await?;
    let asking = api.explain_placement(&job);
    let found = context.interrupts.unless_interrupted(asking).await??;
    found.ok_or_else(|| {
        let message = format!("job {} does not exist any more", job.quoted());
        Diagnostic::error(Code::JobNotFound, message).into()
    })
}

async fn require_agent(api: &dyn ClusterApi) -> Result<(), CliError> {
    match api.server().await? {
        ServerKind::Agent => Ok(()),
        ServerKind::Nomad(_) | ServerKind::NomadUnknownVersion => {
            let message = format!(
                "cannot explain a placement: {} is a Nomad server, which does not show the reasons of each node",
                api.name()
            );
            Err(Diagnostic::error(Code::ApiUnsupported, message)
                .help("run `nomad-csi job plan FILE` to see the reasons of all nodes together")
                .into())
        }
    }
}
