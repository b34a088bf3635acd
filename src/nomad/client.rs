//! [`NomadClient`]: volumes and plugins over Nomad's HTTP API, be it a cluster's or our agent's.
//!
//! Every write is one request, sent at most once unless the server refused it before it did anything
//! (`nomad-http-api` 10.1 point 11). Namespaces go into the query and into the body, equal (point
//! 1). Lists are read page by page, filtered here again because servers ignore some of what they
//! are asked (3.1), and sorted. A secret that was sent is taken out of the words of an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use http::{HeaderMap, HeaderValue, Method};

use super::endpoint::Request;
use super::retrying::Access;
use super::session::Session;
use super::settings::Settings;
use super::version;
use crate::diagnostic::Code;
use crate::model::{
    IdProblem, MountOptions, Namespace, NamespacedId, NodeId, Plugin, PluginId, PluginSummary,
    Secrets, Volume, VolumeRequest, VolumeSummary,
};
use crate::ports::{
    AccessReader as _, ApiError, Reading, ServerKind, VolumeApi, VolumeQuery, VolumeReader, Written,
};
use crate::wire::{
    self, PluginDocument, PluginStub, SECRETS, VolumeDocument, VolumeStub, WriteKind, WriteRequest,
};

/// Volumes per page; servers before 1.3 answer all at once.
const PER_PAGE: &str = "2000";

/// A client of one server.
#[derive(Debug)]
pub struct NomadClient {
    pub(super) session: Arc<Session>,
    overrides_policies: bool,
}

impl NomadClient {
    /// A client with these settings. Nothing is read or opened before the first call.
    ///
    /// # Errors
    /// If the address is not one.
    pub fn new(settings: &Settings) -> Result<Self, ApiError> {
        Ok(Self {
            session: Arc::new(Session::new(settings)?),
            overrides_policies: false,
        })
    }

    /// The same client; what it creates and registers overrides the server's soft-mandatory policies
    /// (Nomad Enterprise, since 1.10.4), if that is said.
    #[must_use]
    pub fn overriding_policies(&self, overrides_policies: bool) -> Self {
        Self {
            session: Arc::clone(&self.session),
            overrides_policies,
        }
    }

    async fn write(&self, request: &VolumeRequest, kind: WriteKind) -> Result<Written, ApiError> {
        let key = request.key();
        let (done, path): (_, &[&str]) = match kind {
            WriteKind::Create => ("created", &["volume", "csi", key.id.as_str(), "create"]),
            WriteKind::Register => ("registered", &["volume", "csi", key.id.as_str()]),
        };
        let what = format!("volume {key} was not {done}");
        addressable(key.id.as_str(), &what)?;
        let volume = wire::request_to_wire(request, kind)
            .map_err(|error| unsendable(&what, &error.to_string()))?;
        let body = WriteRequest {
            volumes: vec![volume],
            policy_override: self.overrides_policies,
            ..WriteRequest::default()
        };
        let body =
            serde_json::to_vec(&body).map_err(|error| unsendable(&what, &error.to_string()))?;
        let put = Request {
            query: vec![("namespace", key.namespace.as_str())],
            body: Some(&body),
            ..Request::new(Method::PUT, path)
        };
        let written = self.session.write(&put, &what).await;
        written.map_err(|error| {
            let error = without_texts(error, flag_values(request.mount_options.as_ref()));
            match &request.secrets {
                Some(secrets) => without(error, secrets),
                None => error,
            }
        })
    }
}

#[async_trait]
impl VolumeReader for NomadClient {
    fn name(&self) -> &str {
        self.session.name()
    }

    async fn server(&self) -> Result<ServerKind, ApiError> {
        version::server(&self.session).await
    }

    async fn namespace_names(&self) -> Result<BTreeSet<Namespace>, ApiError> {
        self.namespaces().await
    }

