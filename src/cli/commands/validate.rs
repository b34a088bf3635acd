//! `validate`: checks specifications without a server.

use clap::Args;
use serde_json::{Value, json};

use crate::cli::args::{FileArgs, REPORT_FORMAT_HELP, ReportFormat, SetArgs, required_paths};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::settings::namespace;
use crate::cli::specs::{EmptyFiles, LoadOptions, read_specifications};
use crate::cli::ui::{diagnostic_json, json_text};
use crate::diagnostic::{Diagnostics, Severity};
use crate::reconcile::workflow::Specifications;
use crate::spec::Purpose;

/// Arguments of `validate`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct ValidateArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
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
        },
        &SetArgs::default(),
        asked.as_ref(),
    )?;
    match arguments.output {
        ReportFormat::Json => context
            .printer
            .print_result(&json_text(&report(&specifications, &diagnostics))),
        ReportFormat::Text => {
            context.print_diagnostics(&diagnostics, &specifications.sources);
            if !diagnostics.has_errors() {
                context
                    .printer
                    .print_result(&format!("valid: {}\n", extent(&specifications)));
            }
        }
    }
    Ok(if diagnostics.has_errors() {
        Exit::Error
    } else {
        Exit::Done
    })
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
