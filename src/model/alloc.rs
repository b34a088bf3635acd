//! An allocation that uses a volume or runs a plugin.

use serde::{Deserialize, Serialize};

use super::id::{AllocId, NodeId};

/// The status that the server wants for an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredStatus {
    /// The allocation should run.
    Run,
    /// The allocation should stop.
    Stop,
    /// The allocation is preempted.
    Evict,
    /// A status of a later Nomad.
    Other(String),
}

/// The status that the client reports for an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientStatus {
    /// Not started.
    Pending,
    /// Running.
    Running,
    /// Finished successfully.
    Complete,
    /// Failed.
    Failed,
    /// The node is lost.
    Lost,
    /// The node is disconnected.
    Unknown,
    /// A status of a later Nomad.
    Other(String),
}

impl DesiredStatus {
    /// Returns Nomad's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Run => "run",
            Self::Stop => "stop",
            Self::Evict => "evict",
            Self::Other(word) => word,
        }
    }
}

impl ClientStatus {
    /// Returns Nomad's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Unknown => "unknown",
            Self::Other(word) => word,
        }
    }

    /// Whether the client reports that the allocation has stopped for good. Only then is its volume
    /// free: a task that is shutting down may still write (Nomad GH-26831).
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Complete | Self::Failed | Self::Lost => true,
            Self::Pending | Self::Running | Self::Unknown | Self::Other(_) => false,
        }
    }
}

/// An allocation that uses a volume or runs a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alloc {
    /// The allocation's ID.
    pub id: AllocId,
    /// The node of the allocation.
    pub node_id: NodeId,
    /// The name of the node; empty if unknown.
    pub node_name: String,
    /// The ID of the evaluation; empty if unknown.
    pub evaluation_id: String,
    /// The job.
    pub job_id: String,
    /// The task group.
    pub task_group: String,
    /// The version of the job.
    pub job_version: u64,
    /// The status that the server wants.
    pub desired: DesiredStatus,
    /// The status that the client reports.
    pub client: ClientStatus,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
}
