//! What the token may do (`nomad-neighbour-apis` 3.2, 3.3, 4.3).
//!
//! Servers differ in how they say that they ask nobody who he is: later ones answer with a token of
//! that name, earlier ones with an error.

use std::collections::BTreeSet;

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::endpoint::Request;
use crate::diagnostic::Code;
use crate::model::Namespace;
use crate::ports::{AccessReader, ApiError, Policy, TokenOwner};
use crate::wire::{NamespaceDocument, PolicyDocument, TokenDocument};

#[async_trait]
impl AccessReader for NomadClient {
    async fn token(&self) -> Result<TokenOwner, ApiError> {
        let get = Request::new(Method::GET, &["acl", "token", "self"]);
        let what = "what the token may do could not be read";
        match self.session.read::<TokenDocument>(&get, what).await {
            Ok((token, _)) => Ok(owner(token)),
            Err(error) if error.code == Code::ApiAclDisabled => Ok(TokenOwner::Anyone),
            Err(error) if error.code == Code::ApiUnknownToken && error.status == Some(404) => {
                Ok(TokenOwner::Workload)
            }
            Err(error) => Err(error),
        }
    }

    async fn policies(&self) -> Result<Vec<Policy>, ApiError> {
        let what = "the token's policies could not be read";
        let listed = self
            .session
            .list::<PolicyDocument>(&["acl", "policies"], &[], what)
            .await;
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) if error.code == Code::ApiAclDisabled => return Ok(vec![]),
            Err(error) => return Err(error),
        };
        let names: BTreeSet<String> = listed.into_iter().map(|(policy, _)| policy.name).collect();
        let mut policies = vec![];
        for name in names {
            let path = ["acl", "policy", &name];
            let get = Request::new(Method::GET, &path);
            let found = self
                .session
                .find::<PolicyDocument>(&get, what, Code::AclPolicyNotFound)
                .await?;
            policies.extend(found.map(|(policy, _)| Policy {
                name: policy.name,
                rules: policy.rules,
            }));
        }
        Ok(policies)
    }

    async fn namespaces(&self) -> Result<BTreeSet<Namespace>, ApiError> {
        let what = "the namespaces could not be listed";
        let listed = self
            .session
            .list::<NamespaceDocument>(&["namespaces"], &[], what)
            .await?;
        let name = |(namespace, _): (NamespaceDocument, _)| Namespace::new(namespace.name);
        Ok(listed.into_iter().map(name).collect())
    }
}

fn owner(token: TokenDocument) -> TokenOwner {
    let name = token.name;
    match (token.accessor_id.as_str(), token.kind.as_str()) {
        ("acls-disabled", _) => TokenOwner::Anyone,
        (_, "management") => TokenOwner::Management { name },
        _ => TokenOwner::Client {
            name,
            policies: token.policies.unwrap_or_default().into_iter().collect(),
        },
    }
}
