//! `plan`: shows what would change. Changes nothing on the server.

use std::path::PathBuf;

use clap::{Args, ValueEnum as _, ValueHint};
use serde_json::{Value, json};

use crate::cli::args::{
    ChangeArgs, FileArgs, LedgerArgs, ParallelismArgs, PluginFilesArgs, REPORT_FORMAT_HELP,
    ReportArgs, ReportFormat, SetArgs, required_paths,
};
use crate::cli::change_options::change_options;
use crate::cli::command_context::CommandContext;
use crate::cli::denial::explain_denied;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{ledger_access, ledger_location};
use crate::cli::spec_runs::{SpecRun, changes_of_runs, load_runs, refuse_for_several};
use crate::cli::specs::{EmptyFiles, LoadOptions};
use crate::cli::ui::{json_text, one_line, plan_json, plan_text, report_plan};
use nomad_csi_client::files;
use nomad_csi_client::ports::{ClusterApi, ServerKind};
use nomad_csi_client::reconcile::SetLedger;
use nomad_csi_client::reconcile::workflow::{
    PlanRequest, PreparedPlan, ProviderCheck, Reading, SetSelection, check_owners,
    open_planned_set, prepare_plan, refuse_unused_approvals, warn_of_dropped_claims,
};
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{PlanOrigin, PluginSnapshots, SavedPlan, SavedVariable, SnapshotUse};
use nomad_csi_ports::{IdSource as _, RandomIds};
use nomad_csi_spec::{Purpose, VariableValue};

/// Which volumes are read.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RefreshArgs {
    /// Read every volume, even one that cannot have changed
    ///
    /// A set on the server notes which volumes were as their files want them. By default, a volume is read
    /// only if the server's list or its file is not as noted.
    #[arg(long)]
    pub refresh: bool,
}

/// Arguments of `plan`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct PlanArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    /// The set of the volumes.
    #[command(flatten)]
    pub set: SetArgs,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// The reports.
    #[command(flatten)]
    pub reports: ReportArgs,
    /// New file to save the plan in, for `apply FILE`
    ///
    /// The file holds no secrets and no specifications. It records the names of the files, the
    /// state that the plan is based on, the options and the approvals.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Which volumes are read.
    #[command(flatten)]
    pub refresh: RefreshArgs,
    /// The plugins.
    #[command(flatten)]
    pub plugins: PluginFilesArgs,
    /// The additional changes.
    #[command(flatten)]
    pub changes: ChangeArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
}

