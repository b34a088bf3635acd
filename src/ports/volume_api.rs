//! What the CLI needs of a server, be it a Nomad cluster or our agent.
//!
//! A read gives both the volume in the model's words and the server's own document, which `-o json`
//! prints untouched. Writes are sent at most once if they may have arrived (`nomad-http-api` 10.1).

use std::collections::BTreeSet;

use async_trait::async_trait;

use super::document::Document;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{
    Namespace, NamespacedId, NodeId, Plugin, PluginId, PluginSummary, Secrets, ServerVersion,
    Volume, VolumeRequest, VolumeSummary,
};

/// A server said no, or could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// What kind of failure, from the one table in `nomad::error`.
    pub code: Code,
    /// The HTTP status, if there was an answer.
    pub status: Option<u16>,
    /// One sentence: what happened to which object.
    pub message: String,
    /// What to do, if more is known than the code's remedy.
    pub help: Vec<String>,
    /// The server's own words, verbatim, if there was an answer.
    pub server_text: Option<String>,
}

impl ApiError {
    /// As it is told to people: the message, the server's own words, what to do.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.message.clone());
        if let Some(text) = self
            .server_text
            .as_deref()
            .map(str::trim)
            .filter(|text| !text.is_empty())
        {
            let status = self
                .status
                .map_or_else(String::new, |status| format!(" (status {status})"));
            diagnostic = diagnostic.note(format!("the server said{status}: {text}"));
        }
        if self.help.is_empty() {
            return diagnostic.help(self.code.remedy());
        }
        diagnostic.help.extend(self.help.iter().cloned());
        diagnostic
    }
}

/// A thing in the model's words, beside the server's own JSON of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading<T> {
    /// In the model's words.
    pub value: T,
    /// The server's own JSON, untouched.
    pub document: Document,
}

/// What `list` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeQuery {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only IDs that start so.
    pub prefix: Option<String>,
    /// Only volumes of this plugin.
    pub plugin: Option<PluginId>,
}

/// What a write answered.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// The server's own JSON of the volume, if it sent one (older ones answer nothing).
    pub document: Option<Document>,
    /// The server's warnings, a sentence each.
    pub warnings: Vec<String>,
}

/// Whose API it is, and of which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Our own agent.
    Agent,
    /// A Nomad of that version.
    Nomad(ServerVersion),
    /// A Nomad that does not say its version to this token: that needs `agent { policy = "read" }`
    /// (`nomad-neighbour-apis` 3.7). The strictest rules hold.
    Undisclosed,
}

/// Reads volumes and plugins, and can do nothing else: who is given only this cannot write.
#[async_trait]
pub trait VolumeReader: Send + Sync {
    /// What people call this server: its address.
    fn name(&self) -> &str;
    /// Who answers.
    async fn server(&self) -> Result<ServerKind, ApiError>;
    /// Names of all namespaces in which the token may do anything, as
    /// [`super::access::AccessReader`] gives them.
    async fn namespace_names(&self) -> Result<BTreeSet<Namespace>, ApiError>;
    /// All volumes that match, through all pages, sorted by namespace and ID.
    async fn list_volumes(
        &self,
        query: &VolumeQuery,
    ) -> Result<Vec<Reading<VolumeSummary>>, ApiError>;
    /// One volume; `None` if there is none of that name.
    async fn read_volume(&self, key: &NamespacedId) -> Result<Option<Reading<Volume>>, ApiError>;
    /// All plugins whose ID starts so, sorted by ID.
    async fn list_plugins(
        &self,
        prefix: Option<&str>,
    ) -> Result<Vec<Reading<PluginSummary>>, ApiError>;
    /// One plugin; `None` if there is none of that name.
    async fn read_plugin(
        &self,
        id: &PluginId,
        namespace: &Namespace,
    ) -> Result<Option<Reading<Plugin>>, ApiError>;
}

/// A server of volumes and plugins, to be read and written.
#[async_trait]
pub trait VolumeApi: VolumeReader {
    /// Creates it in the provider and registers it; of an existing one, an update.
    async fn create_volume(&self, request: &VolumeRequest) -> Result<Written, ApiError>;
    /// Registers it, or updates its registration.
    async fn register_volume(&self, request: &VolumeRequest) -> Result<Written, ApiError>;
    /// Removes the registration; the data stays.
    async fn deregister_volume(&self, key: &NamespacedId, force: bool) -> Result<(), ApiError>;
    /// Deletes the data in the provider, and the registration.
    async fn delete_volume(&self, key: &NamespacedId, secrets: &Secrets) -> Result<(), ApiError>;
    /// Releases the claims that ended allocations left on a node, and unpublishes it there.
    async fn detach_volume(&self, key: &NamespacedId, node: &NodeId) -> Result<(), ApiError>;
}
