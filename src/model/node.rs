//! A machine that runs allocations and plugins.

use serde::{Deserialize, Serialize};

use super::id::NodeId;

/// What a server thinks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStatus {
    /// It takes allocations.
    Ready,
    /// It has missed its heartbeats.
    Down,
}

/// A Nomad client node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its ID, a UUID.
    pub id: NodeId,
    /// Its name, mostly the host's.
    pub name: String,
    /// Its datacenter.
    pub datacenter: String,
    /// What the server thinks of it.
    pub status: NodeStatus,
}
