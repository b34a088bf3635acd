//! What `apply`, `volume create` and `volume register` share: load files, apply them, print volumes.

use crate::cli::args::{ChangeArgs, FileArgs, LedgerArgs, ServerWaitArgs, SetArgs};
use crate::cli::change_options::change_options;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::volume::SubmitArgs;
use crate::cli::denial::explain_denied;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::ledger_access;
use crate::cli::specs::{EmptyFiles, LoadOptions, load_specifications_in};
use crate::cli::ui::{OutputFormat, report_outcomes, volume_detail, volume_list};
use nomad_csi_client::ports::{Document, WithDocument};
use nomad_csi_client::reconcile::workflow::{
    ApplyMode, ApplyRequest, SetSelection, WorkflowContext, apply_specifications,
};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{Namespace, NamespacedId, Volume, VolumeSummary};
use nomad_csi_plan::SavedPlan;

/// Files to apply, and how.
pub(crate) struct Submission<'a> {
    /// The files.
    pub files: &'a FileArgs,
    /// The set that owns the volumes.
    pub set: &'a SetArgs,
    /// The ledger of the set; `None` if no set owns the volumes.
    pub ledger: Option<&'a LedgerArgs>,
    /// The command.
    pub mode: ApplyMode,
    /// The form of the printed volumes; `None` to print none.
    pub output: Option<&'a OutputFormat>,
    /// The limit of concurrent work.
    pub parallelism: u16,
    /// The wait for the server.
    pub server_wait: ServerWaitArgs,
    /// Additional changes.
    pub changes: &'a ChangeArgs,
    /// Waits until the volumes are schedulable.
    pub waits_until_schedulable: bool,
    /// Overrides the server's soft-mandatory policies.
    pub policy_override: bool,
    /// The saved plan to apply, if it is one.
    pub saved_plan: Option<&'a SavedPlan>,
    /// The namespace of volumes that declare none.
    pub namespace: Option<Namespace>,
}

impl Submission<'_> {
    /// The volumes that the command line or the saved plan lets share data.
    fn share(&self) -> Vec<String> {
        let saved = self.saved_plan.map(SavedPlan::options);
        let saved = saved.and_then(Result::ok).unwrap_or_default();
        let saved = saved.share.iter().map(NamespacedId::option);
        self.changes.share.iter().cloned().chain(saved).collect()
    }

    /// Returns whether the command line or the saved plan prunes.
    fn prunes(&self) -> bool {
        let saved = self.saved_plan.map(SavedPlan::options);
        self.changes.prune || saved.is_some_and(|saved| saved.is_ok_and(|saved| saved.prune))
    }
}

/// Runs `volume create` or `volume register`.
///
/// # Errors
/// Those of [`submit`].
pub(crate) async fn submit_volumes(
    context: &CommandContext,
    arguments: &SubmitArgs,
    mode: ApplyMode,
) -> Result<Exit, CliError> {
    let submission = Submission {
        files: &arguments.files,
        set: &SetArgs::default(),
        ledger: None,
        mode,
        output: Some(&arguments.output.output),
        parallelism: arguments.parallelism.parallelism,
        server_wait: arguments.server_wait,
        changes: &ChangeArgs { share: arguments.share.clone(), ..ChangeArgs::default() },
        waits_until_schedulable: false,
        policy_override: arguments.policy_override,
        saved_plan: None,
        namespace: context.namespace()?,
    };
    submit(context, &submission).await
}

/// Loads files, applies them and prints the volumes.
///
/// # Errors
/// If a file has an error, and those of [`apply_specifications`].
pub(crate) async fn submit(
    context: &CommandContext,
    submission: &Submission<'_>,
) -> Result<Exit, CliError> {
    let share = submission.share();
    let load_options = LoadOptions {
        purpose: submission.mode.purpose(),
        empty_files: EmptyFiles::with_prune(submission.prunes()),
        share: Some(&share),
    };
    let (files, set) = (submission.files, submission.set);
    let namespace = submission.namespace.as_ref();
    let specifications = load_specifications_in(context, files, load_options, set, namespace)?;
    let options = change_options(context, submission.changes, &specifications.volumes)?;
    let options = match submission.saved_plan {
        Some(saved) => options.for_saved_plan(saved)?,
        None => options,
    };
    context
        .with_cluster(async |cluster| {
            let cluster = cluster.overriding_policies(submission.policy_override);
            let at_most = submission.server_wait.server_wait.0;
            let cluster = &*cluster.waiting(context.wait_for_server(submission.server_wait));
            let ledger = submission.ledger;
            let access = ledger.and_then(|ledger| ledger_access(context, ledger, cluster));
            let set = SetSelection::new(access.clone(), specifications.set.as_ref());
            let request = ApplyRequest {
                specifications: &specifications,
                mode: submission.mode,
                set: set.as_ref(),
                ledger: access.as_ref(),
                options,
                saved_plan: submission.saved_plan,
                waits_until_schedulable: submission.waits_until_schedulable,
            };
            let workflow = WorkflowContext {
                server_wait: at_most,
                ..context.workflow(cluster, "apply", submission.parallelism)
            };
            let applied = apply_specifications(&workflow, context, &request).await;
            let done = applied.map_err(CliError::from).and_then(|applied| {
                context.update_report(|report| report_outcomes(report, applied.outcomes()));
                if let Some(output) = submission.output {
                    let is_one = specifications.volumes.len() == 1;
                    print_volumes(context, is_one, &applied.volumes(), output)?;
                }
                applied.result?;
                Ok(Exit::Done)
            });
            let location = set.as_ref().and_then(SetSelection::variables);
            let needs = specifications.permissions_to_apply(location.as_ref());
            explain_denied(cluster, done, &needs).await
        })
        .await
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
