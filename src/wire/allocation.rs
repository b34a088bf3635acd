//! An allocation in a volume's or plugin's answer (`nomad-http-api` 4.7), as far as it is shown.

use serde::{Deserialize, Serialize};

/// An allocation. What Nomad's CLI does not show for volumes is left out; Go fills in zeroes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AllocationStub {
    /// The client's words beside its status.
    pub client_description: String,
    /// What the client says.
    pub client_status: String,
    /// Index of its creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// The server's words beside what it wants.
    pub desired_description: String,
    /// What the server wants.
    pub desired_status: String,
    /// Its evaluation.
    #[serde(rename = "EvalID")]
    pub eval_id: String,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// `service`, `batch`, `system` or `sysbatch`.
    pub job_type: String,
    /// Its job's version.
    pub job_version: u64,
    /// Index of its last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
    /// `job.group[0]`.
    pub name: String,
    /// Where it lives.
    pub namespace: String,
    /// Its node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// Its node's name.
    pub node_name: String,
    /// Its task group.
    pub task_group: String,
}
