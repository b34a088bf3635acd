//! `orphans`: volumes that a provider has and that are not registered. Lists, registers or deletes them.

use clap::{ArgGroup, Args};

use crate::cli::args::{OutputArgs, SecretArgs};
use crate::cli::change_options::cut_off;
use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::given_secrets::given_secrets;
use crate::cli::ui::{one_line, orphan_document, orphan_list};
use nomad_csi_client::ports::Document;
use nomad_csi_client::reconcile::ListedVolume;
use nomad_csi_client::reconcile::workflow::{
    OrphanInventory, OrphanRequest, adopt_orphans, delete_orphans, parse_capability,
};
use nomad_csi_model::PluginId;
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_plan::{DenyRule, Risk};

/// Arguments of `orphans`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("change").args(["adopt", "delete_data"]).multiple(true))]
pub(crate) struct OrphansArgs {
    /// Plugin whose provider is listed
    #[arg(long, value_name = "ID")]
    pub plugin: String,
    /// Register this volume of the provider, by default under its external ID; repeatable
    #[arg(long, value_name = "[ID=]EXTERNAL_ID", conflicts_with = "delete_data")]
    pub adopt: Vec<String>,
    /// Delete this volume of the provider and its data; repeatable
    #[arg(long, value_name = "EXTERNAL_ID")]
    pub delete_data: Vec<String>,
    /// Capability to register, such as single-node-writer:file-system; repeatable
    ///
    /// For `--delete-data`, it is required only if the plugin refuses
    /// single-node-writer:file-system.
    #[arg(long, value_name = "ACCESS_MODE:ATTACHMENT_MODE")]
    pub capability: Vec<String>,
    /// Approve the deletion of this volume, `destroys-data:EXTERNAL_ID`; repeatable
    ///
    /// `cuts-off:ID`, with the full ID of an allocation or node, approves that its tasks may lose the data or write
    /// beside others. Make sure that the machine is off or cut off from its storage.
    #[arg(long, value_name = "RISK:ID", requires = "change")]
    pub approve: Vec<String>,
    /// Confirm the start without a prompt; does not approve a deletion
    #[arg(long, short)]
    pub yes: bool,
    /// The secrets.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Lists orphans, registers some, or deletes some.
///
/// # Errors
/// If an argument is invalid, a deletion is forbidden or not approved, or the server refuses.
pub(crate) async fn manage_orphans(
    context: &CommandContext,
    arguments: &OrphansArgs,
) -> Result<Exit, CliError> {
    let deleted = arguments.delete_data.iter();
    let actions = deleted.map(|id| format!("delete volume `{}` of the provider", one_line(id)));
    context.refuse_by_policies(actions, DenyRule::DeleteData, Risk::DestroysData)?;
    let secrets = given_secrets(context, &arguments.secrets).await?;
    let capabilities = arguments.capability.iter();
    let capabilities = capabilities.map(|text| parse_capability(text));
    let capabilities = capabilities.collect::<Result<Vec<_>, _>>()?;
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "orphans", 1);
            let plugin = PluginId::new(&arguments.plugin);
            let scope = context.namespace()?.unwrap_or_default();
            let inventory = OrphanInventory::read(&workflow, plugin, scope).await?;
            inventory.warn_of_creations(&workflow);
            let request = OrphanRequest {
                inventory: &inventory,
                capabilities,
                secrets,
                cut_off: arguments.approve.iter().filter_map(|text| cut_off(text)).collect(),
            };
            let (adopt, delete) = (&arguments.adopt, &arguments.delete_data);
            if !adopt.is_empty() {
                adopt_orphans(&workflow, context, request, adopt).await?;
            } else if !delete.is_empty() {
                let approved = &arguments.approve;
                delete_orphans(&workflow, context, request, delete, approved).await?;
            } else {
                print_orphans(context, arguments, &inventory)?;
                inventory.warn_if_incomplete(&workflow);
            }
            Ok(Exit::Done)
        })
        .await
}

fn print_orphans(
    context: &CommandContext,
    arguments: &OrphansArgs,
    inventory: &OrphanInventory,
) -> Result<(), Diagnostics> {
    let plugin = one_line(inventory.plugin.as_str());
    let inventory = &inventory.inventory;
    let orphans: Vec<&ListedVolume> = inventory.orphans().collect();
    let documents: Vec<Document> = orphans.iter().map(|one| orphan_document(one)).collect();
    let printer = &context.printer;
    match arguments.output.output.render_list(&documents)? {
        Some(text) => printer.print_result(&text),
        None if orphans.is_empty() && inventory.missing.is_empty() => {}
        None => printer.print_result(&orphan_list(&orphans, &inventory.missing)),
    }
    let listed = inventory.listed.len();
    let volumes = if listed == 1 { "volume" } else { "volumes" };
    let (registered, count) = (listed - orphans.len(), orphans.len());
    let orphans = if count == 1 { "orphan" } else { "orphans" };
    printer.print_status(&format!(
        "plugin {plugin}: {listed} {volumes} at the provider, {registered} registered, {count} {orphans}"
    ));
    Ok(())
}
