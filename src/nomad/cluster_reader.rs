//! Nodes and blocked evaluations.
//!
//! A blocked evaluation does not say what it waits for. The evaluation that made it does, so that one is
//! read too.

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::request::ApiRequest;
use crate::diagnostic::Code;
use crate::model::{BlockedEvaluations, ClientNode, Namespace};
use crate::ports::{ApiError, ClusterReader};
use crate::wire::{
    EvaluationDocument, NodeStub, blocked_evaluation_from_wire, client_node_from_wire,
};

/// How many evaluations are explained.
const MAX_EXPLAINED: usize = 20;

#[async_trait]
impl ClusterReader for NomadClient {
    async fn list_nodes(&self) -> Result<Vec<ClientNode>, ApiError> {
        let mut nodes = vec![];
        let add = |stub: NodeStub, _| nodes.push(client_node_from_wire(&stub));
        self.session
            .list(&["nodes"], &[], "list the nodes", add)
            .await?;
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
        self.session
            .list(&["evaluations"], &query, action, add)
            .await?;
        let others = blocked.len().saturating_sub(MAX_EXPLAINED);
        blocked.truncate(MAX_EXPLAINED);
        let mut explained = vec![];
        for evaluation in &blocked {
            let previous = self
                .evaluation(namespace, &evaluation.previous_eval)
                .await?;
            explained.push(blocked_evaluation_from_wire(evaluation, previous.as_ref()));
        }
        Ok(BlockedEvaluations { explained, others })
    }
}

impl NomadClient {
    /// Returns an evaluation; `None` if the server has none of this ID any more.
    async fn evaluation(
        &self,
        namespace: &Namespace,
        id: &str,
    ) -> Result<Option<EvaluationDocument>, ApiError> {
        if id.is_empty() {
            return Ok(None);
        }
        let path = ["evaluation", id];
        let get = ApiRequest {
            query: vec![("namespace", namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        let action = "read an evaluation";
        let found = self.session.find(&get, action, Code::ApiNotNomad).await?;
        Ok(found.map(|(evaluation, _)| evaluation))
    }
}
