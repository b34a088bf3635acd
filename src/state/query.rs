//! What people read of the state, one thing at a time; lists of volumes are next door.
//!
//! A volume that is being created is not there for any function here; one that is being deleted is.

use std::sync::Arc;

use super::tables::State;
use super::view::{PluginStatus, PluginView, VolumeView};
use crate::model::{ExternalId, NamespacedId, PluginId};

/// One volume; `None` if there is none that readers may see.
pub fn volume(state: &State, key: &NamespacedId) -> Option<VolumeView> {
    let record = state
        .volumes
        .get(key)
        .filter(|record| record.is_visible())?;
    let plugin = plugin_status(state, &record.definition.plugin_id).unwrap_or_default();
    Some(VolumeView {
        record: Arc::clone(record),
        plugin: Arc::new(plugin),
    })
}

/// Volumes that readers may see and that are one volume for the provider: more than one of them is
/// worth a warning, and none of them may be deleted (W13).
pub fn sharing(state: &State, plugin: &PluginId, external_id: &ExternalId) -> Vec<NamespacedId> {
    let remote = (plugin.clone(), external_id.clone());
    let keys = state.remote_ids.get(&remote).into_iter().flatten();
    keys.cloned().collect()
}

/// A plugin's status; `None` if no instance of it is known.
pub fn plugin_status(state: &State, id: &PluginId) -> Option<PluginStatus> {
    state.plugins.get(id).map(PluginStatus::from)
}

/// One plugin; `None` if no instance of it is known.
pub fn plugin(state: &State, id: &PluginId) -> Option<PluginView> {
    let (id, record) = state.plugins.get_key_value(id)?;
    Some(PluginView::new(id, record))
}

/// All plugins whose ID starts so, by ID.
pub fn plugins(state: &State, prefix: &str) -> Vec<PluginView> {
    let from = PluginId::new(prefix);
    state
        .plugins
        .range(from..)
        .take_while(|(id, _)| id.as_str().starts_with(prefix))
        .map(|(id, record)| PluginView::new(id, record))
        .collect()
}

#[cfg(test)]
mod tests;
