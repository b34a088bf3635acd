//! Everything that a command needs from one server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::access::AccessReader;
use super::acl_api::AclApi;
use super::allocation_api::AllocationApi;
use super::claim_api::ClaimApi;
use super::job_api::JobApi;
use super::ledger::Ledger;
use super::provider_api::SnapshotApi;
use super::server_wait::ServerWait;
use super::variable_api::VariableReader;
use super::volume_api::{ApiError, VolumeApi, WithDocument};
use super::volume_watch::{TopicWatch, VolumeWatch};
use nomad_csi_model::{BlockedEvaluations, ClientNode, Namespace, NodeId};
use nomad_csi_wire::{
    AllocationDocument, NamespaceDocument, NodeDocument, NodeStub, NodeUpdateResponse,
};

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

/// The API of one server: volumes, snapshots, claims, jobs, allocations, nodes, namespaces, permissions, tokens and policies,
/// variables, watches, and ledgers in its variables.
#[async_trait]
pub trait ClusterApi:
    VolumeApi
    + SnapshotApi
    + ClaimApi
    + JobApi
    + AllocationApi
    + AccessReader
    + AclApi
    + VariableReader
    + VolumeWatch
    + TopicWatch
{
    /// Returns the ledger that the server's variables of this namespace hold.
    fn ledger(&self, namespace: Namespace) -> Arc<dyn Ledger>;

    /// Returns the same server. If `overrides`, its writes override the policies that Nomad lets a
    /// token override.
    fn overriding_policies(&self, overrides: bool) -> Box<dyn ClusterApi>;

    /// Returns the same server, whose requests wait together when it stops responding.
    ///
    /// A request that changes a volume does not wait: it fails as certainly not sent
    /// ([`super::ApiError::is_server_away`]), because the volume must be read again before it is sent.
    fn waiting(&self, wait: ServerWait) -> Box<dyn ClusterApi>;

    /// Returns the names of all regions.
    async fn region_names(&self) -> Result<Vec<String>, ApiError>;
    /// Returns all nodes, sorted by ID. Nomad requires `node { policy = "read" }`.
    async fn list_nodes(&self) -> Result<Vec<ClientNode>, ApiError>;
    /// Returns the evaluations of a namespace that wait until their job can be placed, with the
    /// scheduler's reasons for the first 20. Only Nomad has evaluations.
    async fn blocked_evaluations(
        &self,
        namespace: &Namespace,
    ) -> Result<BlockedEvaluations, ApiError>;
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
    /// Returns the namespaces that the token can see, sorted by name.
    async fn list_namespaces(&self) -> Result<Vec<WithDocument<NamespaceDocument>>, ApiError>;
    /// Returns a namespace; `None` if it does not exist.
    async fn read_namespace(&self, name: &Namespace)
    -> Result<Option<NamespaceDocument>, ApiError>;
    /// Creates a namespace with this description.
    async fn create_namespace(&self, name: &Namespace, description: &str) -> Result<(), ApiError>;
    /// Deletes a namespace, which must be empty.
    async fn delete_namespace(&self, name: &Namespace) -> Result<(), ApiError>;
}
