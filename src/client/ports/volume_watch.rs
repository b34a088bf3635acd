//! Blocking queries for a server's volumes and other objects.

use std::time::Duration;

use async_trait::async_trait;

use super::volume_api::{ApiError, VolumeQuery, WithDocument};
use nomad_csi_model::{Namespace, NamespacedId, Volume, VolumeSummary};

/// The response to a blocking query.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchResponse<T> {
    /// The current value.
    pub value: T,
    /// The index for the next query. It is at least 1, because 0 would not block.
    pub index: u64,
    /// True if the value may have changed; `false` if the wait timed out.
    pub changed: bool,
}

/// The parameters of a blocking query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchRequest {
    /// [`WatchResponse::index`] of the previous response; `None` to get an immediate response.
    pub index: Option<u64>,
    /// The maximum wait. A server waits at most five minutes, plus up to a sixteenth as jitter.
    pub max_wait: Duration,
}

/// Waits for changes. A change of another volume or a server restart can end a wait too. The response
/// is always the current value, and `changed` is only a hint.
#[async_trait]
pub trait VolumeWatch: Send + Sync {
    /// Returns all matching volumes after a change or a timeout.
    async fn watch_volumes(
        &self,
        query: &VolumeQuery,
        wait: WatchRequest,
    ) -> Result<WatchResponse<Vec<WithDocument<VolumeSummary>>>, ApiError>;

    /// Returns one volume after a change or a timeout; `None` if it does not exist.
    async fn watch_volume(
        &self,
        key: &NamespacedId,
        wait: WatchRequest,
    ) -> Result<WatchResponse<Option<WithDocument<Volume>>>, ApiError>;
}

/// Objects of a server whose changes can be waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchTopic {
    /// The volumes of a namespace, or of all.
    Volumes(Namespace),
    /// The claims of a namespace, or of all. Only the agent has them.
    Claims(Namespace),
    /// The plugins.
    Plugins,
    /// The jobs of a namespace, or of all.
    Jobs(Namespace),
    /// The allocations of a namespace, or of all.
    Allocations(Namespace),
    /// The nodes.
    Nodes,
}

/// Waits for changes of objects without reading them.
#[async_trait]
pub trait TopicWatch: Send + Sync {
    /// Returns after a change of an object of the topic, or a timeout.
    async fn watch_topic(
        &self,
        topic: &WatchTopic,
        wait: WatchRequest,
    ) -> Result<WatchResponse<()>, ApiError>;
}
