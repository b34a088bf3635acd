//! `plugin status`.

use crate::cli::args::PluginStatus;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{plugin_detail, plugin_list};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{PluginId, PluginSummary};
use crate::ports::{Document, VolumeApi};

/// Lists plugins, or shows one.
///
/// # Errors
/// If the server says no, or the ID names none or several.
pub(crate) async fn run(context: &Context, arguments: &PluginStatus) -> Result<Exit, CliError> {
    context
        .with_server(async |api| {
            context
                .interrupts
                .unless(look(context, api, arguments))
                .await?
        })
        .await
}

async fn look(
    context: &Context,
    api: &dyn VolumeApi,
    arguments: &PluginStatus,
) -> Result<Exit, CliError> {
    match arguments.id.as_deref().filter(|id| !id.is_empty()) {
        None => list(context, api, arguments).await,
        Some(id) => show(context, api, arguments, id).await,
    }
}

async fn list(
    context: &Context,
    api: &dyn VolumeApi,
    arguments: &PluginStatus,
) -> Result<Exit, CliError> {
    let listed = api.list_plugins(None).await?;
    let output = &arguments.output.output;
    let (plugins, documents): (Vec<PluginSummary>, Vec<Document>) = listed
        .into_iter()
        .map(|reading| (reading.value, reading.document))
        .unzip();
    match output.list(&documents) {
        Some(text) => context.printer.data(&text),
        None if plugins.is_empty() => context.printer.talk("No CSI plugins"),
        None => context
            .printer
            .data(&plugin_list(&plugins, output.is_wide())),
    }
    Ok(Exit::Done)
}

async fn show(
    context: &Context,
    api: &dyn VolumeApi,
    arguments: &PluginStatus,
    id: &str,
) -> Result<Exit, CliError> {
    let id = resolve(context, api, id).await?;
    let scope = context.namespace()?.unwrap_or_default();
    let reading = api
        .read_plugin(&id, &scope)
        .await?
        .ok_or_else(|| missing(api, id.as_str()))?;
    let output = &arguments.output.output;
    let text = output
        .one(&reading.document)
        .unwrap_or_else(|| plugin_detail(&reading.value, &context.now(), output.is_wide()));
    context.printer.data(&text);
    Ok(Exit::Done)
}

async fn resolve(
    context: &Context,
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
            context.printer.talk(&plugin_list(several, false));
            let message = format!("the IDs of {} plugins start with `{prefix}`", several.len());
            Err(Diagnostic::error(Code::CliAmbiguousId, message)
                .help("type the whole ID of one of those above")
                .into())
        }
    }
}

fn missing(api: &dyn VolumeApi, id: &str) -> Diagnostic {
    let message = format!(
        "{} has no plugin `{id}`, and none that starts so",
        api.name()
    );
    Diagnostic::error(Code::PluginNotFound, message)
        .help("`nomad-csi plugin status` lists all plugins; one exists once its job is registered")
}
