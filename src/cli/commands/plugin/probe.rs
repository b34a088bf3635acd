//! `plugin probe`: shows what a plugin reports about itself.

use super::socket::Plugin;
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::plugin::ProbeArgs;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{json_text, probe_json, probe_text};
use crate::conformance::ProbedPlugin;

/// Prints what a plugin reports, even if that violates the specification.
///
/// # Errors
/// If no CSI plugin answers.
pub(crate) async fn probe_plugin(
    context: &CommandContext,
    arguments: &ProbeArgs,
) -> Result<Exit, CliError> {
    let plugin = Plugin::at(context, &arguments.endpoint, arguments.timeout)?;
    let asking = ProbedPlugin::probe(&plugin.client);
    let profile = context
        .interrupts
        .unless_interrupted(asking)
        .await?
        .map_err(|unusable| unusable.diagnostic(&plugin.socket))?;
    let text = match arguments.output {
        ReportFormat::Text => probe_text(&profile),
        ReportFormat::Json => json_text(&probe_json(&profile)),
    };
    context.printer.print_result(&text);
    Ok(Exit::Done)
}
