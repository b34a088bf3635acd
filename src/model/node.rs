//! A client node, which runs allocations and plugins.

use serde::{Deserialize, Serialize};

use super::id::NodeId;

/// The status of a node on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStatus {
    /// The node accepts allocations.
    Ready,
    /// The node missed its heartbeats.
    Down,
}

/// A Nomad client node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The ID, a UUID.
    pub id: NodeId,
    /// The name, usually the host name.
    pub name: String,
    /// The datacenter.
    pub datacenter: String,
    /// The status on the server.
    pub status: NodeStatus,
}
