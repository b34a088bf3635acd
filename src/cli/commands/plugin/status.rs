//! `plugin status`.

use serde_json::{Value, json};

use super::args::PluginStatusArgs;
use super::find::{PLUGINS, read_named_plugin};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::watching::look_or_watch;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{OutputFormat, capacity_report};
use nomad_csi_client::ports::{ClusterApi, Document, WatchTopic, WithDocument};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{CapacityReport, PluginId, PluginSummary};
use nomad_csi_wire::{CapacityReportDocument, Filter, PluginDocument, capacity_to_wire};

/// Lists plugins, or shows one.
///
/// # Errors
/// If the server refuses, or the ID names no plugin or several.
pub(crate) async fn show_plugins(
    context: &CommandContext,
    arguments: &PluginStatusArgs,
) -> Result<Exit, CliError> {
    let topics = vec![WatchTopic::Plugins];
    let (watch, output) = (arguments.watch, &arguments.output.output);
    look_or_watch(context, watch, output, topics, async |api, output| {
        look(context, api, arguments, output).await
    })
    .await
}

async fn look(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &PluginStatusArgs,
    output: &OutputFormat,
) -> Result<Exit, CliError> {
    let Some(prefix) = arguments.id.as_deref().filter(|id| !id.is_empty()) else {
        let listed = api.list_plugins(None).await?;
        let Some(filter) = &arguments.filter else {
            return PLUGINS.print_list(context, output, listed, "No CSI plugins");
        };
        let listed = matching(listed, filter)?;
        return PLUGINS.print_list(context, output, listed, "No CSI plugins match the filter");
    };
    let mut reading = read_named_plugin(context, api, prefix).await?;
    let document = serde_json::from_str::<PluginDocument>(reading.document.text());
    if !document.is_ok_and(|document| document.reports_capacity) || !output.shows_content() {
        return PLUGINS.print_one(context, output, &reading);
    }
    let report = read_capacity(api, &reading.value.summary.id).await;
    if !output.is_text() {
        reading.document = with_capacity(&reading.document, &report);
        return PLUGINS.print_one(context, output, &reading);
    }
    let exit = PLUGINS.print_one(context, output, &reading)?;
    context.printer.print_result(&capacity_report(&report));
    Ok(exit)
}

/// Returns the capacity of a plugin's provider. A request that fails is a reason why it is not complete.
async fn read_capacity(api: &dyn ClusterApi, plugin: &PluginId) -> CapacityReport {
    let report = api.plugin_capacity(plugin).await;
    report.unwrap_or_else(|error| CapacityReport { places: vec![], unknown: vec![error.message] })
}

/// Returns a plugin's document with its capacity: `Capacity` as in `GET /v1/plugin/csi/:id/capacity`, and
/// `CapacityUnknown` with the reasons why it is not complete.
fn with_capacity(document: &Document, report: &CapacityReport) -> Document {
    let Value::Object(mut fields) = document.value() else {
        return document.clone();
    };
    let CapacityReportDocument { capacity, unknown } = capacity_to_wire(report);
    fields.insert("Capacity".to_owned(), json!(capacity));
    if !unknown.is_empty() {
        fields.insert("CapacityUnknown".to_owned(), json!(unknown));
    }
    Document::of(&fields)
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
        let is_listed = document.as_object().map_or(Ok(false), |item| filter.matches(item));
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
