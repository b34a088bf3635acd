//! The volumes of a provider and the registered ones, read together.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::taken_data::sees_every_volume;
use crate::ports::ServerKind;
use crate::reconcile::orphans::{Inventory, ListedVolume};
use crate::reconcile::volume_list::list_all_volumes;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::{Namespace, PluginId, VolumeCreation, VolumeSummary, one_line};

/// The volumes of a plugin's provider, and the registered ones.
pub struct OrphanInventory {
    /// The plugin.
    pub plugin: PluginId,
    /// The namespace for new registrations.
    pub namespace: Namespace,
    /// The provider's volumes, each with its registrations.
    pub inventory: Inventory,
    /// Every registered volume that the token can see.
    pub registered: Vec<VolumeSummary>,
    /// True if the token is known to list the volumes of every namespace.
    pub is_complete: bool,
    /// The creations at the plugin that did not end: a volume that seems to be an orphan may be one of theirs.
    pub creations: Vec<VolumeCreation>,
}

impl OrphanInventory {
    /// Reads what the provider has and what is registered.
    ///
    /// # Errors
    /// If the server cannot be read, the plugin cannot list volumes, or the user interrupts.
    pub async fn read(
        context: &WorkflowContext<'_>,
        plugin: PluginId,
        scope: Namespace,
    ) -> Result<Self, WorkflowError> {
        let api = context.api;
        let namespace = match scope.as_str() {
            Namespace::ALL => Namespace::default(),
            _ => scope,
        };
        let reading = async {
            let listed = api.list_external_volumes(&plugin, &namespace).await;
            let listed = listed.map_err(|error| {
                let problem = error.diagnostic();
                if error.code == Code::PluginUnsupported {
                    problem.note("the orphans of this plugin are unknown; nothing was changed")
                } else {
                    problem
                }
            })?;
            let registered = list_all_volumes(api).await?;
            let is_agent = api.server().await? == ServerKind::Agent;
            let is_complete = is_agent || sees_every_volume(api).await?;
            let creations = match is_agent {
                true => api.list_creations(&Namespace::new(Namespace::ALL)).await?,
                false => vec![],
            };
            let creations = creations.into_iter().map(|one| one.value);
            let of_plugin = creations.filter(|creation| creation.plugin_id == plugin);
            let creations: Vec<_> = of_plugin.collect();
            Ok::<_, WorkflowError>((listed, registered, is_complete, creations))
        };
        let read = context.unless_interrupted(reading).await??;
        let (listed, registered, is_complete, creations) = read;
        Ok(Self {
            inventory: Inventory::new(&plugin, listed, &registered),
            plugin,
            namespace,
            registered,
            is_complete,
            creations,
        })
    }

    /// Warns of creations that did not end: what seems to be an orphan may be their volume.
    pub fn warn_of_creations(&self, context: &WorkflowContext<'_>) {
        for creation in &self.creations {
            let message = format!(
                "the creation of volume {} did not end; an orphan may be its volume",
                one_line(&creation.volume.quoted())
            );
            let abandon = format!("nomad-csi volume abandon {}", creation.volume.command_words());
            context.reporter.diagnostic(
                Diagnostic::warning(Code::VolumeCreating, message)
                    .note(format!(
                        "the provider has it under the name `{}`, or not at all",
                        one_line(&creation.provider_name)
                    ))
                    .help(format!(
                        "do not adopt or delete it before the agent has continued the creation, or before `{abandon}`"
                    )),
            );
        }
    }

    /// Warns if volumes in some namespaces may be invisible.
    pub fn warn_if_incomplete(&self, context: &WorkflowContext<'_>) {
        if !self.is_complete {
            let message = "the token is not known to list the volumes of every namespace; an orphan may be registered";
            context.reporter.diagnostic(
                Diagnostic::warning(Code::OrphanUnseenNamespaces, message)
                    .help(Code::OrphanUnseenNamespaces.advice()),
            );
        }
    }

    /// Returns the provider's volume of an external ID.
    pub(super) fn find(&self, id: &str) -> Result<&ListedVolume, Box<Diagnostic>> {
        self.inventory.find(id).ok_or_else(|| {
            let message = format!(
                "the provider of plugin `{}` lists no volume `{}`",
                self.plugin,
                one_line(id)
            );
            let problem = Diagnostic::error(Code::OrphanNotListed, message);
            let orphans = self.inventory.orphans();
            Box::new(match closest_match(id, orphans.map(|one| one.volume.external_id.as_str())) {
                Some(similar) => problem.help(format!("did you mean orphan `{similar}`?")),
                None => problem.help(Code::OrphanNotListed.advice()),
            })
        })
    }
}

/// Explains that a volume of the provider is registered, and what to do instead.
pub(super) fn registered(listed: &ListedVolume, other: &VolumeSummary, help: String) -> Diagnostic {
    let id = &listed.volume.external_id;
    let message = format!("volume `{id}` of the provider is not an orphan: it is registered");
    Diagnostic::error(Code::OrphanRegistered, message)
        .note(format!(
            "volume `{}` in namespace `{}` of plugin `{}` has this external ID",
            other.id, other.namespace, other.plugin_id
        ))
        .help(help)
}
