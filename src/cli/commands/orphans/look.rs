//! What there is: the provider's list beside what is registered, and whether that is all.

use crate::cli::args::OrphansArguments;
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, PluginId, VolumeSummary};
use crate::nomad::NomadClient;
use crate::ports::{ProviderReader as _, ServerKind, VolumeReader as _};
use crate::reconcile::{Inventory, Listed, access, join, registered_anywhere};

/// What there is.
pub(super) struct Seen {
    pub(super) plugin: PluginId,
    /// Where registrations are made.
    pub(super) namespace: Namespace,
    pub(super) inventory: Inventory,
    pub(super) registered: Vec<VolumeSummary>,
    /// Whether the token is known to list the volumes of every namespace.
    pub(super) is_complete: bool,
}

/// Reads both lists.
///
/// # Errors
/// If the server cannot be read, the plugin cannot list what it has, or somebody interrupts.
pub(super) async fn look(
    context: &Context,
    client: &NomadClient,
    arguments: &OrphansArguments,
) -> Result<Seen, CliError> {
    let plugin = PluginId::new(&arguments.plugin);
    let asked = context.namespace()?.unwrap_or_default();
    let namespace = match asked.as_str() {
        Namespace::ALL => Namespace::default(),
        _ => asked,
    };
    let looking = async {
        let listed = client.list_external_volumes(&plugin, &namespace).await;
        let listed = listed.map_err(|error| {
            let problem = error.diagnostic();
            CliError::from(if error.code == Code::PluginUnsupported {
                problem.note("what its provider has and nobody registered cannot be known here; nothing was changed")
            } else {
                problem
            })
        })?;
        let registered = registered_anywhere(client).await?;
        let is_agent = client.server().await? == ServerKind::Agent;
        let is_complete = is_agent || sees_everything(client).await?;
        Ok::<_, CliError>((listed, registered, is_complete))
    };
    let (listed, registered, is_complete) = context.interrupts.unless(looking).await??;
    Ok(Seen {
        inventory: join(&plugin, listed, &registered),
        plugin,
        namespace,
        registered,
        is_complete,
    })
}

/// What cannot be known counts as no. The agent knows no tokens and shows everything.
async fn sees_everything(client: &NomadClient) -> Result<bool, CliError> {
    match access(client).await {
        Ok(access) => Ok(access.grants.lists_every_namespace() == Some(true)),
        Err(error) if error.code == Code::ApiUnknownToken => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// That a volume is no orphan.
pub(super) fn registered(listed: &Listed, other: &VolumeSummary) -> Diagnostic {
    let id = &listed.volume.external_id;
    let message = format!("the provider's volume {id} is no orphan: it is registered");
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume {} in namespace {} of plugin {} has it",
            other.id, other.namespace, other.plugin_id
        ))
        .help(format!(
            "`nomad-csi volume delete {} --namespace {}` deletes a registered volume with its data",
            other.id, other.namespace
        ))
}