    async fn list_volumes(
        &self,
        query: &VolumeQuery,
    ) -> Result<Vec<Reading<VolumeSummary>>, ApiError> {
        let mut parameters = list_parameters(query);
        parameters.push(("per_page", PER_PAGE));
        let what = "the volumes could not be listed";
        let listed = self
            .session
            .list::<VolumeStub>(&["volumes"], &parameters, what)
            .await?;
        let mut volumes = BTreeMap::new();
        for (stub, document) in listed {
            let value = wire::summary_from_wire(&stub);
            if wanted(query, &value) {
                let key = (value.namespace.clone(), value.id.clone());
                volumes.insert(key, Reading { value, document });
            }
        }
        Ok(volumes.into_values().collect())
    }

    async fn read_volume(&self, key: &NamespacedId) -> Result<Option<Reading<Volume>>, ApiError> {
        let what = format!("volume {key} could not be read");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str()];
        let get = Request {
            query: vec![("namespace", key.namespace.as_str())],
            ..Request::new(Method::GET, &path)
        };
        let found = self
            .session
            .find::<VolumeDocument>(&get, &what, Code::VolumeNotFound)
            .await?;
        let Some((volume, document)) = found else {
            return Ok(None);
        };
        if volume.id != key.id.as_str() {
            return Err(self.session.another(&what, &volume.id));
        }
        let value = wire::volume_from_wire(&volume);
        Ok(Some(Reading { value, document }))
    }

    async fn list_plugins(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<Reading<PluginSummary>>, ApiError> {
        let mut parameters = vec![("type", "csi")];
        parameters.extend(prefix.map(|prefix| ("prefix", prefix)));
        let what = "the plugins could not be listed";
        let listed = self
            .session
            .list::<PluginStub>(&["plugins"], &parameters, what)
            .await?;
        let mut plugins = BTreeMap::new();
        for (stub, document) in listed {
            let value = wire::plugin_summary_from_wire(&stub);
            if prefix.is_none_or(|prefix| value.id.as_str().starts_with(prefix)) {
                plugins.insert(value.id.clone(), Reading { value, document });
            }
        }
        Ok(plugins.into_values().collect())
    }

    async fn read_plugin(
        &self,
        id: &PluginId,
        namespace: &Namespace,
    ) -> Result<Option<Reading<Plugin>>, ApiError> {
        let what = format!("plugin {id} could not be read");
        addressable(id.as_str(), &what)?;
        let path = ["plugin", "csi", id.as_str()];
        let get = Request {
            query: vec![("namespace", namespace.as_str())],
            ..Request::new(Method::GET, &path)
        };
        let found = self
            .session
            .find::<PluginDocument>(&get, &what, Code::PluginNotFound)
            .await?;
        let Some((plugin, document)) = found else {
            return Ok(None);
        };
        if plugin.id != id.as_str() {
            return Err(self.session.another(&what, &plugin.id));
        }
        let value = wire::plugin_from_wire(&plugin);
        Ok(Some(Reading { value, document }))
    }
}

#[async_trait]
impl VolumeApi for NomadClient {
    async fn create_volume(&self, request: &VolumeRequest) -> Result<Written, ApiError> {
        self.write(request, WriteKind::Create).await
    }

    async fn register_volume(&self, request: &VolumeRequest) -> Result<Written, ApiError> {
        self.write(request, WriteKind::Register).await
    }

    async fn deregister_volume(&self, key: &NamespacedId, force: bool) -> Result<(), ApiError> {
        let what = format!("volume {key} was not deregistered");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str()];
        let force = if force { "true" } else { "false" };
        let delete = Request {
            query: vec![("namespace", key.namespace.as_str()), ("force", force)],
            ..Request::new(Method::DELETE, &path)
        };
        self.session
            .call(&delete, &what, Access::Write)
            .await
            .map(drop)
    }

    async fn delete_volume(&self, key: &NamespacedId, secrets: &Secrets) -> Result<(), ApiError> {
        let what = format!("volume {key} was not deleted");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str(), "delete"];
        let mut delete = Request {
            query: vec![("namespace", key.namespace.as_str())],
            ..Request::new(Method::DELETE, &path)
        };
        delete.headers = secrets_header(secrets, &what)?;
        let deleted = self.session.call(&delete, &what, Access::Write).await;
        deleted.map(drop).map_err(|error| without(error, secrets))
    }

    async fn detach_volume(&self, key: &NamespacedId, node: &NodeId) -> Result<(), ApiError> {
        let what = format!("volume {key} was not detached from node {node}");
        addressable(key.id.as_str(), &what)?;
        let path = ["volume", "csi", key.id.as_str(), "detach"];
        let delete = Request {
            query: vec![
                ("namespace", key.namespace.as_str()),
                ("node", node.as_str()),
            ],
            ..Request::new(Method::DELETE, &path)
        };
        self.session
            .call(&delete, &what, Access::Write)
            .await
            .map(drop)
    }
}

