//! Claims, histories, health and statistics of volumes, creations that did not end, the capacity of providers, and nodes
//! that are lost: requests that only this program's agent answers.
//!
//! A caller checks [`super::volume_api::ServerKind`] first: Nomad has other objects at some of these
//! paths.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::volume_api::{ApiError, WithDocument};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, CapacityReport, FenceStatement, Namespace, NamespacedId,
    NodeId, PluginId, PublishedStats, VolumeAlias, VolumeClaim, VolumeCreation, VolumeEvent,
    VolumeHealth,
};

/// The claims to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimQuery {
    /// Those of one volume.
    Volume(NamespacedId),
    /// Those of all volumes in one namespace, or `*`.
    Namespace(Namespace),
}

/// A request to use a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaimRequest {
    /// The volume.
    pub volume: NamespacedId,
    /// The allocation.
    pub alloc: AllocId,
    /// The node; the allocation's or the only one if not given.
    pub node: Option<NodeId>,
    /// The name by which the allocation knows the volume; the volume's ID if not given.
    pub alias: Option<VolumeAlias>,
    /// True if the allocation only reads.
    pub read_only: bool,
    /// The access mode; that in force, or the first that fits, if not given.
    pub access_mode: Option<AccessMode>,
    /// The attachment mode; that in force, or the first that fits, if not given.
    pub attachment_mode: Option<AttachmentMode>,
    /// The longest time to wait until the volume is published.
    pub wait: Duration,
}

/// A request to give a volume back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeReleaseRequest {
    /// The volume.
    pub volume: NamespacedId,
    /// The allocation.
    pub alloc: AllocId,
    /// One name by which the allocation knows the volume; all of them if not given.
    pub alias: Option<VolumeAlias>,
    /// True if an operator approved that the tasks of the allocation lose the volume.
    pub cuts_off: bool,
    /// The longest time to wait until the claims are gone.
    pub wait: Duration,
}

/// A request to declare a node lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceRequest<'a> {
    /// The node.
    pub node: &'a NodeId,
    /// Why nothing writes there any more; `None` if an operator only cuts it off.
    pub statement: Option<FenceStatement>,
    /// True if an operator approved that what runs on a connected node is cut off.
    pub cuts_off: bool,
}

/// Claims and releases volumes, tells their histories, and declares nodes lost.
#[async_trait]
pub trait ClaimApi: Send + Sync {
    /// Returns the claims, sorted by volume and allocation.
    async fn list_claims(
        &self,
        query: &ClaimQuery,
    ) -> Result<Vec<WithDocument<VolumeClaim>>, ApiError>;
    /// Claims a volume, and returns the claim after the wait; `None` if it was released in the meantime. The
    /// same request again finds the same claim.
    async fn claim_volume(
        &self,
        request: &VolumeClaimRequest,
    ) -> Result<Option<VolumeClaim>, ApiError>;
    /// Releases an allocation's claims of a volume, and returns how many are left after the wait.
    async fn release_volume(&self, request: &VolumeReleaseRequest) -> Result<usize, ApiError>;
    /// Returns what the plugin reports about the health of a volume, if it reports health.
    async fn volume_health(&self, volume: &NamespacedId) -> Result<VolumeHealth, ApiError>;
    /// Returns what the plugin reports about the bytes and inodes of a volume, on the nodes where it is published.
    async fn volume_stats(&self, volume: &NamespacedId) -> Result<PublishedStats, ApiError>;
    /// Returns what the provider of a plugin can still provide, if the plugin reports that.
    async fn plugin_capacity(&self, plugin: &PluginId) -> Result<CapacityReport, ApiError>;
    /// Changes mutable parameters of a volume at its provider, and returns all that are in force.
    async fn modify_volume(
        &self,
        volume: &NamespacedId,
        parameters: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, ApiError>;
    /// Returns the newest events of a volume, at most `limit`, in order. A volume that does not exist any
    /// more may have some.
    async fn volume_history(
        &self,
        volume: &NamespacedId,
        limit: usize,
    ) -> Result<Vec<WithDocument<VolumeEvent>>, ApiError>;
    /// Returns the creations that did not end, in one namespace or `*`, sorted by volume.
    async fn list_creations(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<WithDocument<VolumeCreation>>, ApiError>;
    /// Gives up a creation that did not end. Returns the name of a volume that the provider may have.
    async fn give_up_creation(&self, volume: &NamespacedId) -> Result<String, ApiError>;
    /// Declares a node lost. `cuts_off`: also one that is up, whose tasks still run.
    async fn fence_node(&self, fence: &FenceRequest<'_>) -> Result<(), ApiError>;
    /// Lets a lost node be used again.
    async fn unfence_node(&self, node: &NodeId) -> Result<(), ApiError>;
}
