//! The health of volumes, as their plugins report it now. Nothing of it is recorded.
//!
//! The controller reports what concerns every node, and each node that uses the volume what it sees.
//! Health that cannot be read is unknown and fails nothing else. A list whose token is refused begins
//! again (CSI 1.13, ControllerListVolumeHealth).
//!
//! For metrics, registered volumes are counted by their health: the plugins that list it are asked, one after the
//! other. A volume that is not listed has no known condition. If a list cannot be read, the health of all volumes of
//! the plugin is `unknown`.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};

use super::deps::VolumeDeps;
use super::listing_health::AdverseVolumes;
use super::plugin::VolumePlugin;
use crate::error::ServerError;
use crate::forward::PermittedCalls;
use crate::forward_error::ForwardError;
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{State, VolumeView, plugins, volumes_sharing};
use nomad_csi_model::{
    AllocId, ExternalId, ExternalVolume, NamespacedId, NodeId, PluginId, Secrets, VolumeHealth,
    VolumeStatus, health_word,
};
use nomad_csi_ports::{ListVolumeHealth, NodeVolumeHealth, PageRequest, Rpc, VolumeHealthCounts};

/// A list with more pages than this is not read to its end.
const MAX_PAGES: usize = 1000;
/// How often a list is read until it ends.
const MAX_READS: usize = 3;
/// How many nodes are asked about one volume at once.
const MAX_NODES_AT_ONCE: usize = 16;

/// Reads the adverse conditions of all volumes of a plugin; `None` if they are unknown.
pub(super) async fn list_health(calls: &PermittedCalls) -> Option<AdverseVolumes> {
    for _ in 0..MAX_READS {
        match read_list(calls).await {
            Ok(listed) => return Some(listed),
            Err(Unread::Token) => {}
            Err(Unread::Failed(error)) => {
                tracing::warn!(plugin.id = %calls.plugin(), %error, "the health of volumes is unknown");
                return None;
            }
        }
    }
    None
}

/// Why a list was not read.
enum Unread {
    /// A page after the first failed, or its token was used before: the list has to begin again.
    Token,
    /// The first page failed.
    Failed(ForwardError),
}

async fn read_list(calls: &PermittedCalls) -> Result<AdverseVolumes, Unread> {
    let mut listed = AdverseVolumes::new();
    let mut token = String::new();
    for _ in 0..MAX_PAGES {
        let request = ListVolumeHealth {
            page: PageRequest { entries: 0, starting_token: token.clone() },
            secrets: Secrets::default(),
        };
        let page = calls.read(Rpc::ControllerListVolumeHealth, |controller| {
            let request = request.clone();
            async move { controller.list_volume_health(request).await }
        });
        let page = page.await.map_err(|error| match token.as_str() {
            "" => Unread::Failed(error),
            _ => Unread::Token,
        })?;
        let entries = page.entries.into_iter();
        listed.extend(entries.map(|entry| (entry.external_id, entry.statuses)));
        match page.next_token {
            None => return Ok(listed),
            Some(next) if next == token => return Err(Unread::Token),
            Some(next) => token = next,
        }
    }
    Ok(listed)
}

/// Adds the health to the volumes. One that is not listed has no known condition.
pub(super) fn add_health(volumes: &mut [ExternalVolume], listed: &AdverseVolumes) {
    for volume in volumes {
        let statuses = listed.get(&volume.external_id).cloned();
        volume.health = Some(statuses.unwrap_or_default());
    }
}

/// Returns whether the volume is attached to the node, staged or claimed there.
fn uses(volume: &VolumeView, node: &NodeId) -> bool {
    let Some(record) = &volume.claims else {
        return false;
    };
    let claims = &record.claims;
    claims.stagings.contains_key(node)
        || claims.attachments.contains_key(node)
        || claims.claims.values().any(|claim| claim.node == *node)
}

/// Reads the health of one volume.
pub(super) async fn read_health(
    deps: &VolumeDeps,
    key: &NamespacedId,
) -> Result<VolumeHealth, ServerError> {
    let existing = deps.store.view(key);
    let existing = existing.ok_or(ServerError::NoVolumeToRead)?;
    let volume = existing.volume();
    let facts = deps.store.read(|state| VolumePlugin::read(state, &volume.plugin_id));
    let Some(facts) = facts else {
        return Ok(VolumeHealth::default());
    };
    let id = volume.remote_id();
    let secrets = deps.sealer.secrets_of(&existing.record)?;
    let nodes = facts.nodes_with_health().into_iter();
    let nodes = nodes.filter(|(node, _)| uses(&existing, node)).collect();
    let (mut report, of_nodes) = tokio::join!(
        ask_controller(deps, &facts, &id, &secrets),
        ask_nodes(deps, &facts, nodes, &id),
    );
    report.statuses.extend(of_nodes.statuses);
    report.unknown.extend(of_nodes.unknown);
    Ok(report)
}

