//! A volume in a server's list.

use super::capability::{AccessMode, AttachmentMode};
use super::id::{ExternalId, Namespace, NamespacedId, PluginId, VolumeId};

/// A volume in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSummary {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID.
    pub id: VolumeId,
    /// The name.
    pub name: String,
    /// The provider's ID.
    pub external_id: Option<ExternalId>,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// True if an allocation that uses the volume can be placed.
    pub schedulable: bool,
    /// The access mode of current claims.
    pub access_mode: Option<AccessMode>,
    /// The attachment mode of current claims.
    pub attachment_mode: Option<AttachmentMode>,
    /// The number of read claims.
    pub readers: u64,
    /// The number of write claims.
    pub writers: u64,
    /// The index of the creation.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The index of the last change of the specification, as in [`Volume`](super::Volume).
    pub spec_index: u64,
}

impl VolumeSummary {
    /// Returns namespace and ID.
    pub fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    /// Returns the provider's ID of the volume, as [`Volume::remote_id`](super::Volume::remote_id) does.
    pub fn remote_id(&self) -> &str {
        let external = self.external_id.as_ref();
        external.map_or(self.id.as_str(), ExternalId::as_str)
    }
}
