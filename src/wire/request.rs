//! What a client may ask to be written, and what a server answers (`nomad-http-api` 3.3, 3.4).
//!
//! [`VolumeWrite`] has a user's fields and no others: what only a server may set cannot be sent by
//! us, and is passed over when a Go client sends it (W22). Absent differs from empty where Nomad
//! stores the difference.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::volume::{
    CapabilityDocument, MountOptionsDocument, TopologyRequestDocument, VolumeDocument,
};
use crate::model::Secrets;

/// Secrets on their way: written out here because a request body must hold them; hidden in `Debug`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretsDocument(pub Secrets);

impl Serialize for SecretsDocument {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.expose())
    }
}

impl<'de> Deserialize<'de> for SecretsDocument {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let hidden = |_| D::Error::custom("secrets must be text");
        let pairs = BTreeMap::<String, String>::deserialize(deserializer).map_err(hidden)?;
        Ok(Self(pairs.into_iter().collect()))
    }
}

/// A volume as a client may write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeWrite {
    /// What to copy.
    #[serde(rename = "CloneID", skip_serializing_if = "String::is_empty")]
    pub clone_id: String,
    /// Opaque, the provider's; only for registering.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<BTreeMap<String, String>>,
    /// The provider's ID; only for registering.
    #[serde(rename = "ExternalID", skip_serializing_if = "String::is_empty")]
    pub external_id: String,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// How its file system is made and mounted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<MountOptionsDocument>,
    /// What people call it; empty keeps what there is.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Where it lives; empty means the request's.
    pub namespace: String,
    /// Opaque, for creation and validation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// Who provides it.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// How it may be used.
    pub requested_capabilities: Vec<CapabilityDocument>,
    /// Bytes; 0 is "not given".
    #[serde(skip_serializing_if = "is_zero")]
    pub requested_capacity_max: i64,
    /// Bytes; 0 is "not given".
    #[serde(skip_serializing_if = "is_zero")]
    pub requested_capacity_min: i64,
    /// Where it shall be reachable from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_topologies: Option<TopologyRequestDocument>,
    /// What the provider wants to see; on an existing volume, absent erases what is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretsDocument>,
    /// What to restore.
    #[serde(rename = "SnapshotID", skip_serializing_if = "String::is_empty")]
    pub snapshot_id: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's signature for skip_serializing_if"
)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The body of a register or create. Go clients also send `SecretID`, which no server reads here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WriteRequest {
    /// Used only if the query has no namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Used only if the query has no region.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// At least one.
    pub volumes: Vec<VolumeWrite>,
    /// Overrides soft-mandatory policies of Nomad Enterprise (since 1.10.4); our agent has none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub policy_override: bool,
}

/// The answer to a register (since 1.10.5) or create.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct WriteResponse {
    /// Index of the write.
    pub index: u64,
    /// Whether the server knew a leader.
    pub known_leader: bool,
    /// Nanoseconds since the leader was heard of.
    pub last_contact: i64,
    /// Always empty.
    pub next_token: String,
    /// The volumes as written; on Nomad with stale indexes.
    pub volumes: Vec<VolumeDocument>,
    /// Text for people, mostly empty; absent before 1.10.4.
    pub warnings: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode;

    #[test]
    fn a_secret_of_the_wrong_type_is_not_in_the_error() {
        let body = br#"{"Volumes":[{"Secrets":{"pin":4711}}]}"#;
        let error = decode::<WriteRequest>(body).expect_err("a number is no text");
        assert_eq!(
            error.to_string(),
            "Volumes[0].Secrets: secrets must be text"
        );
    }
}
