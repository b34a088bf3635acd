//! Tokens and policies of a server.

use async_trait::async_trait;

use super::document::Document;
use super::volume_api::{ApiError, WithDocument};
use nomad_csi_wire::{PolicyDocument, TokenDocument};

/// Manages the tokens and policies of a server.
#[async_trait]
pub trait AclApi: Send + Sync {
    /// Makes the first token, and returns it with its secret.
    async fn bootstrap_acl(&self) -> Result<WithDocument<TokenDocument>, ApiError>;
    /// Returns all tokens, sorted by accessor ID, without their secrets.
    async fn list_tokens(&self) -> Result<Vec<WithDocument<TokenDocument>>, ApiError>;
    /// Returns the token with this accessor ID; `None` if it does not exist.
    async fn read_token(
        &self,
        accessor: &str,
    ) -> Result<Option<WithDocument<TokenDocument>>, ApiError>;
    /// Returns the token that this client sends.
    async fn read_own_token(&self) -> Result<WithDocument<TokenDocument>, ApiError>;
    /// Makes a token, and returns it with its secret.
    async fn create_token(
        &self,
        token: &TokenDocument,
    ) -> Result<WithDocument<TokenDocument>, ApiError>;
    /// Changes the name, the type and the policies of a token.
    async fn update_token(
        &self,
        token: &TokenDocument,
    ) -> Result<WithDocument<TokenDocument>, ApiError>;
    /// Deletes a token.
    async fn delete_token(&self, accessor: &str) -> Result<(), ApiError>;
    /// Returns the policies that the token may read, sorted by name, without their rules.
    async fn list_policies(&self) -> Result<Vec<WithDocument<PolicyDocument>>, ApiError>;
    /// Returns a policy; `None` if it does not exist.
    async fn read_policy(&self, name: &str)
    -> Result<Option<(PolicyDocument, Document)>, ApiError>;
    /// Creates a policy, or changes it.
    async fn write_policy(&self, policy: &PolicyDocument) -> Result<(), ApiError>;
    /// Deletes a policy.
    async fn delete_policy(&self, name: &str) -> Result<(), ApiError>;
}
