//! Changes of mutable parameters, which only the agent takes.

use std::collections::BTreeMap;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_volume::find_volume;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::{Namespace, one_line};
use crate::ports::ServerKind;

/// Changes mutable parameters of the volume of exactly this ID, and returns all that are in force.
///
/// # Errors
/// If the server is not an agent, the volume does not exist, or the server refuses.
pub async fn modify_volume(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: &str,
    parameters: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, WorkflowError> {
    require_agent(context).await?;
    let volume = find_volume(context, scope, id).await?;
    let key = volume.key();
    let shown = one_line(&key.to_string());
    context
        .reporter
        .status(&format!("volume {shown}: modifying"));
    let modifying = context.api.modify_volume(&key, parameters);
    let in_force = context.unless_interrupted(modifying).await??;
    context
        .reporter
        .status(&format!("volume {shown}: modified"));
    Ok(in_force)
}

/// Refuses a server that has no such route.
async fn require_agent(context: &WorkflowContext<'_>) -> Result<(), WorkflowError> {
    match context.unless_interrupted(context.api.server()).await?? {
        ServerKind::Agent => Ok(()),
        ServerKind::Nomad(_) | ServerKind::NomadUnknownVersion => {
            let message = format!(
                "cannot modify a volume: {} is a Nomad server, which does not change mutable parameters",
                context.api.name()
            );
            Err(Diagnostic::error(Code::ApiUnsupported, message)
                .note("Nomad never calls ControllerModifyVolume; the agent of this program does")
                .help("change the volume at the provider")
                .into())
        }
    }
}
