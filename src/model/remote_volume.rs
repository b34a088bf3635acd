//! A volume of a provider, whatever it is registered as.

use serde::{Deserialize, Serialize};

use super::id::{ExternalId, PluginId};

/// A volume as its plugin knows it. Two registrations may name the same one, so calls are ordered and
/// claims are counted by this key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RemoteVolume {
    /// The plugin.
    pub plugin_id: PluginId,
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
}

impl std::fmt::Display for RemoteVolume {
    /// Writes `vol-1 of plugin ebs0`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of plugin {}", self.external_id, self.plugin_id)
    }
}
