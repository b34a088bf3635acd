//! An allocation, as far as a volume's users are concerned.

use super::id::{AllocId, NodeId};

/// What the server wants of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DesiredStatus {
    /// It shall run.
    Run,
    /// It shall stop.
    Stop,
    /// It makes room for another.
    Evict,
    /// A word of a later Nomad.
    Other(String),
}

/// What the client says of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientStatus {
    /// Not started.
    Pending,
    /// Running.
    Running,
    /// Ended well.
    Complete,
    /// Ended badly.
    Failed,
    /// Its node is lost.
    Lost,
    /// Its node is disconnected.
    Unknown,
    /// A word of a later Nomad.
    Other(String),
}

impl ClientStatus {
    /// Whether the client says that it will never run again: only then its volumes are free
    /// (GH-26831: a task that is still shutting down writes).
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
    /// Its ID.
    pub id: AllocId,
    /// The node it is on.
    pub node_id: NodeId,
    /// That node's name, empty if it is not said.
    pub node_name: String,
    /// Its evaluation's ID, empty if it is not said.
    pub evaluation_id: String,
    /// Its job.
    pub job_id: String,
    /// Its task group.
    pub task_group: String,
    /// Its job's version.
    pub job_version: u64,
    /// What the server wants.
    pub desired: DesiredStatus,
    /// What the client says.
    pub client: ClientStatus,
    /// Nanoseconds since the epoch.
    pub create_time: i64,
    /// Nanoseconds since the epoch.
    pub modify_time: i64,
}
