//! Nodes, and jobs that cannot be placed.

use async_trait::async_trait;

use super::volume_api::ApiError;
use nomad_csi_model::{BlockedEvaluations, ClientNode, Namespace};

/// Reads what happens around volumes. A holder of this trait cannot write.
#[async_trait]
pub trait ClusterReader: Send + Sync {
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
}
