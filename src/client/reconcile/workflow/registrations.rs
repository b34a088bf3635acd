//! The registrations of data that a provider lists, in all namespaces that the token sees.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::taken_data::sees_every_volume;
use crate::ports::{ApiError, ServerKind};
use crate::reconcile::volume_list::list_all_volumes;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ExternalId, NamespacedId, PluginId, VolumeSummary};

/// The registrations of one volume of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registrations {
    /// The volumes with this data.
    pub keys: Vec<NamespacedId>,
    /// True if the token is known to see the volumes of every namespace.
    pub is_complete: bool,
}

/// Returns the registrations of a volume of a provider, and warns about namespaces that the token may not see.
///
/// # Errors
/// If the volumes cannot be listed, or the user interrupts.
pub async fn find_registrations(
    context: &WorkflowContext<'_>,
    plugin: &PluginId,
    external_id: &ExternalId,
) -> Result<Registrations, WorkflowError> {
    let reading = async {
        let listed = list_all_volumes(context.api).await?;
        let is_agent = context.api.server().await? == ServerKind::Agent;
        Ok::<_, ApiError>((listed, is_agent))
    };
    let (listed, is_agent) = context.unless_interrupted(reading).await??;
    let seeing = sees_every_volume(context.api);
    let is_complete = is_agent || context.unless_interrupted(seeing).await??;
    if !is_complete {
        let message = "the token is not known to list the volumes of every namespace; the volume may be registered where it does not see it";
        context.reporter.diagnostic(
            Diagnostic::warning(Code::OrphanUnseenNamespaces, message)
                .help(Code::OrphanUnseenNamespaces.advice()),
        );
    }
    let has_data = |one: &&VolumeSummary| {
        let remote = one.external_id.as_ref().map(ExternalId::as_str);
        one.plugin_id == *plugin && remote.unwrap_or(one.id.as_str()) == external_id.as_str()
    };
    Ok(Registrations {
        keys: listed.iter().filter(has_data).map(VolumeSummary::key).collect(),
        is_complete,
    })
}
