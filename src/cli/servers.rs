//! Which servers can be reached, and how.

use std::sync::Arc;

use async_trait::async_trait;

use super::error::CliError;
use super::settings::Target;
use crate::nomad::NomadClient;
use crate::ports::VolumeApi;

/// A server that is being talked to.
pub struct Session {
    /// The server.
    pub api: Arc<dyn VolumeApi>,
    /// What has to be ended afterwards.
    pub companion: Option<Box<dyn Companion>>,
}

impl Session {
    /// Ends what was started for this session.
    ///
    /// # Errors
    /// If it did not end well.
    pub async fn close(self) -> Result<(), CliError> {
        match self.companion {
            Some(companion) => companion.end().await,
            None => Ok(()),
        }
    }
}

/// Something that lives as long as a session: the embedded agent.
#[async_trait]
pub trait Companion: Send {
    /// Ends it in order.
    async fn end(self: Box<Self>) -> Result<(), CliError>;
}

/// Opens sessions.
#[async_trait]
pub trait Servers: Send + Sync {
    /// Opens one. A client that connects on first use need not ask the server anything yet.
    ///
    /// # Errors
    /// If the settings cannot be used, or the embedded agent does not start.
    async fn open(&self, target: &Target) -> Result<Session, CliError>;
}

/// The ones that are really there.
#[derive(Clone, Copy, Debug)]
pub struct RealServers;

#[async_trait]
impl Servers for RealServers {
    async fn open(&self, target: &Target) -> Result<Session, CliError> {
        match target {
            Target::Cluster(settings) => {
                let api = Arc::new(NomadClient::new(settings)?);
                Ok(Session {
                    api,
                    companion: None,
                })
            }
        }
    }
}
