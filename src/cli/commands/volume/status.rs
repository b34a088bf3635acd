//! `volume status`.

use serde_json::{Value, json};

use super::args::VolumeStatusArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::{Layout, check_namespace};
use crate::cli::commands::watching::look_or_watch;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{
    OutputFormat, creation_detail, creation_list, parameters_of_volume, published_stats,
    volume_detail, volume_health, volume_list, volume_overview,
};
use nomad_csi_client::ports::{
    ApiError, ClusterApi, Document, VolumeApi, VolumeQuery, WatchTopic, WithDocument,
};
use nomad_csi_client::reconcile::workflow::{self, pending_creations};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    Namespace, NamespacedId, PluginId, PublishedStats, Volume, VolumeCreation, VolumeHealth,
    VolumeSummary, one_line,
};
use nomad_csi_wire::{
    PublishedStatsDocument, VolumeDocument, VolumeHealthDocument, stats_to_wire,
    volume_health_to_wire,
};

const VOLUMES: Layout<VolumeSummary, Volume> = Layout { list: volume_list, detail: volume_detail };

/// Lists volumes, or shows one.
///
/// # Errors
/// If the server refuses, or the ID names no volume or several.
pub(crate) async fn show_volumes(
    context: &CommandContext,
    arguments: &VolumeStatusArgs,
) -> Result<Exit, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let mut topics = vec![WatchTopic::Volumes(scope.clone())];
    if arguments.id.is_some() {
        topics.extend([WatchTopic::Allocations(scope), WatchTopic::Plugins]);
    }
    let (watch, output) = (arguments.watch, &arguments.output.output);
    look_or_watch(context, watch, output, topics, async |api, output| {
        look(context, api, arguments, output).await
    })
    .await
}

async fn look(
    context: &CommandContext,
    api: &dyn ClusterApi,
    arguments: &VolumeStatusArgs,
    output: &OutputFormat,
) -> Result<Exit, CliError> {
    let query = VolumeQuery {
        namespace: context.namespace()?.unwrap_or_default(),
        prefix: arguments.id.clone().filter(|id| !id.is_empty()),
        plugin: arguments.plugin.as_deref().map(PluginId::new),
        filter: arguments.filter.clone(),
    };
    let Some(id) = &query.prefix else {
        let listed = api.list_volumes(&query).await?;
        let creations = creations(api, &query).await?;
        if listed.is_empty() && creations.is_empty() {
            check_namespace(api, &query.namespace, "list volumes").await?;
        }
        return print_list(context, output, (listed, creations), &query);
    };
    let key = match resolve(context, api, &query, id).await? {
        Resolved::Volume(key) => key,
        Resolved::Creation(creation) => {
            print_creation(context, output, &creation)?;
            return Ok(Exit::Done);
        }
    };
    let mut reading = api.read_volume(&key).await?.ok_or_else(|| missing(api, &query, id))?;
    let document = serde_json::from_str::<VolumeDocument>(reading.document.text());
    let document = document.unwrap_or_default();
    let (reports_health, reports_stats) = (document.reports_health, document.reports_stats);
    let pending = document.modify_pending.as_ref();
    let parameters = parameters_of_volume(&key, &document.mutable_parameters, pending);
    if !output.is_text() {
        if reports_health && output.shows_content() {
            let health = api.volume_health(&key).await?;
            reading.document = with_health(&reading.document, &health);
        }
        if reports_stats && output.shows_content() {
            let stats = read_stats(api, &key).await;
            reading.document = with_stats(&reading.document, &stats);
        }
        return VOLUMES.print_one(context, output, &reading);
    }
    let exit = VOLUMES.print_one(context, output, &reading)?;
    context.printer.print_result(&parameters);
    // The health of a volume says whether its data is gone.
    let asks_provider = !reports_health && !arguments.no_provider;
    print_overview(context, api, &reading.value, asks_provider, output).await;
    if reports_health {
        let health = api.volume_health(&key).await?;
        context.printer.print_result(&volume_health(&health));
    }
    if reports_stats {
        let stats = read_stats(api, &key).await;
        context.printer.print_result(&published_stats(&stats));
    }
    Ok(exit)
}

