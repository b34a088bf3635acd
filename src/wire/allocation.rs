//! An allocation in a list, or in the response for a volume or a plugin.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::task_state::TaskStateDocument;

/// An allocation in a list, or in the response for a volume or a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocationStub {
    /// The client's description of the status.
    pub client_description: String,
    /// The status that the client reports.
    pub client_status: String,
    /// The index of the creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// The server's description of the desired status.
    pub desired_description: String,
    /// The status that the server wants.
    pub desired_status: String,
    /// The transition that the server wants, such as a migration.
    pub desired_transition: DesiredTransitionDocument,
    /// The evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// The allocation's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    pub job_type: String,
    /// The version of the job.
    pub job_version: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
    /// The name, such as `job.group[0]`.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// The name of the node.
    pub node_name: String,
    /// The task group.
    pub task_group: String,
    /// The tasks by name; `null` before the node reported any.
    pub task_states: Option<BTreeMap<String, TaskStateDocument>>,
}

/// The transition that a server wants for an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DesiredTransitionDocument {
    /// True if it moves to another node, because its node drains or it was stopped.
    pub migrate: Option<bool>,
}
