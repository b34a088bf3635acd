//! The permissions of the token, from Nomad's ACL API.
//!
//! If ACLs are disabled, later servers respond with a token of that name and earlier ones with an
//! error.

use std::collections::BTreeSet;

use async_trait::async_trait;
use http::Method;

use super::client::NomadClient;
use super::request::ApiRequest;
use crate::ports::{AccessReader, ApiError, ClusterApi as _, Policy, TokenKind};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_wire::{PolicyDocument, TokenDocument};

#[async_trait]
impl AccessReader for NomadClient {
    async fn token(&self) -> Result<TokenKind, ApiError> {
        let get = ApiRequest::new(Method::GET, &["acl", "token", "self"]);
        let action = "read the ACL token";
        match self.session.read::<TokenDocument>(&get, action).await {
            Ok((token, _)) => Ok(token_owner(token)),
            Err(error) if error.code == Code::ApiAclDisabled => Ok(TokenKind::AclDisabled),
            Err(error) if error.code == Code::ApiUnknownToken && error.status == Some(404) => {
                Ok(TokenKind::Workload)
            }
            Err(error) if is_unknown_token(&error) && self.session.has_token() => Err(ApiError {
                code: Code::ApiUnknownToken,
                message: format!("cannot {action}: the server does not know the token"),
                help: vec![Code::ApiUnknownToken.advice().to_owned()],
                ..error
            }),
            Err(error) => Err(error),
        }
    }

    async fn policies(&self) -> Result<Vec<Policy>, ApiError> {
        let action = "read the token's policies";
        let mut names = BTreeSet::new();
        let add = |policy: PolicyDocument, _| {
            names.insert(policy.name);
        };
        let listed = self.session.list(&["acl", "policies"], &[], action, add);
        match listed.await {
            Ok(()) => {}
            Err(error) if error.code == Code::ApiAclDisabled => return Ok(vec![]),
            Err(error) => return Err(error),
        }
        let mut policies = vec![];
        for name in names {
            let path = ["acl", "policy", &name];
            let get = ApiRequest::new(Method::GET, &path);
            let found =
                self.session.find::<PolicyDocument>(&get, action, Code::AclPolicyNotFound).await?;
            policies
                .extend(found.map(|(policy, _)| Policy { name: policy.name, rules: policy.rules }));
        }
        Ok(policies)
    }

    async fn namespaces(&self) -> Result<BTreeSet<Namespace>, ApiError> {
        let listed = self.list_namespaces().await?;
        let names = listed.into_iter().map(|reading| reading.value.name);
        Ok(names.map(Namespace::new).collect())
    }
}

/// Returns whether the server refuses to show a token to its own bearer, which it does for unknown tokens only.
/// A proxy refuses in its own words.
fn is_unknown_token(error: &ApiError) -> bool {
    let text = error.server_text.as_deref().map(str::trim_end);
    error.status == Some(403) && text == Some("Permission denied")
}

fn token_owner(token: TokenDocument) -> TokenKind {
    let name = token.name;
    match (token.accessor_id.as_str(), token.kind.as_str()) {
        ("acls-disabled", _) => TokenKind::AclDisabled,
        ("anonymous", _) => TokenKind::Anonymous,
        (_, "management") => TokenKind::Management { name },
        _ => TokenKind::Client {
            name,
            policies: token.policies.unwrap_or_default().into_iter().collect(),
        },
    }
}
