//! External volumes and snapshots of a provider, through Nomad's volume API.
//!
//! Requests set no page size: Nomad truncates a page that a plugin made too long, and the plugin's
//! token then skips the rest (W29). The token in the body leads to the plugin's next page. Secrets
//! of a list and of a delete are sent as a header, those of a create in the body.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use super::client::NomadClient;
use super::redaction::redact_secrets;
use super::request::{ApiRequest, secrets_header, unsendable_request};
use super::retrying::Access;
use crate::ports::{ApiError, ProviderReader, SnapshotApi, SnapshotRequest};
use nomad_csi_model::{ExternalVolume, Namespace, PluginId, Secrets, Snapshot, SnapshotId};
use nomad_csi_wire::{
    self as wire, ExternalVolumesResponse, SecretsDocument, SnapshotDocument, SnapshotsRequest,
    SnapshotsResponse,
};

/// Limit of a list: Nomad gives each instance of the plugin's controller two minutes, the agent five
/// minutes to all of them.
const LIST_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// One page of a plugin's list.
trait Page: DeserializeOwned {
    type Entry;
    /// Returns the entries and the token of the next page.
    fn split(self) -> (Vec<Self::Entry>, String);
}

impl Page for ExternalVolumesResponse {
    type Entry = wire::ExternalVolumeDocument;
    fn split(self) -> (Vec<Self::Entry>, String) {
        (self.volumes, self.next_token)
    }
}

impl Page for SnapshotsResponse {
    type Entry = SnapshotDocument;
    fn split(self) -> (Vec<Self::Entry>, String) {
        (self.snapshots.unwrap_or_default(), self.next_token)
    }
}

impl NomadClient {
    async fn read_pages<P: Page>(
        &self,
        path: &[&str],
        query: &[(&'static str, &str)],
        headers: &HeaderMap,
        action: &str,
    ) -> Result<Vec<P::Entry>, ApiError> {
        let context = self.session.reading(action);
        let mut budget = self.session.list_budget();
        let mut all = vec![];
        let mut token = String::new();
        loop {
            let mut page = ApiRequest {
                query: query.to_vec(),
                headers: headers.clone(),
                timeout: Some(LIST_TIMEOUT),
                ..ApiRequest::new(Method::GET, path)
            };
            if !token.is_empty() {
                page.query.push(("next_token", &token));
            }
            let (page, document) = self.session.read::<P>(&page, action).await?;
            budget.page(document.text().len(), context)?;
            let (entries, next) = page.split();
            for entry in entries {
                budget.item(context)?;
                all.push(entry);
            }
            if next.is_empty() {
                return Ok(all);
            }
            budget.next(&next, context)?;
            token = next;
        }
    }
}

#[async_trait]
impl ProviderReader for NomadClient {
    async fn list_external_volumes(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
    ) -> Result<Vec<ExternalVolume>, ApiError> {
        let action = format!("list the external volumes of plugin `{plugin}`");
        let query = [("plugin_id", plugin.as_str()), ("namespace", namespace.as_str())];
        let path = ["volumes", "external"];
        let listed = self
            .read_pages::<ExternalVolumesResponse>(&path, &query, &HeaderMap::new(), &action)
            .await?;
        let mut volumes = BTreeMap::new();
        for volume in listed.iter().map(wire::external_volume_from_wire) {
            volumes.insert(volume.external_id.clone(), volume);
        }
        Ok(volumes.into_values().collect())
    }

    async fn list_snapshots(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        secrets: &Secrets,
    ) -> Result<Vec<Snapshot>, ApiError> {
        let action = format!("list the snapshots of plugin `{plugin}`");
        let query = [("plugin_id", plugin.as_str()), ("namespace", namespace.as_str())];
        let headers = secrets_header(secrets, &action)?;
        let listed = self
            .read_pages::<SnapshotsResponse>(&["volumes", "snapshot"], &query, &headers, &action)
            .await
            .map_err(|error| redact_secrets(error, secrets))?;
        let mut snapshots = BTreeMap::new();
        for snapshot in listed.iter().map(wire::snapshot_from_wire) {
            snapshots.insert(snapshot.id.clone(), snapshot);
        }
        let mut snapshots: Vec<Snapshot> = snapshots.into_values().collect();
        snapshots.sort_by_key(|snapshot| std::cmp::Reverse(snapshot.create_time));
        Ok(snapshots)
    }
}

#[async_trait]
impl SnapshotApi for NomadClient {
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshot, ApiError> {
        let SnapshotRequest { volume, plugin_id, name, parameters, secrets } = request;
        let action =
            format!("create snapshot `{name}` of volume {volume}", volume = volume.quoted());
        let document = SnapshotDocument {
            source_volume_id: volume.id.as_str().to_owned(),
            plugin_id: plugin_id.as_str().to_owned(),
            name: name.clone(),
            parameters: (!parameters.is_empty()).then(|| parameters.clone()),
            secrets: (!secrets.is_empty()).then(|| SecretsDocument(secrets.clone())),
            ..SnapshotDocument::default()
        };
        let body =
            SnapshotsRequest { snapshots: vec![Some(document)], ..SnapshotsRequest::default() };
        let body = serde_json::to_vec(&body)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let put = ApiRequest {
            query: vec![("namespace", volume.namespace.as_str())],
            body: Some(&body),
            ..ApiRequest::new(Method::PUT, &["volumes", "snapshot"])
        };
        let response = self.session.call(&put, &action, Access::Write).await;
        let response = response.map_err(|error| redact_secrets(error, secrets))?;
        let body: SnapshotsResponse = self.session.document(&response, &action)?;
        let created = body.snapshots.unwrap_or_default();
        match created.first() {
            Some(snapshot) => Ok(wire::snapshot_from_wire(snapshot)),
            None => Err(self.session.unexpected_object(&action, "no snapshot")),
        }
    }

    async fn delete_snapshot(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        id: &SnapshotId,
        secrets: &Secrets,
    ) -> Result<(), ApiError> {
        let action = format!("delete snapshot `{id}` of plugin `{plugin}`");
        let delete = ApiRequest {
            query: vec![
                ("plugin_id", plugin.as_str()),
                ("snapshot_id", id.as_str()),
                ("namespace", namespace.as_str()),
            ],
            headers: secrets_header(secrets, &action)?,
            ..ApiRequest::new(Method::DELETE, &["volumes", "snapshot"])
        };
        let deleted = self.session.call(&delete, &action, Access::Write).await;
        deleted.map(drop).map_err(|error| redact_secrets(error, secrets))
    }
}
