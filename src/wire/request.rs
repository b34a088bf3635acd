//! Write requests, and the responses to them.
//!
//! [`VolumeWrite`] has user fields only, so server fields are never sent, and are ignored if a Go
//! client sends them (W22: Nomad stores them). Missing and empty differ where Nomad stores the
//! difference.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::volume::{
    CapabilityDocument, MountOptionsDocument, TopologyRequestDocument, VolumeDocument,
};
use nomad_csi_model::Secrets;

/// Secrets in a request body. Serialisation reveals them; `Debug` hides them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsDocument(pub Secrets);

impl Serialize for SecretsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for SecretsDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hidden = |_| D::Error::custom("secrets must be strings");
        let pairs = BTreeMap::<String, String>::deserialize(deserializer).map_err(hidden)?;
        Ok(Self(pairs.into_iter().collect()))
    }
}

/// The user fields of a volume in a write request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeWrite {
    /// The provider's ID of a volume to clone.
    #[serde(rename = "CloneID", skip_serializing_if = "String::is_empty")]
    pub clone_id: String,
    /// The provider's volume context, opaque; for registration only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<BTreeMap<String, String>>,
    /// The provider's ID; for registration only.
    #[serde(rename = "ExternalID", skip_serializing_if = "String::is_empty")]
    pub external_id: String,
    /// The volume's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The file system type and mount flags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<MountOptionsDocument>,
    /// The name; empty keeps the stored name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The namespace; empty means that of the request.
    pub namespace: String,
    /// The provider's parameters, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// The plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The supported access and attachment modes.
    pub requested_capabilities: Vec<CapabilityDocument>,
    /// The maximum size in bytes; 0 means "not given".
    #[serde(skip_serializing_if = "is_zero")]
    pub requested_capacity_max: i64,
    /// The minimum size in bytes; 0 means "not given".
    #[serde(skip_serializing_if = "is_zero")]
    pub requested_capacity_min: i64,
    /// The requested topologies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_topologies: Option<TopologyRequestDocument>,
    /// The secrets for the provider. On an existing volume, a missing field erases the stored ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretsDocument>,
    /// The provider's ID of a snapshot to restore.
    #[serde(rename = "SnapshotID", skip_serializing_if = "String::is_empty")]
    pub snapshot_id: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires this signature for skip_serializing_if"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The body of a register or create request. Go clients also send `SecretID`, which servers ignore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WriteRequest {
    /// The namespace, if the query has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The region, if the query has none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// The volumes, at least one.
    pub volumes: Vec<VolumeWrite>,
    /// Overrides soft-mandatory policies of Nomad Enterprise (since 1.10.4). The agent ignores it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub policy_override: bool,
}

/// The response to a register (since 1.10.5) or create request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WriteResponse {
    /// The index of the write.
    pub index: u64,
    /// True if the server has a leader.
    pub known_leader: bool,
    /// Time since the last contact with the leader in nanoseconds.
    pub last_contact: i64,
    /// Always empty.
    pub next_token: String,
    /// The volumes as written; in Nomad with stale indexes.
    pub volumes: Vec<VolumeDocument>,
    /// Warnings as text, usually empty; missing before 1.10.4.
    pub warnings: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn an_error_never_contains_a_secret_of_the_wrong_type() {
        let body = br#"{"Volumes":[{"Secrets":{"pin":4711}}]}"#;
        let error = decode::<WriteRequest>(body).expect_err("a number is not a string");
        assert_eq!(error.to_string(), "Volumes[0].Secrets: secrets must be strings");
    }
}
