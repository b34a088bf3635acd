//! Snapshots (`nomad-http-api` 3.10, 4.4): what a client asks for, and what servers answer.
//!
//! One document serves for request and answer, because Nomad has one: a request gives the Nomad
//! volume, a name, parameters and secrets, an answer the provider's IDs, size and time. All ten keys
//! stand in every answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::request::SecretsDocument;

/// A snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SnapshotDocument {
    /// Seconds since the epoch; always 0 before 1.1.13, 1.2.7 and 1.3.0.
    pub create_time: i64,
    /// What the provider calls the volume that it was cut from.
    #[serde(rename = "ExternalSourceVolumeID")]
    pub external_source_volume_id: String,
    /// What the provider calls it.
    #[serde(rename = "ID")]
    pub id: String,
    /// Whether a volume can be made from it already.
    pub is_ready: bool,
    /// Of a request: the provider makes one snapshot of one name.
    pub name: String,
    /// Of a request: opaque, the provider's.
    pub parameters: Option<BTreeMap<String, String>>,
    /// Whose; in answers only of a list.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// Of a request: overlay the volume's own; `null` in answers.
    pub secrets: Option<SecretsDocument>,
    /// Bytes that a volume made from it needs at least; 0 if that is not known.
    pub size_bytes: i64,
    /// Of a request: the Nomad volume.
    #[serde(rename = "SourceVolumeID")]
    pub source_volume_id: String,
}

/// The body of a create.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SnapshotsRequest {
    /// Used only if the query has no namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// One at least; a `null` is refused.
    pub snapshots: Vec<Option<SnapshotDocument>>,
}

/// The answer to a create and to a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct SnapshotsResponse {
    /// Always 0 on Nomad: there is no table of snapshots.
    pub index: u64,
    /// `false` on Nomad, whatever is so.
    pub known_leader: bool,
    /// Nanoseconds since the leader was heard of.
    pub last_contact: i64,
    /// The plugin's: where the next page of a list begins; empty on the last.
    pub next_token: String,
    /// `null` if none were asked for.
    pub snapshots: Option<Vec<SnapshotDocument>>,
}
