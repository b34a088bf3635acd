//! Finds the plugin that a text on the command line names.

use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::Layout;
use crate::cli::error::CliError;
use crate::cli::ui::{plugin_detail, plugin_list};
use nomad_csi_client::ports::{VolumeApi, WithDocument};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Plugin, PluginId, PluginSummary};

/// How plugins are shown.
pub(super) const PLUGINS: Layout<PluginSummary, Plugin> =
    Layout { list: plugin_list, detail: plugin_detail };

/// Returns the plugin of this ID, or the only one whose ID starts with the text.
///
/// # Errors
/// If no plugin or several match, or the server refuses.
pub(super) async fn find_plugin(
    context: &CommandContext,
    api: &dyn VolumeApi,
    prefix: &str,
) -> Result<PluginId, CliError> {
    let listed = api.list_plugins(Some(prefix)).await?;
    let plugins: Vec<PluginSummary> = listed.into_iter().map(|reading| reading.value).collect();
    if let Some(exact) = plugins.iter().find(|plugin| plugin.id.as_str() == prefix) {
        return Ok(exact.id.clone());
    }
    match plugins.as_slice() {
        [] => Err(no_plugin(api, prefix).into()),
        [one] => Ok(one.id.clone()),
        several => {
            let message = format!("the IDs of {} plugins start with `{prefix}`", several.len());
            let help = "use the full ID of one of them";
            Err(PLUGINS.ambiguous(context, several, message, help))
        }
    }
}

/// Returns the plugin of this ID, or the only one whose ID starts with the text, with its instances.
///
/// # Errors
/// If no plugin or several match, or the server refuses.
pub(crate) async fn read_named_plugin(
    context: &CommandContext,
    api: &dyn VolumeApi,
    prefix: &str,
) -> Result<WithDocument<Plugin>, CliError> {
    let id = find_plugin(context, api, prefix).await?;
    let scope = context.namespace()?.unwrap_or_default();
    let reading = api.read_plugin(&id, &scope).await?;
    Ok(reading.ok_or_else(|| no_plugin(api, id.as_str()))?)
}

/// The error for a plugin that does not exist.
pub(super) fn no_plugin(api: &dyn VolumeApi, id: &str) -> Diagnostic {
    let message = format!("{} has no plugin `{id}`, and none whose ID starts with it", api.name());
    Diagnostic::error(Code::PluginNotFound, message)
        .help("run `nomad-csi plugin status` to list all plugins; a plugin appears after its job is registered")
}
