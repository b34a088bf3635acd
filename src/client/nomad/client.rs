//! [`NomadClient`]: volumes and plugins over the HTTP API of a cluster or of the embedded agent.
//!
//! A write is one request. It is repeated only if the server refused it before acting on it. The
//! query and the body carry the same namespace. Lists are read page by page, filtered again because
//! servers ignore some filters, and sorted. Secrets of a request are removed from its error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;
use http::Method;

use super::redaction::{mount_flag_values, redact_secrets, redact_texts};
use super::request::{ApiRequest, check_addressable, secrets_header, unsendable_request};
use super::retrying::Access;
use super::session::Session;
use super::settings::ClientSettings;
use crate::ports::{
    AccessReader as _, ApiError, Document, ServerKind, ServerWait, VolumeApi, VolumeQuery,
    VolumeReader, WithDocument, WriteReply,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    Namespace, NamespacedId, NodeId, Plugin, PluginId, PluginSummary, Secrets, ServerVersion,
    Volume, VolumeId, VolumeRequest, VolumeSummary,
};
use nomad_csi_wire::{
    self as wire, AGENT, AgentSelf, PluginDocument, PluginStub, VolumeDocument, VolumeStub,
    WriteKind, WriteRequest,
};

/// Volumes per page. Nomad before 1.3 sends all of them in one response.
const PER_PAGE: &str = "2000";

/// A client of one server.
#[derive(Debug)]
pub struct NomadClient {
    pub(super) session: Arc<Session>,
    overrides_policies: bool,
}

