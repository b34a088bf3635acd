//! The agent of one command (`--embedded`): the same agent, in the process of the command, on a
//! durable directory, reachable over its Unix socket only.
//!
//! If a running agent has the directory, it is used; if another command has it, it is waited for.
//! When the command is killed, what holds for every agent holds here (`run`).

use std::path::{Path, PathBuf};

use super::config::AgentConfig;
use super::plugin::HOSTPATH;
use super::run::{Agent, Opened, open};
use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// An agent to send requests to.
pub struct Embedded {
    socket: PathBuf,
    /// `None` if it is another process.
    agent: Option<Box<Agent>>,
}

impl Embedded {
    /// Starts it, and returns when its plugin is healthy; or finds the one that has the directory.
    ///
    /// # Errors
    /// If it cannot start, if its plugin does not become healthy, or if the directory is held by one
    /// that cannot be used. Nothing is left then.
    pub async fn start(config: &AgentConfig) -> Result<Self, Diagnostics> {
        let mut agent = match open(config).await? {
            Opened::Elsewhere(socket) => {
                return Ok(Self {
                    socket,
                    agent: None,
                });
            }
            Opened::Here(agent) => agent,
        };
        if let Err(reason) = agent.plugin_well(config.plugin_patience).await {
            agent.stop().await;
            return Err(unhealthy(&reason));
        }
        agent.serve();
        Ok(Self {
            socket: agent.socket(),
            agent: Some(agent),
        })
    }

    /// Where it answers Nomad's HTTP API.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Ends it in order; one of another process goes on.
    pub async fn stop(self) {
        if let Some(agent) = self.agent {
            agent.stop().await;
        }
    }
}

fn unhealthy(reason: &str) -> Diagnostics {
    let message = format!("the embedded plugin `{HOSTPATH}` did not become healthy");
    Diagnostic::error(Code::AgentPluginNotHealthy, message)
        .note(reason.to_owned())
        .into()
}
