//! Refuses requests that only the agent of this program supports.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::ports::ServerKind;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// A request that a Nomad server does not take, and what to say then.
pub(super) struct AgentOnly<'a> {
    /// The action that is requested: `fence a node`.
    pub(super) action: &'a str,
    /// The ability that such a server lacks.
    pub(super) lack: &'static str,
    pub(super) note: &'static str,
    pub(super) help: &'static str,
}

impl AgentOnly<'_> {
    /// Refuses a server that is no agent.
    ///
    /// # Errors
    /// If it is none, it cannot be asked, or the user interrupts.
    pub(super) async fn require(&self, context: &WorkflowContext<'_>) -> Result<(), WorkflowError> {
        match context.unless_interrupted(context.api.server()).await?? {
            ServerKind::Agent => Ok(()),
            ServerKind::Nomad(_) | ServerKind::NomadUnknownVersion => {
                let (action, name) = (self.action, context.api.name());
                let message =
                    format!("cannot {action}: {name} is a Nomad server, which {}", self.lack);
                Err(Diagnostic::error(Code::ApiUnsupported, message)
                    .note(self.note)
                    .help(self.help)
                    .into())
            }
        }
    }
}
