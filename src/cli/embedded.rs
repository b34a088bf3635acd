//! The embedded agent of one command: its directory, and its start and end with the session.

use std::path::Path;

use async_trait::async_trait;

use super::env::{Environment, Variable};
use super::error::CliError;
use super::server_connection::{EmbeddedAgentGuard, ServerConnection};
use crate::agent::{AgentConfig, EmbeddedAgent, embedded_directory};
use nomad_csi_client::nomad::{ClientSettings, NomadClient, RedactedString};

/// The embedded agent of one command.
#[derive(Clone, Debug)]
pub struct EmbeddedTarget {
    /// Configuration of the agent.
    pub agent: AgentConfig,
    /// Settings of requests. The address is replaced by the address of the agent.
    pub settings: ClientSettings,
}

/// Returns the configuration of the agent in the named directory, or in the one that the environment names.
pub(super) fn embedded_config(
    named: &Path,
    directory: &Path,
    environment: &Environment,
) -> Result<AgentConfig, CliError> {
    let state_home = environment.path(Variable::StateHome);
    let home = environment.path(Variable::Home);
    let state = embedded_directory(Some(named), state_home.as_deref(), home.as_deref())?;
    let runtime_dir = environment.path(Variable::RuntimeDir);
    Ok(AgentConfig::embedded(directory.join(state), runtime_dir)?)
}

/// Starts the agent, and connects to it.
pub(super) async fn connect_embedded(
    embedding: &EmbeddedTarget,
) -> Result<ServerConnection, CliError> {
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

#[async_trait]
impl EmbeddedAgentGuard for EmbeddedAgent {
    async fn end(self: Box<Self>) -> Result<(), CliError> {
        self.stop().await;
        Ok(())
    }
}
