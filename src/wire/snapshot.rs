//! Snapshots in requests and responses.
//!
//! Nomad uses one document for both. A request contains the Nomad volume, a name, parameters and
//! secrets; a response contains the provider's IDs, the size and the time. Every response contains
//! all ten keys.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::volume::SecretsDocument;

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SnapshotDocument {
    /// Seconds since the epoch; always 0 before 1.1.13, 1.2.7 and 1.3.0.
    pub create_time: i64,
    /// The provider's ID of the volume of the snapshot.
    #[serde(rename = "ExternalSourceVolumeID")]
    pub external_source_volume_id: String,
    /// The provider's ID of the snapshot.
    #[serde(rename = "ID")]
    pub id: String,
    /// True if a volume can be created from the snapshot now.
    pub is_ready: bool,
    /// The name, unique at a provider; empty in lists, which CSI gives no names, and in Nomad's responses.
    pub name: String,
    /// In a request: the provider's parameters, opaque.
    pub parameters: Option<BTreeMap<String, String>>,
    /// The plugin. Of Nomad's responses only a list contains it.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// In a request: secrets that override the volume's stored ones. `null` in responses.
    pub secrets: Option<SecretsDocument>,
    /// The minimum size of a volume from this snapshot in bytes; 0 if unknown.
    pub size_bytes: i64,
    /// The volume; empty in lists and in Nomad's responses.
    #[serde(rename = "SourceVolumeID")]
    pub source_volume_id: String,
}

/// The body of a create request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SnapshotsRequest {
    /// The namespace, if the query has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The snapshots, at least one; `null` is refused.
    pub snapshots: Vec<Option<SnapshotDocument>>,
}

/// The response to a create or list request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SnapshotsResponse {
    /// Always 0 in Nomad, which has no table of snapshots.
    pub index: u64,
    /// Always `false` in Nomad.
    pub known_leader: bool,
    /// Time since the last contact with the leader in nanoseconds.
    pub last_contact: i64,
    /// The plugin's token of the next page of a list; empty on the last page.
    pub next_token: String,
    /// The snapshots; `null` if none were requested.
    pub snapshots: Option<Vec<SnapshotDocument>>,
}
