//! A volume of a provider, whatever it is registered as.

use serde::{Deserialize, Serialize};

use super::id::{ExternalId, NamespacedId, PluginId};

/// A volume as its plugin knows it. Two registrations may name the same one, so calls are ordered and
/// claims are counted by this key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RemoteVolume {
    /// The plugin.
    pub plugin_id: PluginId,
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
}

impl RemoteVolume {
    /// The volume of a registration. Without an external ID the plugin knows it by the ID of the
    /// registration, as Nomad does.
    pub fn of_registration(
        plugin_id: PluginId,
        external_id: Option<&ExternalId>,
        registration: &NamespacedId,
    ) -> Self {
        let named = |id: &ExternalId| !id.as_str().is_empty();
        let external_id = external_id.filter(|id| named(id)).cloned();
        Self {
            plugin_id,
            external_id: external_id.unwrap_or_else(|| ExternalId::new(registration.id.as_str())),
        }
    }
}

impl std::fmt::Display for RemoteVolume {
    /// Writes `vol-1 of plugin ebs0`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of plugin {}", self.external_id, self.plugin_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Namespace, VolumeId};

    /// B35: without an external ID, the plugin gets the volume's ID in every call.
    #[test]
    fn a_registration_without_an_external_id_is_named_by_its_id() {
        let name = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
        let empty = ExternalId::new("");
        let given = ExternalId::new("vol-1");
        for (external, expected) in [(None, "db"), (Some(&empty), "db"), (Some(&given), "vol-1")] {
            let volume = RemoteVolume::of_registration("ebs0".into(), external, &name);
            assert_eq!(volume.external_id.as_str(), expected);
        }
    }
}
