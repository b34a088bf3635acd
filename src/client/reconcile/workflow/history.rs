//! `agent journal`: what happened to a volume.

use super::claims::{require_claims, resolve};
use super::context::WorkflowContext;
use super::error::WorkflowError;
use crate::ports::WithDocument;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{Namespace, NamespacedId, VolumeEvent};

fn unknown(context: &WorkflowContext<'_>, volume: &NamespacedId) -> Diagnostic {
    let message = format!(
        "{} has no volume {}, and its journal has no events of one",
        context.api.name(),
        volume.quoted()
    );
    Diagnostic::error(Code::VolumeNotFound, message).help(Code::VolumeNotFound.advice())
}

/// Returns the newest events of a volume, oldest first. In all namespaces, the volume must exist.
///
/// # Errors
/// If the server is not an agent, or neither the volume nor events of it exist.
pub async fn read_history(
    context: &WorkflowContext<'_>,
    volume: &NamespacedId,
    limit: usize,
) -> Result<Vec<WithDocument<VolumeEvent>>, WorkflowError> {
    let action = format!("read the history of volume {}", volume.quoted());
    require_claims(context, &action).await?;
    let found = match volume.namespace.as_str() == Namespace::ALL {
        true => resolve(context, volume).await?,
        false => volume.clone(),
    };
    let reading = context.api.volume_history(&found, limit);
    let read = context.unless_interrupted(reading).await?;
    read.map_err(|error| match error.code {
        Code::VolumeNotFound => unknown(context, &found).into(),
        _ => WorkflowError::from(error),
    })
}
