//! Why the scheduler placed a task group, or did not place it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the scheduler saw while it placed a task group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlacementMetricsDocument {
    /// The time that the placement took, in nanoseconds.
    pub allocation_time: i64,
    /// How many further allocations of the group failed for the same reasons.
    pub coalesced_failures: i64,
    /// The scheduler's reasons, and how many nodes each refused.
    pub constraint_filtered: Option<BTreeMap<String, i64>>,
    /// The resources that nodes lacked, and how many nodes lacked each.
    pub dimension_exhausted: Option<BTreeMap<String, i64>>,
    /// The node pool of the job.
    pub node_pool: String,
    /// The number of ready nodes by datacenter.
    pub nodes_available: Option<BTreeMap<String, i64>>,
    /// How many nodes were considered.
    pub nodes_evaluated: i64,
    /// How many nodes lacked a resource.
    pub nodes_exhausted: i64,
    /// How many nodes a reason refused.
    pub nodes_filtered: i64,
    /// How many nodes the pool has.
    pub nodes_in_pool: i64,
}
