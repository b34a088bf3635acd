//! The statistics of published volumes; ours.

use serde::{Deserialize, Serialize};

/// The response of `GET /v1/volume/csi/:id/stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PublishedStatsDocument {
    /// The reports of the plugin on each node where the volume is published.
    pub stats: Vec<NodeStatsDocument>,
    /// Why a node did not answer.
    pub unknown: Vec<String>,
}

/// The statistics of a volume on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeStatsDocument {
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// The bytes; missing if nothing of them is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<QuantityDocument>,
    /// The inodes; missing if nothing of them is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes: Option<QuantityDocument>,
    /// The condition, by a plugin of CSI 1.3 to 1.12.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionDocument>,
    /// The answers that cannot be true, and were not used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
}

/// How much there is of one unit. What is not known is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct QuantityDocument {
    /// All.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<u64>,
    /// The used amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<u64>,
    /// The amount left for the users of the volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
}

/// A condition of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ConditionDocument {
    /// True if the volume has a problem.
    pub abnormal: bool,
    /// A description for people.
    pub message: String,
}
