//! Which providers a plan must ask for their volumes.

use std::collections::BTreeMap;

use super::inputs::{ObservedState, OwnedSet};
use crate::model::{Namespace, PluginId};
use crate::spec::VolumeSpec;

/// Returns the plugins whose provider must be asked whether it has the data of an owned volume, each
/// with a namespace in which to ask.
pub fn required_lists(
    wanted: &[VolumeSpec],
    observed: &ObservedState,
    owned: Option<&OwnedSet>,
) -> BTreeMap<PluginId, Namespace> {
    let lost = wanted.iter().filter_map(|spec| {
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
