//! A node in a list (`nomad-http-api` 3.13), as far as Nomad's own commands need it.

use serde::{Deserialize, Serialize};

/// A node as `GET /v1/nodes` answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeStub {
    /// Its datacenter.
    pub datacenter: String,
    /// Whether its allocations are being moved away.
    pub drain: bool,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its class, mostly empty.
    pub node_class: String,
    /// `eligible` or `ineligible`.
    pub scheduling_eligibility: String,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
}
