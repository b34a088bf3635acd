//! `plugin status`.

use crate::cli::command_context::CommandContext;
use crate::cli::commands::plugin::PluginStatusArgs;
use crate::cli::commands::status::{Layout, ask};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{plugin_detail, plugin_list};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Plugin, PluginId, PluginSummary};
use crate::ports::{VolumeApi, WithDocument};
use crate::wire::Filter;

const PLUGINS: Layout<PluginSummary, Plugin> = Layout {
    list: plugin_list,
    detail: plugin_detail,
};

/// Lists plugins, or shows one.
///
/// # Errors
/// If the server refuses, or the ID names no plugin or several.
pub(crate) async fn show_plugins(
    context: &CommandContext,
    arguments: &PluginStatusArgs,
) -> Result<Exit, CliError> {
    ask(context, async |api| look(context, api, arguments).await).await
}

async fn look(
    context: &CommandContext,
    api: &dyn VolumeApi,
    arguments: &PluginStatusArgs,
) -> Result<Exit, CliError> {
    let output = &arguments.output.output;
    let Some(prefix) = arguments.id.as_deref().filter(|id| !id.is_empty()) else {
        let listed = api.list_plugins(None).await?;
        let Some(filter) = &arguments.filter else {
            return Ok(PLUGINS.print_list(context, output, listed, "No CSI plugins"));
        };
        let listed = matching(listed, filter)?;
        return Ok(PLUGINS.print_list(context, output, listed, "No CSI plugins match the filter"));
    };
    let id = resolve(context, api, prefix).await?;
    let scope = context.namespace()?.unwrap_or_default();
    let reading = api
        .read_plugin(&id, &scope)
        .await?
        .ok_or_else(|| missing(api, id.as_str()))?;
    Ok(PLUGINS.print_one(context, output, &reading))
}

/// Returns the plugins for which the expression is true. Nomad does not filter plugins, so it is tested
/// here.
fn matching(
    listed: Vec<WithDocument<PluginSummary>>,
    filter: &Filter,
) -> Result<Vec<WithDocument<PluginSummary>>, CliError> {
    let mut kept = vec![];
    for reading in listed {
        let document = reading.document.value();
        let is_listed = document
            .as_object()
            .map_or(Ok(false), |item| filter.matches(item));
        match is_listed {
            Ok(true) => kept.push(reading),
            Ok(false) => {}
            Err(problem) => {
                let message = format!("cannot filter the plugins: {problem}");
                return Err(Diagnostic::error(Code::ApiBadRequest, message)
                    .help("run `nomad-csi plugin status -o json` to see the fields of each plugin")
                    .into());
            }
        }
    }
    Ok(kept)
}

async fn resolve(
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
        [] => Err(missing(api, prefix).into()),
        [one] => Ok(one.id.clone()),
        several => {
            let message = format!("the IDs of {} plugins start with `{prefix}`", several.len());
            let help = "use the full ID of one of them";
            Err(PLUGINS.ambiguous(context, several, message, help))
        }
    }
}

fn missing(api: &dyn VolumeApi, id: &str) -> Diagnostic {
    let message = format!(
        "{} has no plugin `{id}`, and none whose ID starts with it",
        api.name()
    );
    Diagnostic::error(Code::PluginNotFound, message)
        .help("run `nomad-csi plugin status` to list all plugins; a plugin appears after its job is registered")
}
