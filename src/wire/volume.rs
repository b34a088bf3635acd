//! A volume in the requests and responses of Nomad's volume APIs.
//!
//! Fields are in the order of their keys, because Nomad sorts keys. Integers are signed where Go's
//! are; `convert` handles negative values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::allocation::AllocationStub;
use nomad_csi_model::Secrets;

/// A value that is always written as `null`. Reading ignores the server's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Null;

impl<'de> Deserialize<'de> for Null {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// A supported combination of modes; empty means "unknown".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CapabilityDocument {
    /// The access mode.
    pub access_mode: String,
    /// The attachment mode.
    pub attachment_mode: String,
}

/// The file system type and mount flags.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountOptionsDocument {
    /// The file system type.
    #[serde(rename = "FSType")]
    pub fs_type: String,
    /// The mount flags; `["[REDACTED]"]` in responses if there are any.
    #[serde(rename = "MountFlags")]
    pub mount_flags: Option<Vec<String>>,
}

impl fmt::Debug for MountOptionsDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = self.mount_flags.as_ref().map(Vec::len);
        f.debug_struct("MountOptionsDocument")
            .field("fs_type", &self.fs_type)
            .field("mount_flags (hidden)", &flags)
            .finish()
    }
}

/// One topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TopologyDocument {
    /// Segments by domain.
    pub segments: Option<BTreeMap<String, String>>,
}

/// The requested topologies. Both lists and their elements may be `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TopologyRequestDocument {
    /// Preferred topologies.
    pub preferred: Option<Vec<Option<TopologyDocument>>>,
    /// The volume must be accessible from one of these.
    pub required: Option<Vec<Option<TopologyDocument>>>,
}

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

/// The user fields of a volume in a write request. Server fields are never sent, and are ignored if a Go client sends them
/// (W22: Nomad stores them). Missing and empty differ where Nomad stores the difference.
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

/// A directory of files that were written beside a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct KeptFilesDocument {
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// The directory on the node.
    pub path: String,
}

/// A volume in the response of `GET /v1/volume/csi/:id`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
#[expect(clippy::struct_excessive_bools, reason = "each flag is a field of the JSON")]
pub struct VolumeDocument {
    /// The access mode of current claims; empty without claims.
    pub access_mode: String,
    /// The allocations with claims, unordered.
    pub allocations: Vec<AllocationStub>,
    /// The attachment mode of current claims; empty without claims.
    pub attachment_mode: String,
    /// The size in bytes; 0 for a registered volume.
    pub capacity: i64,
    /// The provider's ID of the cloned volume.
    #[serde(rename = "CloneID")]
    pub clone_id: String,
    /// The provider's volume context, opaque.
    pub context: BTreeMap<String, String>,
    /// True if the plugin needs a controller.
    pub controller_required: bool,
    /// The number of expected controllers.
    pub controllers_expected: i64,
    /// The number of healthy controllers.
    pub controllers_healthy: i64,
    /// The index of the creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch; 0 in Nomad, missing before 1.10.
    pub create_time: i64,
    /// The provider's ID.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// The volume's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Embedded agent only: files that were written beside the volume while it was not mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_files: Vec<KeptFilesDocument>,
    /// The index of the last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch; 0 in Nomad, missing before 1.10.
    pub modify_time: i64,
    /// The mount options; `null` before 1.3.
    pub mount_options: Option<MountOptionsDocument>,
    /// Embedded agent only: the mutable parameters of a change that did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modify_pending: Option<BTreeMap<String, String>>,
    /// Embedded agent only: the mutable parameters in force, as far as they were set through the agent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub mutable_parameters: BTreeMap<String, String>,
    /// The volume's name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// Embedded agent only: nodes that use the volume still have to expand it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_expansion_pending: bool,
    /// The number of expected node plugins.
    pub nodes_expected: i64,
    /// The number of healthy node plugins.
    pub nodes_healthy: i64,
    /// The provider's parameters from the creation, opaque.
    pub parameters: BTreeMap<String, String>,
    /// The plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// The plugin's version from GetPluginInfo.
    pub provider_version: String,
    /// IDs of allocations with a read claim; the values are ignored.
    pub read_allocs: BTreeMap<String, Null>,
    /// `null` for volumes created before 1.1; missing before 1.1.13, 1.2.7 and 1.3.0.
    pub requested_capabilities: Vec<CapabilityDocument>,
    /// The requested maximum size in bytes; 0 means "not given".
    pub requested_capacity_max: i64,
    /// The requested minimum size in bytes; 0 means "not given".
    pub requested_capacity_min: i64,
    /// The requested topologies; `null` without a request, missing before 1.3.
    pub requested_topologies: Option<TopologyRequestDocument>,
    /// Since when a node has had no room for the volume, or `null`. Nomad never sets it.
    pub resource_exhausted: Option<String>,
    /// True if an allocation that uses the volume can be placed.
    pub schedulable: bool,
    /// Always `null`. Nomad 1.1 and 1.2 return secrets after a create, which are ignored.
    pub secrets: Null,
    /// The provider's ID of the restored snapshot.
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: String,
    /// Embedded agent only: whether the plugin reports health, which `GET /v1/volume/csi/:id/health`
    /// returns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reports_health: bool,
    /// Embedded agent only: whether the plugin reports statistics of published volumes, which
    /// `GET /v1/volume/csi/:id/stats` returns.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reports_stats: bool,
    /// Embedded agent only: the index of the last change of the specification, which steps of claims
    /// do not move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec_index: Option<u64>,
    /// Where the volume is accessible; starts with `null` elements after a create.
    pub topologies: Vec<Option<TopologyDocument>>,
    /// IDs of allocations with a write claim; the values are ignored.
    pub write_allocs: BTreeMap<String, Null>,
}
