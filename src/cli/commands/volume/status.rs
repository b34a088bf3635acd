//! `volume status`.

use crate::cli::args::VolumeStatus;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{volume_detail, volume_list};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, NamespacedId, PluginId, VolumeSummary};
use crate::ports::{Document, VolumeApi, VolumeQuery};

/// Lists volumes, or shows one.
///
/// # Errors
/// If the server says no, or the ID names none or several.
pub(crate) async fn run(context: &Context, arguments: &VolumeStatus) -> Result<Exit, CliError> {
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
    arguments: &VolumeStatus,
) -> Result<Exit, CliError> {
    let query = VolumeQuery {
        namespace: context.namespace()?.unwrap_or_default(),
        prefix: arguments.id.clone().filter(|id| !id.is_empty()),
        plugin: arguments.plugin.as_deref().map(PluginId::new),
    };
    match query.prefix.clone() {
        None => list(context, api, arguments, &query).await,
        Some(id) => show(context, api, arguments, &query, &id).await,
    }
}

async fn list(
    context: &Context,
    api: &dyn VolumeApi,
    arguments: &VolumeStatus,
    query: &VolumeQuery,
) -> Result<Exit, CliError> {
    let listed = api.list_volumes(query).await?;
    let output = &arguments.output.output;
    let (volumes, documents): (Vec<VolumeSummary>, Vec<Document>) = listed
        .into_iter()
        .map(|reading| (reading.value, reading.document))
        .unzip();
    match output.list(&documents) {
        Some(text) => context.printer.data(&text),
        None if volumes.is_empty() => context.printer.talk(&nothing(query)),
        None => context
            .printer
            .data(&volume_list(&volumes, output.is_wide())),
    }
    Ok(Exit::Done)
}

/// Where it was looked, so that nobody takes the wrong namespace for an empty cluster.
fn nothing(query: &VolumeQuery) -> String {
    let plugin = query
        .plugin
        .as_ref()
        .map_or_else(String::new, |plugin| format!(" of plugin {plugin}"));
    if query.namespace.as_str() == Namespace::ALL {
        return format!("No CSI volumes{plugin} in any namespace");
    }
    format!("No CSI volumes{plugin} in namespace {}", query.namespace)
}

async fn show(
    context: &Context,
    api: &dyn VolumeApi,
    arguments: &VolumeStatus,
    query: &VolumeQuery,
    id: &str,
) -> Result<Exit, CliError> {
    let key = resolve(context, api, query, id).await?;
    let reading = api
        .read_volume(&key)
        .await?
        .ok_or_else(|| missing(api, query, id))?;
    let output = &arguments.output.output;
    let text = output
        .one(&reading.document)
        .unwrap_or_else(|| volume_detail(&reading.value, &context.now(), output.is_wide()));
    context.printer.data(&text);
    Ok(Exit::Done)
}

/// The volume that is meant: the only one whose ID starts so, or the only one whose ID it is. What
/// follows uses that volume's namespace, also where all were searched (`nomad-http-api` 6.1).
async fn resolve(
    context: &Context,
    api: &dyn VolumeApi,
    query: &VolumeQuery,
    id: &str,
) -> Result<NamespacedId, CliError> {
    let listed = api.list_volumes(query).await?;
    let volumes: Vec<VolumeSummary> = listed.into_iter().map(|reading| reading.value).collect();
    let exact: Vec<&VolumeSummary> = volumes
        .iter()
        .filter(|volume| volume.id.as_str() == id)
        .collect();
    let candidates = if exact.is_empty() {
        volumes.iter().collect()
    } else {
        exact
    };
    match candidates.as_slice() {
        [] => Err(missing(api, query, id).into()),
        [one] => Ok(NamespacedId::new(one.namespace.clone(), one.id.clone())),
        several => {
            let several: Vec<VolumeSummary> = several.iter().map(|one| (*one).clone()).collect();
            context.printer.talk(&volume_list(&several, false));
            Err(ambiguous(id, &several).into())
        }
    }
}

fn ambiguous(id: &str, several: &[VolumeSummary]) -> Diagnostic {
    let count = several.len();
    if several.iter().all(|volume| volume.id.as_str() == id) {
        let message = format!("{count} namespaces have a volume `{id}`");
        return Diagnostic::error(Code::CliAmbiguousId, message)
            .help("name the one that is meant with `--namespace`");
    }
    Diagnostic::error(
        Code::CliAmbiguousId,
        format!("the IDs of {count} volumes start with `{id}`"),
    )
    .help("type the whole ID of one of those above")
}

fn missing(api: &dyn VolumeApi, query: &VolumeQuery, id: &str) -> Diagnostic {
    let place = if query.namespace.as_str() == Namespace::ALL {
        "in any namespace".to_owned()
    } else {
        format!("in namespace {}", query.namespace)
    };
    let message = format!(
        "{} has no volume `{id}` {place}, and none that starts so",
        api.name()
    );
    Diagnostic::error(Code::VolumeNotFound, message)
        .help("`nomad-csi volume status --namespace '*'` lists the volumes of all namespaces")
}
