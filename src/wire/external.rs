//! Volumes in a provider's list, registered or not (Nomad's List External Volumes API).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A volume in a provider's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ExternalVolumeDocument {
    /// The size in bytes; 0 if unknown.
    pub capacity_bytes: i64,
    /// The provider's ID of the cloned volume.
    #[serde(rename = "CloneID")]
    pub clone_id: String,
    /// The provider's ID of the volume.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// True if the provider reports a problem.
    pub is_abnormal: bool,
    /// The provider's IDs of the nodes to which the volume is published.
    #[serde(rename = "PublishedExternalNodeIDs")]
    pub published_external_node_ids: Option<Vec<String>>,
    /// The provider's ID of the restored snapshot.
    #[serde(rename = "SnapshotID")]
    pub snapshot_id: String,
    /// The provider's description of the condition.
    pub status: String,
    /// The provider's volume context, opaque.
    pub volume_context: Option<BTreeMap<String, String>>,
    /// Embedded agent only: the adverse conditions, if the plugin reports health (CSI 1.13).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Vec<VolumeStatusDocument>>,
}

/// An adverse condition of a volume; ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeStatusDocument {
    /// `DEGRADED`, `INACCESSIBLE`, `DATA_LOSS` or `ABNORMAL`, or `TYPE_` and a number that is not
    /// known.
    pub status: String,
    /// A short word for machines.
    pub reason: String,
    /// A description for people.
    pub message: String,
    /// The node that reports it; missing if the controller does.
    #[serde(rename = "NodeID", skip_serializing_if = "String::is_empty")]
    pub node_id: String,
}

/// The response of `GET /v1/volume/csi/:id/health`; ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeHealthDocument {
    /// The adverse conditions; empty if none is known.
    pub health: Vec<VolumeStatusDocument>,
    /// Why the controller or a node did not answer.
    pub unknown: Vec<String>,
}

/// One page of a provider's list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ExternalVolumesResponse {
    /// Always 0 in Nomad, which has no table of external volumes.
    pub index: u64,
    /// Always `false` in Nomad.
    pub known_leader: bool,
    /// Time since the last contact with the leader in nanoseconds.
    pub last_contact: i64,
    /// The plugin's token of the next page; empty on the last page.
    pub next_token: String,
    /// The volumes in the plugin's order.
    pub volumes: Vec<ExternalVolumeDocument>,
}
