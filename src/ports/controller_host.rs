//! The agent beside a controller plugin, as the server sees it: attach and detach.
//!
//! The rules of a call lock are those of [`super::node_host`]. The controller calls of one volume are one
//! call lock, for all nodes: attach, detach, delete, expand and snapshot.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::host_error::HostError;
use super::node_host::CallOrder;
use nomad_csi_model::{ExternalNodeId, NamespacedId, PublishContext, RemoteVolume, Secrets, Usage};

/// Attach a volume to a node. Succeeds if it is attached already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerPublishRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
    /// The node, by the ID that the plugin gave it (B36).
    pub node: ExternalNodeId,
    /// How the volume is used.
    pub usage: Usage,
    /// True if the node only reads. The host sends it where the plugin advertises PUBLISH_READONLY.
    pub read_only: bool,
    /// The volume context.
    pub volume_context: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// Detach a volume from a node. Succeeds if it is not attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerUnpublishRequest {
    /// The volume.
    pub volume: RemoteVolume,
    /// Its registration, for events.
    pub name: NamespacedId,
    /// The node, by the ID that the plugin gave it (B36).
    pub node: ExternalNodeId,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// The host of controller plugins.
#[async_trait]
pub trait ControllerHost: Send + Sync {
    /// Attaches a volume, and returns what stage and publish must receive.
    async fn publish(
        &self,
        order: CallOrder,
        request: ControllerPublishRequest,
    ) -> Result<PublishContext, HostError>;

    /// Detaches a volume.
    async fn unpublish(
        &self,
        order: CallOrder,
        request: ControllerUnpublishRequest,
    ) -> Result<(), HostError>;
}
