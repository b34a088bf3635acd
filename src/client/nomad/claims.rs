//! Claims, histories, health and statistics of volumes, creations that did not end, the capacity of providers, and lost
//! nodes, through the agent's own endpoints.

use std::collections::BTreeMap;

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::request::{ApiRequest, check_addressable, unsendable_request};
use super::retrying::Access;
use crate::ports::{
    ApiError, ClaimApi, ClaimQuery, FenceRequest, VolumeClaimRequest, VolumeReleaseRequest,
    WithDocument,
};
use nomad_csi_model::{
    CapacityReport, FenceStatement, Namespace, NamespacedId, NodeId, PluginId, PublishedStats,
    VolumeClaim, VolumeCreation, VolumeEvent, VolumeHealth,
};
use nomad_csi_wire::{
    CapacityReportDocument, ClaimDocument, ClaimRequestDocument, CreationDocument, GivenUpDocument,
    ModifyRequest, ModifyResponse, PublishedStatsDocument, ReleaseResponse, VolumeEventDocument,
    VolumeHealthDocument, capacity_from_wire, claim_from_wire, creation_from_wire, stats_from_wire,
    status_from_wire,
};

#[async_trait]
impl ClaimApi for NomadClient {
    async fn list_claims(
        &self,
        query: &ClaimQuery,
    ) -> Result<Vec<WithDocument<VolumeClaim>>, ApiError> {
        let mut claims = vec![];
        let add = |claim: ClaimDocument, document| {
            claims.push(WithDocument { value: claim_from_wire(&claim), document });
        };
        match query {
            ClaimQuery::Volume(key) => {
                let action = format!("list the claims of volume {}", key.quoted());
                check_addressable(key.id.as_str(), &action)?;
                let path = ["volume", "csi", key.id.as_str(), "claims"];
                let namespace = [("namespace", key.namespace.as_str())];
                self.session.list(&path, &namespace, &action, add).await?;
            }
            ClaimQuery::Namespace(namespace) => {
                let query = [("type", "csi"), ("namespace", namespace.as_str())];
                let path = ["volumes", "claims"];
                let action = "list the claims";
                self.session.list(&path, &query, action, add).await?;
            }
        }
        Ok(claims)
    }

