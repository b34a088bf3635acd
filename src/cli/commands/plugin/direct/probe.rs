//! `plugin probe`: shows what a plugin reports about itself.

use super::args::ProbeArgs;
use super::socket::Plugin;
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{json_text, probe_json, probe_text};
use nomad_csi_conformance::{ModeAnswer, ModesUnknown, ProbedPlugin, confirmed_modes};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::one_line;

/// Prints what a plugin reports, even if that violates the specification.
///
/// # Errors
/// If no CSI plugin answers.
pub(crate) async fn probe_plugin(
    context: &CommandContext,
    arguments: &ProbeArgs,
) -> Result<Exit, CliError> {
    let plugin = Plugin::at(context, arguments.endpoint.as_deref(), arguments.timeout)?;
    let asking = ProbedPlugin::probe(&plugin.client);
    let profile = context
        .interrupts
        .unless_interrupted(asking)
        .await?
        .map_err(|unusable| unusable.diagnostic(&plugin.socket))?;
    let modes = match &arguments.volume {
        Some(volume) => Some(read_modes(context, arguments, (&plugin, &profile), volume).await?),
        None => None,
    };
    let text = match arguments.output {
        ReportFormat::Text => probe_text(&profile, modes.as_deref()),
        ReportFormat::Json => json_text(&probe_json(&profile, modes.as_deref())),
    };
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

async fn read_modes(
    context: &CommandContext,
    arguments: &ProbeArgs,
    (plugin, profile): (&Plugin, &ProbedPlugin),
    volume: &str,
) -> Result<Vec<ModeAnswer>, CliError> {
    let secrets = given_secrets(context, &arguments.secrets).await?;
    let asking = confirmed_modes(&plugin.client, profile, volume, &secrets);
    let answers = context.interrupts.unless_interrupted(asking).await?;
    answers.map_err(|unknown| {
        let shown = one_line(volume);
        match unknown {
            ModesUnknown::NoSuchVolume => {
                let message = format!("the plugin has no volume `{shown}`");
                Diagnostic::error(Code::VolumeNotFound, message)
                    .help("use the external ID of the volume, as `volume status` shows it")
                    .into()
            }
            ModesUnknown::Failed(failure) => {
                let message = format!("cannot read the modes of volume `{shown}`: {failure}");
                Diagnostic::error(Code::PluginSocket, message)
                    .help("check the plugin's log, and whether the calls need `--secrets`")
                    .into()
            }
        }
    })
}
