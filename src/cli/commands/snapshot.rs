//! `snapshot create`, `snapshot list`, `snapshot delete`.
//!
//! No server remembers snapshots (`nomad-http-api` 3.10): what there is, is what the plugin's provider
//! says. So a snapshot is looked for in the provider's list before it is deleted, and shown to whoever
//! has to agree; where a plugin cannot list, that is said. Of one name a provider makes one snapshot,
//! so that a create whose answer was lost is simply sent again by whoever wants it.

use std::collections::BTreeMap;

use super::volume::find::the_volume;
use crate::cli::args::{SnapshotCommand, SnapshotCreate, SnapshotDelete, SnapshotList};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{one_line, snapshot_detail, snapshot_document, snapshot_list};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap, nearest};
use crate::model::{Namespace, PluginId, Secrets, Snapshot, SnapshotId, Volume};
use crate::nomad::NomadClient;
use crate::ports::{ApiError, Document, ProviderReader as _, SnapshotApi as _, SnapshotRequest};

/// Works with snapshots.
///
/// # Errors
/// If something that is given cannot be used, nobody agrees, or the server says no.
pub(crate) async fn run(context: &Context, command: &SnapshotCommand) -> Result<Exit, CliError> {
    let secrets = match command {
        SnapshotCommand::Create(arguments) => &arguments.secrets,
        SnapshotCommand::List(arguments) => &arguments.secrets,
        SnapshotCommand::Delete(arguments) => &arguments.secrets,
    };
    let secrets = given_secrets(context, secrets).await?;
    context
        .with_client(async |client| match command {
            SnapshotCommand::Create(arguments) => create(context, client, arguments, secrets).await,
            SnapshotCommand::List(arguments) => list(context, client, arguments, &secrets).await,
            SnapshotCommand::Delete(arguments) => {
                delete(context, client, arguments, &secrets).await
            }
        })
        .await
}

async fn create(
    context: &Context,
    client: &NomadClient,
    arguments: &SnapshotCreate,
    secrets: Secrets,
) -> Result<Exit, CliError> {
    let parameters = parameters(&arguments.parameters)?;
    let volume = the_volume(context, client, &arguments.id).await?;
    if context.interrupts.stop().is_cancelled() {
        return Err(CliError::said(Exit::Interrupted));
    }
    let key = volume.key();
    let request = SnapshotRequest {
        volume: key.clone(),
        plugin_id: volume.plugin_id.clone(),
        name: arguments.name.clone(),
        parameters,
        secrets,
    };
    let made = client.create_snapshot(&request).await;
    let made = made.map_err(|error| CliError::from(not_created(&error)))?;
    context.printer.talk(&one_line(&format!(
        "snapshot {} of volume {key}: created, ID {}",
        arguments.name, made.id
    )));
    if !made.is_ready {
        context.printer.talk(&format!(
            "the provider is still working on it; `nomad-csi snapshot list --volume {} --namespace {}` shows when it is ready",
            key.id, key.namespace
        ));
    }
    let plugin = &volume.plugin_id;
    let output = &arguments.output.output;
    let text = output
        .one(&snapshot_document(&made, plugin))
        .unwrap_or_else(|| snapshot_detail(&made, plugin, &context.now()));
    context.printer.data(&text);
    Ok(Exit::Done)
}

fn not_created(error: &ApiError) -> Diagnostic {
    let problem = error.diagnostic();
    if error.code == Code::ApiOutcomeUnknown {
        return problem
            .help("run the same command again: of one name a provider makes one snapshot");
    }
    problem
}

fn parameters(pairs: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => {
            let message = format!("`--parameter {}` has no key and value", one_line(text));
            Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("write `--parameter KEY=VALUE`")
                .into())
        }
    };
    pairs.iter().map(pair).collect()
}

