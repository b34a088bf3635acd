//! Volumes as their provider lists them (`nomad-http-api` 3.9, 4.3), registered or not.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A volume in a provider's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ExternalVolumeDocument {
    /// Bytes; 0 if not known.
    pub capacity_bytes: i64,
    /// What it was copied from.
    #[serde(rename = "CloneID")]
    pub clone_id: String,
    /// What the provider calls it.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// Whether the provider says that something is wrong with it.
    pub is_abnormal: bool,
    /// The provider's names of the nodes that it is published to.
    #[serde(rename = "PublishedExternalNodeIDs")]
    pub published_external_node_ids: Option<Vec<String>>,
    /// What it was restored from.
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: String,
    /// The provider's words on its condition.
    pub status: String,
    /// Opaque, the provider's.
    pub volume_context: Option<BTreeMap<String, String>>,
}

/// One page of a provider's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ExternalVolumesResponse {
    /// Always 0 on Nomad: there is no table of these.
    pub index: u64,
    /// `false` on Nomad, whatever is so.
    pub known_leader: bool,
    /// Nanoseconds since the leader was heard of.
    pub last_contact: i64,
    /// The plugin's: where the next page begins; empty on the last.
    pub next_token: String,
    /// In the plugin's order.
    pub volumes: Vec<ExternalVolumeDocument>,
}
