//! Replaces the error of a denied request by one that names every missing permission.

use super::error::CliError;
use super::exit::Exit;
use nomad_csi_client::ports::ClusterApi;
use nomad_csi_client::reconcile::workflow::explain_denial;
use nomad_csi_plan::RequiredPermissions;

/// Explains the error of a command that needs these permissions, if the server denied a request.
///
/// # Errors
/// The error of the command, or a better one.
pub(super) async fn explain_denied(
    api: &dyn ClusterApi,
    done: Result<Exit, CliError>,
    needs: &RequiredPermissions,
) -> Result<Exit, CliError> {
    let Err(error) = done else {
        return done;
    };
    match explain_denial(api, &error.diagnostics, needs).await {
        Some(explained) => Err(explained.into()),
        None => Err(error),
    }
}
