//! Nodes on a server, in the words of Nomad's API: their state, eligibility and drain.

use std::time::Duration;

use async_trait::async_trait;

use super::volume_api::{ApiError, WithDocument};
use nomad_csi_model::NodeId;
use nomad_csi_wire::{AllocationDocument, NodeDocument, NodeStub, NodeUpdateResponse};

/// A change of the drain of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainChange {
    /// Move the allocations to other nodes.
    Start {
        /// How long they may take; without a limit if not given.
        deadline: Option<Duration>,
        /// True if allocations of system jobs stay.
        ignores_system_jobs: bool,
    },
    /// Stop moving allocations.
    End {
        /// True if the node gets no allocations afterwards either.
        keeps_ineligible: bool,
    },
}

/// Reads and changes nodes.
#[async_trait]
pub trait NodeApi: Send + Sync {
    /// Returns all nodes with what lists show of them, sorted by ID.
    async fn list_node_stubs(&self) -> Result<Vec<WithDocument<NodeStub>>, ApiError>;
    /// Returns a node; `None` if it does not exist.
    async fn read_node(&self, id: &NodeId) -> Result<Option<WithDocument<NodeDocument>>, ApiError>;
    /// Returns the allocations of a node, the oldest first.
    async fn list_node_allocations(&self, id: &NodeId)
    -> Result<Vec<AllocationDocument>, ApiError>;
    /// Lets a node get new allocations, or not.
    async fn set_eligibility(
        &self,
        id: &NodeId,
        is_eligible: bool,
    ) -> Result<NodeUpdateResponse, ApiError>;
    /// Starts or ends the drain of a node.
    async fn change_drain(
        &self,
        id: &NodeId,
        change: DrainChange,
    ) -> Result<NodeUpdateResponse, ApiError>;
}