/// Prints the plan.
///
/// # Errors
/// If a specification has an error, the server cannot be read, a file cannot be written, or the user
/// interrupts.
pub(crate) async fn show_plan(
    context: &CommandContext,
    arguments: &PlanArgs,
) -> Result<Exit, CliError> {
    let passing = arguments.files.first_passing(&context.directory);
    if let Some(passing) = passing.filter(|_| arguments.out.is_some()) {
        let message = match passing.as_str() {
            "-" => "cannot save a plan from standard input".to_owned(),
            name => format!("cannot save a plan from `{}`: it is not a file", one_line(name)),
        };
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("`apply` reads the specifications again")
            .help("write them to a file and name the file")
            .into());
    }
    let plugins = context.plugin_snapshots(&arguments.plugins)?;
    let load_options = LoadOptions {
        purpose: Purpose::ByExternalId,
        empty_files: EmptyFiles::with_prune(arguments.changes.prune),
        share: Some(&arguments.changes.share),
        deny: &arguments.changes.deny,
        policies: Some(context.policies()?),
        refuses_files: false,
        plugins: plugins.as_ref().map(|plugins| (plugins, SnapshotUse::BesideServer)),
    };
    let (files, set, namespace) = (&arguments.files, &arguments.set, context.namespace()?);
    let runs = load_runs(context, files, load_options, set, namespace.as_ref())?;
    if arguments.out.is_some() {
        refuse_for_several("--out", runs.iter().map(|run| run.directory.clone()))?;
    }
    let changes = changes_of_runs(&arguments.changes, &runs)?;
    context
        .with_cluster(async |cluster| {
            let mut documents = vec![];
            let mut exit = Exit::Done;
            let prints_text =
                arguments.output == ReportFormat::Text && !arguments.reports.replace_output();
            for (index, (run, changes)) in runs.iter().zip(&changes).enumerate() {
                if index > 0 && prints_text {
                    context.printer.print_result("\n");
                }
                let specifications = &run.specifications;
                let location = ledger_location(&arguments.ledger, specifications.set.as_ref());
                let needs = specifications.permissions_to_plan(location.as_ref());
                let request = RunToPlan { run, changes, plugins: plugins.as_ref(), arguments };
                let mut document = None;
                let printed = print_plan(context, cluster, request, &mut document).await;
                let planned = explain_denied(cluster, printed, &needs).await;
                if run.directory.is_none() {
                    return planned;
                }
                if let (Err(_), Some(heading)) = (&planned, run.heading()) {
                    context.printer.print_status(&heading);
                }
                let of_run = context.exit_of_run(planned, run.heading());
                documents.push(document_of_run(document.unwrap_or_default(), run, of_run));
                exit = exit.max(of_run);
                if exit == Exit::Interrupted {
                    break;
                }
            }
            if arguments.output == ReportFormat::Json && !arguments.reports.replace_output() {
                let document = json!({ "format_version": 1, "runs": documents });
                context.printer.print_result(&json_text(&document));
            }
            Ok(exit)
        })
        .await
}

/// What one run plans.
#[derive(Clone, Copy)]
struct RunToPlan<'a> {
    run: &'a SpecRun,
    /// The changes of the command line that are for this run.
    changes: &'a ChangeArgs,
    /// What files say of plugins.
    plugins: Option<&'a PluginSnapshots>,
    arguments: &'a PlanArgs,
}

/// Adds to a document which run it is of.
fn document_of_run(mut document: Value, run: &SpecRun, exit: Exit) -> Value {
    document["directory"] = run.directory.as_deref().into();
    document["set"] = run.specifications.set.as_ref().map(SetName::as_str).into();
    document["exit_code"] = exit.code().into();
    document
}

/// Prints the plan of a run. Of several runs, JSON is left in `document`, and printed as one.
async fn print_plan(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    RunToPlan { run, changes, plugins, arguments }: RunToPlan<'_>,
    document: &mut Option<Value>,
) -> Result<Exit, CliError> {
    let specifications = &run.specifications;
    let workflow = context.workflow(cluster, "plan", arguments.parallelism.parallelism);
    let access = ledger_access(context, &arguments.ledger, cluster);
    let selection = SetSelection::new(access.clone(), specifications.set.as_ref());
    let (set, reading) = match &selection {
        Some(selection) if arguments.refresh.refresh => {
            let set = workflow.unless_interrupted(selection.open()).await??;
            (Some(set), Reading::Everything)
        }
        Some(selection) => {
            let desired = &specifications.volumes;
            let (set, reading) = open_planned_set(&workflow, selection, desired).await?;
            (Some(set), reading)
        }
        None => (None, Reading::Everything),
    };
    let mut options = change_options(context, changes, &specifications.volumes)?;
    options.plan.plugin_snapshots = plugins.cloned().unwrap_or_default();
    let request = PlanRequest {
        specifications,
        purpose: Purpose::ByExternalId,
        options,
        keeps_documents: false,
        reads_whole_set: false,
        provider_check: ProviderCheck::Always,
        set: set.as_ref().map(SetLedger::set),
        reading,
    };
    let mut prepared = prepare_plan(&workflow, &request).await?;
    warn_of_dropped_claims(&workflow, &mut prepared).await?;
    if let Some(access) = &access {
        let set = set.as_ref().map(SetLedger::set);
        check_owners(&workflow, &mut prepared, set, access).await?;
    }
    let plan = &prepared.plan;
    let diagnostics = prepared.diagnostics();
    context.update_report(|report| report_plan(report, plan, cluster.name()));
    if !arguments.reports.replace_output() {
        match arguments.output {
            ReportFormat::Text => {
                let text = plan_text(plan, cluster.name(), context.clock.now());
                let heading = run.heading().map(|heading| format!("{heading}\n"));
                let text = format!("{}{text}", heading.unwrap_or_default());
                context.printer.print_result(&text);
            }
            ReportFormat::Json => {
                let mut found = plan_json(plan, cluster.name(), &specifications.sources);
                found["set"] = specifications.set.as_ref().map(SetName::as_str).into();
                match run.directory {
                    None => context.printer.print_result(&json_text(&found)),
                    Some(_) => *document = Some(found),
                }
            }
        }
    }
    context.print_diagnostics(&diagnostics, &specifications.sources);
    refuse_unused_approvals(&prepared, &request.options, request.set)?;
    if arguments.out.is_some() {
        save_plan(context, cluster, &request, &prepared, arguments)?;
    }
    let counts = plan.counts();
    Ok(match counts.blocked_or_waiting() {
        0 if counts.is_as_desired() => Exit::Done,
        0 => Exit::ChangesPending,
        _ => Exit::Blocked,
    })
}

