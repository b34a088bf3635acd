//! Counts registered volumes by their health, for metrics.
//!
//! The plugins that list the health of their volumes are asked, one after the other. A volume that is not
//! listed has no known condition. If a list cannot be read, the health of all volumes of the plugin is
//! `unknown`.

use super::context::VolumeContext;
use super::health::{AdverseVolumes, list_health};
use super::plugin::VolumePlugin;
use crate::plugin_call_queue::CallClass;
use nomad_csi_claims::state::{State, plugins, volumes_sharing};
use nomad_csi_model::{PluginId, health_word};
use nomad_csi_ports::VolumeHealthCounts;

/// Counts volumes by their health.
pub(super) async fn count_health(context: &VolumeContext) -> VolumeHealthCounts {
    let mut counts = VolumeHealthCounts::new();
    for plugin in context.store.read(listing_plugins) {
        let listed = read_list(context, &plugin).await;
        let of_plugin = |state: &State| count(state, plugin.id(), listed.as_ref());
        counts.extend(context.store.read(of_plugin));
    }
    counts
}

async fn read_list(context: &VolumeContext, plugin: &VolumePlugin) -> Option<AdverseVolumes> {
    let candidates = plugin.candidates().ok()?;
    let calls = context.controllers.admit(CallClass::List, candidates).await.ok()?;
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
