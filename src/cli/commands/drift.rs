//! `drift`: shows what changed on the server since the last apply. Changes nothing.

use std::collections::BTreeSet;

use clap::Args;

use crate::cli::args::{
    FileArgs, LedgerArgs, NO_PROVIDER_HELP, ParallelismArgs, REPORT_FORMAT_HELP, ReportArgs,
    ReportFormat, SetArgs, drift_field, required_paths,
};
use crate::cli::command_context::CommandContext;
use crate::cli::denial::explain_denied;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ledger::{ledger_access, ledger_location};
use crate::cli::specs::{EmptyFiles, LoadOptions, load_specifications};
use crate::cli::ui::{DriftShown, drift_json, drift_text, json_text, report_drift};
use nomad_csi_client::ports::{ProviderReader, VolumeReader};
use nomad_csi_client::reconcile::workflow::{AppliedRecord, Specifications};
use nomad_csi_client::reconcile::{DriftQuery, find_drift};
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_plan::{LedgerSet, VolumeDrift};
use nomad_csi_spec::Purpose;

/// Arguments of `drift`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct DriftArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    /// The set of the volumes.
    #[command(flatten)]
    pub set: SetArgs,
    /// Field to ignore; repeatable
    ///
    /// FIELD is a key of a specification, with dots for nested keys: `context`,
    /// `mount_options.fs_type`. To ignore a field of one volume, write `ignore = ["FIELD"]` in its
    /// specification.
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = drift_field)]
    pub ignore: Vec<String>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// The reports.
    #[command(flatten)]
    pub reports: ReportArgs,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    #[arg(long, help = NO_PROVIDER_HELP)]
    pub no_provider: bool,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
}

/// Finds drift and prints it.
///
/// # Errors
/// If a specification has an error, the server or the ledger cannot be read, or the user interrupts.
pub(crate) async fn show_drift(
    context: &CommandContext,
    arguments: &DriftArgs,
) -> Result<Exit, CliError> {
    let load_options = LoadOptions {
        purpose: Purpose::ByExternalId,
        empty_files: EmptyFiles::Accepted,
        share: None,
        deny: &[],
        policies: None,
        refuses_files: false,
        plugins: None,
    };
    let (files, set) = (&arguments.files, &arguments.set);
    let specifications = load_specifications(context, files, load_options, set)?;
    context
        .with_cluster(async |cluster| {
            let reading = async {
                let access = ledger_access(context, &arguments.ledger, cluster);
                let set = specifications.set.as_ref();
                let record = AppliedRecord::read(access.as_ref(), set).await?;
                print_drift(context, cluster, &specifications, &record, arguments).await
            };
            let location = ledger_location(&arguments.ledger, specifications.set.as_ref());
            let needs = specifications.permissions_to_plan(location.as_ref());
            let printed = context.interrupts.unless_interrupted(reading).await?;
            explain_denied(cluster, printed, &needs).await
        })
        .await
}

/// Takes a reader, which cannot change volumes.
async fn print_drift(
    context: &CommandContext,
    reader: &(impl VolumeReader + ProviderReader + ?Sized),
    specifications: &Specifications,
    record: &AppliedRecord,
    arguments: &DriftArgs,
) -> Result<Exit, CliError> {
    let ignore: BTreeSet<String> = arguments.ignore.iter().cloned().collect();
    let query = DriftQuery {
        desired: &specifications.volumes,
        set: record.set(),
        ignore: &ignore,
        asks_providers: !arguments.no_provider,
        parallelism: usize::from(arguments.parallelism.parallelism),
    };
    let found = find_drift(reader, query).await?;
    let warnings: Diagnostics =
        record.warning().into_iter().chain(&found.warnings).cloned().collect();
    let shown = DriftShown {
        volumes: &found.volumes,
        server: reader.name(),
        set: record.set().map(LedgerSet::name),
        sources: &specifications.sources,
    };
    context.update_report(|report| report_drift(report, shown));
    if !arguments.reports.replace_output() {
        context.printer.print_result(&match arguments.output {
            ReportFormat::Text => drift_text(shown, context.clock.now()),
            ReportFormat::Json => json_text(&drift_json(shown, &warnings)),
        });
    }
    context.print_diagnostics(&warnings, &specifications.sources);
    if found.volumes.iter().any(VolumeDrift::has_drifted) {
        Ok(Exit::ChangesPending)
    } else {
        Ok(Exit::Done)
    }
}
