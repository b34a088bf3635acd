//! Changes of mutable parameters, which only the agent takes.

use std::collections::BTreeMap;

use super::agent_only::AgentOnly;
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::find_volume::find_volume;
use nomad_csi_model::{Namespace, one_line};

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
    let agent_only = AgentOnly {
        action: "modify a volume",
        lack: "does not change mutable parameters",
        note: "Nomad never calls ControllerModifyVolume; the agent of this program does",
        help: "change the volume at the provider",
    };
    agent_only.require(context).await?;
    let volume = find_volume(context, scope, id).await?;
    let key = volume.key();
    let shown = one_line(&key.to_string());
    context.reporter.status(&format!("volume {shown}: modifying"));
    let modifying = context.api.modify_volume(&key, parameters);
    let in_force = context.unless_interrupted(modifying).await??;
    context.reporter.status(&format!("volume {shown}: modified"));
    Ok(in_force)
}