async fn list(
    context: &Context,
    client: &NomadClient,
    arguments: &SnapshotList,
    secrets: &Secrets,
) -> Result<Exit, CliError> {
    let volume = match &arguments.volume {
        Some(id) => Some(the_volume(context, client, id).await?),
        None => None,
    };
    let plugin = plugin(arguments.plugin.as_deref(), volume.as_ref())?;
    let namespace = namespace(context, volume.as_ref())?;
    let listing = client.list_snapshots(&plugin, &namespace, secrets);
    let mut snapshots = context.interrupts.unless(listing).await??;
    if let Some(volume) = &volume {
        let source = volume.remote_id();
        snapshots.retain(|snapshot| snapshot.source == source);
    }
    let documents: Vec<Document> = snapshots
        .iter()
        .map(|snapshot| snapshot_document(snapshot, &plugin))
        .collect();
    let output = &arguments.output.output;
    match output.list(&documents) {
        Some(text) => context.printer.data(&text),
        None if snapshots.is_empty() => context.printer.talk(&match &volume {
            Some(volume) => one_line(&format!("No snapshots of volume {}", volume.key())),
            None => format!("No snapshots at plugin {plugin}"),
        }),
        None => {
            let table = snapshot_list(&snapshots, &context.now(), output.is_wide());
            context.printer.data(&table);
        }
    }
    Ok(Exit::Done)
}

/// The plugin that is asked: the volume's, which another must not contradict.
fn plugin(typed: Option<&str>, volume: Option<&Volume>) -> Result<PluginId, CliError> {
    match (typed, volume) {
        (Some(typed), Some(volume)) if typed != volume.plugin_id.as_str() => {
            let message = format!(
                "volume {} is of plugin {}, not of {}",
                volume.key(),
                volume.plugin_id,
                one_line(typed)
            );
            Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("leave out `--plugin`")
                .into())
        }
        (_, Some(volume)) => Ok(volume.plugin_id.clone()),
        (typed, None) => Ok(PluginId::new(typed.unwrap_or_default())),
    }
}

/// Plugins have no namespace; the one that goes along is that of the token's permissions.
fn namespace(context: &Context, volume: Option<&Volume>) -> Result<Namespace, CliError> {
    if let Some(volume) = volume {
        return Ok(volume.namespace.clone());
    }
    let asked = context.namespace()?.unwrap_or_default();
    Ok(if asked.as_str() == Namespace::ALL {
        Namespace::default()
    } else {
        asked
    })
}

/// A snapshot that is to go.
struct Doomed {
    id: SnapshotId,
    /// What the provider lists of it; `None` if its plugin cannot list.
    known: Option<Snapshot>,
}

async fn delete(
    context: &Context,
    client: &NomadClient,
    arguments: &SnapshotDelete,
    secrets: &Secrets,
) -> Result<Exit, CliError> {
    let plugin = PluginId::new(&arguments.plugin);
    let namespace = namespace(context, None)?;
    let listing = client.list_snapshots(&plugin, &namespace, secrets);
    let listed = match context.interrupts.unless(listing).await? {
        Ok(listed) => Some(listed),
        Err(error) if error.code == Code::PluginUnsupported => {
            context.printer.talk(&format!(
                "plugin {plugin} does not list its snapshots, so nobody knows whether these exist"
            ));
            None
        }
        Err(error) => return Err(error.into()),
    };
    let doomed = doomed(context, arguments, &plugin, listed.as_deref())?;
    for one in &doomed {
        approve(context, arguments, &plugin, one).await?;
    }
    let mut exit = Exit::Done;
    for one in doomed {
        let shown = one_line(one.id.as_str());
        if context.interrupts.stop().is_cancelled() {
            context
                .printer
                .talk(&format!("snapshot {shown}: not begun"));
            exit = exit.max(Exit::Interrupted);
            continue;
        }
        let deleted = client.delete_snapshot(&plugin, &namespace, &one.id, secrets);
        match deleted.await {
            Ok(()) => context.printer.talk(&format!("snapshot {shown}: deleted")),
            Err(error) => {
                let mut problem = error.diagnostic();
                if error.code == Code::ApiOutcomeUnknown {
                    problem = problem.help(
                        "run the same command with `--if-exists` again: what is gone stays gone",
                    );
                }
                context.report(&problem.into(), &SourceMap::default());
                exit = exit.max(Exit::Error);
            }
        }
    }
    Ok(exit)
}

