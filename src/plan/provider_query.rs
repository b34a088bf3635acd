//! Which providers a plan must ask for their volumes and snapshots.

use std::collections::BTreeMap;

use super::inputs::{ObservedState, OwnedSet, PluginState};
use nomad_csi_model::{ControllerCapabilities, Namespace, PluginId};
use nomad_csi_spec::VolumeSpec;

/// Plugins to ask, each with a namespace in which to ask.
pub type AskedPlugins = BTreeMap<PluginId, Namespace>;

/// Returns the plugins whose provider must be asked whether it has the data of an owned volume.
pub fn required_lists(
    desired: &[VolumeSpec],
    observed: &ObservedState,
    owned: Option<&OwnedSet>,
) -> AskedPlugins {
    let lost = desired.iter().filter_map(|spec| {
        let key = spec.key();
        let owned = owned?.volumes.get(&key)?;
        let recorded = match observed.volumes.get(&key) {
            Some(existing) => owned.changed_data(existing)?,
            None => owned.data.identity()?,
        };
        Some((recorded.plugin_id.clone(), key.namespace))
    });
    lost.collect()
}

/// Returns the plugins that list volumes, as far as existing volumes, or the data and the sources of new ones, can
/// be compared with their list.
pub fn comparable_lists(desired: &[VolumeSpec], observed: &ObservedState) -> AskedPlugins {
    let read = observed.volumes.values();
    let read = read.map(|volume| (&volume.plugin_id, &volume.namespace));
    let unread = observed.unread.iter();
    let unread = unread.map(|(key, volume)| (&volume.data.plugin_id, &key.namespace));
    let requests = desired.iter().map(|spec| &spec.request);
    let named =
        requests.filter(|request| request.clone_id.is_some() || request.external_id.is_some());
    let named = named.map(|request| (&request.plugin_id, &request.namespace));
    let all = read.chain(unread).chain(named);
    able(all, observed, |can| can.list_volumes)
}

/// Returns the plugins that list snapshots and from whose snapshots new volumes are restored.
pub fn snapshot_lists(desired: &[VolumeSpec], observed: &ObservedState) -> AskedPlugins {
    let is_new = |spec: &&VolumeSpec| !observed.has(&spec.key());
    let new = desired.iter().filter(is_new).map(|spec| &spec.request);
    let copies = new.filter(|request| request.snapshot_id.is_some());
    let copies = copies.map(|request| (&request.plugin_id, &request.namespace));
    able(copies, observed, |can| can.list_snapshots)
}

fn able<'a>(
    plugins: impl Iterator<Item = (&'a PluginId, &'a Namespace)>,
    observed: &ObservedState,
    can: fn(&ControllerCapabilities) -> bool,
) -> AskedPlugins {
    let is_able = |plugin: &PluginId| match observed.plugins.get(plugin) {
        Some(PluginState::Known(plugin)) => plugin
            .controllers
            .values()
            .filter_map(|instance| instance.controller.as_ref())
            .any(|controller| can(&controller.capabilities)),
        Some(PluginState::Missing | PluginState::Unknown) | None => false,
    };
    let plugins = plugins.filter(|(plugin, _)| is_able(plugin));
    plugins.map(|(plugin, namespace)| (plugin.clone(), namespace.clone())).collect()
}
