//! `plugin impact`: reads a plugin with everything that needs it.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::ports::{ApiError, ClaimQuery, ServerKind, VolumeQuery};
use crate::reconcile::volume_list::read_listed_volumes;
use nomad_csi_model::{Namespace, NodeId, PluginId, Volume};
use nomad_csi_plan::doctor::{PluginImpact, PluginUse, plugin_impact};

/// Returns what would be lost if the plugin ended, or only its instances on `node`; `None` if there is
/// no such plugin. `scope` is the namespace of the volumes, or all.
///
/// # Errors
/// If the server cannot be read, or the user interrupts.
pub async fn impact_of_plugin(
    context: &WorkflowContext<'_>,
    plugin: &PluginId,
    scope: &Namespace,
    node: Option<&NodeId>,
) -> Result<Option<PluginImpact>, WorkflowError> {
    let api = context.api;
    let reading = async {
        let Some(plugin) = api.read_plugin(plugin, scope).await? else {
            return Ok::<_, ApiError>(None);
        };
        let volumes = volumes_of(context, &plugin.value.summary.id, scope).await?;
        let claims = match api.server().await? {
            ServerKind::Agent => {
                let query = ClaimQuery::Namespace(scope.clone());
                let listed = api.list_claims(&query).await?;
                Some(listed.into_iter().map(|reading| reading.value).collect())
            }
            ServerKind::Nomad(_) | ServerKind::NomadUnknownVersion => None,
        };
        Ok(Some((plugin.value, volumes, claims)))
    };
    let found: Option<(_, _, Option<Vec<_>>)> = context.unless_interrupted(reading).await??;
    Ok(found.map(|(plugin, volumes, claims)| {
        let facts = PluginUse { plugin: &plugin, volumes: &volumes, claims: claims.as_deref() };
        plugin_impact(facts, node)
    }))
}

async fn volumes_of(
    context: &WorkflowContext<'_>,
    plugin: &PluginId,
    scope: &Namespace,
) -> Result<Vec<Volume>, ApiError> {
    let query = VolumeQuery {
        namespace: scope.clone(),
        prefix: None,
        plugin: Some(plugin.clone()),
        filter: None,
    };
    read_listed_volumes(context.api, &query, context.parallelism).await
}