/// Everything that is to go, each once; one that is not there spares all of them.
fn doomed(
    context: &Context,
    arguments: &SnapshotDelete,
    plugin: &PluginId,
    listed: Option<&[Snapshot]>,
) -> Result<Vec<Doomed>, Diagnostics> {
    let mut doomed: Vec<Doomed> = vec![];
    let mut problems = vec![];
    for id in &arguments.ids {
        if doomed.iter().any(|one| one.id.as_str() == id) {
            continue;
        }
        let known = listed.map(|all| all.iter().find(|one| one.id.as_str() == id));
        match known {
            Some(None) if arguments.if_exists => context.printer.talk(&format!(
                "snapshot {}: does not exist, nothing to do",
                one_line(id)
            )),
            Some(None) => problems.push(missing(plugin, id, listed.unwrap_or_default())),
            Some(Some(_)) | None => doomed.push(Doomed {
                id: SnapshotId::new(id),
                known: known.flatten().cloned(),
            }),
        }
    }
    if problems.is_empty() {
        return Ok(doomed);
    }
    Err(problems.into_iter().collect())
}

fn missing(plugin: &PluginId, id: &str, listed: &[Snapshot]) -> Diagnostic {
    let message = format!(
        "nothing was deleted: plugin {plugin} lists no snapshot `{}`",
        one_line(id)
    );
    let problem = Diagnostic::error(Code::SnapshotNotFound, message);
    let ids = listed.iter().map(|one| one.id.as_str());
    let problem = match nearest(id, ids) {
        Some(similar) => problem.help(format!("there is a snapshot {similar}; is it meant?")),
        None => problem.help(format!(
            "`nomad-csi snapshot list --plugin {plugin}` lists all"
        )),
    };
    problem.help("if it may have been deleted before, `--if-exists` makes that no error")
}

async fn approve(
    context: &Context,
    arguments: &SnapshotDelete,
    plugin: &PluginId,
    one: &Doomed,
) -> Result<(), CliError> {
    if arguments.yes {
        return Ok(());
    }
    let what = description(context, plugin, one);
    if !context.stdin.is_terminal {
        let message = format!("nothing was deleted: to delete {what} somebody has to agree");
        return Err(CliError::approval_needed(
            Diagnostic::error(Code::CliApprovalNeeded, message)
                .note("standard input is no terminal, so nobody could be asked")
                .help(format!("run: {}", context.command_with_yes())),
        ));
    }
    let id = one.id.as_str();
    let question = format!(
        "{what}: it cannot be brought back.\nType {} to delete it: ",
        one_line(id)
    );
    if context.answer(&question).await? == id {
        return Ok(());
    }
    let message = format!(
        "nothing was deleted: nobody agreed to delete snapshot {}",
        one_line(id)
    );
    Err(CliError::approval_needed(Diagnostic::error(
        Code::CliApprovalNeeded,
        message,
    )))
}

/// Enough to know that it is the right one.
fn description(context: &Context, plugin: &PluginId, one: &Doomed) -> String {
    let Some(known) = &one.known else {
        return one_line(&format!("snapshot {} of plugin {plugin}", one.id));
    };
    let size = if known.size.is_zero() {
        String::new()
    } else {
        format!(", {}", known.size.binary())
    };
    let age = context.now().ago(known.create_time);
    let age = if age.is_empty() {
        age
    } else {
        format!(", cut {age}")
    };
    one_line(&format!(
        "snapshot {} of plugin {plugin} (of the volume with external ID {}{size}{age})",
        one.id, known.source
    ))
}