/// Returns the statistics of a volume. A request that fails is a reason why they are not complete.
async fn read_stats(api: &dyn ClusterApi, key: &NamespacedId) -> PublishedStats {
    let stats = api.volume_stats(key).await;
    stats.unwrap_or_else(|error| PublishedStats { nodes: vec![], unknown: vec![error.message] })
}

/// Returns a volume's document with its statistics: `Stats` as in `GET /v1/volume/csi/:id/stats`, and `StatsUnknown` with
/// the reasons why they are not complete.
fn with_stats(document: &Document, stats: &PublishedStats) -> Document {
    let Value::Object(mut fields) = document.value() else {
        return document.clone();
    };
    let PublishedStatsDocument { stats, unknown } = stats_to_wire(stats);
    fields.insert("Stats".to_owned(), json!(stats));
    if !unknown.is_empty() {
        fields.insert("StatsUnknown".to_owned(), json!(unknown));
    }
    Document::of(&fields)
}

/// Returns a volume's document with its health: `Health` as in `GET /v1/volumes/external`, and
/// `HealthUnknown` with the reasons why it is not complete.
fn with_health(document: &Document, health: &VolumeHealth) -> Document {
    let Value::Object(mut fields) = document.value() else {
        return document.clone();
    };
    let VolumeHealthDocument { health, unknown } = volume_health_to_wire(health);
    fields.insert("Health".to_owned(), json!(health));
    if !unknown.is_empty() {
        fields.insert("HealthUnknown".to_owned(), json!(unknown));
    }
    Document::of(&fields)
}

/// Prints the claims of a volume and what is wrong with it.
async fn print_overview(
    context: &CommandContext,
    api: &dyn ClusterApi,
    volume: &Volume,
    asks_provider: bool,
    output: &OutputFormat,
) {
    let workflow = context.workflow(api, "volume status", 1);
    let overview = workflow::volume_overview(&workflow, volume, asks_provider).await;
    let now = context.time_reference();
    let text = volume_overview(&overview, &now, output.is_wide());
    context.printer.print_result(&text);
    for warning in &overview.warnings {
        context.print_diagnostic(warning);
    }
}

/// Returns the creations of a query that did not end. An expression is about volumes, and none matches it.
async fn creations(
    api: &dyn ClusterApi,
    query: &VolumeQuery,
) -> Result<Vec<WithDocument<VolumeCreation>>, ApiError> {
    if query.filter.is_some() {
        return Ok(vec![]);
    }
    let mut creations = pending_creations(api, &query.namespace).await?;
    creations.retain(|creation| {
        let plugin = query.plugin.as_ref();
        plugin.is_none_or(|plugin| creation.value.plugin_id == *plugin)
    });
    Ok(creations)
}

/// Prints volumes, and the creations that did not end: in JSON as entries of one list.
fn print_list(
    context: &CommandContext,
    output: &OutputFormat,
    (listed, creations): (Vec<WithDocument<VolumeSummary>>, Vec<WithDocument<VolumeCreation>>),
    query: &VolumeQuery,
) -> Result<Exit, CliError> {
    let documents = listed.iter().map(|reading| reading.document.clone());
    let pending = creations.iter().map(|reading| reading.document.clone());
    let documents: Vec<Document> = documents.chain(pending).collect();
    if let Some(text) = output.render_list(&documents)? {
        context.printer.print_result(&text);
        return Ok(Exit::Done);
    }
    let exit = VOLUMES.print_list(context, output, listed, &nothing(query))?;
    if !creations.is_empty() {
        let creations: Vec<_> = creations.into_iter().map(|one| one.value).collect();
        let text = creation_list(&creations, &context.time_reference());
        context.printer.print_result(&text);
    }
    Ok(exit)
}

