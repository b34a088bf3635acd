//! `plugin status`.

use super::find::{PLUGINS, read_named_plugin};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::plugin::PluginStatusArgs;
use crate::cli::commands::status::ask;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::PluginSummary;
use crate::ports::{VolumeApi, WithDocument};
use crate::wire::Filter;

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
            return PLUGINS.print_list(context, output, listed, "No CSI plugins");
        };
        let listed = matching(listed, filter)?;
        return PLUGINS.print_list(context, output, listed, "No CSI plugins match the filter");
    };
    let reading = read_named_plugin(context, api, prefix).await?;
    PLUGINS.print_one(context, output, &reading)
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
