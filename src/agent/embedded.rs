//! The embedded agent (`--embedded`): an agent in the process of one command, on a persistent
//! directory, with a Unix socket only.
//!
//! If a running agent has the directory, the command uses that agent. If another command has it, the
//! command waits. A killed command leaves what every killed agent leaves (`run`).

use std::path::{Path, PathBuf};

use super::config::AgentConfig;
use super::plugin::HOSTPATH;
use super::run::{Agent, OpenResult, open_agent};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// The agent that a command uses.
pub struct EmbeddedAgent {
    socket: PathBuf,
    /// `None` if the agent is another process.
    agent: Option<Box<Agent>>,
}

impl EmbeddedAgent {
    /// Starts an agent and waits until its plugin is healthy, or finds the one that has the directory.
    ///
    /// # Errors
    /// If it cannot start, its plugin does not become healthy, or an unusable process has the
    /// directory. Nothing keeps running then.
    pub async fn start(config: &AgentConfig) -> Result<Self, Diagnostics> {
        let mut agent = match open_agent(config).await? {
            OpenResult::ServedBy(socket) => {
                return Ok(Self { socket, agent: None });
            }
            OpenResult::Started(agent) => agent,
        };
        let unhealthy = agent.unhealthy_plugins(config.plugin_timeout).await;
        if let Some((_, reason)) = unhealthy.first() {
            agent.stop().await;
            return Err(not_healthy(reason));
        }
        agent.serve();
        Ok(Self { socket: agent.socket(), agent: Some(agent) })
    }

    /// The socket of its HTTP API.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Stops the agent; one of another process keeps running.
    pub async fn stop(self) {
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
    }
}

fn not_healthy(reason: &str) -> Diagnostics {
    let message = format!("the embedded plugin `{HOSTPATH}` did not become healthy");
    Diagnostic::error(Code::AgentPluginNotHealthy, message).note(reason.to_owned()).into()
}
