//! The capacity of a provider; ours.

use serde::{Deserialize, Serialize};

use super::volume::TopologyDocument;

/// The response of `GET /v1/plugin/csi/:id/capacity`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CapacityReportDocument {
    /// The capacity in each place that the plugin knows.
    pub capacity: Vec<CapacityDocument>,
    /// Why a capacity is not known.
    pub unknown: Vec<String>,
}

/// The capacity in one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CapacityDocument {
    /// Where; missing for everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topology: Option<TopologyDocument>,
    /// The bytes that are left for new volumes.
    pub available: i64,
    /// The largest size that can be required of a volume, in bytes; missing if it is not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maximum_volume_size: Option<i64>,
    /// The smallest limit that can be set to a volume, in bytes; missing if it is not reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_volume_size: Option<i64>,
}
