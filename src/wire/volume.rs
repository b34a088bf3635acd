//! A volume, and a volume in a list, as Nomad's servers answer them (`nomad-http-api` 4.1, 4.2, 4.8).
//!
//! Fields stand in the order of their keys, because Nomad sorts keys. Numbers that Go holds as
//! signed are signed here; what a negative one means is decided in `convert`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use super::allocation::AllocationStub;

/// A value that is always `null`; whatever a server says in its place is thrown away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Null;

impl<'de> Deserialize<'de> for Null {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// One way in which a volume may be used; empty words mean "unknown".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CapabilityDocument {
    /// One of five words.
    pub access_mode: String,
    /// One of two words.
    pub attachment_mode: String,
}

/// How a file system is made and mounted.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MountOptionsDocument {
    /// The type of file system.
    #[serde(rename = "FSType")]
    pub fs_type: String,
    /// Flags; `["[REDACTED]"]` in answers if there are any.
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

/// One place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TopologyDocument {
    /// Domain to segment.
    pub segments: Option<BTreeMap<String, String>>,
}

/// Where a new volume shall be reachable from; either list may be `null`, and so may its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TopologyRequestDocument {
    /// Rather these.
    pub preferred: Option<Vec<Option<TopologyDocument>>>,
    /// At least one of these.
    pub required: Option<Vec<Option<TopologyDocument>>>,
}

/// A volume as `GET /v1/volume/csi/:id` answers it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeDocument {
    /// The mode in force; empty while unclaimed.
    pub access_mode: String,
    /// Live objects of the claims, in no order.
    pub allocations: Vec<AllocationStub>,
    /// The mode in force; empty while unclaimed.
    pub attachment_mode: String,
    /// Bytes; 0 if it was only registered.
    pub capacity: i64,
    /// What it was copied from.
    #[serde(rename = "CloneID")]
    pub clone_id: String,
    /// Opaque, the provider's.
    pub context: BTreeMap<String, String>,
    /// Whether its plugin cannot do without a controller.
    pub controller_required: bool,
    /// Controllers there should be.
    pub controllers_expected: i64,
    /// Controllers that are well.
    pub controllers_healthy: i64,
    /// Index of its creation.
    pub create_index: u64,
    /// Nanoseconds; 0 on Nomad, absent before 1.10.
    pub create_time: i64,
    /// The provider's ID.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of its last change.
    pub modify_index: u64,
    /// Nanoseconds; 0 on Nomad, absent before 1.10.
    pub modify_time: i64,
    /// An object; `null` before 1.3.
    pub mount_options: Option<MountOptionsDocument>,
    /// What people call it.
    pub name: String,
    /// Where it lives.
    pub namespace: String,
    /// Only our agent's: nodes that use it have to follow a growth, which none has done yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_expansion_pending: bool,
    /// Nodes there should be.
    pub nodes_expected: i64,
    /// Nodes that are well.
    pub nodes_healthy: i64,
    /// Opaque, as given at creation.
    pub parameters: BTreeMap<String, String>,
    /// Who provides it.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The provider's name.
    pub provider: String,
    /// The provider's version.
    pub provider_version: String,
    /// Allocation IDs that read; the values say nothing.
    pub read_allocs: BTreeMap<String, Null>,
    /// `null` for volumes older than 1.1; not answered before 1.1.13, 1.2.7 and 1.3.0.
    pub requested_capabilities: Vec<CapabilityDocument>,
    /// Bytes; 0 is "not given".
    pub requested_capacity_max: i64,
    /// Bytes; 0 is "not given".
    pub requested_capacity_min: i64,
    /// `null` if nothing was asked; absent before 1.3.
    pub requested_topologies: Option<TopologyRequestDocument>,
    /// A time or `null`; nothing uses it.
    pub resource_exhausted: Option<String>,
    /// Whether an allocation that wants it could be placed.
    pub schedulable: bool,
    /// Always `null`; 1.1 and 1.2 answered a create with the secrets, which are thrown away.
    pub secrets: Null,
    /// What it was restored from.
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: String,
    /// Where it can be reached from; begins with `null`s after a create (3.4).
    pub topologies: Vec<Option<TopologyDocument>>,
    /// Allocation IDs that write; the values say nothing.
    pub write_allocs: BTreeMap<String, Null>,
}

/// A volume as `GET /v1/volumes?type=csi` answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeStub {
    /// The mode in force; empty while unclaimed.
    pub access_mode: String,
    /// The mode in force; empty while unclaimed.
    pub attachment_mode: String,
    /// Whether its plugin cannot do without a controller; absent before 1.2.13, 1.3.6 and 1.4.0.
    pub controller_required: bool,
    /// Controllers there should be.
    pub controllers_expected: i64,
    /// Controllers that are well.
    pub controllers_healthy: i64,
    /// Index of its creation.
    pub create_index: u64,
    /// Nanoseconds; absent before 1.10.
    pub create_time: i64,
    /// Claims that read, those of dead allocations included.
    pub current_readers: i64,
    /// Claims that write, those of dead allocations included.
    pub current_writers: i64,
    /// The provider's ID.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of its last change.
    pub modify_index: u64,
    /// Nanoseconds; absent before 1.10.
    pub modify_time: i64,
    /// What people call it.
    pub name: String,
    /// Where it lives.
    pub namespace: String,
    /// Nodes there should be.
    pub nodes_expected: i64,
    /// Nodes that are well.
    pub nodes_healthy: i64,
    /// Who provides it.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The provider's name.
    pub provider: String,
    /// A time or `null`; nothing uses it.
    pub resource_exhausted: Option<String>,
    /// Whether an allocation that wants it could be placed.
    pub schedulable: bool,
    /// Where it can be reached from; elements may be `null`.
    pub topologies: Vec<Option<TopologyDocument>>,
}
