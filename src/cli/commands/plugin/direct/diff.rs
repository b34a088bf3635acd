//! `plugin diff`: what an upgrade of a plugin takes away.

use std::path::Path;

use super::args::PluginDiffArgs;
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{json_text, profile_diff_json, profile_diff_text};
use nomad_csi_client::files::read_text;
use nomad_csi_conformance::{ProbeDocument, compare_profiles};
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// The version of the format that `plugin probe` writes.
const VERSION: u32 = 1;

/// Compares two results of `plugin probe -o json`.
///
/// # Errors
/// If a file cannot be read, or has no such result.
pub(crate) async fn compare_probes(
    context: &CommandContext,
    arguments: &PluginDiffArgs,
) -> Result<Exit, CliError> {
    let old = read_probe(context, &arguments.old)?;
    let new = read_probe(context, &arguments.new)?;
    let diff = compare_profiles(&old, &new);
    context.printer.print_result(&match arguments.output {
        ReportFormat::Text => profile_diff_text(&old, &new, &diff),
        ReportFormat::Json => json_text(&profile_diff_json(&old, &new, &diff)),
    });
    Ok(match (diff.is_breaking(), diff.lost.is_empty()) {
        (true, _) => Exit::Blocked,
        (false, false) => Exit::ChangesPending,
        (false, true) => Exit::Done,
    })
}

fn read_probe(context: &CommandContext, file: &Path) -> Result<ProbeDocument, CliError> {
    let text = read_text(&context.directory, file)?;
    let refused = |reason: String| {
        let message =
            format!("`{}` is not a result of `plugin probe -o json`: {reason}", file.display());
        Diagnostic::error(Code::CliInvalidValue, message)
            .help("write the file with `nomad-csi plugin probe --endpoint URL -o json`")
    };
    let document: ProbeDocument =
        serde_json::from_str(&text).map_err(|error| refused(error.to_string()))?;
    if document.version != VERSION {
        let reason = format!("its version is {}, not {VERSION}", document.version);
        return Err(refused(reason).into());
    }
    Ok(document)
}
