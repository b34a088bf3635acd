//! `plugin snapshot`: what the server knows of a plugin, as a file for checks without a server.

use std::time::Duration;

use jiff::Timestamp;

use super::args::PluginSnapshotArgs;
use super::find::read_named_plugin;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::json_text;
use nomad_csi_client::files::write_over;
use nomad_csi_client::ports::{ClusterApi, ServerKind};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::shell_quoted;
use nomad_csi_plan::SnapshotDocument;

/// Prints or writes the document.
///
/// # Errors
/// If the ID names no plugin or several, its controller has not reported, or the file cannot be written.
pub(crate) async fn write_snapshot(
    context: &CommandContext,
    arguments: &PluginSnapshotArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let reading = read_document(context, cluster, &arguments.id);
            let document = context.interrupts.unless_interrupted(reading).await??;
            let text = json_text(&document);
            match &arguments.out {
                Some(file) => {
                    write_over(&context.directory, file, text.as_bytes())?;
                    let id = &document.id;
                    let written = format!("plugin {id}: written to {}", file.display());
                    context.printer.print_status(&written);
                }
                None => context.printer.print_result(&text),
            }
            Ok(Exit::Done)
        })
        .await
}

async fn read_document(
    context: &CommandContext,
    cluster: &dyn ClusterApi,
    id: &str,
) -> Result<SnapshotDocument, CliError> {
    let plugin = read_named_plugin(context, cluster, id).await?.value;
    let version = match cluster.server().await? {
        ServerKind::Nomad(version) => Some(version.to_string()),
        ServerKind::Agent | ServerKind::NomadUnknownVersion => None,
    };
    let now = Duration::from_nanos(u64::try_from(context.clock.now()).unwrap_or_default());
    let taken_at =
        i64::try_from(now.as_secs()).ok().and_then(|now| Timestamp::from_second(now).ok());
    let document = SnapshotDocument::of(&plugin, taken_at.map(|at| at.to_string()), version);
    document.ok_or_else(|| {
        let id = &plugin.summary.id;
        let message = format!(
            "cannot write what is known of plugin `{id}`: no controller has reported its capabilities"
        );
        Diagnostic::error(Code::PluginUnhealthy, message)
            .help(format!("run `nomad-csi plugin wait {}` first", shell_quoted(id)))
            .into()
    })
}
