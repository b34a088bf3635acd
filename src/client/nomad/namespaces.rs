//! Namespaces over HTTP.

use async_trait::async_trait;
use http::Method;
use serde_json::json;

use super::client::NomadClient;
use super::request::{ApiRequest, check_addressable, unsendable_request};
use super::retrying::Access;
use crate::ports::{ApiError, NamespaceApi, WithDocument};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_wire::NamespaceDocument;

#[async_trait]
impl NamespaceApi for NomadClient {
    async fn list_namespaces(&self) -> Result<Vec<WithDocument<NamespaceDocument>>, ApiError> {
        let mut found: Vec<WithDocument<NamespaceDocument>> = vec![];
        let add = |value, document| found.push(WithDocument { value, document });
        let action = "list the namespaces";
        self.session.list(&["namespaces"], &[], action, add).await?;
        found.sort_by(|a, b| a.value.name.cmp(&b.value.name));
        Ok(found)
    }

    async fn read_namespace(
        &self,
        name: &Namespace,
    ) -> Result<Option<NamespaceDocument>, ApiError> {
        let action = format!("read namespace `{name}`");
        check_addressable(name.as_str(), &action)?;
        let path = ["namespace", name.as_str()];
        let get = ApiRequest::new(Method::GET, &path);
        let found =
            self.session.find::<NamespaceDocument>(&get, &action, Code::NamespaceUnknown).await?;
        Ok(found.map(|(value, _)| value))
    }

    async fn create_namespace(&self, name: &Namespace, description: &str) -> Result<(), ApiError> {
        let action = format!("create namespace `{name}`");
        let document = json!({"Name": name.as_str(), "Description": description});
        let body = serde_json::to_vec(&document)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let put = ApiRequest { body: Some(&body), ..ApiRequest::new(Method::PUT, &["namespace"]) };
        self.session.call(&put, &action, Access::Write).await?;
        Ok(())
    }

    async fn delete_namespace(&self, name: &Namespace) -> Result<(), ApiError> {
        let action = format!("delete namespace `{name}`");
        check_addressable(name.as_str(), &action)?;
        let path = ["namespace", name.as_str()];
        let delete = ApiRequest::new(Method::DELETE, &path);
        self.session.call(&delete, &action, Access::Write).await?;
        Ok(())
    }
}
