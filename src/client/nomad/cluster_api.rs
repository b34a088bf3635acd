//! The one API that commands work with, and its requests about nodes, evaluations and namespaces.
//!
//! A blocked evaluation does not say what it waits for. The evaluation that made it does, so that one is
//! read too.

use std::sync::Arc;

use async_trait::async_trait;
use http::Method;
use serde_json::json;

use super::client::NomadClient;
use super::request::{ApiRequest, check_addressable, unsendable_request};
use super::retrying::Access;
use crate::ports::{
    ApiError, ClusterApi, DrainChange, JobApi as _, Ledger, ServerWait, WithDocument,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{BlockedEvaluations, ClientNode, Namespace, NodeId};
use nomad_csi_wire::{
    AllocationDocument, DrainSpecDocument, EvaluationDocument, NamespaceDocument, NodeDocument,
    NodeDrainRequest, NodeEligibilityRequest, NodeStub, NodeUpdateResponse,
    blocked_evaluation_from_wire, client_node_from_wire,
};

/// How many evaluations are explained.
const MAX_EXPLAINED: usize = 20;

#[async_trait]
impl ClusterApi for NomadClient {
    fn ledger(&self, namespace: Namespace) -> Arc<dyn Ledger> {
        Arc::new(Self::ledger(self, namespace))
    }

    fn overriding_policies(&self, overrides: bool) -> Box<dyn ClusterApi> {
        Box::new(Self::overriding_policies(self, overrides))
    }

    fn waiting(&self, wait: ServerWait) -> Box<dyn ClusterApi> {
        Box::new(Self::waiting(self, wait))
    }

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

    async fn list_node_stubs(&self) -> Result<Vec<WithDocument<NodeStub>>, ApiError> {
        let mut nodes: Vec<WithDocument<NodeStub>> = vec![];
        let add = |value, document| nodes.push(WithDocument { value, document });
        let action = "list the nodes";
        self.session.list(&["nodes"], &[], action, add).await?;
        nodes.sort_by(|a, b| a.value.id.cmp(&b.value.id));
        Ok(nodes)
    }

    async fn read_node(&self, id: &NodeId) -> Result<Option<WithDocument<NodeDocument>>, ApiError> {
        let action = format!("read node `{id}`");
        check_addressable(id.as_str(), &action)?;
        let path = ["node", id.as_str()];
        let get = ApiRequest::new(Method::GET, &path);
        let found = self.session.find::<NodeDocument>(&get, &action, Code::NodeUnknown).await?;
        Ok(found.map(|(value, document)| WithDocument { value, document }))
    }

    async fn list_node_allocations(
        &self,
        id: &NodeId,
    ) -> Result<Vec<AllocationDocument>, ApiError> {
        let action = format!("list the allocations of node `{id}`");
        check_addressable(id.as_str(), &action)?;
        let path = ["node", id.as_str(), "allocations"];
        let mut allocations: Vec<AllocationDocument> = vec![];
        let add = |allocation, _| allocations.push(allocation);
        self.session.list(&path, &[], &action, add).await?;
        allocations.sort_by(|a, b| (a.create_index, &a.id).cmp(&(b.create_index, &b.id)));
        Ok(allocations)
    }

    async fn set_eligibility(
        &self,
        id: &NodeId,
        is_eligible: bool,
    ) -> Result<NodeUpdateResponse, ApiError> {
        let action = format!("change the eligibility of node `{id}`");
        let eligibility = if is_eligible { "eligible" } else { "ineligible" };
        let request =
            NodeEligibilityRequest { eligibility: eligibility.to_owned(), node_id: id.to_string() };
        let body = serde_json::to_vec(&request);
        self.write_node(id, "eligibility", &action, body).await
    }

    async fn change_drain(
        &self,
        id: &NodeId,
        change: DrainChange,
    ) -> Result<NodeUpdateResponse, ApiError> {
        let action = match change {
            DrainChange::Start { .. } => format!("drain node `{id}`"),
            DrainChange::End { .. } => format!("end the drain of node `{id}`"),
        };
        let body = serde_json::to_vec(&drain_request(id, change));
        self.write_node(id, "drain", &action, body).await
    }

    async fn list_namespaces(&self) -> Result<Vec<WithDocument<NamespaceDocument>>, ApiError> {
        let mut found: Vec<WithDocument<NamespaceDocument>> = vec![];
        let add = |value, document| found.push(WithDocument { value, document });
        let action = "list the namespaces";
        self.session.list(&["namespaces"], &[], action, add).await?;
        found.sort_by(|a, b| a.value.name.cmp(&b.value.name));
        Ok(found)
    }

    async fn read_namespace(
        &self,
        name: &Namespace,
    ) -> Result<Option<NamespaceDocument>, ApiError> {
        let action = format!("read namespace `{name}`");
        check_addressable(name.as_str(), &action)?;
        let path = ["namespace", name.as_str()];
        let get = ApiRequest::new(Method::GET, &path);
        let found =
            self.session.find::<NamespaceDocument>(&get, &action, Code::NamespaceUnknown).await?;
        Ok(found.map(|(value, _)| value))
    }

    async fn create_namespace(&self, name: &Namespace, description: &str) -> Result<(), ApiError> {
        let action = format!("create namespace `{name}`");
        let document = json!({"Name": name.as_str(), "Description": description});
        let body = serde_json::to_vec(&document)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let put = ApiRequest { body: Some(&body), ..ApiRequest::new(Method::PUT, &["namespace"]) };
        self.session.call(&put, &action, Access::Write).await?;
        Ok(())
    }

    async fn delete_namespace(&self, name: &Namespace) -> Result<(), ApiError> {
        let action = format!("delete namespace `{name}`");
        check_addressable(name.as_str(), &action)?;
        let path = ["namespace", name.as_str()];
        let delete = ApiRequest::new(Method::DELETE, &path);
        self.session.call(&delete, &action, Access::Write).await?;
        Ok(())
    }
}

impl NomadClient {
    async fn write_node(
        &self,
        id: &NodeId,
        what: &str,
        action: &str,
        body: serde_json::Result<Vec<u8>>,
    ) -> Result<NodeUpdateResponse, ApiError> {
        check_addressable(id.as_str(), action)?;
        let body = body.map_err(|error| unsendable_request(action, &error.to_string()))?;
        let path = ["node", id.as_str(), what];
        let put = ApiRequest { body: Some(&body), ..ApiRequest::new(Method::PUT, &path) };
        let response = self.session.call(&put, action, Access::Write).await?;
        self.session.document(&response, action)
    }
}

/// Returns the request for a change. Nomad reads a deadline of 0 as "no limit".
fn drain_request(id: &NodeId, change: DrainChange) -> NodeDrainRequest {
    let (drain_spec, mark_eligible) = match change {
        DrainChange::Start { deadline, ignores_system_jobs } => {
            let deadline = deadline
                .map_or(0, |deadline| i64::try_from(deadline.as_nanos()).unwrap_or(i64::MAX));
            let spec = DrainSpecDocument { deadline, ignore_system_jobs: ignores_system_jobs };
            (Some(spec), false)
        }
        DrainChange::End { keeps_ineligible } => (None, !keeps_ineligible),
    };
    NodeDrainRequest {
        drain_spec,
        mark_eligible,
        node_id: id.to_string(),
        ..NodeDrainRequest::default()
    }
}
