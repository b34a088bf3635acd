//! `volume doctor`: finds out why volumes cannot be used or released.

use clap::Args;

use crate::cli::args::{ParallelismArgs, REPORT_FORMAT_HELP, ReportFormat, WatchArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::watching::watch;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{doctor_json, doctor_text, json_text};
use nomad_csi_client::ports::{ClusterApi, WatchTopic};
use nomad_csi_client::reconcile::workflow::{
    DoctorReport, DoctorRequest, diagnose_volumes, fix_findings,
};
use nomad_csi_model::Namespace;
use nomad_csi_plan::doctor::Severity;

/// Arguments of `volume doctor`.
#[expect(clippy::struct_excessive_bools, reason = "one flag per option")]
#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub id: Option<String>,
    /// Diagnose all volumes of the namespace
    #[arg(long, conflicts_with = "id")]
    pub all: bool,
    /// Ask neither providers which volumes they have, nor plugins for the health of volumes
    #[arg(long)]
    pub no_provider: bool,
    /// Run the remedies that cannot lose data, then diagnose again
    ///
    /// A volume is detached from a node where no allocation uses it. Everything else needs a
    /// person. Asks for approval on a terminal.
    #[arg(long, conflicts_with = "watch")]
    pub fix: bool,
    /// Skip the approval prompt of `--fix`
    #[arg(long, short, requires = "fix")]
    pub yes: bool,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// Whether changes are shown.
    #[command(flatten)]
    pub watch: WatchArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
}

/// Diagnoses volumes, and prints what is wrong.
///
/// # Errors
/// Those of [`diagnose_volumes`] and [`fix_findings`].
pub(crate) async fn diagnose(
    context: &CommandContext,
    arguments: &DoctorArgs,
) -> Result<Exit, CliError> {
    if !arguments.watch.watch {
        let format = arguments.output;
        return context.with_cluster(async |api| look(context, api, arguments, format).await).await;
    }
    let scope = context.namespace()?.unwrap_or_default();
    let topics = vec![
        WatchTopic::Volumes(scope),
        WatchTopic::Allocations(Namespace::new(Namespace::ALL)),
        WatchTopic::Plugins,
        WatchTopic::Nodes,
    ];
    let format = match context.printer.is_terminal() {
        true => arguments.output,
        false => ReportFormat::Json,
    };
    let is_json = format == ReportFormat::Json;
    watch(context, topics, is_json, async |api| look(context, api, arguments, format).await).await
}

async fn look(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    arguments: &DoctorArgs,
    format: ReportFormat,
) -> Result<Exit, CliError> {
    let workflow = context.workflow(cluster, "volume doctor", arguments.parallelism.parallelism);
    let request = DoctorRequest {
        id: arguments.id.as_deref(),
        scope: context.namespace()?.unwrap_or_default(),
        asks_providers: !arguments.no_provider,
    };
    let mut report = diagnose_volumes(&workflow, &request).await?;
    if arguments.fix && fix_findings(&workflow, context, &report, arguments.yes).await? {
        report = diagnose_volumes(&workflow, &request).await?;
    }
    context.printer.print_result(&match format {
        ReportFormat::Text => doctor_text(&report, cluster.name()),
        ReportFormat::Json => json_text(&doctor_json(&report, cluster.name())),
    });
    Ok(exit(&report))
}

fn exit(report: &DoctorReport) -> Exit {
    let findings = report.volumes.iter().flat_map(|volume| &volume.findings);
    match findings.map(|finding| finding.rule.severity()).max() {
        None => Exit::Done,
        Some(Severity::Warning) => Exit::ChangesPending,
        Some(Severity::Error) => Exit::Blocked,
    }
}
