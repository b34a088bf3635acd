//! Nodes and blocked evaluations.
//!
//! A blocked evaluation does not say what it waits for. The evaluation that made it does, so that one is
//! read too.

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::request::ApiRequest;
use crate::ports::{ApiError, ClusterReader, JobApi as _};
use nomad_csi_model::{BlockedEvaluations, ClientNode, Namespace};
use nomad_csi_wire::{
    EvaluationDocument, NodeStub, blocked_evaluation_from_wire, client_node_from_wire,
};

/// How many evaluations are explained.
const MAX_EXPLAINED: usize = 20;

#[async_trait]
impl ClusterReader for NomadClient {
    async fn region_names(&self) -> Result<Vec<String>, ApiError> {
        let get = ApiRequest::new(Method::GET, &["regions"]);
        let (regions, _) = self.session.read(&get, "list the regions").await?;
        Ok(regions)
    }

    async fn list_nodes(&self) -> Result<Vec<ClientNode>, ApiError> {
        let mut nodes = vec![];
        let add = |stub: NodeStub, _| nodes.push(client_node_from_wire(&stub));
        self.session.list(&["nodes"], &[], "list the nodes", add).await?;
        nodes.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(nodes)
    }

    async fn blocked_evaluations(
        &self,
        namespace: &Namespace,
    ) -> Result<BlockedEvaluations, ApiError> {
        let query = [("namespace", namespace.as_str()), ("status", "blocked")];
        let mut blocked: Vec<EvaluationDocument> = vec![];
        // Older servers ignore the status in the query.
        let add = |evaluation: EvaluationDocument, _| {
            if evaluation.status == "blocked" {
                blocked.push(evaluation);
            }
        };
        let action = "list the evaluations";
        self.session.list(&["evaluations"], &query, action, add).await?;
        let others = blocked.len().saturating_sub(MAX_EXPLAINED);
        blocked.truncate(MAX_EXPLAINED);
        let mut explained = vec![];
        for evaluation in &blocked {
            let previous = self.read_evaluation(namespace, &evaluation.previous_eval).await?;
            explained.push(blocked_evaluation_from_wire(evaluation, previous.as_ref()));
        }
        Ok(BlockedEvaluations { explained, others })
    }
}
