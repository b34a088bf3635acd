//! `validate`: checks specifications without a server.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::args::{
    FileArgs, PluginFilesArgs, REPORT_FORMAT_HELP, ReportArgs, ReportFormat, SHARE_HELP, SetArgs,
    one_of, required_paths,
};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::settings::namespace;
use crate::cli::spec_runs::{SpecRun, problems_once, read_runs};
use crate::cli::specs::{EmptyFiles, LoadOptions};
use crate::cli::ui::{diagnostic_json, json_text, report_files};
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, Severity};
use nomad_csi_plan::{DenyRule, SnapshotUse};
use nomad_csi_spec::Purpose;

/// Help of `--deny`.
const DENY_HELP: &str = "Refuse specifications of this kind; repeatable";

/// Arguments of `validate`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct ValidateArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    #[arg(long, value_name = "[NAMESPACE/]ID", help = SHARE_HELP)]
    pub share: Vec<String>,
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = one_of([DenyRule::LiteralSecrets, DenyRule::UndeclaredVariables, DenyRule::UnknownPlugins], DenyRule::as_str), help = DENY_HELP)]
    pub deny: Vec<DenyRule>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// The plugins.
    #[command(flatten)]
    pub plugins: PluginFilesArgs,
    /// The reports.
    #[command(flatten)]
    pub reports: ReportArgs,
}

/// Validates specifications and prints their problems.
///
/// # Errors
/// If the selected namespace is invalid, or a policy cannot be read.
pub(crate) fn validate_files(
    context: &CommandContext,
    arguments: &ValidateArgs,
) -> Result<Exit, CliError> {
    // The config file is not read: it concerns servers.
    let asked = namespace(&context.global, &context.environment, None)?;
    let policies = context.named_policies()?;
    let plugins = context.plugin_snapshots(&arguments.plugins)?;
    let by_option = arguments.deny.contains(&DenyRule::UnknownPlugins);
    let by_option = by_option.then(|| "`--deny unknown-plugins`".to_owned());
    let mut by_policy =
        policies.denying(DenyRule::UnknownPlugins).map(|by| format!("`unknown-plugins` ({by})"));
    let denied = by_option.or_else(|| by_policy.next());
    if let Some(denied) = denied.filter(|_| plugins.is_none()) {
        let message = format!("{denied} requires `--plugins`");
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .note("without files of plugins and without a server, no plugin is known")
            .help("add `--plugins DIR`; `nomad-csi plugin snapshot ID --out FILE` writes a file")
            .into());
    }
    let runs = read_runs(
        context,
        &arguments.files,
        LoadOptions {
            purpose: Purpose::ByExternalId,
            empty_files: EmptyFiles::Warned,
            share: Some(&arguments.share),
            deny: &arguments.deny,
            policies: Some(&policies),
            refuses_files: true,
            plugins: plugins.as_ref().map(|plugins| (plugins, SnapshotUse::Alone)),
        },
        &SetArgs::default(),
        asked.as_ref(),
    )?;
    let is_valid = runs.iter().all(|run| !run.diagnostics.has_errors());
    let prints_result = !arguments.reports.replace_output();
    let prints_json = arguments.output == ReportFormat::Json && prints_result;
    let mut summaries = vec![];
    for (run, diagnostics) in runs.iter().zip(problems_once(&runs)) {
        let sources = &run.specifications.sources;
        let summary = summary(run);
        if prints_json {
            context.add_to_reports(&diagnostics, sources);
        } else {
            context.print_diagnostics(&diagnostics, sources);
            // A single run with errors says so on its last line of problems.
            let is_shown = prints_result && (is_valid || runs.len() > 1);
            if is_shown {
                context.printer.print_result(&format!("{summary}\n"));
            }
        }
        summaries.push(summary);
    }
    if prints_json {
        let document = match runs.as_slice() {
            [run] => report(run),
            several => reports(several, is_valid),
        };
        context.printer.print_result(&json_text(&document));
    }
    context.update_report(|report| {
        let names = runs.iter().flat_map(|run| {
            let volumes = run.specifications.volumes.iter();
            volumes.map(|spec| run.specifications.sources.name(spec.span.source).to_owned())
        });
        report_files(report, names, summaries.join("; "));
    });
    Ok(if is_valid { Exit::Done } else { Exit::Error })
}

/// Returns the result of a run in one line.
fn summary(run: &SpecRun) -> String {
    let result = match run.diagnostics.has_errors() {
        false => format!("valid: {}", extent(&run.specifications)),
        true => format!("invalid: {}", error_count(&run.diagnostics)),
    };
    match run.heading() {
        Some(heading) => format!("{heading}: {result}"),
        None => result,
    }
}

/// Returns the document of several runs.
fn reports(runs: &[SpecRun], is_valid: bool) -> Value {
    let of_run = |run: &SpecRun| {
        let mut document = report(run);
        document["directory"] = run.directory.as_deref().into();
        document["set"] = run.specifications.set.as_ref().map(SetName::as_str).into();
        document
    };
    json!({
        "format_version": 1,
        "valid": is_valid,
        "runs": runs.iter().map(of_run).collect::<Vec<_>>(),
    })
}

fn error_count(diagnostics: &Diagnostics) -> String {
    match diagnostics.count(Severity::Error) {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    }
}

fn report(run: &SpecRun) -> Value {
    let SpecRun { specifications, diagnostics, .. } = run;
    json!({
        "format_version": 1,
        "valid": !diagnostics.has_errors(),
        "files": specifications.file_count,
        "volumes": specifications.volumes.len(),
        "errors": diagnostics.count(Severity::Error),
        "warnings": diagnostics.count(Severity::Warning),
        "diagnostics": diagnostics.iter().map(|one| diagnostic_json(one, &specifications.sources)).collect::<Vec<_>>(),
    })
}

/// `3 volumes in 2 files`.
fn extent(specifications: &Specifications) -> String {
    let of = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    format!(
        "{} in {}",
        of(specifications.volumes.len(), "volume"),
        of(specifications.file_count, "file")
    )
}
