//! Repeats a step whose request was certainly not sent, once the server responds again.
//!
//! A volume is checked right before its change. A server that was away may have been changed by others
//! in the meantime, so the whole step is repeated, with its check. The read in between waits for the server, as
//! long as the client waits. The step of an apply that was interrupted is not repeated.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::execution::StepWait;
use super::outcome::{Outcome, Status};
use super::reconnect::{NextTry, PAUSE};
use crate::ports::VolumeApi;
use nomad_csi_model::NamespacedId;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// How often a step is tried on a server that leaves again and again.
const ATTEMPTS: u32 = 5;
/// How old a check may be when its change is sent: less than the lock of a set lives.
const OLDEST_CHECK: Duration = Duration::from_secs(10);

/// Takes a step until its request is sent, or the server or the plugin's node does not come back.
pub(super) async fn until_sent(
    api: &dyn VolumeApi,
    wait: &StepWait<'_>,
    key: &NamespacedId,
    step: impl AsyncFn() -> Outcome,
) -> Outcome {
    let mut absences = 0;
    loop {
        let outcome = step().await;
        let is_back = match &outcome.status {
            _ if wait.stop.is_cancelled() => return outcome,
            Status::ServerUnreachable(_) => {
                absences += 1;
                absences < ATTEMPTS && server_is_back(api, wait.stop, key).await
            }
            Status::Failed(why) if is_not_reconnected(api, why.code) => {
                may_be_reconnected(wait).await
            }
            status => {
                if status.is_success() {
                    wait.reconnect.reached();
                }
                return outcome;
            }
        };
        if !is_back {
            return outcome;
        }
    }
}

/// Returns whether the server has not found the plugin again after it was away. The plugin has received nothing.
fn is_not_reconnected(api: &dyn VolumeApi, code: Code) -> bool {
    let is_unfound =
        matches!(code, Code::PluginUnreachable | Code::PluginUnhealthy | Code::PluginNoController);
    is_unfound && api.has_recovered()
}

/// Reads the volume, for which the client waits.
async fn server_is_back(api: &dyn VolumeApi, stop: &CancellationToken, key: &NamespacedId) -> bool {
    tokio::select! {
        read = api.read_volume(key) => read.is_ok(),
        () = stop.cancelled() => false,
    }
}

/// Waits a moment for the node of a plugin. Returns whether the step may be tried again.
async fn may_be_reconnected(wait: &StepWait<'_>) -> bool {
    match wait.reconnect.next_try() {
        NextTry::None => return false,
        NextTry::First => {
            let timeout = wait.reconnect.timeout();
            wait.progress.plugin_unreachable(timeout);
        }
        NextTry::Later => {}
    }
    tokio::select! {
        () = tokio::time::sleep(PAUSE) => true,
        () = wait.stop.cancelled() => false,
    }
}

/// The check of a volume right before its change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check(Instant);

impl Check {
    /// A check that begins now.
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Returns the status of a change whose check is too old. Its step is repeated with a new check.
    pub(super) fn too_old(self, key: &NamespacedId) -> Option<Status> {
        if self.0.elapsed() <= OLDEST_CHECK {
            return None;
        }
        let seconds = OLDEST_CHECK.as_secs();
        let message = format!(
            "volume {} was not changed: the server needed more than {seconds} seconds from the check \
             of the volume to its change",
            key.quoted()
        );
        let code = Code::ApplyServerAway;
        let slow = Diagnostic::error(code, message).help(code.advice());
        Some(Status::ServerUnreachable(slow))
    }
}

/// The pauses before the reads that look for a change whose reply was lost: four reads within seven seconds.
pub(super) const CONFIRMATION_PAUSES: [Duration; 4] =
    [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
