//! Checks right before a change that the volume is as the plan expects it.

use super::outcome::Status;
use crate::ports::VolumeApi;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{NamespacedId, Volume};
use nomad_csi_plan::VolumeVersion;

/// Reads the volume, and returns it if it has the expected version.
///
/// # Errors
/// Returns the status of a volume that is not changed.
pub(super) async fn recheck(
    api: &dyn VolumeApi,
    key: &NamespacedId,
    expected_version: VolumeVersion,
) -> Result<Option<Volume>, Status> {
    let now = match api.read_volume(key).await {
        Ok(now) => now.map(|reading| reading.value),
        Err(error) => {
            let failed = error.diagnostic().note(format!(
                "volume {} was not changed: it must be read right before a change",
                key.quoted()
            ));
            return Err(Status::not_sent(failed));
        }
    };
    match expected_version.mismatch(now.as_ref()) {
        None => Ok(now),
        Some(why) => Err(Status::Stale(
            Diagnostic::error(
                Code::PlanStale,
                format!(
                    "cannot change volume {}: it changed on the server since it was read",
                    key.quoted()
                ),
            )
            .note(why)
            .help("check the volume with `nomad-csi volume status`, then run the command again"),
        )),
    }
}
