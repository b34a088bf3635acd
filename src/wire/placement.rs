//! Why the scheduler placed a task group, or did not place it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The decisions of the agent's scheduler about a job, with their reasons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlacementDocument {
    /// The index of the state that the scheduler saw.
    pub index: u64,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// The namespace of the job.
    pub namespace: String,
    /// The allocations that the job wants.
    pub slots: Vec<PlacementSlotDocument>,
}

/// One of the allocations that a job wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PlacementSlotDocument {
    /// The allocation of `runs`, which may be pending; empty otherwise.
    #[serde(rename = "AllocID")]
    pub alloc_id: String,
    /// The status of that allocation, such as `pending`; empty from a server that does not say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client_status: String,
    /// The index in the group.
    pub index: u32,
    /// The node that it runs on, or is placed on; empty if there is none.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// The name of that node.
    pub node_name: String,
    /// When a failed allocation is replaced, in nanoseconds since the epoch; 0 without a pause.
    pub not_before: i64,
    /// `runs` for an allocation that exists, `place`, `wait`, `pause` or `ended`.
    pub outcome: String,
    /// The nodes that cannot take it.
    pub refusals: Vec<NodeRefusalDocument>,
    /// The group.
    pub task_group: String,
}

/// Why a node cannot take an allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeRefusalDocument {
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// Its name.
    pub node_name: String,
    /// Every reason.
    pub reasons: Vec<String>,
}

/// The observations of the scheduler while it placed a task group.
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
