//! `validate`: are the specifications right, as far as that can be known without a server?

use serde_json::{Value, json};

use crate::cli::args::{ReportForm, SetArgument, Validate};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::settings::namespace;
use crate::cli::specs::{Empty, Rules, Wanted, read};
use crate::cli::ui::{json_text, to_json};
use crate::diagnostic::{Diagnostics, Severity};
use crate::spec::Purpose;

/// Checks and reports.
///
/// # Errors
/// If the namespace that was asked for cannot be one.
pub(crate) fn run(context: &Context, arguments: &Validate) -> Result<Exit, CliError> {
    // Without the config file: it concerns servers, and none is asked.
    let asked = namespace(&context.global, &context.environment, None)?;
    let (wanted, diagnostics) = read(
        context,
        &arguments.files,
        Rules {
            purpose: Purpose::ByExternalId,
            empty: Empty::Remarked,
        },
        &SetArgument::default(),
        asked.as_ref(),
    )?;
    match arguments.output {
        ReportForm::Json => context
            .printer
            .data(&json_text(&report(&wanted, &diagnostics))),
        ReportForm::Text => {
            context.report(&diagnostics, &wanted.sources);
            if !diagnostics.has_errors() {
                context
                    .printer
                    .data(&format!("valid: {}\n", extent(&wanted)));
            }
        }
    }
    Ok(if diagnostics.has_errors() {
        Exit::Error
    } else {
        Exit::Done
    })
}

fn report(wanted: &Wanted, diagnostics: &Diagnostics) -> Value {
    let count = |severity| {
        diagnostics
            .iter()
            .filter(|one| one.severity == severity)
            .count()
    };
    json!({
        "format_version": 1,
        "valid": !diagnostics.has_errors(),
        "files": wanted.texts,
        "volumes": wanted.volumes.len(),
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "diagnostics": diagnostics.iter().map(|one| to_json(one, &wanted.sources)).collect::<Vec<_>>(),
    })
}

/// `3 volumes in 2 files`.
fn extent(wanted: &Wanted) -> String {
    let of = |count: usize, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    format!(
        "{} in {}",
        of(wanted.volumes.len(), "volume"),
        of(wanted.texts, "file")
    )
}