/// What a list of volumes is asked with.
pub(super) fn list_parameters(query: &VolumeQuery) -> Vec<(&'static str, &str)> {
    let mut parameters = vec![("type", "csi"), ("namespace", query.namespace.as_str())];
    match (&query.prefix, &query.plugin) {
        (Some(prefix), _) => parameters.push(("prefix", prefix)),
        // With `*` the server finds none, and beside `plugin_id` it ignores a prefix (3.1).
        (None, Some(plugin)) if query.namespace.as_str() != Namespace::ALL => {
            parameters.push(("plugin_id", plugin.as_str()));
        }
        (None, _) => {}
    }
    parameters
}

pub(super) fn wanted(query: &VolumeQuery, volume: &VolumeSummary) -> bool {
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let all = query.namespace.as_str() == Namespace::ALL;
    let plugin = query.plugin.as_ref();
    volume.id.as_str().starts_with(prefix)
        && (all || volume.namespace == query.namespace)
        && plugin.is_none_or(|plugin| volume.plugin_id == *plugin)
}

/// Refuses an ID that the server would take for another path (section 1).
pub(super) fn addressable(id: &str, what: &str) -> Result<(), ApiError> {
    let problem = match id {
        "" => IdProblem::Empty,
        "." | ".." => IdProblem::DotSegment,
        id if id.contains('/') => IdProblem::Unaddressable('/'),
        _ => return Ok(()),
    };
    Err(ApiError {
        code: Code::VolumeUnaddressable,
        status: None,
        message: format!("{what}: its ID cannot be used: {problem}"),
        help: vec![],
        server_text: None,
    })
}

/// The header that carries secrets; none if there are none (`nomad-http-api` 2.4).
pub(super) fn secrets_header(secrets: &Secrets, what: &str) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    if !secrets.is_empty() {
        let header =
            wire::secrets_header(secrets).map_err(|error| unsendable(what, &error.to_string()))?;
        let mut value = HeaderValue::from_bytes(header.as_bytes())
            .map_err(|error| unsendable(what, &error.to_string()))?;
        value.set_sensitive(true);
        headers.insert(SECRETS, value);
    }
    Ok(headers)
}

pub(super) fn unsendable(what: &str, why: &str) -> ApiError {
    ApiError {
        code: Code::ApiUnsendable,
        status: None,
        message: format!("{what}: {why}"),
        help: vec![],
        server_text: None,
    }
}

/// An error without the secrets that were sent: plugins repeat them.
pub(super) fn without(error: ApiError, secrets: &Secrets) -> ApiError {
    without_texts(error, secrets.expose().map(|(_, value)| value))
}

/// What is secret of mount options: of `password=…` the value.
fn flag_values(options: Option<&MountOptions>) -> impl Iterator<Item = &str> {
    let flags = options.into_iter().flat_map(|options| &options.mount_flags);
    flags.filter_map(|flag| flag.split_once('=').map(|(_, value)| value))
}

/// An error without these texts. Very short ones stay: taking them out would only mangle the words.
pub(super) fn without_texts<'s>(
    mut error: ApiError,
    texts: impl IntoIterator<Item = &'s str>,
) -> ApiError {
    const SHORTEST: usize = 4;
    for secret in texts.into_iter().filter(|value| value.len() >= SHORTEST) {
        let hide = |text: &mut String| *text = text.replace(secret, MountOptions::REDACTED);
        hide(&mut error.message);
        error.help.iter_mut().for_each(hide);
        error.server_text.iter_mut().for_each(hide);
    }
    error
}