    async fn claim_volume(
        &self,
        request: &VolumeClaimRequest,
    ) -> Result<Option<VolumeClaim>, ApiError> {
        let key = &request.volume;
        let action = format!("claim volume {}", key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let body = serde_json::to_vec(&claim_to_wire(request))
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let path = ["volume", "csi", key.id.as_str(), "claim"];
        let put = ApiRequest {
            query: vec![("namespace", key.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &path)
        };
        let response = self.session.call(&put, &action, Access::Write).await?;
        let claim: ClaimDocument = self.session.document(&response, &action)?;
        Ok((!claim.state.is_empty()).then(|| claim_from_wire(&claim)))
    }

    async fn release_volume(&self, request: &VolumeReleaseRequest) -> Result<usize, ApiError> {
        let key = &request.volume;
        let action = format!("release volume {}", key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let wait = go_duration(request.wait);
        let mut query = vec![
            ("namespace", key.namespace.as_str()),
            ("alloc", request.alloc.as_str()),
            ("wait", wait.as_str()),
        ];
        query.extend(request.alias.as_ref().map(|alias| ("alias", alias.as_str())));
        if request.cuts_off {
            query.push(("cuts_off", request.alloc.as_str()));
        }
        let path = ["volume", "csi", key.id.as_str(), "claim"];
        let delete = ApiRequest { query, ..ApiRequest::new(Method::DELETE, &path) };
        let response = self.session.call(&delete, &action, Access::Write).await?;
        let released: ReleaseResponse = self.session.document(&response, &action)?;
        Ok(released.remaining)
    }

    async fn volume_health(&self, volume: &NamespacedId) -> Result<VolumeHealth, ApiError> {
        let action = format!("read the health of volume {}", volume.quoted());
        check_addressable(volume.id.as_str(), &action)?;
        let path = ["volume", "csi", volume.id.as_str(), "health"];
        let get = ApiRequest {
            query: vec![("namespace", volume.namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        let response = self.session.call(&get, &action, Access::Read).await?;
        let document: VolumeHealthDocument = self.session.document(&response, &action)?;
        let statuses = document.health.iter().map(|status| {
            let node = (!status.node_id.is_empty()).then(|| NodeId::new(&status.node_id));
            (node, status_from_wire(status))
        });
        Ok(VolumeHealth { statuses: statuses.collect(), unknown: document.unknown })
    }

    async fn volume_stats(&self, volume: &NamespacedId) -> Result<PublishedStats, ApiError> {
        let action = format!("read the statistics of volume {}", volume.quoted());
        check_addressable(volume.id.as_str(), &action)?;
        let path = ["volume", "csi", volume.id.as_str(), "stats"];
        let get = ApiRequest {
            query: vec![("namespace", volume.namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        let response = self.session.call(&get, &action, Access::Read).await?;
        let document: PublishedStatsDocument = self.session.document(&response, &action)?;
        Ok(stats_from_wire(document))
    }

    async fn plugin_capacity(&self, plugin: &PluginId) -> Result<CapacityReport, ApiError> {
        let action = format!("read the capacity of plugin `{plugin}`");
        check_addressable(plugin.as_str(), &action)?;
        let path = ["plugin", "csi", plugin.as_str(), "capacity"];
        let get = ApiRequest::new(Method::GET, &path);
        let response = self.session.call(&get, &action, Access::Read).await?;
        let document: CapacityReportDocument = self.session.document(&response, &action)?;
        Ok(capacity_from_wire(&document))
    }

    async fn modify_volume(
        &self,
        volume: &NamespacedId,
        parameters: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, ApiError> {
        let action = format!("modify volume {}", volume.quoted());
        check_addressable(volume.id.as_str(), &action)?;
        let request = ModifyRequest {
            mutable_parameters: parameters
                .iter()
                .map(|(name, value)| (name.clone(), Some(value.clone())))
                .collect(),
        };
        let body = serde_json::to_vec(&request)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let path = ["volume", "csi", volume.id.as_str(), "modify"];
        let put = ApiRequest {
            query: vec![("namespace", volume.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &path)
        };
        let response = self.session.call(&put, &action, Access::Write).await?;
        let modified: ModifyResponse = self.session.document(&response, &action)?;
        Ok(modified.mutable_parameters)
    }

    async fn volume_history(
        &self,
        volume: &NamespacedId,
        limit: usize,
    ) -> Result<Vec<WithDocument<VolumeEvent>>, ApiError> {
        let action = format!("read the history of volume {}", volume.quoted());
        check_addressable(volume.id.as_str(), &action)?;
        let limit = limit.to_string();
        let query = [("namespace", volume.namespace.as_str()), ("per_page", limit.as_str())];
        let mut events = vec![];
        let add = |event, document| {
            events.push(WithDocument { value: event_from_wire(event), document });
        };
        let path = ["volume", "csi", volume.id.as_str(), "history"];
        self.session.list(&path, &query, &action, add).await?;
        Ok(events)
    }

    async fn list_creations(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<WithDocument<VolumeCreation>>, ApiError> {
        let query = [("namespace", namespace.as_str())];
        let mut creations = vec![];
        let add = |creation: CreationDocument, document| {
            creations.push(WithDocument { value: creation_from_wire(&creation), document });
        };
        let action = "list the creations that did not end";
        let path = ["volumes", "creations"];
        self.session.list(&path, &query, action, add).await?;
        Ok(creations)
    }

    async fn give_up_creation(&self, volume: &NamespacedId) -> Result<String, ApiError> {
        let action = format!("give up the creation of volume {}", volume.quoted());
        check_addressable(volume.id.as_str(), &action)?;
        let path = ["volume", "csi", volume.id.as_str(), "creation"];
        let delete = ApiRequest {
            query: vec![("namespace", volume.namespace.as_str())],
            ..ApiRequest::new(Method::DELETE, &path)
        };
        let response = self.session.call(&delete, &action, Access::Write).await?;
        let given_up: GivenUpDocument = self.session.document(&response, &action)?;
        Ok(given_up.provider_name)
    }

    async fn fence_node(&self, fence: &FenceRequest<'_>) -> Result<(), ApiError> {
        let FenceRequest { node, statement, cuts_off } = *fence;
        let mut query = vec![];
        query.extend(cuts_off.then(|| ("cuts_off", node.as_str())));
        query.extend(statement.map(|statement| ("statement", statement.word())));
        if statement == Some(FenceStatement::CutOffStorage { controllers_stopped: true }) {
            query.push(("controllers_stopped", "true"));
        }
        self.change_node(node, "fence", query).await
    }

    async fn unfence_node(&self, node: &NodeId) -> Result<(), ApiError> {
        self.change_node(node, "unfence", vec![]).await
    }
}

impl NomadClient {
    async fn change_node(
        &self,
        node: &NodeId,
        verb: &str,
        query: Vec<(&'static str, &str)>,
    ) -> Result<(), ApiError> {
        let action = format!("{verb} node `{node}`");
        check_addressable(node.as_str(), &action)?;
        let path = ["node", node.as_str(), verb];
        let put = ApiRequest { query, ..ApiRequest::new(Method::PUT, &path) };
        let changed = self.session.call(&put, &action, Access::Write).await;
        changed.map(drop)
    }
}

fn claim_to_wire(request: &VolumeClaimRequest) -> ClaimRequestDocument {
    fn text(given: Option<impl ToString>) -> String {
        given.map(|given| given.to_string()).unwrap_or_default()
    }
    ClaimRequestDocument {
        access_mode: text(request.access_mode),
        alias: text(request.alias.as_ref()),
        alloc_id: request.alloc.to_string(),
        attachment_mode: text(request.attachment_mode),
        mount_options: None,
        node_id: text(request.node.as_ref()),
        read_only: request.read_only,
        wait: go_duration(request.wait),
    }
}

fn event_from_wire(event: VolumeEventDocument) -> VolumeEvent {
    VolumeEvent { index: event.index, time: event.time, text: event.text }
}

fn go_duration(wait: std::time::Duration) -> String {
    format!("{}ms", wait.as_millis())
}
