//! Requests that a server forwards to a provider: its list of volumes, and snapshots.
//!
//! A server stores none of this. Every call reaches a plugin's controller and may take minutes.
//! Plugins have no namespace; the namespace in a request only selects permissions.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::volume_api::ApiError;
use nomad_csi_model::{
    ExternalVolume, Namespace, NamespacedId, PluginId, Secrets, Snapshot, SnapshotId,
};

/// Reads from a provider.
#[async_trait]
pub trait ProviderReader: Send + Sync {
    /// Returns all volumes of the provider from all pages, sorted by external ID, without duplicates.
    async fn list_external_volumes(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
    ) -> Result<Vec<ExternalVolume>, ApiError>;

    /// Returns all snapshots of the provider from all pages, newest first. Secrets are sent in a
    /// header.
    async fn list_snapshots(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        secrets: &Secrets,
    ) -> Result<Vec<Snapshot>, ApiError>;
}

/// The request to create a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The volume of the snapshot.
    pub volume: NamespacedId,
    /// The plugin of the volume.
    pub plugin_id: PluginId,
    /// The name of the snapshot, unique at a provider.
    pub name: String,
    /// The provider's parameters, opaque.
    pub parameters: BTreeMap<String, String>,
    /// Secrets that override the volume's stored ones.
    pub secrets: Secrets,
}

/// Creates and deletes snapshots at a provider.
#[async_trait]
pub trait SnapshotApi: ProviderReader {
    /// Creates a snapshot, or returns the existing one of this name.
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshot, ApiError>;

    /// Deletes a snapshot. Most plugins succeed if it does not exist.
    async fn delete_snapshot(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        id: &SnapshotId,
        secrets: &Secrets,
    ) -> Result<(), ApiError>;
}
