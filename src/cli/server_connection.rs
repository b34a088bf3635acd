//! A connection to a server, with the embedded agent that lives as long.

use async_trait::async_trait;

use super::error::CliError;
use nomad_csi_client::ports::ClusterApi;

/// A connection to a server.
pub struct ServerConnection {
    /// The server.
    pub api: Box<dyn ClusterApi>,
    /// The embedded agent, which ends with the session.
    pub companion: Option<Box<dyn EmbeddedAgentGuard>>,
}

impl ServerConnection {
    /// Ends what was started for the session.
    ///
    /// # Errors
    /// If it fails to end.
    pub async fn close(self) -> Result<(), CliError> {
        match self.companion {
            Some(companion) => companion.end().await,
            None => Ok(()),
        }
    }
}

/// The embedded agent of a session, which lives as long.
#[async_trait]
pub trait EmbeddedAgentGuard: Send {
    /// Shuts it down.
    async fn end(self: Box<Self>) -> Result<(), CliError>;
}
