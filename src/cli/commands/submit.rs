//! Applies specifications and prints the volumes, for `apply`, `volume create` and `volume register`.

use crate::cli::args::{ChangeArgs, SetArgs};
use crate::cli::change_options::change_options;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::volume::SubmitArgs;
use crate::cli::denial::explain_denied;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::specs::{EmptyFiles, LoadOptions, load_specifications};
use crate::cli::ui::{OutputFormat, report_outcomes, volume_detail, volume_list};
use nomad_csi_client::ports::{Document, WithDocument};
use nomad_csi_client::reconcile::workflow::{
    ApplyMode, ApplyRequest, SetSelection, WorkflowContext, apply_specifications,
};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{Volume, VolumeSummary};

/// Runs `volume create` or `volume register`.
///
/// # Errors
/// If a file has an error, and those of [`submit`].
pub(crate) async fn submit_volumes(
    context: &CommandContext,
    arguments: &SubmitArgs,
    mode: ApplyMode,
) -> Result<Exit, CliError> {
    let load_options = LoadOptions {
        purpose: mode.purpose(),
        empty_files: EmptyFiles::Rejected,
        share: Some(&arguments.share),
        deny: &[],
        policies: Some(context.policies()?),
        refuses_files: false,
        plugins: None,
    };
    let specifications =
        load_specifications(context, &arguments.files, load_options, &SetArgs::default())?;
    let changes = ChangeArgs { share: arguments.share.clone(), ..ChangeArgs::default() };
    let request = ApplyRequest {
        specifications: &specifications,
        mode,
        set: None,
        ledger: None,
        options: change_options(context, &changes, &specifications.volumes)?,
        saved_plan: None,
        waits_until_schedulable: false,
    };
    context
        .with_cluster(async |cluster| {
            let cluster = cluster.overriding_policies(arguments.policy_override);
            let cluster = &*cluster.waiting(context.wait_for_server(arguments.server_wait));
            let (wait, parallelism) = (arguments.server_wait, arguments.parallelism.parallelism);
            let workflow = context.waiting_workflow(cluster, "apply", wait, parallelism);
            let output = Some(&arguments.output.output);
            let submitted = submit(context, &workflow, &request).await;
            let is_one = request.specifications.volumes.len() == 1;
            print_submitted(context, is_one, submitted, output)
        })
        .await
}

/// What a run applied.
pub(crate) struct Submitted {
    /// The volumes, as the server has them now; `None` if nothing was carried out.
    pub volumes: Option<Vec<WithDocument<Volume>>>,
    /// How the run ended.
    pub result: Result<Exit, CliError>,
}

/// Applies specifications.
pub(crate) async fn submit(
    context: &CommandContext,
    workflow: &WorkflowContext<'_>,
    request: &ApplyRequest<'_>,
) -> Submitted {
    let applied = apply_specifications(workflow, context, request).await;
    let mut volumes = None;
    let done = applied.map_err(CliError::from).and_then(|applied| {
        context.update_report(|report| report_outcomes(report, applied.outcomes()));
        volumes = Some(applied.volumes());
        applied.result?;
        Ok(Exit::Done)
    });
    let location = request.set.and_then(SetSelection::variables);
    let needs = request.specifications.permissions_to_apply(location.as_ref());
    Submitted { volumes, result: explain_denied(workflow.api, done, &needs).await }
}

/// Prints volumes in the form of `output`; none without it. `is_one` if the files declare one, so that a script gets it as an object.
///
/// # Errors
/// If they cannot be printed in that form, or that of the run.
pub(crate) fn print_submitted(
    context: &CommandContext,
    is_one: bool,
    submitted: Submitted,
    output: Option<&OutputFormat>,
) -> Result<Exit, CliError> {
    if let (Some(output), Some(volumes)) = (output, &submitted.volumes) {
        print_volumes(context, is_one, volumes, output)?;
    }
    submitted.result
}

/// Prints the volumes; `is_one` if the files declare one, so that a script gets it as an object.
fn print_volumes(
    context: &CommandContext,
    is_one: bool,
    volumes: &[WithDocument<Volume>],
    output: &OutputFormat,
) -> Result<(), Diagnostics> {
    let documents: Vec<Document> = volumes.iter().map(|one| one.document.clone()).collect();
    let rendered = match documents.as_slice() {
        [one] if is_one => output.render_one(one)?,
        several => output.render_list(several)?,
    };
    if let Some(text) = rendered {
        context.printer.print_result(&text);
        return Ok(());
    }
    let text = match volumes {
        [] => return Ok(()),
        [one] => volume_detail(&one.value, &context.time_reference(), output.is_wide()),
        several => {
            let summaries: Vec<_> = several.iter().map(|one| summary(&one.value)).collect();
            volume_list(&summaries, output.is_wide())
        }
    };
    context.printer.print_result(&text);
    Ok(())
}

fn summary(volume: &Volume) -> VolumeSummary {
    let count = |claims: usize| u64::try_from(claims).unwrap_or(u64::MAX);
    VolumeSummary {
        namespace: volume.namespace.clone(),
        id: volume.id.clone(),
        name: volume.name.clone(),
        external_id: volume.external_id.clone(),
        plugin_id: volume.plugin_id.clone(),
        provider: volume.provider.clone(),
        schedulable: volume.schedulable,
        access_mode: volume.access_mode,
        attachment_mode: volume.attachment_mode,
        readers: count(volume.read_allocs.len()),
        writers: count(volume.write_allocs.len()),
        create_index: volume.create_index,
        modify_index: volume.modify_index,
        spec_index: volume.spec_index,
    }
}