async fn ask_controller(
    deps: &VolumeDeps,
    facts: &VolumePlugin,
    id: &ExternalId,
    secrets: &Secrets,
) -> VolumeHealth {
    if !facts.can(|controller| controller.get_volume_health) {
        return VolumeHealth::default();
    }
    let candidates = match facts.candidates(None) {
        Ok(candidates) => candidates,
        Err(error) => return unknown(ForwardError::from(error).to_string()),
    };
    let calls = match deps.controllers.admit(CallClass::List, candidates).await {
        Ok(calls) => calls,
        Err(error) => return unknown(error.to_string()),
    };
    let answer = calls.read(Rpc::ControllerGetVolumeHealth, |controller| {
        let (id, secrets) = (id.clone(), secrets.clone());
        async move { controller.volume_health(id, secrets).await }
    });
    match answer.await {
        Ok(statuses) => known(None, statuses),
        Err(error) => unknown(error.to_string()),
    }
}

/// Asks several nodes at once, so that one that does not answer holds up no other.
async fn ask_nodes(
    deps: &VolumeDeps,
    facts: &VolumePlugin,
    nodes: Vec<(NodeId, AllocId)>,
    id: &ExternalId,
) -> VolumeHealth {
    let questions: Vec<_> = nodes
        .iter()
        .map(|(node, alloc)| async move { (node, ask_node(deps, facts, node, alloc, id).await) })
        .collect();
    let answers = stream::iter(questions).buffer_unordered(MAX_NODES_AT_ONCE);
    let answers: BTreeMap<&NodeId, VolumeHealth> = answers.collect().await;
    let mut report = VolumeHealth::default();
    for answer in answers.into_values() {
        report.statuses.extend(answer.statuses);
        report.unknown.extend(answer.unknown);
    }
    report
}

async fn ask_node(
    deps: &VolumeDeps,
    facts: &VolumePlugin,
    node: &NodeId,
    alloc: &AllocId,
    id: &ExternalId,
) -> VolumeHealth {
    let Some(service) = deps.controllers.node(facts.id(), alloc).await else {
        return unknown(format!("node `{node}` has no connection to the plugin"));
    };
    let request =
        NodeVolumeHealth { external_id: id.clone(), publish_path: None, staging_path: None };
    match service.node_volume_health(request).await {
        Ok(statuses) => known(Some(node), statuses),
        Err(error) => unknown(format!("node `{node}`: {error}")),
    }
}

fn known(node: Option<&NodeId>, statuses: Vec<VolumeStatus>) -> VolumeHealth {
    let statuses = statuses.into_iter().map(|status| (node.cloned(), status));
    VolumeHealth { statuses: statuses.collect(), unknown: vec![] }
}

fn unknown(reason: String) -> VolumeHealth {
    VolumeHealth { statuses: vec![], unknown: vec![reason] }
}

/// Counts registered volumes by their health.
pub(super) async fn count_health(deps: &VolumeDeps) -> VolumeHealthCounts {
    let mut counts = VolumeHealthCounts::new();
    for plugin in deps.store.read(listing_plugins) {
        let listed = list_health_of(deps, &plugin).await;
        let of_plugin = |state: &State| count(state, plugin.id(), listed.as_ref());
        counts.extend(deps.store.read(of_plugin));
    }
    counts
}

async fn list_health_of(deps: &VolumeDeps, plugin: &VolumePlugin) -> Option<AdverseVolumes> {
    let candidates = plugin.candidates(None).ok()?;
    let calls = deps.controllers.admit(CallClass::List, candidates).await.ok()?;
    list_health(&calls).await
}

/// Returns the plugins that list the health of their volumes.
fn listing_plugins(state: &State) -> Vec<VolumePlugin> {
    let all = plugins(state, "").into_iter();
    let all = all.filter_map(|view| VolumePlugin::read(state, &view.plugin.summary.id));
    all.filter(|plugin| plugin.can(|controller| controller.list_volume_health)).collect()
}

/// Counts the registered volumes of a plugin by the words for their health.
fn count(state: &State, plugin: &PluginId, listed: Option<&AdverseVolumes>) -> VolumeHealthCounts {
    let mut counts = VolumeHealthCounts::new();
    let mut left = state.volume_count(plugin);
    for (id, statuses) in listed.into_iter().flatten() {
        let number = volumes_sharing(state, plugin, id).len();
        let word = health_word(statuses);
        if number > 0 && word != "ok" {
            *counts.entry((plugin.clone(), word)).or_default() += number;
            left -= number;
        }
    }
    let rest = if listed.is_some() { "ok" } else { "unknown" };
    counts.insert((plugin.clone(), rest), left);
    counts
}