fn print_creation(
    context: &CommandContext,
    output: &OutputFormat,
    creation: &WithDocument<VolumeCreation>,
) -> Result<(), CliError> {
    match output.render_one(&creation.document)? {
        Some(text) => context.printer.print_result(&text),
        None => {
            let text = creation_detail(&creation.value, &context.time_reference());
            context.printer.print_result(&text);
            context.print_diagnostic(&creating(&creation.value));
        }
    }
    Ok(())
}

/// Returns what helps with a creation that did not end.
fn creating(creation: &VolumeCreation) -> Diagnostic {
    let message = format!(
        "the creation of volume {} did not end; the agent continues it",
        creation.volume.quoted()
    );
    let abandon = format!("nomad-csi volume abandon {}", creation.volume.command_words());
    Diagnostic::warning(Code::VolumeCreating, message).help(format!(
        "wait, or give it up with `{abandon}`: the provider may then have a volume that nothing names"
    ))
}

/// Names the searched namespace, so that it is not mistaken for an empty cluster.
fn nothing(query: &VolumeQuery) -> String {
    let plugin =
        query.plugin.as_ref().map_or_else(String::new, |plugin| format!(" of plugin {plugin}"));
    let filter = query.filter.as_ref().map_or("", |_| " match the filter");
    if query.namespace.as_str() == Namespace::ALL {
        return format!("No CSI volumes{plugin} in any namespace{filter}");
    }
    format!("No CSI volumes{plugin} in namespace {}{filter}", query.namespace)
}

/// The object that an ID names.
enum Resolved {
    Volume(NamespacedId),
    Creation(Box<WithDocument<VolumeCreation>>),
}

/// Returns the volume with this ID, or the only one whose ID starts with it, in its own namespace; else the creation of
/// exactly this ID that did not end.
async fn resolve(
    context: &CommandContext,
    api: &dyn ClusterApi,
    query: &VolumeQuery,
    id: &str,
) -> Result<Resolved, CliError> {
    let listed = api.list_volumes(query).await?;
    let volumes: Vec<VolumeSummary> = listed.into_iter().map(|reading| reading.value).collect();
    let exact: Vec<&VolumeSummary> =
        volumes.iter().filter(|volume| volume.id.as_str() == id).collect();
    let candidates = if exact.is_empty() { volumes.iter().collect() } else { exact };
    match candidates.as_slice() {
        [] => {
            let mut creations = creations(api, query).await?;
            creations.retain(|one| one.value.volume.id.as_str() == id);
            match creations.len() {
                1 => Ok(Resolved::Creation(Box::new(creations.remove(0)))),
                _ => {
                    let action = format!("show volume `{}`", one_line(id));
                    check_namespace(api, &query.namespace, &action).await?;
                    Err(missing(api, query, id).into())
                }
            }
        }
        [one] => {
            let key = NamespacedId::new(one.namespace.clone(), one.id.clone());
            Ok(Resolved::Volume(key))
        }
        several => {
            let several: Vec<VolumeSummary> = several.iter().map(|one| (*one).clone()).collect();
            let (message, help) = ambiguous(id, &several);
            Err(VOLUMES.ambiguous(context, &several, message, help))
        }
    }
}

/// Returns the message and the help for an ambiguous ID.
fn ambiguous(id: &str, several: &[VolumeSummary]) -> (String, &'static str) {
    let count = several.len();
    if several.iter().all(|volume| volume.id.as_str() == id) {
        return (
            format!("cannot select volume `{id}`: {count} namespaces have one of this ID"),
            "select one with `--namespace`",
        );
    }
    (
        format!("cannot select volume `{id}`: the IDs of {count} volumes start with it"),
        "use the full ID of one of them",
    )
}

fn missing(api: &dyn VolumeApi, query: &VolumeQuery, id: &str) -> Diagnostic {
    let place = if query.namespace.as_str() == Namespace::ALL {
        "in any namespace".to_owned()
    } else {
        format!("in namespace `{}`", query.namespace)
    };
    let message =
        format!("{} has no volume `{id}` {place}, and none whose ID starts with it", api.name());
    Diagnostic::error(Code::VolumeNotFound, message)
        .help("run `nomad-csi volume status --namespace '*'` to list the volumes of all namespaces")
}