/// Writes the plan to the file that `--out` names.
fn save_plan(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    request: &PlanRequest<'_>,
    prepared: &PreparedPlan,
    arguments: &PlanArgs,
) -> Result<(), CliError> {
    let Some(file) = &arguments.out else {
        return Ok(());
    };
    let origin = plan_origin(context, cluster, request, prepared, arguments)?;
    let options = &request.options;
    let saved = SavedPlan::of(
        origin,
        &prepared.plan,
        &prepared.observation.observed,
        &options.plan,
        &options.approvals,
    );
    files::write_private(&context.directory, file, saved.write().as_bytes())?;
    let file = one_line(&file.display().to_string());
    context.printer.print_status(&format!("plan saved as {file}"));
    if request.set.is_none() {
        let warning = "without a set and its ledger, the plan can be applied more than once";
        context.printer.print_status(warning);
    }
    Ok(())
}

fn plan_origin(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    request: &PlanRequest<'_>,
    prepared: &PreparedPlan,
    arguments: &PlanArgs,
) -> Result<PlanOrigin, CliError> {
    let syntax = arguments.files.syntax;
    let syntax = syntax.and_then(|syntax| syntax.to_possible_value());
    let server_version = request.options.server_version.as_ref();
    let set = request.specifications.set.as_ref();
    Ok(PlanOrigin {
        id: RandomIds.uuid(),
        made_at: context.clock.now(),
        server: cluster.name().to_owned(),
        server_kind: server_kind(&prepared.server),
        server_version: server_version.map(ToString::to_string),
        files: arguments.files.all(),
        syntax: syntax.map(|syntax| syntax.get_name().to_owned()),
        directory: context.directory.display().to_string(),
        namespace: context.namespace()?.map(|namespace| namespace.to_string()),
        set: set.map(ToString::to_string),
        ledger: arguments.ledger.ledger.to_string(),
        ledger_namespace: arguments.ledger.ledger_namespace.clone(),
        variables: saved_variables(&request.specifications.variables),
    })
}

/// Returns the variables of the specifications as saved plans hold them.
fn saved_variables(values: &[VariableValue]) -> Vec<SavedVariable> {
    let saved = |variable: &VariableValue| SavedVariable {
        name: variable.name.clone(),
        value: variable.value.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        from: variable.from.clone(),
    };
    values.iter().map(saved).collect()
}

/// Returns the kind of a server as saved plans hold it.
fn server_kind(server: &ServerKind) -> String {
    match server {
        ServerKind::Agent => "nomad-csi agent".to_owned(),
        ServerKind::Nomad(version) => format!("Nomad {version}"),
        ServerKind::NomadUnknownVersion => "Nomad".to_owned(),
    }
}
