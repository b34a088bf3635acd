//! `agent journal`: what happened to a volume.

use super::claims::require_claims;
use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::model::{NamespacedId, VolumeEvent};
use crate::ports::WithDocument;

/// Returns the newest events of a volume, oldest first.
///
/// # Errors
/// If the server is not an agent, or neither the volume nor events of it exist.
pub async fn read_history(
    context: &WorkflowContext<'_>,
    volume: &NamespacedId,
    most: usize,
) -> Result<Vec<WithDocument<VolumeEvent>>, WorkflowError> {
    let action = format!("read the history of volume {}", volume.quoted());
    require_claims(context, &action).await?;
    let reading = context.api.volume_history(volume, most);
    Ok(context.unless_interrupted(reading).await??)
}