impl NomadClient {
    /// Returns a client with these settings. It connects with the first request.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn new(settings: &ClientSettings) -> Result<Self, ApiError> {
        Ok(Self { session: Arc::new(Session::new(settings)?), overrides_policies: false })
    }

    /// Returns the same client, which overrides soft-mandatory Sentinel policies if `true` (Nomad
    /// Enterprise 1.10.4 and later).
    #[must_use]
    pub fn overriding_policies(&self, overrides_policies: bool) -> Self {
        Self { session: Arc::clone(&self.session), overrides_policies }
    }

    /// Returns the same client, whose requests wait together when the server stops responding.
    #[must_use]
    pub fn waiting(&self, wait: ServerWait) -> Self {
        Self {
            session: Arc::new(self.session.waiting(wait)),
            overrides_policies: self.overrides_policies,
        }
    }

    async fn write(
        &self,
        request: &VolumeRequest,
        kind: WriteKind,
    ) -> Result<WriteReply, ApiError> {
        let key = request.key();
        let (verb, path): (_, &[&str]) = match kind {
            WriteKind::Create => ("create", &["volume", "csi", key.id.as_str(), "create"]),
            WriteKind::Register => ("register", &["volume", "csi", key.id.as_str()]),
        };
        let action = format!("{verb} volume {key}", key = key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let volume = wire::request_to_wire(request, kind)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let body = WriteRequest {
            volumes: vec![volume],
            policy_override: self.overrides_policies,
            ..WriteRequest::default()
        };
        let body = serde_json::to_vec(&body)
            .map_err(|error| unsendable_request(&action, &error.to_string()))?;
        let mut query = vec![("namespace", key.namespace.as_str())];
        // Nomad never asks: it registers the same data twice.
        if request.share && self.server().await? == ServerKind::Agent {
            query.push(("share", "true"));
        }
        let put = ApiRequest { query, body: Some(&body), ..ApiRequest::new(Method::PUT, path) };
        let written = self.session.write(&put, &action).await;
        written.map_err(|error| {
            let error = redact_texts(error, mount_flag_values(request.mount_options.as_ref()));
            match &request.secrets {
                Some(secrets) => redact_secrets(error, secrets),
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

    fn has_recovered(&self) -> bool {
        self.session.has_recovered()
    }

    async fn is_agent(&self) -> Result<bool, ApiError> {
        read_is_agent(&self.session, "read whether the server is an agent").await
    }

    async fn server(&self) -> Result<ServerKind, ApiError> {
        read_server_kind(&self.session).await
    }

    async fn namespace_names(&self) -> Result<BTreeSet<Namespace>, ApiError> {
        self.namespaces().await
    }

    async fn list_volumes(
        &self,
        query: &VolumeQuery,
    ) -> Result<Vec<WithDocument<VolumeSummary>>, ApiError> {
        let mut parameters = list_parameters(query);
        parameters.push(("per_page", PER_PAGE));
        let action = "list the volumes";
        let mut volumes = BTreeMap::new();
        let add = |stub: VolumeStub, document| add_volume(&mut volumes, query, &stub, document);
        let listed = self.session.list(&["volumes"], &parameters, action, add);
        listed.await?;
        Ok(volumes.into_values().collect())
    }

    async fn summarize_volumes(
        &self,
        namespace: &Namespace,
        limit: usize,
    ) -> Result<Option<Vec<VolumeSummary>>, ApiError> {
        let query = VolumeQuery::of_namespace(namespace.clone());
        let mut parameters = list_parameters(&query);
        parameters.push(("per_page", PER_PAGE));
        let action = "list the volumes";
        let mut volumes = BTreeMap::new();
        let add = |stub: VolumeStub, _| {
            let volume = wire::summary_from_wire(&stub);
            if volume.namespace == *namespace {
                volumes.insert(volume.key(), volume);
            }
        };
        let listed = self.session.list_at_most(&["volumes"], &parameters, action, limit, add);
        let is_whole = listed.await?;
        Ok(is_whole.then(|| volumes.into_values().collect()))
    }

    async fn read_volume(
        &self,
        key: &NamespacedId,
    ) -> Result<Option<WithDocument<Volume>>, ApiError> {
        let action = format!("read volume {key}", key = key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let path = ["volume", "csi", key.id.as_str()];
        let get = ApiRequest {
            query: vec![("namespace", key.namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        let found =
            self.session.find::<VolumeDocument>(&get, &action, Code::VolumeNotFound).await?;
        let Some((volume, document)) = found else {
            return Ok(None);
        };
        if volume.id != key.id.as_str() {
            return Err(self.session.unexpected_object(&action, &volume.id));
        }
        let value = wire::volume_from_wire(&volume);
        Ok(Some(WithDocument { value, document }))
    }

    async fn list_plugins(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<WithDocument<PluginSummary>>, ApiError> {
        let mut parameters = vec![("type", "csi")];
        parameters.extend(prefix.map(|prefix| ("prefix", prefix)));
        let action = "list the plugins";
        let mut plugins = BTreeMap::new();
        let add = |stub: PluginStub, document| {
            let value = wire::plugin_summary_from_wire(&stub);
            if prefix.is_none_or(|prefix| value.id.as_str().starts_with(prefix)) {
                plugins.insert(value.id.clone(), WithDocument { value, document });
            }
        };
        let listed = self.session.list(&["plugins"], &parameters, action, add);
        listed.await?;
        Ok(plugins.into_values().collect())
    }

    async fn read_plugin(
        &self,
        id: &PluginId,
        namespace: &Namespace,
    ) -> Result<Option<WithDocument<Plugin>>, ApiError> {
        let action = format!("read plugin `{id}`");
        check_addressable(id.as_str(), &action)?;
        let path = ["plugin", "csi", id.as_str()];
        let get = ApiRequest {
            query: vec![("namespace", namespace.as_str())],
            ..ApiRequest::new(Method::GET, &path)
        };
        let found =
            self.session.find::<PluginDocument>(&get, &action, Code::PluginNotFound).await?;
        let Some((plugin, document)) = found else {
            return Ok(None);
        };
        if plugin.id != id.as_str() {
            return Err(self.session.unexpected_object(&action, &plugin.id));
        }
        let value = wire::plugin_from_wire(&plugin);
        Ok(Some(WithDocument { value, document }))
    }
}

#[async_trait]
impl VolumeApi for NomadClient {
    async fn create_volume(&self, request: &VolumeRequest) -> Result<WriteReply, ApiError> {
        self.write(request, WriteKind::Create).await
    }

    async fn register_volume(&self, request: &VolumeRequest) -> Result<WriteReply, ApiError> {
        self.write(request, WriteKind::Register).await
    }

    async fn deregister_volume(&self, key: &NamespacedId, force: bool) -> Result<(), ApiError> {
        let action = format!("deregister volume {key}", key = key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let path = ["volume", "csi", key.id.as_str()];
        let force = if force { "true" } else { "false" };
        let delete = ApiRequest {
            query: vec![("namespace", key.namespace.as_str()), ("force", force)],
            ..ApiRequest::new(Method::DELETE, &path)
        };
        self.session.call(&delete, &action, Access::VolumeWrite).await.map(drop)
    }

    async fn delete_volume(&self, key: &NamespacedId, secrets: &Secrets) -> Result<(), ApiError> {
        let action = format!("delete volume {key}", key = key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let path = ["volume", "csi", key.id.as_str(), "delete"];
        let mut delete = ApiRequest {
            query: vec![("namespace", key.namespace.as_str())],
            ..ApiRequest::new(Method::DELETE, &path)
        };
        delete.headers = secrets_header(secrets, &action)?;
        let deleted = self.session.call(&delete, &action, Access::VolumeWrite).await;
        deleted.map(drop).map_err(|error| redact_secrets(error, secrets))
    }

    async fn detach_volume(&self, key: &NamespacedId, node: &NodeId) -> Result<(), ApiError> {
        let action = format!("detach volume {key} from node `{node}`", key = key.quoted());
        check_addressable(key.id.as_str(), &action)?;
        let path = ["volume", "csi", key.id.as_str(), "detach"];
        let delete = ApiRequest {
            query: vec![("namespace", key.namespace.as_str()), ("node", node.as_str())],
            ..ApiRequest::new(Method::DELETE, &path)
        };
        self.session.call(&delete, &action, Access::Write).await.map(drop)
    }
}

/// Returns the query parameters of a list of volumes.
pub(super) fn list_parameters(query: &VolumeQuery) -> Vec<(&'static str, &str)> {
    let mut parameters = vec![("type", "csi"), ("namespace", query.namespace.as_str())];
    match (&query.prefix, &query.plugin) {
        (Some(prefix), _) => parameters.push(("prefix", prefix)),
        // Nomad finds no volume by plugin in namespace `*`, and ignores a prefix beside
        // `plugin_id`.
        (None, Some(plugin)) if query.namespace.as_str() != Namespace::ALL => {
            parameters.push(("plugin_id", plugin.as_str()));
        }
        (None, _) => {}
    }
    parameters.extend(query.filter.as_deref().map(|filter| ("filter", filter)));
    parameters
}

/// Listed volumes by namespace and ID.
pub(super) type ListedVolumes = BTreeMap<(Namespace, VolumeId), WithDocument<VolumeSummary>>;

/// Adds a volume of a list if it matches the query.
pub(super) fn add_volume(
    volumes: &mut ListedVolumes,
    query: &VolumeQuery,
    stub: &VolumeStub,
    document: Document,
) {
    let value = wire::summary_from_wire(stub);
    if matches_query(query, &value) {
        let key = (value.namespace.clone(), value.id.clone());
        volumes.insert(key, WithDocument { value, document });
    }
}

/// Returns whether a volume matches a query, which servers check only in part.
fn matches_query(query: &VolumeQuery, volume: &VolumeSummary) -> bool {
    let prefix = query.prefix.as_deref().unwrap_or_default();
    let all = query.namespace.as_str() == Namespace::ALL;
    let plugin = query.plugin.as_ref();
    volume.id.as_str().starts_with(prefix)
        && (all || volume.namespace == query.namespace)
        && plugin.is_none_or(|plugin| volume.plugin_id == *plugin)
}

/// Reads whether the server is the embedded agent, which sends the header [`AGENT`] with every response. `/v1/regions`
/// reads it, because every Nomad has that endpoint and it needs no token.
async fn read_is_agent(session: &Session, action: &str) -> Result<bool, ApiError> {
    let regions = ApiRequest::new(Method::GET, &["regions"]);
    let headers = session.headers(&regions, action).await?;
    Ok(headers.contains_key(AGENT))
}

/// Reads which server responds, and its version. Nomad reports the version only to a token with
/// `agent:read`, and it is the version of the agent that responds, not of the leader.
async fn read_server_kind(session: &Session) -> Result<ServerKind, ApiError> {
    let action = "read the server's version";
    if read_is_agent(session, action).await? {
        return Ok(ServerKind::Agent);
    }
    let about = ApiRequest::new(Method::GET, &["agent", "self"]);
    match session.read::<AgentSelf>(&about, action).await {
        Ok((about, _)) => {
            let text = about.config.version.to_string();
            match ServerVersion::parse(&text) {
                Ok(version) => Ok(ServerKind::Nomad(version)),
                Err(_) => Err(session.unexpected_object(action, &text)),
            }
        }
        // Proxies in front of a cluster often do not forward the agents' own endpoints.
        Err(error) if matches!(error.status, Some(403 | 404 | 405 | 501)) => {
            Ok(ServerKind::NomadUnknownVersion)
        }
        Err(error) => Err(error),
    }
}
