//! The requests of the CLI to a server: a Nomad cluster or the embedded agent.
//!
//! A read returns the object in the types of the model, with the server's own JSON, which `-o json`
//! prints unchanged. A write that may have reached the server is never repeated.

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::document::Document;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{
    Namespace, NamespacedId, NodeId, Plugin, PluginId, PluginSummary, Secrets, ServerVersion,
    Volume, VolumeRequest, VolumeSummary,
};
use nomad_csi_plan::DetachRule;

/// A request to a server failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The kind of failure, from the table in `nomad::error`.
    pub code: Code,
    /// The HTTP status, if the server answered.
    pub status: Option<u16>,
    /// The headline: what failed for which object.
    pub message: String,
    /// The facts that the reader needs to judge, besides the server's text.
    pub notes: Vec<String>,
    /// The remedies; empty to use the remedy of the code.
    pub help: Vec<String>,
    /// The server's error text, verbatim, if the server answered.
    pub server_text: Option<String>,
}

impl ApiError {
    /// Creates an error without a status, notes, help and a server's text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, status: None, message, notes: vec![], help: vec![], server_text: None }
    }

    /// Sets the HTTP status of the response.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Sets the server's error text, unless it is empty.
    #[must_use]
    pub fn server_text(self, text: impl Into<String>) -> Self {
        Self { server_text: Some(text.into()).filter(|text| !text.is_empty()), ..self }
    }

    /// Returns whether the server does not respond, or has no leader. A request with this error changed nothing.
    pub fn is_server_away(&self) -> bool {
        self.code.means_server_away()
    }

    /// Returns the diagnostic: the message, the server's error text, and what to do.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.message.clone());
        diagnostic.notes.extend(self.notes.iter().cloned());
        if let Some(text) =
            self.server_text.as_deref().map(str::trim).filter(|text| !text.is_empty())
        {
            let status =
                self.status.map_or_else(String::new, |status| format!(" (status {status})"));
            diagnostic = diagnostic.note(format!("server response{status}: {text}"));
        }
        if self.help.is_empty() {
            return diagnostic.help(self.code.advice());
        }
        diagnostic.help.extend(self.help.iter().cloned());
        diagnostic
    }
}

/// An object and the server's JSON of it.
#[derive(Clone, Debug, PartialEq)]
pub struct WithDocument<T> {
    /// The object in the types of the model.
    pub value: T,
    /// The server's JSON, unchanged.
    pub document: Document,
}

/// The filter of a volume list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeQuery {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only IDs with this prefix.
    pub prefix: Option<String>,
    /// Only volumes of this plugin.
    pub plugin: Option<PluginId>,
    /// Only volumes for which this filter expression is true; the server tests it. Nomad has it since
    /// 1.3.
    pub filter: Option<String>,
}

impl VolumeQuery {
    /// All volumes of a namespace, or of all that the token can see for `*`.
    pub fn of_namespace(namespace: Namespace) -> Self {
        Self { namespace, prefix: None, plugin: None, filter: None }
    }
}

/// The response to a write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteReply {
    /// The server's JSON of the volume; older servers send none.
    pub document: Option<Document>,
    /// The server's warnings, one sentence each.
    pub warnings: Vec<String>,
}

/// The kind and version of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// The embedded agent.
    Agent,
    /// Nomad of this version.
    Nomad(ServerVersion),
    /// Nomad of a version that this token cannot read, which needs `agent { policy = "read" }`. The
    /// rules of the strictest version apply.
    NomadUnknownVersion,
}

impl ServerKind {
    /// Returns what its requests to detach a volume do.
    pub fn detach_rule(&self) -> DetachRule {
        match self {
            Self::Agent => DetachRule::Releases,
            Self::Nomad(version) => DetachRule::of_nomad(version),
            Self::NomadUnknownVersion => DetachRule::Unknown,
        }
    }
}

/// Reads volumes and plugins. A holder of this trait cannot write.
#[async_trait]
pub trait VolumeReader: Send + Sync {
    /// Returns the server's address for messages.
    fn name(&self) -> &str;
    /// Returns whether the server stopped responding to this client, and responded again. It may not have found all
    /// plugins again then.
    fn has_recovered(&self) -> bool {
        false
    }
    /// Returns whether the server is the agent of this program. Asks less than [`VolumeReader::server`].
    async fn is_agent(&self) -> Result<bool, ApiError>;
    /// Returns the kind of the server.
    async fn server(&self) -> Result<ServerKind, ApiError>;
    /// Returns the names of all namespaces in which the token has any permission, like
    /// [`super::access::AccessReader::namespaces`].
    async fn namespace_names(&self) -> Result<BTreeSet<Namespace>, ApiError>;
    /// Returns all matching volumes from all pages, sorted by namespace and ID.
    async fn list_volumes(
        &self,
        query: &VolumeQuery,
    ) -> Result<Vec<WithDocument<VolumeSummary>>, ApiError>;
    /// Returns the volumes of one namespace; `None` if it has more volumes than `limit`. A server does not
    /// report their number, so up to that many are listed.
    async fn summarize_volumes(
        &self,
        namespace: &Namespace,
        limit: usize,
    ) -> Result<Option<Vec<VolumeSummary>>, ApiError>;
    /// Returns one volume; `None` if it does not exist.
    async fn read_volume(
        &self,
        key: &NamespacedId,
    ) -> Result<Option<WithDocument<Volume>>, ApiError>;
    /// Returns all plugins whose ID has this prefix, sorted by ID.
    async fn list_plugins(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<WithDocument<PluginSummary>>, ApiError>;
    /// Returns one plugin; `None` if it does not exist.
    async fn read_plugin(
        &self,
        id: &PluginId,
        namespace: &Namespace,
    ) -> Result<Option<WithDocument<Plugin>>, ApiError>;
}

/// Reads and writes volumes.
#[async_trait]
pub trait VolumeApi: VolumeReader {
    /// Creates the volume at the provider and registers it. Updates an existing volume.
    async fn create_volume(&self, request: &VolumeRequest) -> Result<WriteReply, ApiError>;
    /// Registers the volume, or updates its registration.
    async fn register_volume(&self, request: &VolumeRequest) -> Result<WriteReply, ApiError>;
    /// Deletes the registration. The data stays.
    async fn deregister_volume(&self, key: &NamespacedId, force: bool) -> Result<(), ApiError>;
    /// Deletes the data at the provider and the registration.
    async fn delete_volume(&self, key: &NamespacedId, secrets: &Secrets) -> Result<(), ApiError>;
    /// Releases the claims of stopped allocations on a node, and unpublishes the volume there.
    async fn detach_volume(&self, key: &NamespacedId, node: &NodeId) -> Result<(), ApiError>;
}
