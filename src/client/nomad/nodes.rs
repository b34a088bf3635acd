//! Nodes over HTTP: state, eligibility and drain.

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::request::{ApiRequest, check_addressable, unsendable_request};
use super::retrying::Access;
use crate::ports::{ApiError, DrainChange, NodeApi, WithDocument};
use nomad_csi_model::NodeId;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_wire::{
    AllocationDocument, DrainSpecDocument, NodeDocument, NodeDrainRequest, NodeEligibilityRequest,
    NodeStub, NodeUpdateResponse,
};

#[async_trait]
impl NodeApi for NomadClient {
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
        self.change(id, "eligibility", &action, body).await
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
        self.change(id, "drain", &action, body).await
    }
}

impl NomadClient {
    async fn change(
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
