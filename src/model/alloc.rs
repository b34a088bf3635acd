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

    /// Returns whether the client itself reported that the tasks have ended. A server sets `lost` without its client.
    pub fn has_ended(&self) -> bool {
        !self.may_still_write(NodeContact::Up)
    }

    /// Returns whether the server expects no other status. It does not say that no task writes any more:
    /// [`Self::may_still_write`] does.
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Complete | Self::Failed | Self::Lost => true,
            Self::Pending | Self::Running | Self::Unknown | Self::Other(_) => false,
        }
    }

    /// Returns whether a task of the allocation may still write to its volumes. A task that is shutting down may
    /// (Nomad GH-26831), and so may one that is lost or unknown: the server writes these words when it
    /// does *not* hear from the node. Unknown never means that it has ended.
    pub fn may_still_write(&self, node: NodeContact) -> bool {
        match (node, self) {
            (NodeContact::Up, Self::Complete | Self::Failed)
            | (NodeContact::Gone, Self::Complete | Self::Failed | Self::Lost) => false,
            (
                NodeContact::Up,
                Self::Pending | Self::Running | Self::Lost | Self::Unknown | Self::Other(_),
            )
            | (NodeContact::Silent, _)
            | (NodeContact::Gone, Self::Pending | Self::Running | Self::Unknown | Self::Other(_)) => {
                true
            }
        }
    }
}

/// How much a server's record of an allocation says about its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeContact {
    /// The server hears from the node: what it reports of its allocations is so.
    Up,
    /// The node is down or disconnected, or its status is not known: the server does not
    /// hear of the tasks that run there.
    Silent,
    /// The node was purged or fenced: its operator says that nothing writes there any more.
    Gone,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_reported_end_or_a_node_that_is_gone_ends_the_writing() {
        let other = || ClientStatus::Other("reconnecting".to_owned());
        for (status, up, silent, gone) in [
            (ClientStatus::Pending, true, true, true),
            (ClientStatus::Running, true, true, true),
            (ClientStatus::Complete, false, true, false),
            (ClientStatus::Failed, false, true, false),
            (ClientStatus::Lost, true, true, false),
            (ClientStatus::Unknown, true, true, true),
            (other(), true, true, true),
        ] {
            let found = [NodeContact::Up, NodeContact::Silent, NodeContact::Gone]
                .map(|node| status.may_still_write(node));
            assert_eq!(found, [up, silent, gone], "{status:?}");
        }
    }
}
