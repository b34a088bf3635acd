//! `snapshot create`, `snapshot list`, `snapshot delete`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};

use crate::cli::args::{OutputArgs, SecretArgs, not_empty};
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{one_line, snapshot_detail, snapshot_document, snapshot_list};
use nomad_csi_client::ports::Document;
use nomad_csi_client::reconcile::workflow::{
    SnapshotDeletionRequest, WorkflowContext, create_snapshot, delete_snapshots, find_volume,
};
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Namespace, PluginId, Secrets, Volume};
use nomad_csi_plan::{DenyRule, Risk};

/// The subcommands of `snapshot`.
#[derive(Subcommand, Debug)]
pub(crate) enum SnapshotCommand {
    /// Create a snapshot of a volume
    ///
    /// A provider creates one snapshot per name: running the command again returns the same
    /// snapshot.
    #[command(after_long_help = "Example:\n  nomad-csi snapshot create db --name nightly")]
    Create(SnapshotCreateArgs),
    /// List the snapshots of a plugin's provider, newest first
    ///
    /// Servers do not store snapshots. The command reads every page of the plugin's list.
    #[command(after_long_help = "Example:\n  nomad-csi snapshot list --plugin ebs")]
    #[command(aliases = ["ls", "status", "get"])]
    List(SnapshotListArgs),
    /// Delete snapshots
    ///
    /// Asks for approval on a terminal. A snapshot that the provider does not list is an error
    /// without `--if-exists`.
    #[command(after_long_help = "Example:\n  nomad-csi snapshot delete ebs snap-1 --if-exists")]
    Delete(SnapshotDeleteArgs),
}

/// Arguments of `snapshot create`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotCreateArgs {
    /// Exact ID of the volume
    #[arg(value_name = "VOLUME", value_parser = not_empty())]
    pub id: String,
    /// Name of the snapshot, up to 128 bytes
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Parameter for the storage provider; repeatable
    #[arg(long = "parameter", value_name = "KEY=VALUE")]
    pub parameters: Vec<String>,
    /// The secrets.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `snapshot list`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotListArgs {
    /// Plugin whose provider is listed [default with `--volume`: the volume's plugin]
    #[arg(long, value_name = "ID", required_unless_present = "volume")]
    pub plugin: Option<String>,
    /// List only snapshots of this volume
    #[arg(long, value_name = "ID")]
    pub volume: Option<String>,
    /// The secrets.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `snapshot delete`.
#[derive(Args, Debug)]
pub(crate) struct SnapshotDeleteArgs {
    /// ID of the plugin
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
    /// Exact IDs of the snapshots at the provider
    #[arg(value_name = "SNAPSHOT", required = true, value_parser = not_empty())]
    pub ids: Vec<String>,
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Succeed for snapshots that do not exist
    #[arg(long)]
    pub if_exists: bool,
    /// The secrets.
    #[command(flatten)]
    pub secrets: SecretArgs,
}

/// Runs a subcommand.
///
/// # Errors
/// If an argument is invalid, the deletion is forbidden or not approved, or the server refuses.
pub(crate) async fn manage_snapshots(
    context: &CommandContext,
    command: &SnapshotCommand,
) -> Result<Exit, CliError> {
    if let SnapshotCommand::Delete(arguments) = command {
        let ids = arguments.ids.iter();
        let actions = ids.map(|id| format!("delete snapshot `{}`", one_line(id)));
        context.refuse_by_policies(actions, DenyRule::DeleteData, Risk::DestroysData)?;
    }
    let secrets = match command {
        SnapshotCommand::Create(arguments) => &arguments.secrets,
        SnapshotCommand::List(arguments) => &arguments.secrets,
        SnapshotCommand::Delete(arguments) => &arguments.secrets,
    };
    let secrets = given_secrets(context, secrets).await?;
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "snapshot", 1);
            match command {
                SnapshotCommand::Create(arguments) => {
                    create(context, &workflow, arguments, secrets).await
                }
                SnapshotCommand::List(arguments) => {
                    list(context, &workflow, arguments, &secrets).await
                }
                SnapshotCommand::Delete(arguments) => {
                    delete(context, &workflow, arguments, &secrets).await
                }
            }
        })
        .await
}

