//! Everything that a command needs from one server.

use std::sync::Arc;

use super::access::AccessReader;
use super::allocation_api::AllocationApi;
use super::claim_api::ClaimApi;
use super::cluster_reader::ClusterReader;
use super::job_api::JobApi;
use super::ledger::Ledger;
use super::namespace_api::NamespaceApi;
use super::node_api::NodeApi;
use super::provider_api::SnapshotApi;
use super::server_wait::ServerWait;
use super::variable_api::VariableReader;
use super::volume_api::VolumeApi;
use super::volume_watch::VolumeWatch;
use nomad_csi_model::Namespace;

/// The API of one server: volumes, snapshots, claims, jobs, allocations, nodes, namespaces, permissions,
/// variables, watches, and ledgers in its variables.
pub trait ClusterApi:
    VolumeApi
    + SnapshotApi
    + ClaimApi
    + JobApi
    + AllocationApi
    + NodeApi
    + NamespaceApi
    + ClusterReader
    + AccessReader
    + VariableReader
    + VolumeWatch
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
}
