//! A volume in a list, in the response of Nomad's volume API.

use serde::{Deserialize, Serialize};

use super::volume::TopologyDocument;

/// A volume in the response of `GET /v1/volumes?type=csi`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeStub {
    /// The access mode of current claims; empty without claims.
    pub access_mode: String,
    /// The attachment mode of current claims; empty without claims.
    pub attachment_mode: String,
    /// True if the plugin needs a controller; missing before 1.2.13, 1.3.6 and 1.4.0.
    pub controller_required: bool,
    /// The number of expected controllers.
    pub controllers_expected: i64,
    /// The number of healthy controllers.
    pub controllers_healthy: i64,
    /// The index of the creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch; missing before 1.10.
    pub create_time: i64,
    /// The number of read claims, including those of stopped allocations.
    pub current_readers: i64,
    /// The number of write claims, including those of stopped allocations.
    pub current_writers: i64,
    /// The provider's ID.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// The volume's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The index of the last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch; missing before 1.10.
    pub modify_time: i64,
    /// The volume's name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The number of expected node plugins.
    pub nodes_expected: i64,
    /// The number of healthy node plugins.
    pub nodes_healthy: i64,
    /// The plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// Since when a node has had no room for the volume, or `null`. Nomad never sets it.
    pub resource_exhausted: Option<String>,
    /// True if an allocation that uses the volume can be placed.
    pub schedulable: bool,
    /// Embedded agent only: the index of the last change of the specification, which steps of claims
    /// do not move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_index: Option<u64>,
    /// Where the volume is accessible; elements may be `null`.
    pub topologies: Vec<Option<TopologyDocument>>,
}
