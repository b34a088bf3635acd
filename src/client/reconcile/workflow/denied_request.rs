//! Explains why a server denied a request.
//!
//! Nomad answers a weak token, an unknown one and none with the same two words, one request at a time.
//! After a denial this module asks for the token's permissions, and names all that the command needs
//! and the token lacks.

use super::error::WorkflowError;
use crate::ports::AccessReader;
use crate::reconcile::permissions::access;
use nomad_csi_model::diagnostic::{Code, Diagnostics};
use nomad_csi_plan::RequiredPermissions;

/// Returns a better error for a denied request: blocked, with every missing permission. `None` if the
/// problems are others, or if nothing more is known.
pub async fn explain_denial(
    reader: &dyn AccessReader,
    problems: &Diagnostics,
    needs: &RequiredPermissions,
) -> Option<WorkflowError> {
    let mut problems = problems.iter();
    if !problems.any(|problem| problem.code == Code::ApiForbidden) {
        return None;
    }
    match access(reader).await {
        Ok(access) => access.missing(needs).map(|missing| WorkflowError::blocked([missing])),
        Err(error) if error.code == Code::ApiUnknownToken => Some(error.into()),
        Err(_) => None,
    }
}
