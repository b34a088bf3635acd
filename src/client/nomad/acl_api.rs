//! Tokens and policies over the API.

use async_trait::async_trait;
use http::Method;
use serde::Serialize;
use serde_json::json;

use super::client::NomadClient;
use super::request::{ApiRequest, check_addressable, unsendable_request};
use super::retrying::Access;
use crate::ports::{AclApi, ApiError, Document, WithDocument};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_wire::{PolicyDocument, TokenDocument};

#[async_trait]
impl AclApi for NomadClient {
    async fn bootstrap_acl(&self) -> Result<WithDocument<TokenDocument>, ApiError> {
        let action = "bootstrap the ACL";
        self.write_acl(&["acl", "bootstrap"], &json!({}), action).await
    }

    async fn list_tokens(&self) -> Result<Vec<WithDocument<TokenDocument>>, ApiError> {
        let mut found: Vec<WithDocument<TokenDocument>> = vec![];
        let add = |value, document| found.push(WithDocument { value, document });
        self.session.list(&["acl", "tokens"], &[], "list the tokens", add).await?;
        found.sort_by(|a, b| a.value.accessor_id.cmp(&b.value.accessor_id));
        Ok(found)
    }

    async fn read_token(
        &self,
        accessor: &str,
    ) -> Result<Option<WithDocument<TokenDocument>>, ApiError> {
        let action = format!("read token `{accessor}`");
        check_addressable(accessor, &action)?;
        let path = ["acl", "token", accessor];
        let get = ApiRequest::new(Method::GET, &path);
        let missing = |error: &ApiError| {
            error.status == Some(404)
                && matches!(error.code, Code::AclTokenNotFound | Code::ApiUnknownToken)
        };
        match self.session.read::<TokenDocument>(&get, &action).await {
            Ok((value, document)) => Ok(Some(WithDocument { value, document })),
            Err(error) if missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn read_own_token(&self) -> Result<WithDocument<TokenDocument>, ApiError> {
        let get = ApiRequest::new(Method::GET, &["acl", "token", "self"]);
        let (value, document) = self.session.read(&get, "read the ACL token").await?;
        Ok(WithDocument { value, document })
    }

    async fn create_token(
        &self,
        token: &TokenDocument,
    ) -> Result<WithDocument<TokenDocument>, ApiError> {
        self.write_acl(&["acl", "token"], token, "create a token").await
    }

    async fn update_token(
        &self,
        token: &TokenDocument,
    ) -> Result<WithDocument<TokenDocument>, ApiError> {
        let accessor = token.accessor_id.as_str();
        let action = format!("update token `{accessor}`");
        check_addressable(accessor, &action)?;
        self.write_acl(&["acl", "token", accessor], token, &action).await
    }

    async fn delete_token(&self, accessor: &str) -> Result<(), ApiError> {
        self.delete_acl("token", accessor).await
    }

    async fn list_policies(&self) -> Result<Vec<WithDocument<PolicyDocument>>, ApiError> {
        let mut found: Vec<WithDocument<PolicyDocument>> = vec![];
        let add = |value, document| found.push(WithDocument { value, document });
        self.session.list(&["acl", "policies"], &[], "list the policies", add).await?;
        found.sort_by(|a, b| a.value.name.cmp(&b.value.name));
        Ok(found)
    }

    async fn read_policy(
        &self,
        name: &str,
    ) -> Result<Option<(PolicyDocument, Document)>, ApiError> {
        let action = format!("read policy `{name}`");
        check_addressable(name, &action)?;
        let path = ["acl", "policy", name];
        let get = ApiRequest::new(Method::GET, &path);
        self.session.find(&get, &action, Code::AclPolicyNotFound).await
    }

    async fn write_policy(&self, policy: &PolicyDocument) -> Result<(), ApiError> {
        let name = policy.name.as_str();
        let action = format!("write policy `{name}`");
        check_addressable(name, &action)?;
        let path = ["acl", "policy", name];
        let body = encoded(policy, &action)?;
        let put = ApiRequest { body: Some(&body), ..ApiRequest::new(Method::PUT, &path) };
        self.session.call(&put, &action, Access::Write).await?;
        Ok(())
    }

    async fn delete_policy(&self, name: &str) -> Result<(), ApiError> {
        self.delete_acl("policy", name).await
    }
}

impl NomadClient {
    async fn write_acl(
        &self,
        path: &[&str],
        document: &impl Serialize,
        action: &str,
    ) -> Result<WithDocument<TokenDocument>, ApiError> {
        let body = encoded(document, action)?;
        let put = ApiRequest { body: Some(&body), ..ApiRequest::new(Method::PUT, path) };
        let response = self.session.call(&put, action, Access::Write).await?;
        let value: TokenDocument = self.session.document(&response, action)?;
        let document = Document::of(&value);
        Ok(WithDocument { value, document })
    }

    async fn delete_acl(&self, kind: &str, name: &str) -> Result<(), ApiError> {
        let action = format!("delete {kind} `{name}`");
        check_addressable(name, &action)?;
        let path = ["acl", kind, name];
        self.session.call(&ApiRequest::new(Method::DELETE, &path), &action, Access::Write).await?;
        Ok(())
    }
}

fn encoded(document: &impl Serialize, action: &str) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(document).map_err(|error| unsendable_request(action, &error.to_string()))
}
