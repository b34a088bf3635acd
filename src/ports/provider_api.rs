//! What a server hands on to a provider beside volumes' lives: its own list of volumes, and snapshots.
//!
//! Nothing of this is kept by a server (`nomad-http-api` 3.9, 3.10): every call is one of a plugin's
//! controller and may take minutes. Plugins have no namespace; the one that goes along matters for
//! permissions only.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::volume_api::ApiError;
use crate::model::{
    ExternalVolume, Namespace, NamespacedId, PluginId, Secrets, Snapshot, SnapshotId,
};

/// Asks a provider, and can change nothing there.
#[async_trait]
pub trait ProviderReader: Send + Sync {
    /// All volumes that the plugin's provider has, through all pages, by external ID; one that two
    /// pages show is there once.
    async fn list_external_volumes(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
    ) -> Result<Vec<ExternalVolume>, ApiError>;

    /// All snapshots that the plugin's provider has, through all pages, the latest first. Secrets are
    /// sent as a header.
    async fn list_snapshots(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        secrets: &Secrets,
    ) -> Result<Vec<Snapshot>, ApiError>;
}

/// A snapshot to be cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// The volume.
    pub volume: NamespacedId,
    /// Its plugin.
    pub plugin_id: PluginId,
    /// What the snapshot is called; of one name a provider makes one snapshot.
    pub name: String,
    /// Opaque, the provider's.
    pub parameters: BTreeMap<String, String>,
    /// Overlay the volume's stored ones.
    pub secrets: Secrets,
}

/// Asks a provider, and has it cut and delete snapshots.
#[async_trait]
pub trait SnapshotApi: ProviderReader {
    /// Cuts a snapshot; of a name that is there already, the same one.
    async fn create_snapshot(&self, request: &SnapshotRequest) -> Result<Snapshot, ApiError>;

    /// Deletes a snapshot; one that is not there is no error for most plugins.
    async fn delete_snapshot(
        &self,
        plugin: &PluginId,
        namespace: &Namespace,
        id: &SnapshotId,
        secrets: &Secrets,
    ) -> Result<(), ApiError>;
}
