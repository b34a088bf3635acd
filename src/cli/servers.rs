//! The servers that commands connect to.

use async_trait::async_trait;

#[cfg(feature = "agent")]
use super::embedded::connect_embedded;
use super::error::CliError;
use super::server_connection::ServerConnection;
use super::settings::Target;
use nomad_csi_client::nomad::NomadClient;

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
            Target::Embedded(embedding) => connect_embedded(embedding).await,
        }
    }
}
