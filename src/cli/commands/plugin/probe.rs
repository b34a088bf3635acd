//! `plugin probe`: everything that a plugin says about itself.

use super::socket::Plugin;
use crate::cli::args::{Probe, ReportForm};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{json_text, probe_json, probe_text};
use crate::conformance::Profile;

/// Asks and prints. A plugin that breaks the specification is shown all the same.
///
/// # Errors
/// If no CSI plugin answers.
pub(crate) async fn run(context: &Context, arguments: &Probe) -> Result<Exit, CliError> {
    let plugin = Plugin::at(context, &arguments.endpoint, arguments.timeout)?;
    let asking = Profile::ask(&plugin.client);
    let profile = context
        .interrupts
        .unless(asking)
        .await?
        .map_err(|unusable| unusable.diagnostic(&plugin.socket))?;
    let text = match arguments.output {
        ReportForm::Text => probe_text(&profile),
        ReportForm::Json => json_text(&probe_json(&profile)),
    };
    context.printer.data(&text);
    Ok(Exit::Done)
}
