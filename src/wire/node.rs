//! A node in a list, with the fields that Nomad's own commands need.

use serde::{Deserialize, Serialize};

/// A node in the response of `GET /v1/nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeStub {
    /// The datacenter.
    pub datacenter: String,
    /// Whether the node is draining.
    pub drain: bool,
    /// The node's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The node's name.
    pub name: String,
    /// The node class, usually empty.
    pub node_class: String,
    /// `eligible` or `ineligible`.
    pub scheduling_eligibility: String,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
}
