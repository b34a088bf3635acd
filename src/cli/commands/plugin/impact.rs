//! `plugin impact`: what would be lost without a plugin.

use super::args::PluginImpactArgs;
use super::find::{find_plugin, no_plugin};
use crate::cli::args::ReportFormat;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{json_text, plugin_impact_json, plugin_impact_text};
use nomad_csi_client::reconcile::workflow::{find_node, impact_of_plugin};
use nomad_csi_model::Namespace;

/// Shows what would be lost if a plugin, or its instances on a node, ended.
///
/// # Errors
/// If the plugin or the node does not exist, or the server refuses.
pub(crate) async fn show_impact(
    context: &CommandContext,
    arguments: &PluginImpactArgs,
) -> Result<Exit, CliError> {
    context
        .with_cluster(async |cluster| {
            let parallelism = arguments.parallelism.parallelism;
            let workflow = context.workflow(cluster, "plugin impact", parallelism);
            let everywhere = || Namespace::new(Namespace::ALL);
            let scope = context.namespace()?.unwrap_or_else(everywhere);
            let finding = find_plugin(context, cluster, &arguments.id);
            let plugin = context.interrupts.unless_interrupted(finding).await??;
            let node = match &arguments.node {
                Some(node) => Some(find_node(&workflow, node).await?),
                None => None,
            };
            let impact = impact_of_plugin(&workflow, &plugin, &scope, node.as_ref()).await?;
            let impact = impact.ok_or_else(|| no_plugin(cluster, plugin.as_str()))?;
            context.printer.print_result(&match arguments.output {
                ReportFormat::Text => plugin_impact_text(&impact),
                ReportFormat::Json => json_text(&plugin_impact_json(&impact)),
            });
            Ok(match impact.volumes.is_empty() {
                true => Exit::Done,
                false => Exit::ChangesPending,
            })
        })
        .await
}
