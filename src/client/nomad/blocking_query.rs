//! Blocking queries: the server delays its response until something changes.
//!
//! A server waits for at most the requested time plus a random part of up to one sixteenth, and the
//! client waits slightly longer. Index 0 would not block and becomes 1. An index that decreases
//! means that the server's state was restored, and the wait continues from the new index. Blocking
//! queries have no pages, because a server would delay every page.

use std::time::Duration;

use async_trait::async_trait;
use http::{HeaderMap, Method};

use super::client::{ListedVolumes, NomadClient, add_volume, list_parameters};
use super::request::{ApiRequest, check_addressable};
use super::retrying::Access;
use crate::ports::{
    ApiError, TopicWatch, VolumeQuery, VolumeWatch, WatchRequest, WatchResponse, WatchTopic,
    WithDocument,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{NamespacedId, Volume, VolumeSummary};
use nomad_csi_wire::{self as wire, INDEX, VolumeDocument, VolumeStub};

/// Limit of a server's wait.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Time for the response itself, after the wait.
const RESPONSE_MARGIN: Duration = Duration::from_secs(60);

/// The parameters of one blocking query.
struct BlockingQuery {
    index: Option<String>,
    wait: String,
    timeout: Duration,
}

impl BlockingQuery {
    fn new(wait: WatchRequest) -> Self {
        let limit = wait.max_wait.min(MAX_WAIT);
        let held = match wait.index {
            Some(_) => limit + limit / 16,
            None => Duration::ZERO,
        };
        Self {
            index: wait.index.map(|index| index.max(1).to_string()),
            wait: format!("{}ms", limit.as_millis()),
            timeout: held + RESPONSE_MARGIN,
        }
    }

    fn add_to<'a>(&'a self, request: &mut ApiRequest<'a>) {
        if let Some(index) = &self.index {
            request.query.push(("index", index));
            request.query.push(("wait", &self.wait));
        }
        request.timeout = Some(self.timeout);
    }
}

/// Adds the index of a response to its value.
fn with_index<T>(value: T, headers: &HeaderMap, wait: WatchRequest) -> WatchResponse<T> {
    let index = headers.get(INDEX).and_then(|index| index.to_str().ok());
    let index = index.and_then(|index| index.trim().parse().ok());
    let index = index.unwrap_or(1_u64).max(1);
    WatchResponse { value, index, changed: wait.index.is_none_or(|before| before.max(1) != index) }
}

#[async_trait]
impl VolumeWatch for NomadClient {
    async fn watch_volumes(
        &self,
        query: &VolumeQuery,
        wait: WatchRequest,
    ) -> Result<WatchResponse<Vec<WithDocument<VolumeSummary>>>, ApiError> {
        let blocking = BlockingQuery::new(wait);
        let mut get = ApiRequest {
            query: list_parameters(query),
            ..ApiRequest::new(Method::GET, &["volumes"])
        };
        blocking.add_to(&mut get);
        let action = "watch the volumes";
        let mut volumes = ListedVolumes::new();
        let add = |stub: VolumeStub, document| add_volume(&mut volumes, query, &stub, document);
        let headers = self.session.list_once(&get, action, add).await?;
        Ok(with_index(volumes.into_values().collect(), &headers, wait))
    }

    async fn watch_volume(
        &self,
        key: &NamespacedId,
        wait: WatchRequest,
    ) -> Result<WatchResponse<Option<WithDocument<Volume>>>, ApiError> {
        let action = format!("watch volume {key}", key = key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let blocking = BlockingQuery::new(wait);
        let path = ["volume", "csi", key.id.as_str()];
        let mut get = ApiRequest {
            query: vec![("namespace", key.namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        blocking.add_to(&mut get);
        let (found, headers) = self
            .session
            .find_with_headers::<VolumeDocument>(&get, &action, Code::VolumeNotFound)
            .await?;
        let value = match found {
            Some((volume, _)) if volume.id != key.id.as_str() => {
                return Err(self.session.unexpected_object(&action, &volume.id));
            }
            Some((volume, document)) => {
                Some(WithDocument { value: wire::volume_from_wire(&volume), document })
            }
            None => None,
        };
        Ok(with_index(value, &headers, wait))
    }
}

#[async_trait]
impl TopicWatch for NomadClient {
    async fn watch_topic(
        &self,
        topic: &WatchTopic,
        wait: WatchRequest,
    ) -> Result<WatchResponse<()>, ApiError> {
        let blocking = BlockingQuery::new(wait);
        let csi = ("type", "csi");
        let (path, query): (&[&str], _) = match topic {
            WatchTopic::Volumes(scope) => (&["volumes"], vec![csi, ("namespace", scope.as_str())]),
            WatchTopic::Claims(scope) => {
                (&["volumes", "claims"], vec![csi, ("namespace", scope.as_str())])
            }
            WatchTopic::Plugins => (&["plugins"], vec![csi]),
            WatchTopic::Jobs(scope) => (&["jobs"], vec![("namespace", scope.as_str())]),
            WatchTopic::Allocations(scope) => {
                (&["allocations"], vec![("namespace", scope.as_str())])
            }
            WatchTopic::Nodes => (&["nodes"], vec![]),
        };
        let mut get = ApiRequest { query, ..ApiRequest::new(Method::GET, path) };
        // Only the index counts, which is that of the whole list.
        get.query.push(("per_page", "1"));
        blocking.add_to(&mut get);
        let response = self.session.call(&get, "wait for a change", Access::Read).await?;
        Ok(with_index((), &response.headers, wait))
    }
}
