//! What a provider has: external volumes and snapshots (`nomad-http-api` 3.9, 3.10).
//!
//! No page size is asked for: a server cuts a page that a plugin made too long, and the plugin's
//! token is past what was cut off (W29). The plugin's own pages are followed by the token in the
//! body. Secrets of a list and of a delete go as a header, those of a create in the body.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;

use super::client::{NomadClient, secrets_header, unsendable, without};
use super::endpoint::Request;
use super::retrying::Access;
use crate::model::{ExternalVolume, Namespace, PluginId, Secrets, Snapshot, SnapshotId};
use crate::ports::{ApiError, ProviderReader, SnapshotApi, SnapshotRequest};
use crate::wire::{
    self, ExternalVolumesResponse, SecretsDocument, SnapshotDocument, SnapshotsRequest,
    SnapshotsResponse,
};

/// A list is a call of the plugin's controller, which has two minutes on each of its instances
/// (`nomad-http-api` 2.8).
const LIST: Duration = Duration::from_secs(5 * 60);

/// A list of which a plugin gives a part.
trait Page: DeserializeOwned {
    type Entry;
    /// The entries, and where the next part begins.
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
    async fn pages<P: Page>(
        &self,
        path: &[&str],
        query: &[(&'static str, &str)],
        headers: &HeaderMap,
        what: &str,
    ) -> Result<Vec<P::Entry>, ApiError> {
        let mut all = vec![];
        let mut tokens = HashSet::new();
        let mut token = String::new();
        loop {
            let mut page = Request {
                query: query.to_vec(),
                headers: headers.clone(),
                patience: Some(LIST),
                ..Request::new(Method::GET, path)
            };
            if !token.is_empty() {
                page.query.push(("next_token", &token));
            }
            let (page, _) = self.session.read::<P>(&page, what).await?;
            let (entries, next) = page.split();
            all.extend(entries);
            if next.is_empty() {
                return Ok(all);
            }
            if !tokens.insert(next.clone()) {
                return Err(self.session.endless(what));
            }
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
        let what = format!("the provider's volumes of plugin {plugin} could not be listed");
        let query = [
            ("plugin_id", plugin.as_str()),
            ("namespace", namespace.as_str()),
        ];
        let path = ["volumes", "external"];
        let listed = self
            .pages::<ExternalVolumesResponse>(&path, &query, &HeaderMap::new(), &what)
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
        let what = format!("the snapshots of plugin {plugin} could not be listed");
        let query = [
            ("plugin_id", plugin.as_str()),
            ("namespace", namespace.as_str()),
        ];
        let headers = secrets_header(secrets, &what)?;
        let listed = self
            .pages::<SnapshotsResponse>(&["volumes", "snapshot"], &query, &headers, &what)
            .await
            .map_err(|error| without(error, secrets))?;
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
        let SnapshotRequest {
            volume,
            plugin_id,
            name,
            parameters,
            secrets,
        } = request;
        let what = format!("the snapshot {name} of volume {volume} was not created");
        let document = SnapshotDocument {
            source_volume_id: volume.id.as_str().to_owned(),
            plugin_id: plugin_id.as_str().to_owned(),
            name: name.clone(),
            parameters: (!parameters.is_empty()).then(|| parameters.clone()),
            secrets: (!secrets.is_empty()).then(|| SecretsDocument(secrets.clone())),
            ..SnapshotDocument::default()
        };
        let body = SnapshotsRequest {
            snapshots: vec![Some(document)],
            ..SnapshotsRequest::default()
        };
        let body =
            serde_json::to_vec(&body).map_err(|error| unsendable(&what, &error.to_string()))?;
        let put = Request {
            query: vec![("namespace", volume.namespace.as_str())],
            body: Some(&body),
            ..Request::new(Method::PUT, &["volumes", "snapshot"])
        };
        let answer = self.session.call(&put, &what, Access::Write).await;
        let answer = answer.map_err(|error| without(error, secrets))?;
        let response: SnapshotsResponse = self.session.document(&answer, &what)?;
        let made = response.snapshots.unwrap_or_default();
        match made.first() {
            Some(made) => Ok(wire::snapshot_from_wire(made)),
            None => Err(self.session.another(&what, "no snapshot")),
        }
    }

    async fn delete_snapshot(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        id: &SnapshotId,
        secrets: &Secrets,
    ) -> Result<(), ApiError> {
        let what = format!("the snapshot {id} of plugin {plugin} was not deleted");
        let delete = Request {
            query: vec![
                ("plugin_id", plugin.as_str()),
                ("snapshot_id", id.as_str()),
                ("namespace", namespace.as_str()),
            ],
            headers: secrets_header(secrets, &what)?,
            ..Request::new(Method::DELETE, &["volumes", "snapshot"])
        };
        let deleted = self.session.call(&delete, &what, Access::Write).await;
        deleted.map(drop).map_err(|error| without(error, secrets))
    }
}
