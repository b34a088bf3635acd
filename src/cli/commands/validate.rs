//! `validate`: checks specifications without a server.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::args::{
    FileArgs, REPORT_FORMAT_HELP, ReportArgs, ReportFormat, SHARE_HELP, SetArgs, one_of,
    required_paths,
};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::settings::namespace;
use crate::cli::specs::{EmptyFiles, LoadOptions, read_specifications};
use crate::cli::ui::{diagnostic_json, json_text, report_files};
use nomad_csi_client::reconcile::workflow::Specifications;
use nomad_csi_model::diagnostic::{Diagnostics, Severity};
use nomad_csi_plan::DenyRule;
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
    #[arg(long, value_name = "RULE", value_delimiter = ',', value_parser = one_of([DenyRule::UndeclaredVariables], DenyRule::as_str), help = DENY_HELP)]
    pub deny: Vec<DenyRule>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
    /// The reports.
    #[command(flatten)]
    pub reports: ReportArgs,
}

/// Validates specifications and prints their problems.
///
/// # Errors
/// If the selected namespace is invalid.
pub(crate) fn validate_files(
    context: &CommandContext,
    arguments: &ValidateArgs,
) -> Result<Exit, CliError> {
    // The config file is not read: it concerns servers.
    let asked = namespace(&context.global, &context.environment, None)?;
    let (specifications, diagnostics) = read_specifications(
        context,
        &arguments.files,
        LoadOptions {
            purpose: Purpose::ByExternalId,
            empty_files: EmptyFiles::Warned,
            share: Some(&arguments.share),
            deny: &arguments.deny,
        },
        &SetArgs::default(),
        asked.as_ref(),
    )?;
    let is_valid = !diagnostics.has_errors();
    let summary = match is_valid {
        true => format!("valid: {}", extent(&specifications)),
        false => format!("invalid: {}", error_count(&diagnostics)),
    };
    let prints_result = !arguments.reports.replace_output();
    if arguments.output == ReportFormat::Json && prints_result {
        let text = json_text(&report(&specifications, &diagnostics));
        context.printer.print_result(&text);
        context.add_to_reports(&diagnostics, &specifications.sources);
    } else {
        context.print_diagnostics(&diagnostics, &specifications.sources);
        if is_valid && prints_result {
            context.printer.print_result(&format!("{summary}\n"));
        }
    }
    context.update_report(|report| {
        let volumes = specifications.volumes.iter();
        let sources = &specifications.sources;
        let names = volumes.map(|spec| sources.name(spec.span.source).to_owned());
        report_files(report, names, summary);
    });
    Ok(if diagnostics.has_errors() { Exit::Error } else { Exit::Done })
}

fn error_count(diagnostics: &Diagnostics) -> String {
    match diagnostics.count(Severity::Error) {
        1 => "1 error".to_owned(),
        count => format!("{count} errors"),
    }
}

fn report(specifications: &Specifications, diagnostics: &Diagnostics) -> Value {
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
