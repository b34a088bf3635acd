//! `job validate`: checks job files without a server.

use serde_json::{Value, json};

use super::args::JobValidateArgs;
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::jobs::{ReadJobs, read_jobs};
use crate::cli::settings::namespace;
use crate::cli::ui::{diagnostic_json, json_text};
use nomad_csi_model::diagnostic::{Severity, SourceMap};

/// Validates job files and prints their problems.
///
/// # Errors
/// If the selected namespace is invalid.
pub(crate) fn validate_jobs(
    context: &CommandContext,
    arguments: &JobValidateArgs,
) -> Result<Exit, CliError> {
    arguments.variables.require_none()?;
    // The config file is not read: it concerns servers.
    let asked = namespace(&context.global, &context.environment, None)?;
    let read = read_jobs(context, &arguments.files, arguments.syntax, asked, SourceMap::default());
    match arguments.output {
        ReportFormat::Json => context.printer.print_result(&json_text(&report(&read))),
        ReportFormat::Text => {
            context.print_diagnostics(&read.diagnostics, &read.sources);
            if !read.diagnostics.has_errors() {
                context.printer.print_result(&format!("valid: {}\n", extent(&read)));
            }
        }
    }
    Ok(if read.diagnostics.has_errors() { Exit::Error } else { Exit::Done })
}

fn report(read: &ReadJobs) -> Value {
    let diagnostics = read.diagnostics.iter();
    json!({
        "format_version": 1,
        "valid": !read.diagnostics.has_errors(),
        "files": read.file_count,
        "jobs": read.jobs.len(),
        "errors": read.diagnostics.count(Severity::Error),
        "warnings": read.diagnostics.count(Severity::Warning),
        "diagnostics": diagnostics.map(|one| diagnostic_json(one, &read.sources)).collect::<Vec<_>>(),
    })
}

/// `1 job`, `3 jobs`.
fn extent(read: &ReadJobs) -> String {
    match read.jobs.len() {
        1 => "1 job".to_owned(),
        count => format!("{count} jobs"),
    }
}
