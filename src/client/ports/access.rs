//! The permissions of a token, as a server reports them.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::volume_api::ApiError;
use nomad_csi_model::Namespace;

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// ACLs are off: every request is allowed.
    AclDisabled,
    /// A management token, which may do everything.
    Management {
        /// The token's name.
        name: String,
    },
    /// No token: the policy named `anonymous` applies, if it exists.
    Anonymous,
    /// A token with policies.
    Client {
        /// The token's name.
        name: String,
        /// Names of the token's own policies, without those of its roles.
        policies: BTreeSet<String>,
    },
    /// The token of a workload or a node. The server reports nothing else about it.
    Workload,
}

/// An ACL policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The policy's name.
    pub name: String,
    /// The rules as they were written, in HCL or JSON.
    pub rules: String,
}

/// Reads the permissions of a token.
#[async_trait]
pub trait AccessReader: Send + Sync {
    /// Returns the kind of the token that this client sends.
    async fn token(&self) -> Result<TokenKind, ApiError>;

    /// Returns all policies of the token, including those of its roles, sorted by name. Empty if
    /// ACLs are off.
    async fn policies(&self) -> Result<Vec<Policy>, ApiError>;

    /// Returns the names of all namespaces in which the token has any permission.
    async fn namespaces(&self) -> Result<BTreeSet<Namespace>, ApiError>;
}