async fn create(
    context: &CommandContext,
    workflow: &WorkflowContext<'_>,
    arguments: &SnapshotCreateArgs,
    secrets: Secrets,
) -> Result<Exit, CliError> {
    let parameters = parameters(&arguments.parameters)?;
    let scope = context.namespace()?.unwrap_or_default();
    let volume = find_volume(workflow, &scope, &arguments.id).await?;
    let name = &arguments.name;
    let snapshot = create_snapshot(workflow, &volume, name, parameters, secrets).await?;
    let plugin = &volume.plugin_id;
    let output = &arguments.output.output;
    let text = output
        .render_one(&snapshot_document(&snapshot, plugin))?
        .unwrap_or_else(|| snapshot_detail(&snapshot, plugin, &context.time_reference()));
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

fn parameters(pairs: &[String]) -> Result<BTreeMap<String, String>, CliError> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => {
            let message = format!("`--parameter {}` is not KEY=VALUE", one_line(text));
            Err(Diagnostic::error(Code::CliInvalidValue, message)
                .help("write `--parameter KEY=VALUE`")
                .into())
        }
    };
    pairs.iter().map(pair).collect()
}

async fn list(
    context: &CommandContext,
    workflow: &WorkflowContext<'_>,
    arguments: &SnapshotListArgs,
    secrets: &Secrets,
) -> Result<Exit, CliError> {
    let scope = context.namespace()?.unwrap_or_default();
    let volume = match &arguments.volume {
        Some(id) => Some(find_volume(workflow, &scope, id).await?),
        None => None,
    };
    let plugin = plugin(arguments.plugin.as_deref(), volume.as_ref())?;
    let namespace = namespace(context, volume.as_ref())?;
    let listing = workflow.api.list_snapshots(&plugin, &namespace, secrets);
    let mut snapshots = workflow.unless_interrupted(listing).await??;
    if let Some(volume) = &volume {
        let source = volume.remote_id();
        snapshots.retain(|snapshot| snapshot.source == source);
    }
    let documents: Vec<Document> =
        snapshots.iter().map(|snapshot| snapshot_document(snapshot, &plugin)).collect();
    let output = &arguments.output.output;
    match output.render_list(&documents)? {
        Some(text) => context.printer.print_result(&text),
        None if snapshots.is_empty() => context.printer.print_status(&match &volume {
            Some(volume) => one_line(&format!("No snapshots of volume {}", volume.key())),
            None => format!("No snapshots at plugin {plugin}"),
        }),
        None => {
            let table = snapshot_list(&snapshots, &context.time_reference(), output.is_wide());
            context.printer.print_result(&table);
        }
    }
    Ok(Exit::Done)
}

/// Returns the plugin to ask: that of the volume, unless another one is given.
fn plugin(given: Option<&str>, volume: Option<&Volume>) -> Result<PluginId, CliError> {
    match (given, volume) {
        (Some(given), Some(volume)) if given != volume.plugin_id.as_str() => {
            let message = format!(
                "volume `{}` has plugin `{}`, not `{}`",
                volume.key(),
                volume.plugin_id,
                one_line(given)
            );
            Err(Diagnostic::error(Code::CliInvalidValue, message).help("remove `--plugin`").into())
        }
        (_, Some(volume)) => Ok(volume.plugin_id.clone()),
        (given, None) => Ok(PluginId::new(given.unwrap_or_default())),
    }
}

/// Returns the namespace whose permissions apply. Plugins have no namespace.
fn namespace(context: &CommandContext, volume: Option<&Volume>) -> Result<Namespace, CliError> {
    if let Some(volume) = volume {
        return Ok(volume.namespace.clone());
    }
    let given = context.namespace()?.unwrap_or_default();
    Ok(if given.as_str() == Namespace::ALL { Namespace::default() } else { given })
}

async fn delete(
    context: &CommandContext,
    workflow: &WorkflowContext<'_>,
    arguments: &SnapshotDeleteArgs,
    secrets: &Secrets,
) -> Result<Exit, CliError> {
    let request = SnapshotDeletionRequest {
        plugin: PluginId::new(&arguments.plugin),
        namespace: namespace(context, None)?,
        ids: &arguments.ids,
        if_exists: arguments.if_exists,
        is_approved: arguments.yes,
        secrets,
    };
    delete_snapshots(workflow, context, &request).await?;
    Ok(Exit::Done)
}
