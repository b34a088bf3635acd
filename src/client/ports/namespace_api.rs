//! Namespaces on a server, in the words of Nomad's API.

use async_trait::async_trait;

use super::volume_api::{ApiError, WithDocument};
use nomad_csi_model::Namespace;
use nomad_csi_wire::NamespaceDocument;

/// Reads, creates and deletes namespaces.
#[async_trait]
pub trait NamespaceApi: Send + Sync {
    /// Returns the namespaces that the token can see, sorted by name.
    async fn list_namespaces(&self) -> Result<Vec<WithDocument<NamespaceDocument>>, ApiError>;
    /// Returns a namespace; `None` if it does not exist.
    async fn read_namespace(&self, name: &Namespace)
    -> Result<Option<NamespaceDocument>, ApiError>;
    /// Creates a namespace with this description.
    async fn create_namespace(&self, name: &Namespace, description: &str) -> Result<(), ApiError>;
    /// Deletes a namespace, which must be empty.
    async fn delete_namespace(&self, name: &Namespace) -> Result<(), ApiError>;
}
