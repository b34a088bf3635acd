//! The servers that commands connect to.

use async_trait::async_trait;

use super::error::CliError;
#[cfg(feature = "agent")]
use super::settings::EmbeddedTarget;
use super::settings::Target;
#[cfg(feature = "agent")]
use crate::agent::EmbeddedAgent;
use nomad_csi_client::nomad::NomadClient;
#[cfg(feature = "agent")]
use nomad_csi_client::nomad::{ClientSettings, RedactedString};
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

/// Opens sessions.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Opens a session. The client connects on its first request.
    ///
    /// # Errors
    /// If the settings are invalid, or the embedded agent does not start.
    async fn open(&self, target: &Target) -> Result<ServerConnection, CliError>;
}

/// Clusters over HTTP, and the embedded agent.
#[derive(Clone, Copy, Debug)]
pub struct RealServers;

#[async_trait]
impl Servers for RealServers {
    async fn open(&self, target: &Target) -> Result<ServerConnection, CliError> {
        match target {
            Target::Cluster(settings) => {
                let api = Box::new(NomadClient::new(settings)?);
                Ok(ServerConnection { api, companion: None })
            }
            #[cfg(feature = "agent")]
            Target::Embedded(embedding) => embedded(embedding).await,
        }
    }
}

#[cfg(feature = "agent")]
async fn embedded(embedding: &EmbeddedTarget) -> Result<ServerConnection, CliError> {
    let agent = EmbeddedAgent::start(&embedding.agent).await?;
    let settings = ClientSettings {
        name: Some("the embedded agent".to_owned()),
        address: RedactedString::new(format!("unix://{}", agent.socket().display())),
        ..embedding.settings.clone()
    };
    match NomadClient::new(&settings) {
        Ok(client) => {
            Ok(ServerConnection { api: Box::new(client), companion: Some(Box::new(agent)) })
        }
        Err(error) => {
            agent.stop().await;
            Err(error.into())
        }
    }
}

#[cfg(feature = "agent")]
#[async_trait]
impl EmbeddedAgentGuard for EmbeddedAgent {
    async fn end(self: Box<Self>) -> Result<(), CliError> {
        self.stop().await;
        Ok(())
    }
}
