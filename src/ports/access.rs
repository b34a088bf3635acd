//! What a token may do, as far as a server says.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::volume_api::ApiError;
use crate::model::Namespace;

/// Whose token it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenOwner {
    /// The server asks nobody who he is: everything is allowed.
    Anyone,
    /// A token that may do everything.
    Management {
        /// Its name.
        name: String,
    },
    /// A token with policies; without a token, the anonymous one.
    Client {
        /// Its name.
        name: String,
        /// Names of its policies, as far as they are its own and not its roles'.
        policies: BTreeSet<String>,
    },
    /// Not an ACL token but a workload's or a node's, of which the server does not say more
    /// (`nomad-neighbour-apis` 3.2).
    Workload,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its rules, as they were written: HCL or JSON.
    pub rules: String,
}

/// Reads what a token may do.
#[async_trait]
pub trait AccessReader: Send + Sync {
    /// Whose token it is that is sent.
    async fn token(&self) -> Result<TokenOwner, ApiError>;

    /// All policies that hold for the token, those of its roles too, by name. Empty where the server
    /// asks nobody who he is.
    async fn policies(&self) -> Result<Vec<Policy>, ApiError>;

    /// Names of all namespaces in which the token may do anything.
    async fn namespaces(&self) -> Result<BTreeSet<Namespace>, ApiError>;
}
